import { AGENT_LIMITS } from './agent-limits.ts'
import { APPROVAL_LIMITS } from './approval-limits.ts'
import { HOST_LIMITS } from './host-limits.ts'
import { OPERATOR_LIMITS } from './operator-limits.ts'
import { SERVER_LIMITS } from './server-limits.ts'

/** Every bound of the product, by name. Units are in the names; each has the reason or the error that stands at it. */
export const LIMITS = {
  /** Head of a request or a response, all headers together: 431 `head_too_large`. */
  headBytesMax: 32 * 1024,
  /** Header fields of one message: 431 `head_too_large`. */
  headFieldsMax: 256,
  /** Log lines that wait for a reader of stderr that is behind: more are lost. */
  logHeldBytesMax: 1024 * 1024,
  /** Texts of one kind (names of fields, of hosts) that are kept as they were read; longer ones are read each time. */
  textsKeptMax: 1_000,
  textKeptCharsMax: 128,
  /** From the first byte of a connection or request to the end of its head (slowloris): 408 and the socket closed. */
  headTimeoutMs: 20_000,
  /** A request body that sends nothing for so long ends the exchange. */
  bodyIdleMs: 120_000,
  /** An idle kept-alive connection from an agent. */
  keepAliveMs: 75_000,
  /** From the answer to CONNECT to the first byte that tells TLS from HTTP. */
  recognitionMs: 3_000,
  /** A ClientHello that is longer than this is refused; 16 KiB is one record, post-quantum key shares need 2 KiB. */
  clientHelloBytesMax: 18 * 1024,
  /** TLS handshakes, towards agents and upstreams. */
  tlsHandshakeMs: 10_000,
  /** A tunnel with no byte in either direction. */
  tunnelIdleMs: 600_000,
  /** The same once one side has ended: an agent that is gone looks like one that only ended its side, and its upstream may never end. */
  tunnelHalfIdleMs: 120_000,
  /** What upstreams send into tunnels is read into one buffer for all, or into a large one that is lent while there is so much: at the limit none is. */
  tunnelSharedReadBytes: 16 * 1024,
  tunnelBufferBytes: 256 * 1024,
  tunnelBuffersMax: 64,
  /** Large buffers that are kept for the next that needs one. */
  tunnelSpareBuffersMax: 4,
  /** Connections from agents to all listeners together: at the limit new ones are closed. */
  connectionsMax: 10_000,
  /** Requests of all connections that are not answered yet: 503 `overloaded`. Each may hold a head of `headBytesMax`. */
  requestsMax: 2_000,
  /** Requests of one connection that are not answered yet (pipelining); heads that wait have `headBytesMax` together. A connection with more is closed. */
  pipelinedMax: 16,
  /** What came of the bodies of requests that wait for the answers before theirs: beyond, the connection is closed. */
  pipelinedBytesMax: 256 * 1024,
  /** Streams of one HTTP/2 connection at the same time; the peer is told (SETTINGS) and more are refused by the protocol. */
  streamsMax: 128,
  /** Streams of one HTTP/2 connection that the agent resets: a burst of so many, then so many a second, or the connection ends (CVE-2023-44487). */
  streamResetsBurstMax: 500,
  streamResetsPerSecondMax: 50,
  /** Flow-control window of one HTTP/2 stream from an agent: what it may send before we have passed it on. */
  streamWindowBytes: 256 * 1024,
  /** Tunnels (CONNECT, SOCKS, transparent TLS and streams) at the same time: at the limit 503 `overloaded`. */
  tunnelsMax: 4_000,
  /** After a refusal that ends a connection the agent has so long to read it and to close. */
  farewellMs: 2_000,
  /** Connections to the gateway: more are closed at once. */
  gatewayConnectionsMax: 512,
  /** One attempt to connect to one upstream address. */
  connectMs: 10_000,
  /** From the request's end to the head of the upstream's answer: 504 `upstream_timeout`. Model APIs think for minutes. */
  upstreamHeadMs: 600_000,
  /** Interim answers (1xx) before the answer of an upstream: at the limit 502 `upstream_invalid`. Real ones send one or two. */
  interimAnswersMax: 100,
  /** An upstream body that sends nothing for so long. Server-sent events may be quiet for minutes. */
  upstreamBodyIdleMs: 600_000,
  /** Content codings of one answer that is looked into for secrets, one over the other: more is 502 `answer_not_scrubbable`. */
  contentCodingsMax: 3,
  /** What a compressed answer may become when it is looked into. Beyond, it may be `expansionMax` times what came: 502 `answer_not_scrubbable`. */
  expandedBytesMax: 64 * 1024 * 1024,
  expansionMax: 100,
  /** Compressed members (RFC 8878 frames) in one piece of an answer that is looked into: each costs a decoder. */
  compressedMembersMax: 100,
  /** What came of a compressed answer and waits to be looked into: at the limit the upstream is read no further. */
  scrubBacklogBytes: 64 * 1024,
  /** A WebSocket frame from an upstream stays one frame up to here; a longer one goes on in fragments (RFC 6455 §5.4). */
  webSocketFragmentBytes: 64 * 1024,
  /** Sockets of one upstream pool (one judged address, one credential). More requests wait for a free one. */
  upstreamConnectionsMax: 256,
  /** Requests that wait for a socket of one pool: at the limit 503 `overloaded`. */
  upstreamQueueMax: 512,
  /** Requests to one host and port that run or wait, over all its pools: at the limit 429 `host_busy`, so that others are served. */
  requestsPerHostMax: 1_000,
  /** Streams of one HTTP/2 session with an upstream, or fewer where it says so: more open a session of their own. */
  upstreamStreamsMax: 128,
  /** What an HTTP/2 upstream may send on one stream before the agent has read it: so much is held for a slow agent. */
  upstreamWindowBytes: 512 * 1024,
  /** The same for all streams of a session together, while it is on its way here. */
  upstreamSessionWindowBytes: 16 * 1024 * 1024,
  /** What nghttp2 may hold for one session (heads, tables, what waits to be sent), in megabytes. */
  upstreamSessionMegabytesMax: 64,
  /** A request that an upstream says it did not process is sent again so many times, if nothing of its body was sent. */
  upstreamRetriesMax: 3,
  /** Kept-alive upstream sockets close after this time without a request. */
  upstreamKeepAliveMs: 30_000,
  /** TLS sessions kept to resume, for each origin; so long after a handshake in full the next is one too, whose certificate is verified. */
  upstreamSessionsMax: 4,
  upstreamSessionMs: 600_000,
  /** An upstream that says how long it keeps a connection is given nothing on it so long before: what is under way then may be lost. */
  upstreamKeepAliveMarginMs: 2_000,
  /** Connections to HTTP/1.1 upstreams are looked at so often for what is overdue: their times are that much longer at most, twice. */
  upstreamSweepMs: 500,
  /** A piece of a body that is no longer is copied behind what goes before it, so that both are one write. */
  joinedBytesMax: 8 * 1024,
  /** Pools kept; the least recently used idle one is closed first. When all are busy: 503 `overloaded`. */
  upstreamPoolsMax: 512,
  /** Ports of one rule of `protocol: tcp`, and of all of them, that the gate listens on for programs that know no proxy. */
  tcpRulePortsMax: 16,
  tcpPortsMax: 64,
  /** Networks beside the jail in which the gate has its ways open at the same time: more are `overloaded`. */
  sideNetworksMax: 32,
  /** The engine gives the gate its address in one a moment before or after it is told: it waits so long for it, and looks this often. */
  sideAddressMs: 5_000,
  sideAddressLookMs: 25,
  /** One DNS question, all attempts. */
  dnsMs: 5_000,
  /** Names kept in the DNS cache. */
  dnsCacheMax: 2_000,
  /** A DNS answer is kept for its TTL, within these. */
  dnsTtlMinMs: 1_000,
  dnsTtlMaxMs: 60_000,
  /** Time to live of the answers that agents get: a reload changes what a name is. */
  dnsAnswerTtlMs: 5_000,
  /** A query over UDP or TCP, and every answer: what any client of RFC 1035 takes. More is malformed, over TCP the connection closes. */
  dnsMessageBytesMax: 512,
  /** Queries of one address, on average and at once. Beyond: REFUSED without a look at the query, over TCP the connection closes. */
  dnsQueriesPerSecondMax: 200,
  dnsBurstQueriesMax: 1_000,
  /** Addresses that are counted apart. At the limit newcomers share one allowance. */
  dnsClientsMax: 1_024,
  /** Connections to one DNS listener: more are closed at once. */
  dnsConnectionsMax: 128,
  /** A DNS connection without a query. */
  dnsConnectionIdleMs: 10_000,
  /** From the first byte of a query over TCP to its last (a slow drip). */
  dnsQueryMs: 2_000,
  /** Answers that wait for a client to read, on one TCP connection or one UDP socket. Beyond: closed, or not answered. */
  dnsPendingBytesMax: 64 * 1024,
  /** A name that is not allowed is logged at most once in this time, and at most so many names are. */
  dnsDeniedLogMs: 60_000,
  dnsDeniedNamesMax: 1_000,
  /** Leaf certificates kept, one a host. */
  leafCacheMax: 1_000,
  /** A leaf lives so long; it is made anew when half of that has passed. */
  leafLifeMs: 24 * 3_600_000,
  /** A certificate's notBefore lies so far back, for clocks that are behind. */
  clockSkewMs: 3_600_000,
  /** The life of a session's certificate authority. A kept one (`--ca-persist`) serves a workspace for that long. */
  caLifeMs: 365 * 24 * 3_600_000,
  /** One text in an audit line (a path): a longer one is cut with a mark before it is hashed. */
  auditPathCharsMax: 1_024,
  /** One audit line as it is read back: a longer one is not ours, and is never held whole. */
  auditLineBytesMax: 256 * 1024,
  /** One write to the audit file: what waits goes in one, up to so much. */
  auditWriteBytesMax: 1024 * 1024,
  /** An audit file is verified whole when it is continued; of a longer one the last so many bytes are. */
  auditContinueBytesMax: 64 * 1024 * 1024,
  /** Events that wait for the disk: at the limit the answer is no, 503 `audit_unavailable`. */
  auditQueueMax: 20_000,
  /** An audit file is not written beyond this (503 `audit_unavailable`), so that an agent cannot fill the disk of the host. */
  auditFileBytesMax: 4 * 1024 ** 3,
  /** The last line of a session's own record is written into the controller's no more often than this. */
  auditCountersignMs: 1_000,
  /** Chains of one session: each start of a gate without a file of its own begins one. Beyond: 503 `audit_unavailable`. */
  auditSessionChainsMax: 1_000,
  /** The controller signs its chain after so many lines, and after so long while there are new ones. */
  auditCheckpointLinesMax: 1_000,
  auditCheckpointMs: 10_000,
  /** A segment of the controller's chain: beyond, the next one is begun. */
  auditRotateBytes: 64 * 1024 * 1024,
  /** The audit is kept at least this long, and what is older is looked for this often. */
  auditRetentionMinMs: 90 * 86_400_000,
  auditRetireMs: 600_000,
  /** Events that one call of `sallyport audit` lists, and how often `tail --follow` looks for new ones at least. */
  auditListMax: 100_000,
  /** Characters of lines that a search of the audit holds at once, over what it gives. */
  auditHeldCharsMax: 16 * 1024 * 1024,
  auditFollowMs: 1_000,
  /** Lines that wait for one copy of the audit (syslog, OTLP): beyond, the oldest are left out of the copy. */
  auditCopyQueueBytesMax: 16 * 1024 * 1024,
  /** One batch of a copy, how long its receiver may take, and the waits between tries when it does not. */
  auditCopyBatchLinesMax: 500,
  auditCopySendMs: 10_000,
  auditCopyRetryMs: 1_000,
  auditCopyRetryMaxMs: 60_000,
  /** At the end, so long for what is still on its way. */
  auditCopyEndMs: 2_000,
  /** One message of syslog over UDP: a longer one is cut (RFC 5424 §6.1). */
  auditSyslogBytesMax: 8 * 1024,
  /** `audit.yaml` of the home, and places that a copy goes to. */
  auditSettingsBytesMax: 64 * 1024,
  auditCopiesMax: 4,
  /** The clock counts as set when it moved so much against the time that has passed: then nothing is called old. */
  auditClockStepMs: 60_000,
  /** The audit file is forced to the disk (fdatasync) at least this often while events arrive. */
  auditSyncMs: 1_000,
  /** A key or certificate file of an authority that is kept on disk. */
  caFileBytesMax: 64 * 1024,
  /** Policy and secret files are looked at for changes this often. */
  reloadPollMs: 500,
  /** One policy file, and all that it extends. */
  policyFileBytesMax: 1024 * 1024,
  policyFilesMax: 64,
  /** A policy that was replaced while it was read is read again, so many times. */
  policyReadsMax: 8,
  /** A body that a credential is written into or signs is held whole, up to so much: 413 `body_too_large`. */
  heldBodyBytesMax: 4 * 1024 * 1024,
  /** All such bodies together: 503 `overloaded`. */
  heldBodiesBytesMax: 64 * 1024 * 1024,
  /** Secrets found in answers to one set of credentials in one session: further answers that have one are refused, 502 `secret_echoed`. */
  scrubHitsMax: 10_000,
  /** Hosts for which it is kept prepared how their answers are looked into. */
  scrubbedHostsMax: 1_000,
  /** Values that secrets of a host had before: answers are scrubbed of so many. */
  formerSecretsMax: 8,
  /** Nesting of a JSON body that a credential is written into: 422 `body_unfit`. Real ones have a dozen levels. */
  jsonDepthMax: 512,
  /** Secret values, in bytes. */
  secretBytesMax: 64 * 1024,
  /** A longer secret is looked for in pieces of at least half of this, each by itself: what a chunk's end may hold back is one piece. */
  redactorPieceCharsMax: 512,
  /** All secrets that are looked for in the answers of one host together, in bytes: more is `secret_invalid`. */
  redactorSecretsBytesMax: 1_000_000,
  /** What one set of secrets may keep to search fast: states of half a KiB each, positions in them of four bytes. Beyond, it begins anew. */
  redactorStatesMax: 4_096,
  redactorPositionsMax: 1024 * 1024,
  /** One exchange for an access token, from the look-up of the token server's name to the last byte of its answer. */
  tokenExchangeMs: 15_000,
  /** What a token server answers; an access or refresh token in it. More is 502 `token_exchange_failed`. */
  tokenAnswerBytesMax: 64 * 1024,
  tokenBytesMax: 16 * 1024,
  /** An access token is renewed so long before it expires, but not before half of its life has passed. */
  tokenRenewalMs: 60_000,
  /** The life of an access token whose server does not say it (RFC 6749 §5.1), and the longest that is believed. */
  tokenLifeDefaultMs: 300_000,
  tokenLifeMaxMs: 24 * 3_600_000,
  /** After an exchange that failed the token server is left alone so long: the same refusal is given meanwhile. */
  tokenPauseMs: 2_000,
  /** Exchanges whose tokens are kept: more than a policy can have. The least recently used gives way. */
  tokenExchangesMax: 2_000,
  /** A shorter value could not be found in an answer without taking ordinary text for it: `secret_invalid`. */
  secretCharsMin: 6,
  /** A command that prints a secret (`exec:`). */
  secretExecMs: 15_000,
  /** A value printed by a command is used again for so long before the command runs anew. */
  secretExecTtlMs: 60_000,
  /** A request whose rule asks the operator is held so long: then 403 `approval_pending`. CONNECT and SOCKS are never held. */
  askHoldMs: 4_000,
  /** A question that nobody answered is withdrawn. */
  askExpiryMs: 30_000,
  /** Questions that wait for the operator: more are refused with 503 `overloaded`. */
  questionsMax: 100,
  /** Approvals kept: for one request until it comes, so long at most; for the session. The oldest give way. */
  approvalsMax: 1_000,
  approvalOnceMs: 300_000,
  /** What was running when the connections ended has so long to be recorded before the audit is closed. */
  settleMs: 5_000,
  /** After SIGTERM running exchanges have so long to end. */
  drainMs: 8_000,
  ...HOST_LIMITS,
  ...AGENT_LIMITS,
  ...OPERATOR_LIMITS,
  ...APPROVAL_LIMITS,
  ...SERVER_LIMITS,
} as const
