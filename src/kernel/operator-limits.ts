/** The bounds of what operators answer with; part of `LIMITS`. */
export const OPERATOR_LIMITS = {
  /** Questions that one call lists. */
  questionsListedMax: 1_000,
  /** From `sallyport open` to the first use of its link, and links that wait: the oldest gives way. */
  openTicketMs: 60_000,
  openTicketsMax: 16,
  /** A page that is logged in ends without a call for so long, and after so long whatever it does. */
  loginIdleMs: 1_800_000,
  loginLifeMs: 12 * 3_600_000,
  /** Pages that are logged in: the one that was used least lately gives way. */
  loginsMax: 16,
  /** Wrong tokens in a minute that are answered one by one: beyond, connections are closed without a word. */
  loginFailuresPerMinuteMax: 60,
  /** Logins that failed are written to the audit together, no more often than this: strangers fill no disk. */
  loginRefusalsTellMs: 60_000,
  /** Passkeys of the operator, their file, and the name of one. */
  passkeysMax: 16,
  passkeysFileBytesMax: 256 * 1024,
  passkeyNameCharsMax: 64,
  /** One text of what an authenticator answers. */
  passkeyTextCharsMax: 16 * 1024,
  /** A challenge is answered so soon, and so many of one kind wait: the oldest gives way. */
  passkeyChallengeMs: 120_000,
  passkeyChallengesMax: 64,
  /** Connections to the page's listener, and those of one of them that are answered before it is closed. */
  webConnectionsMax: 128,
  webRequestsPerConnectionMax: 10_000,
  /** Head of one request to it, and how long head and body may take. */
  webHeadBytesMax: 16 * 1024,
  webHeadMs: 5_000,
  webRequestMs: 15_000,
  webKeepAliveMs: 30_000,
  /** What is answered without a login is taken so soon, or its connection is closed. */
  webStrangerMs: 15_000,
  /** One part of a path: the id of a credential has up to 1,023 bytes (WebAuthn Level 3 §4), as base64url. */
  operatorPathPartCharsMax: 1_400,
  /** From the moment a page asks for a terminal to its WebSocket, and such tickets that wait: the oldest gives way. */
  pageTerminalTicketMs: 30_000,
  pageTerminalTicketsMax: 32,
  /** Terminals that all pages have open together. */
  pageTerminalsMax: 16,
  /** One message of a page's terminal: a longer one ends it. */
  pageTerminalMessageBytesMax: 128 * 1024,
  /** What a page's terminal is sent before the page says that it has shown it: then the program waits. */
  pageTerminalAheadBytesMax: 512 * 1024,
  /** Ports that are tried when any will do, until one is free on both loopback addresses. */
  webPortTriesMax: 16,
  /** What agents use is read of the engine no more often, however many pages ask. */
  usageEveryMs: 2_000,
  /** Paths of one kind (hidden, of git) that a preview of a session names. */
  previewPathsMax: 200,
  /** Folders and roles that the form of a new session offers. */
  startChoicesMax: 100,
  /** A page hears so often at least that its daemon is there. */
  feedAliveMs: 15_000,
  /** Events that one call for the page gives. */
  auditPageEntriesMax: 200,
  /** While a page is open the audit is verified so often, or more seldom where that takes long. */
  auditVerifyEveryMs: 600_000,
  /** A question that was shown to its end is answered no sooner than so much later: a key that was on its way was meant for something else. */
  viewArmMs: 400,
  /** Settled questions that the terminal view lists. */
  viewRecentMax: 50,
  /** After the daemon was lost the view tries again so much later. */
  viewRetryMs: 1_000,
  /** The clock in the view. */
  viewTickMs: 200,
  /** A reason that is typed for a denial. */
  viewMessageCharsMax: 500,
  /** When secrets were last used: how often it is written, the file, and the words of one use. */
  secretUsesWriteMs: 60_000,
  secretUsesBytesMax: 8 * 1024 * 1024,
  secretUseCharsMax: 256,
  /** What is recorded of one secret that the page lists, and files of the audit that are read for it, newest first. */
  secretChangesListedMax: 50,
  secretChangesFilesMax: 8,
  /** Layers of the operator's that are looked through for the uses of a secret. */
  secretLayersMax: 256,
  /** Files of services that can be chosen from. */
  servicePresetsMax: 1_000,
  /** Requests and connections of all sessions that the page's live list goes back to, and one text in it. */
  activityLinesMax: 10_000,
  activityTextCharsMax: 2_048,
  /** Of what is neither a path nor a list: a name of a host has 253. */
  activityWordCharsMax: 256,
  /** Of them in one answer. */
  activityPageMax: 1_000,
  /** Bytes of the newest chains of sessions that the daemon reads at its start, to have what was before. */
  activityReadBytesMax: 16 * 1024 * 1024,
  /** A page is told of what is new no more often, with so many lines at most; so many wait for one that is slow. */
  activityBatchMs: 250,
  activityBatchLinesMax: 250,
  activityWaitingMax: 2_000,
  /** Counts over time: short stretches, how far they go back, and long ones. */
  activityFineStepMs: 10_000,
  activityFineKeptMs: 3_600_000,
  activityCoarseStepMs: 300_000,
  activityCoarseKeptMs: 24 * 3_600_000,
  /** Sessions with counts of their own, twice: of the agent and of its harness. */
  activityTracksMax: 128,
  /** A policy that is changed on the page, in bytes: its record holds it as it was and as it is. */
  policyEditBytesMax: 262_144,
  /** Rules of one workspace or session that end by themselves, and how often those that are over are taken out of their files. */
  timedRulesMax: 256,
  timedLookMs: 60_000,
  /** Changes of policies that the page lists. */
  policyHistoryMax: 500,
  /** Folders of workspaces that the page lists. */
  policyWorkspacesMax: 1_000,
} as const
