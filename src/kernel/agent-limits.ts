/** Bounds of what agents ask for: requests, their output, and MCP. */
export const AGENT_LIMITS = {
  /** What an agent's request to the host may have: bytes of an argument, characters of its reason, bytes of a proposal. */
  argumentBytesMax: 131_072,
  reasonCharsMax: 4_000,
  proposalBytesMax: 262_144,
  proposalsListedMax: 1_000,
  /** Proposals of one session a minute: each is read, compared and shown. Lines that differ, up to which what two texts share is looked for. */
  proposalsPerMinuteMax: 10,
  proposalEditsMax: 500,
  /** The record of one that was applied, with the file as it was and as it is. */
  proposalRecordBytesMax: 1_048_576,
  /** The body of such a request at the gateway. */
  agentBodyBytesMax: 524_288,
  /** The same for methods that take little: names, ids and a reason. */
  agentSmallBodyBytesMax: 65_536,
  /** A text that secrets are written into by their handles, and the variables of one command that are. */
  secretTemplateCharsMax: 65_536,
  secretUseVariablesMax: 64,
  /** A call that waits for a request: so long by itself, and no longer than. */
  requestWaitMs: 25_000,
  requestWaitMaxMs: 45_000,
  /** What such a call may take on its way, beyond its wait. */
  requestAnswerMs: 10_000,
  /** Calls of one session to the controller: a minute, and at once. */
  agentCallsPerMinuteMax: 600,
  agentBurstCallsMax: 60,
  /** Whether the policy leaves an agent the look at its requests is looked up at most so often. */
  policyLookMs: 1_000,
  /** Calls of one method at one gate, a minute and at once: what only looks, and what begins something or reads files of the host. */
  lookCallsPerMinuteMax: 600,
  lookCallsBurstMax: 120,
  beginCallsPerMinuteMax: 120,
  beginCallsBurstMax: 60,
  /** Questions of the rules of one session's gate: a minute, and at once. */
  asksPerMinuteMax: 600,
  asksBurstMax: 200,
  /** What of a command is in the audit. */
  auditCommandCharsMax: 2_000,
  /** Calls of one agent under way at the gateway. */
  agentCallsMax: 64,
  /** Sessions of MCP clients at one gate: at the limit the one that has been idle longest ends, and where none is idle 503 `overloaded`. */
  mcpSessionsMax: 128,
  /** One that nobody used for so long ends. Most clients take that for the end of the server: what bounds memory is their number. */
  mcpSessionIdleMs: 24 * 3_600_000,
  /** A client that takes nothing of an answer for so long is cut off: a stream sends something each 15 s. */
  mcpStalledMs: 60_000,
  /** The body of one request at `/mcp`: what a proposal may have, escaped. */
  mcpBodyBytesMax: 1_048_576,
  /** A call that waits says so this often, and what a command prints no more often than this, so much of it at once. */
  mcpProgressMs: 10_000,
  mcpProgressPauseMs: 1_000,
  mcpProgressCharsMax: 4_000,
  /** The end of each stream of output that is in the result of a tool: clients cut results, or take them out of the model's sight. */
  mcpOutputCharsMax: 32_768,
  /** Requests that began as tasks and are listed as such, how many at once, and how often a client is told to look. */
  mcpTasksMax: 256,
  mcpTasksListedMax: 16,
  mcpTaskPollMs: 2_000,
  /** Requests of one session that have not ended, and those that have and are remembered, and for how long. */
  requestsOpenMax: 64,
  requestsEndedMax: 200,
  requestKeptMs: 3_600_000,
  /** What of its output goes into one answer, as JSON: a frame of the channel has `controlPushBytesMax`. */
  requestAnswerBytesMax: 7 * 1024 * 1024,
  /** Pieces of a request's output that are kept for who streams it. */
  outputPiecesMax: 2_048,
  outputPiecesBytesMax: 1_048_576,
  /** Of one answer, pieces and their characters: a frame of the channel has a bound. */
  outputPiecesAtOnceMax: 512,
  outputCharsAtOnceMax: 524_288,
  /** A stream of output looks again so much later, and after it was told that there is too much going on. */
  outputPaceMs: 250,
  outputPauseMs: 1_000,
} as const
