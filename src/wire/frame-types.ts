/**
 * Frames of a stream, both ways: one byte of type, four bytes of length (big-endian), payload of at most `LIMITS.streamFrameBytesMax`.
 * The client's first frame is `request`.
 */
export const FRAME = {
  stdin: 0,
  stdout: 1,
  stderr: 2,
  /** `TerminalSize` as JSON. */
  resize: 3,
  /** `Exit` as JSON. The last frame to the client. */
  exit: 4,
  /** The client's input has ended. */
  closeStdin: 5,
  /** The client goes; what runs in the session goes on. */
  detached: 6,
  /** `StreamProblem` as JSON, instead of `exit`. */
  error: 7,
  /** `AttachRequest` or `ExecRequest` as JSON: not in the URL, which is logged and has bounds. */
  request: 8,
} as const
export type FrameType = (typeof FRAME)[keyof typeof FRAME]
