import * as z from 'zod'
import { ExecRequest, TerminalSize } from './stream-frames.ts'

/** What the page shows: the session's own program, or one that is started beside it. */
export const TerminalWish = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('attach'), size: TerminalSize }),
  z.strictObject({ kind: z.literal('exec'), argv: ExecRequest.shape.argv, size: TerminalSize }),
])
export type TerminalWish = z.infer<typeof TerminalWish>

/**
 * Binary messages of the WebSocket are frames as in `stream-frames.ts`, without `request`. Text messages are of the page alone: how many
 * more bytes it has shown, in decimal.
 */
export type TerminalTicket = {
  readonly ticket: string
  readonly expiresInMs: number
  /** Whether the program has a terminal of its own. */
  readonly tty: boolean
}
