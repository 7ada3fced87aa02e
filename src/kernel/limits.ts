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
  /** The audit file is forced to the disk (fdatasync) at least this often while events arrive. */
  auditSyncMs: 1_000,
  /** A key or certificate file of an authority that is kept on disk. */
  caFileBytesMax: 64 * 1024,
  /** Policy and secret files are looked at for changes this often. */
  reloadPollMs: 500,
  /** One policy file, and all that it extends. */
  policyFileBytesMax: 1024 * 1024,
  policyFilesMax: 64,
  /** The policy that a workspace brings itself, which its agent may write, and the rules in it. */
  workspacePolicyBytesMax: 256 * 1024,
  restrictedRulesMax: 1_000,
  /** What policies may ask for a session: patterns of hidden files, memory, processors, processes. */
  hiddenPatternsMax: 256,
  sessionMemoryBytesMin: 64 * 1024 ** 2,
  sessionMemoryBytesMax: 4_096 * 1024 ** 3,
  sessionCpusMin: 0.1,
  sessionCpusMax: 1_024,
  sessionPidsMin: 16,
  sessionPidsMax: 1_000_000,
  /** The largest user id: the one above it means "no change" to the kernel (chown(2)). */
  userIdMax: 4_294_967_294,
  imageNameCharsMax: 512,
  /** Workspaces whose own policy the operator has trusted, and the file that says so. */
  trustedWorkspacesMax: 1_000,
  trustFileBytesMax: 1024 * 1024,
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
  /** The longest `ttl` of a secret. */
  secretTtlMaxMs: 3_600_000,
  /** Secrets that one session obtains at the same time: more wait. Each may be a process. */
  secretResolutionsMax: 8,
  /** Names of secrets that a provider lists, and folders that it looks into for them. */
  secretsListedMax: 10_000,
  /** One request to HashiCorp Vault, and its answer: a secret there has 1 MiB at most. */
  vaultRequestMs: 10_000,
  vaultAnswerBytesMax: 2 * 1024 * 1024,
  /** A request whose rule asks the operator is held so long: then 403 `approval_pending`. CONNECT and SOCKS are never held. */
  askHoldMs: 4_000,
  /** A question that nobody answered is withdrawn. */
  askExpiryMs: 30_000,
  /** Questions that wait for the operator: more are refused with 503 `overloaded`. */
  questionsMax: 100,
  /** Approvals kept: for one request until it comes, so long at most; for the session. The oldest give way. */
  approvalsMax: 1_000,
  approvalOnceMs: 300_000,
  /** A lease as it is sent; its short form fits where RFC 1929 has 255 bytes. Longer ones are not looked at: `lease_invalid`. */
  leaseCharsMax: 8_192,
  leaseShortCharsMax: 255,
  /** One claim of a lease, and how many methods it may name. */
  leaseTextCharsMax: 256,
  leaseMethodsMax: 16,
  /** The file of the lease key. */
  leaseKeyFileBytesMax: 16 * 1024,
  /** Keys before the current one whose leases stay valid while their sessions live: older ones are refused. */
  leaseFormerKeysMax: 8,
  /** What the operator's commands send to the daemon in one call. */
  operatorBodyBytesMax: 1024 * 1024,
  /** Lines of a container's log that are asked for at once. */
  logTailLinesMax: 1_000_000,
  /** One call to the daemon's API, and what it answers. */
  daemonRequestMs: 30_000,
  daemonAnswerBytesMax: 16 * 1024 * 1024,
  /** What was running when the connections ended has so long to be recorded before the audit is closed. */
  settleMs: 5_000,
  /** Secrets in one vault: `vault_full`. */
  vaultSecretsMax: 1_000,
  /** Another process that writes the vault is waited for so long: `vault_busy`. */
  vaultBusyMs: 5_000,
  /** Tags of one secret. */
  secretTagsMax: 32,
  /** A file with a key or a passphrase. */
  keyFileBytesMax: 4 * 1024,
  /** A passphrase that is chosen; what opens something may be shorter. */
  passphraseCharsMin: 12,
  passphraseCharsMax: 1_024,
  /** What a vault may ask of scrypt, as N: 512 MiB of memory. Its record could be anybody's. */
  scryptCostMax: 2 ** 19,
  /** What an exported file may ask of PBKDF2: two seconds or so. */
  pbkdf2RoundsMax: 4_000_000,
  /** An exported file. */
  sealedBytesMax: 192 * 1024 * 1024,
  /** The keyring of the operating system may ask the operator to unlock it. */
  keyringMs: 60_000,
  /** The operator at a prompt, and whoever writes to a pipe in their place. */
  operatorInputMs: 600_000,
  /** After SIGTERM running exchanges have so long to end. */
  drainMs: 8_000,
  /** Without its controller a sidecar keeps its secrets so long (it is told when it connects), at most the second figure. */
  controllerGraceMs: 600_000,
  controllerGraceMaxMs: 24 * 3_600_000,
  /** From the start of a sidecar to its secrets: `control_unreachable`. Also how long its controller waits for it: `sidecar_not_ready`. */
  controlStartMs: 30_000,
  sidecarReadyMs: 30_000,
  /** One frame to the controller, one to a sidecar (all values of a session), and one from who has not proven who it is. */
  controlFrameBytesMax: 1024 * 1024,
  controlPushBytesMax: 8 * 1024 * 1024,
  controlHelloBytesMax: 16 * 1024,
  /** Nesting of the JSON in a frame. Real ones have three levels. */
  controlDepthMax: 16,
  /** Frames of one peer in the long run and at once, and their bytes: beyond, it is read no further for a while. */
  controlFramesPerSecondMax: 100,
  controlBurstFramesMax: 400,
  controlBytesPerSecondMax: 8 * 1024 * 1024,
  /** Requests of one side that are not answered yet: a peer with more is cut off. */
  controlRequestsMax: 16,
  /** What a peer has not read yet: one that leaves more is cut off. */
  controlUnsentBytesMax: 16 * 1024 * 1024,
  /** From a connection to its proof; from the first byte of a frame to its last; from a request to its answer. */
  controlHelloMs: 5_000,
  controlFrameMs: 10_000,
  controlAnswerMs: 20_000,
  /** A side that has nothing to say says so this often, and one that is silent for longer than the second figure is gone. */
  controlBeatMs: 2_000,
  controlSilenceMs: 10_000,
  /** A sidecar that lost its controller tries again after times that double from the first to the second. */
  controlBackoffMinMs: 200,
  controlBackoffMaxMs: 10_000,
  /** Connections of one session's socket without a proof, and how many are taken in a second: more are closed at once. */
  controlStrangersMax: 4,
  controlConnectionsPerSecondMax: 10,
  /** GET_SECRETS of one connection: how often in a minute in the long run, and how often at once. Beyond, it is cut off. */
  controlAsksPerMinuteMax: 30,
  controlBurstAsksMax: 5,
  /** A path of a socket: `sun_path` has 108 bytes on Linux and 104 on macOS. */
  controlPathBytesMax: 100,
  /** A revoked sidecar has so long to say that its tunnels are cut and its secrets are gone. */
  controlRevokeMs: 1_000,
  /** A sidecar's own folder is looked at this often: whether it is still the one that was made. */
  controlLookMs: 5_000,
  /** Lines of a sidecar's audit in one frame, and their bytes. */
  controlLinesMax: 500,
  controlLinesBytesMax: 512 * 1024,
  /** After a frame of lines that the controller could not keep. */
  controlLinesPauseMs: 1_000,
  /** An audit without a file: what its keeper has not acknowledged yet. At the limit the answer is no, 503 `audit_unavailable`. */
  auditSegmentBytesMax: 16 * 1024 * 1024,
  /** One short question to the container engine. Waiting, attaching and pulling are bounded by their signal. */
  engineCallMs: 60_000,
  /** After the engine's events broke off they are asked for again so much later. */
  engineRetryMs: 1_000,
  /** The gate of a session has so long from its start until it has its secrets and answers: `sidecar_not_ready`. */
  gateReadyMs: 30_000,
  /** An agent that is told to end has so long before it is killed. */
  agentStopMs: 700,
  /** What a container is given where the policy does not say: memory without swap, processors, processes. */
  agentMemoryBytes: 4 * 1024 ** 3,
  agentCpusMax: 2,
  agentProcessesMax: 512,
  sidecarMemoryBytes: 1024 ** 3,
  sidecarCpusMax: 1,
  sidecarProcessesMax: 256,
  probeMemoryBytes: 512 * 1024 ** 2,
  /** Writable folders of a container that live in memory. */
  scratchBytes: 1024 ** 3,
  scratchSmallBytes: 64 * 1024 ** 2,
  sidecarAuditBytes: 256 * 1024 ** 2,
  scratchRunBytes: 16 * 1024 ** 2,
  /** What the engine keeps of one container's output: so many files of so much. */
  containerLogBytesMax: 10 * 1024 ** 2,
  containerLogFilesMax: 3,
  /** Certificates of an image, one file: a larger one is not taken for one. */
  imageFileBytesMax: 8 * 1024 ** 2,
  /** Links that are followed to a file of an image. */
  imageLinksMax: 16,
  /** One frame of a container's output as the engine sends it. */
  engineFrameBytesMax: 1024 ** 2,
  /** A name that the operator gives a session. */
  sessionNameCharsMax: 48,
  /** Sessions that have ended and are still listed by their id. */
  sessionsEndedMax: 1_000,
  /** Jail networks that are tried when the engine finds that they overlap with one that it does not list. */
  jailTriesMax: 16,
  /** What a dead controller had asked of the engine may be done only now: it is looked for once more so much later. */
  reapAgainMs: 10_000,
  /** Connections to ports of one agent at the same time. */
  forwardConnectionsMax: 64,
  /** From the wish for such a connection until it stands. */
  forwardConnectMs: 10_000,
  /** Events that wait for one who listens and does not read: beyond, the oldest are lost. */
  sessionEventsMax: 1_000,
  /** Patterns of `filesystem.hide`, and the length of one: `config_invalid`. */
  hidePatternsMax: 256,
  hidePatternCharsMax: 512,
  /** Entries of a workspace that are looked at, for so long: the rest is told to be unknown, which blocks host commands in it. */
  surveyEntriesMax: 3_000_000,
  surveyMs: 30_000,
  /** A folder of the workspace that is larger itself (some hundred thousand names) is not read. */
  surveyFolderBytesMax: 32 * 1024 * 1024,
  /** Places of one kind (repositories, hidden files) that are kept of a workspace. */
  surveyFoundMax: 10_000,
  /** Files of git settings that a scan reads, their bytes, and the time that it takes. */
  scanFilesMax: 50_000,
  scanBytesMax: 64 * 1024 * 1024,
  scanMs: 20_000,
  /** One such file: a longer one is not read, and told. */
  gitFileBytesMax: 256 * 1024,
  /** Findings of one comparison that are listed. */
  findingsMax: 200,
  /** Mounts over one workspace: more is `workspace_refused`. */
  workspaceMountsMax: 256,
  /** Repositories inside of a workspace that are covered like its own; others are told, and looked at by the scan. */
  coveredRepositoriesMax: 16,
  /** What an agent without a workspace may write in its place. */
  emptyWorkspaceBytesMax: 1024 ** 3,
  /** The agent's home folder, in memory. */
  agentHomeBytesMax: 1024 ** 3,
  /** What a program prints is held back so long at most when it could be the beginning of a secret of which no more than the few bytes below came. */
  terminalHoldMs: 25,
  terminalPrefixBytesMax: 4,
  /** One control sequence to a terminal: a longer one is removed. SGR of many attributes has a hundred. */
  terminalSequenceBytesMax: 256,
  /** A control string to a terminal (all are removed) ends after so much without its terminator: what follows is text again. */
  terminalStringBytesMax: 4 * 1024 * 1024,
  /** A number in a control sequence: higher ones mean the edge of the screen, and become this. */
  terminalCountMax: 9_999,
  /** REP repeats a character so many times at most: a row of a wide terminal. */
  terminalRepeatsMax: 1_000,
  /** Questions for the cursor that a terminal has not answered yet: more are removed. */
  terminalQuestionsMax: 16,
  /** Keyboard modes that a program may have pushed (kitty's protocol): more pushes are removed. */
  terminalKeyboardsMax: 16,
  /** Colours and their like that wait for the text before them, which could be a secret: beyond, they go first. */
  terminalWaitingBytesMax: 16 * 1024,
  /** Questions of a program that are answered in the terminal's place wait for it to read: more are not answered. */
  terminalAnswersMax: 16,
  /** When a terminal is given back, answers that are still on their way are waited for and thrown away. */
  terminalAnswersMs: 200,
  /** Secrets that a session had before: its output is redacted of so many. */
  terminalFormerSecretsMax: 100,
  /** Columns and rows of a terminal. */
  terminalCellsMax: 9_999,
  /** Payload of one frame of a stream to or from a session: a longer one ends the stream. */
  streamFrameBytesMax: 64 * 1024,
  /** Input for a program that does not read it: beyond, the client is read no further. */
  streamInputBytesMax: 1024 * 1024,
  /** From the upgrade of a connection to its first frame, which says what is wanted. */
  streamRequestMs: 5_000,
  /** What a daemon answers when it refuses: more is not read. */
  daemonProblemBytesMax: 64 * 1024,
  /** One attempt of the probe: what does not answer by then is shut. */
  /** One attempt of the probe at what must not answer. */
  probeAnswerMs: 500,
  /** One attempt of the probe at what must answer (the gate), or with a program: what takes longer counts as open. */
  probeAttemptMs: 5_000,
  /** The whole selftest of a session, with the start and the end of the probe's container. */
  selftestMs: 20_000,
  /** What a probe may print. */
  probeOutputBytesMax: 64 * 1024,
  /** One check of the doctor: the others don't wait for it. */
  doctorCheckMs: 40_000,
  /** Names of one folder, and folders right below a workspace, that are looked at to tell what it is written in. */
  initEntriesMax: 5_000,
  initFoldersMax: 200,
  /** One command that the doctor runs. */
  doctorCallMs: 20_000,
} as const
