import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import { Answer, PresenceProof, type Question, type QuestionEvent } from './question.ts'
import { TerminalSize } from './stream-frames.ts'

const Path = z.string().min(1).max(4_096).startsWith('/')
const Word = z.string().min(1).max(256)
const Password = z.string().min(1).max(1_024)

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
  /** That it runs with, whether the operator or a policy named it. */
  readonly harness: string | null
  readonly role?: string
  /** The compose project that it is in: docker compose makes its containers. */
  readonly project?: string
  readonly agent: { readonly container?: string; readonly running: boolean; readonly exitCode?: number }
  readonly sidecar: { readonly container?: string; readonly healthy: boolean }
  readonly network?: string
  readonly createdAt: number
  readonly warnings: readonly string[]
  /** What came to be wrong with it while it ran, as a cover that the operator's own git took away. */
  readonly alerts: readonly string[]
  /** The agent's, by the name that was asked for. */
  readonly image?: string
  /** When every way out was found shut before the agent started. Absent where that was left out. */
  readonly selftestAt?: number
  /** Its leases are good for nothing any more. */
  readonly isRevoked: boolean
}

/** The page's port: fixed, as a passkey and a bookmark belong to an origin. Below the ports that systems give out by themselves. */
export const OPERATOR_PORT = 7_270

/** What a terminal calls itself, as `terminal 4711`: shown to other operators, and no proof of anything. */
export const OPERATOR_HEADER = 'sallyport-operator'

/** An answer as a surface sends it: what is answered, and the proof that the tier of the question wants. */
export const AnswerRequest = Answer.extend({ proof: PresenceProof.exactOptional() })
export type AnswerRequest = z.infer<typeof AnswerRequest>

/** A change that was proposed and applied. */
export type ProposalView = {
  readonly id: string
  readonly of: string
  readonly target: string
  readonly appliedAt: number
  readonly revertedAt?: number
}

/** What says which question an operator has in hand. */
export const ClaimRequest = z.strictObject({ digest: Answer.shape.digest })

export const PasswordRequest = z.strictObject({
  /** Absent when there is none yet. */
  old: Password.exactOptional(),
  next: Password,
})

export const QuestionQuery = z.strictObject({
  state: z.enum(['pending', 'recent']).exactOptional(),
  session: Word.exactOptional(),
  limit: z.coerce.number().int().min(1).max(LIMITS.questionsListedMax).exactOptional(),
})

/** Lines of the events: what waits at the beginning, then what becomes of it. */
export type QuestionLine = { readonly pending: readonly Question[] } | { readonly event: QuestionEvent }

export type LoginWay = 'link' | 'password' | 'passkey'

/** Who has a page open. The token itself is shown once, to who has it. */
export type LoginView = {
  readonly id: string
  readonly createdAt: number
  readonly usedAt: number
  readonly endsAt: number
  /** How it began. */
  readonly way: LoginWay
  /** What the browser calls itself: its own words. */
  readonly browser: string
}

export const LoginRequest = z.strictObject({ ticket: z.string().min(1).max(256) })
