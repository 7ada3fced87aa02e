import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'

export { FRAME, type FrameType } from './frame-types.ts'

/** The `Upgrade` of `attach` and `exec` on the operator's socket (RFC 9110 §7.8), and of `forward`, which is raw bytes. */
export const STREAM_PROTOCOL = 'sallyport-stream'
export const FORWARD_PROTOCOL = 'sallyport-forward'
/** A header of the 101 to `attach`: whether the session's program has a terminal of its own (`1`, `0`). */
export const TTY_HEADER = 'sallyport-tty'

const cells = z.int().min(1).max(LIMITS.terminalCellsMax)

export const TerminalSize = z.strictObject({ columns: cells, rows: cells })
export type TerminalSize = z.infer<typeof TerminalSize>

/** Which of the client's outputs a terminal shows: what goes there is filtered. */
const Shown = z.strictObject({ stdout: z.boolean(), stderr: z.boolean() })

export const AttachRequest = z.strictObject({ terminal: Shown, size: TerminalSize.optional() })
export type AttachRequest = z.infer<typeof AttachRequest>

export const ExecRequest = z.strictObject({
  argv: z.array(z.string().refine((text) => !text.includes('\0'), 'has a NUL')).min(1),
  /** The program gets a terminal of its own. */
  tty: z.boolean(),
  terminal: Shown,
  size: TerminalSize.optional(),
})
export type ExecRequest = z.infer<typeof ExecRequest>

export const Exit = z.strictObject({ code: z.int() })

/** As in problem+json (RFC 9457), of which more members are left alone. */
export const StreamProblem = z.object({ code: z.string(), detail: z.string(), hint: z.string().optional() })
export type StreamProblem = z.infer<typeof StreamProblem>
