import * as z from 'zod'
import { TerminalSize } from './stream-frames.ts'

const Path = z.string().min(1).max(4_096).startsWith('/')
const Word = z.string().min(1).max(256)

/** What `up` asks of the daemon. Paths are absolute: the daemon has another current folder. */
export const UpRequest = z.strictObject({
  workspace: Path,
  /** Files of the session's own layer, later ones over earlier. */
  policy: z.array(Path).max(64),
  role: Word.exactOptional(),
  harness: Word.exactOptional(),
  image: Word.exactOptional(),
  name: Word.exactOptional(),
  /** Without one the harness's own, or the image's shell. */
  command: z.array(z.string()).max(4_096),
  /** The program gets a terminal. */
  tty: z.boolean(),
  size: TerminalSize.exactOptional(),
  selftest: z.boolean(),
  /** Variables of the operator's for the agent. */
  environment: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string()).exactOptional(),
})
export type UpRequest = z.infer<typeof UpRequest>

/** How far an image has come that the engine did not have. Sums over those layers whose sizes are known. */
export const PullView = z.strictObject({
  image: z.string(),
  layers: z.int(),
  layersDone: z.int(),
  doneBytes: z.number(),
  totalBytes: z.number(),
  isDone: z.boolean(),
})
export type PullView = z.infer<typeof PullView>

/** A session as `ls --json` has it. */
export type SessionView = {
  readonly id: string
  readonly name: string
  readonly state: 'starting' | 'running' | 'stopping' | 'ended' | 'failed'
  readonly workspace: string
  readonly harness?: string
  readonly role?: string
  /** The compose project that it is in: docker compose makes its containers. */
  readonly project?: string
  readonly agent: { readonly container?: string; readonly running: boolean; readonly exitCode?: number }
  readonly sidecar: { readonly container?: string; readonly healthy: boolean }
  readonly network?: string
  readonly createdAt: number
  readonly warnings: readonly string[]
}
