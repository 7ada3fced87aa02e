/** The bounds of MCP servers that sessions have besides the gate; part of `LIMITS`. */
export const SERVER_LIMITS = {
  /** A file with MCP servers; servers of one session, and values of one of them. */
  mcpUserFileBytesMax: 4 * 1024 * 1024,
  mcpServersMax: 64,
  mcpFieldsMax: 64,
  /** What `mcp.json` may have when the page writes it. */
  mcpHomeFileBytesMax: 512 * 1024,
  /** A message to an MCP server in a container of its own: escaped in a frame it is twice as long at most. One from it, and what waits for the gate. */
  toolMessageBytesMax: 480 * 1024,
  toolAnswerBytesMax: 2 * 1024 * 1024,
  toolQueueBytesMax: 3 * 1024 * 1024,
  /** Messages in one answer to the gate. */
  toolMessagesMax: 64,
  /** Until its container runs; one wait for what it says; a connection that nobody asks for any more, and one on which nothing is said. */
  toolOpenMs: 60_000,
  toolReceiveMs: 15_000,
  toolAbandonedMs: 60_000,
  toolIdleMs: 4 * 3_600_000,
  toolLookMs: 5_000,
  /** A message that its program does not read. */
  toolWriteMs: 10_000,
  /** Connections of one server, and of one session, at the same time. */
  toolConnectionsPerServerMax: 4,
  toolConnectionsMax: 12,
  /** Starts of one session: a minute, and at once. */
  toolStartsPerMinuteMax: 20,
  toolStartsBurstMax: 8,
  /** Lines of its error output that are logged, of each connection, and characters of one. */
  toolLogLinesMax: 200,
  toolLogCharsMax: 1_000,
  /** The name of a tool that can be called: the specification says 128 (2025-11-25, tools). */
  toolNameCharsMax: 256,
  /** Messages under way to one server elsewhere, and the pause before its own stream is opened once more. */
  relayRequestsMax: 32,
  relayReopenMs: 5_000,
  /** Messages of one client that wait for their turn, and characters of them: beyond, its session ends with `overloaded`. */
  relayWaitingMax: 1_000,
  relayWaitingCharsMax: 8 * 1024 * 1024,
  /** A server that is tried: all of it, pages of its tools, and tools. */
  serverTestMs: 90_000,
  serverTestPagesMax: 20,
  serverTestToolsMax: 2_000,
  /** What a tool says of itself, and all of them: they are told in one frame. */
  serverTestDescriptionCharsMax: 2_000,
  serverTestDescriptionsCharsMax: 60_000,
} as const
