/** The bounds of what the operator is asked; part of `LIMITS`. */
export const APPROVAL_LIMITS = {
  /** A question that nobody answered is expired, which is a denial; a proposal waits longer, and nothing waits longer than it. */
  questionExpiryMs: 30_000,
  proposalExpiryMs: 1_800_000,
  /** Questions that wait for the operator, of all sessions and of one: more are 429 `too_many_questions`. */
  questionsPendingMax: 1_000,
  questionsOfSessionMax: 50,
  /** One question as canonical JSON: a longer one is 400 `question_invalid`. */
  questionBytesMax: 256 * 1024,
  /** One who claimed a question and neither answers nor gives it back loses it. */
  claimMs: 30_000,
  /** An approval that is not used lapses. */
  approvalUseMs: 60_000,
  /** An answer so soon after its question was shown is refused: it was meant for something else. `answered_too_soon` */
  debounceMs: 400,
  /** After so many equal answers in a row it is offered to give the same to all further ones of the session. */
  offerAllowAnswersMin: 5,
  offerDenyAnswersMin: 3,
  /** Questions whose equals are counted, and answers that hold for a session. The oldest give way. */
  equalsCountedMax: 1_000,
  sessionGrantsMax: 1_000,
  /** Questions that are settled and still listed: so many, and together so long. The oldest give way. */
  questionsKeptMax: 1_000,
  questionsKeptBytesMax: 64 * 1024 * 1024,
  /** Those of them that one list gives where it is not told. */
  questionsRecentMax: 100,
  /** Another process that has the file open is waited for so long. */
  questionsBusyMs: 5_000,
  /** The life of a remembered rule, and the longest; the rules of one workspace. */
  rememberMs: 30 * 24 * 3_600_000,
  rememberMaxMs: 365 * 24 * 3_600_000,
  rememberedRulesMax: 500,
  /** Rules that have ended are looked for at least this often: a timer of more than 24 days would fire at once. */
  rememberLookMs: 3_600_000,
  /** What is shown of one text before it is folded, and of it its end; elements of one list. All of it is counted and has a digest. */
  shownCharsMax: 1_024,
  shownTailChars: 128,
  shownElementsMax: 256,
  /** Spaces in a row, and line breaks, that are shown as they are; combining marks on one letter. */
  shownSpacesMax: 4,
  shownLineBreaksMax: 2,
  shownCombiningMax: 2,
  /** A handle of a secret that is for one command, and one for a session: it ends with the session, or after so long. */
  handleSingleMs: 900_000,
  handleSessionMs: 12 * 3_600_000,
  /** Handles of one session that can be used: more are refused with `overloaded`. */
  handlesOfSessionMax: 256,
  /** Handles in one text. */
  handlesOfTextMax: 64,
  /** All texts of one command with the values in them. */
  useTextsBytesMax: 256 * 1024,
  /** Files of the workspace that commands of one session wait with, in memory. */
  usePinnedHeldBytesMax: 64 * 1024 ** 2,
  /** A command with secrets runs so long at most. */
  useMs: 600_000,
  /** What such a command may leave in /output: bytes, entries, folders in folders, and the bytes that all files together have, expanded and as they are. */
  useOutputBytesMax: 64 * 1024 ** 2,
  useOutputEntriesMax: 256,
  useOutputDepthMax: 8,
  useOutputLookedBytesMax: 256 * 1024 ** 2,
  useOutputLayersMax: 3,
  /** Requests of one session whose files are kept for its agent: the oldest give way. */
  useOutputsKeptMax: 16,
  /** The one line of a question in a list. */
  summaryCharsMax: 120,
} as const
