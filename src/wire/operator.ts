import * as z from 'zod'
import { TerminalSize } from './stream-frames.ts'

const Path = z.string().min(1).max(4_096).startsWith('/')
const Word = z.string().min(1).max(256)

/** What `up` asks of the daemon. Paths are absolute: the daemon has another current folder. */
export const UpRequest = z.strictObject({
  workspace: Path,
  /** Files of the session's own layer, later ones over earlier. */
  policy: z.array(Path).max(64),
  role: Word.optional(),
  harness: Word.optional(),
  image: Word.optional(),
  name: Word.optional(),
  /** Without one the harness's own, or the image's shell. */
  command: z.array(z.string()).max(4_096),
  /** The program gets a terminal. */
  tty: z.boolean(),
  size: TerminalSize.optional(),
  selftest: z.boolean(),
})
export type UpRequest = z.infer<typeof UpRequest>
