/** What MCP servers are called: the name is part of a URL, of a container's name, and of what models see. */
export const MCP_SERVER_NAME = /^[a-z0-9-]{1,32}$/

/** Under this name harnesses know the gate itself. */
export const GATE_SERVER_NAME = 'sallyport'

/** Where the agent finds the MCP endpoints of its gate. A server that the gate stands before is at `/NAME` behind it. */
export const GATE_MCP_URL = 'http://sallyport:7070/mcp'

/** How a session has a server. */
export type ServerHow =
  /** A program in a container of its own, behind the gate. */
  | 'tool'
  /** An HTTP server, behind the gate, which writes headers. */
  | 'route'
  /** A program in the agent, or a server that the agent calls itself: the rules of the policy are all that holds it. */
  | 'direct'
