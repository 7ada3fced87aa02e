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
  /** Connections to the page's listener, and those of one of them that are answered before it is closed. */
  webConnectionsMax: 128,
  webRequestsPerConnectionMax: 10_000,
  /** Head of one request to it, and how long head and body may take. */
  webHeadBytesMax: 16 * 1024,
  webHeadMs: 5_000,
  webRequestMs: 15_000,
  webKeepAliveMs: 30_000,
  /** Ports that are tried when any will do, until one is free on both loopback addresses. */
  webPortTriesMax: 16,
  /** What agents use is read of the engine no more often, however many pages ask. */
  usageEveryMs: 2_000,
  /** Paths of one kind (hidden, of git) that a preview of a session names. */
  previewPathsMax: 200,
  /** Folders and roles that the form of a new session offers. */
  startChoicesMax: 100,
  /** Events that one call for the page gives. */
  auditPageEntriesMax: 200,
  /** While a page is open the audit is verified so often, or so many times the time that it takes, if that is longer. */
  auditVerifyEveryMs: 600_000,
  auditVerifyRestFactor: 50,
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
} as const
