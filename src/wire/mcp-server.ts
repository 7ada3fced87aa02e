/** What MCP servers are called: the name is part of a URL, of a container's name, and of what models see. */
export const MCP_SERVER_NAME = /^[a-z0-9-]{1,32}$/

/** Under this name harnesses know the gate itself. */
export const GATE_SERVER_NAME = 'sallyport'

/** Where the agent finds the MCP endpoints of its gate. A server that the gate stands before is at `/NAME` behind it. */
export const GATE_MCP_URL = 'http://sallyport:7070/mcp'

/**
 * An MCP server as a harness registers it, beside `sallyport`. No secret is in it. Whoever writes it down adds the lease
 * ("Authorization: Bearer …") where `isAtGate` says so, and nowhere else.
 */
export type RegisteredServer =
  | { readonly name: string; readonly url: string; /** None is a secret. */ readonly headers?: Readonly<Record<string, string>> }
  | {
      readonly name: string
      readonly command: string
      readonly args: readonly string[]
      readonly env: Readonly<Record<string, string>>
    }

/** The lease is shown to the gate, never to a server of somebody else. */
export function isAtGate(server: RegisteredServer): server is Extract<RegisteredServer, { readonly url: string }> {
  return 'url' in server && server.url.startsWith(`${GATE_MCP_URL}/`)
}

/** How a session has a server. */
export type ServerHow =
  /** A program in a container of its own, behind the gate. */
  | 'tool'
  /** An HTTP server, behind the gate, which writes headers. */
  | 'route'
  /** A program in the agent, or a server that the agent calls itself: the rules of the policy are all that holds it. */
  | 'direct'
