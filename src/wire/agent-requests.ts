import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'

const Id = z.string().regex(/^[a-z0-9]{16,64}$/)
const Reason = z.string().max(LIMITS.reasonCharsMax).default('')
const Cwd = z.string().min(1).max(4_096).optional()
const Argv = z.array(z.string().max(LIMITS.argumentBytesMax)).min(1).max(LIMITS.commandArgumentsMax)
const Command = z.string().min(1).max(LIMITS.commandCharsMax)
const WaitSeconds = z.coerce
  .number()
  .min(0)
  .max(LIMITS.requestWaitMaxMs / 1_000)

const AWish = 'one of argv and command'
const isOneWish = ({ argv, command }: { readonly argv?: unknown; readonly command?: unknown }): boolean =>
  (argv === undefined) !== (command === undefined)

const Wish = { argv: Argv.optional(), command: Command.optional(), cwd: Cwd }

/** What an agent may ask for, by method. One table for every way of asking. */
export const AGENT_METHODS = {
  /** Runs a command on the host. Answered at once with an id. */
  'host.run': z.strictObject({ ...Wish, reason: Reason }).refine(isOneWish, AWish),
  /** Whether a command would run, be asked about or refused. Asks nobody. */
  'host.run_capability': z.strictObject(Wish).refine(isOneWish, AWish),
  /** What became of a request, once it has ended or after `wait` seconds. */
  'request.await': z.strictObject({ id: Id, wait: WaitSeconds.default(LIMITS.requestWaitMs / 1_000) }),
  /** Pieces of output behind the first `after` ones. */
  'request.output': z.strictObject({ id: Id, after: z.int().min(0), wait: WaitSeconds.default(LIMITS.requestWaitMs / 1_000) }),
  /** Ends a request: a question is withdrawn, a process group killed. */
  'request.cancel': z.strictObject({ id: Id }),
  /** Whether a request to a URL, or a command, would pass, and by which rule. Asks nobody. */
  'policy.explain': z
    .strictObject({ url: z.string().max(8_192).optional(), method: z.string().max(32).optional(), command: Command.optional() })
    .refine(({ url, command }) => (url === undefined) !== (command === undefined), 'one of url and command'),
  'propose.policy': z.strictObject({ content: z.string().max(LIMITS.proposalBytesMax), reason: Reason }),
  'propose.tool': z.strictObject({ name: z.string().max(64), content: z.string().max(LIMITS.proposalBytesMax), reason: Reason }),
  'propose.skill': z.strictObject({ name: z.string().max(64), content: z.string().max(LIMITS.proposalBytesMax), reason: Reason }),
  'propose.config_change': z.strictObject({ name: z.string().max(64), content: z.string().max(LIMITS.proposalBytesMax), reason: Reason }),
} as const

export type AgentMethod = keyof typeof AGENT_METHODS
export type AgentParams<M extends AgentMethod> = z.infer<(typeof AGENT_METHODS)[M]>

export type RequestStatus = 'pending' | 'running' | 'done' | 'denied' | 'expired' | 'cancelled' | 'failed'

/** A request of an agent's, as it sees it. Output is redacted; what was left out of it is said in it. */
export type RequestView = {
  readonly id: string
  readonly method: string
  readonly status: RequestStatus
  readonly exit_code?: number
  readonly signal?: string
  readonly stdout?: string
  readonly stderr?: string
  readonly truncated?: boolean
  /** While it waits: what it waits for. */
  readonly note?: string
  /** Why it did not run, or did not end well. `message` is the operator's own, where there is one. */
  readonly error?: { readonly code: string; readonly message: string; readonly hint?: string }
}

export type OutputPiece = { readonly stream: 'stdout' | 'stderr'; readonly text: string }

/** Pieces `after` to `next` of what a request printed. `isEnded`: no more comes. */
export type OutputView = {
  readonly pieces: readonly OutputPiece[]
  readonly next: number
  readonly lost: boolean
  readonly isEnded: boolean
}
