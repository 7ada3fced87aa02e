import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { visible } from '../../kernel/visible.ts'
import type { ProposalView } from '../../wire/operator.ts'
import type { Asker, FileChange, Outcome, ProposalSubject, QuestionWish } from '../../wire/question.ts'
import { denialOf } from '../requests/endings.ts'
import { createChanges, digestOf, textOf, type Changes, type ChangesParts } from './changes.ts'
import { diffOf } from './diff.ts'
import { targetOf, type ProposalWish } from './targets.ts'

export type { ProposalWish } from './targets.ts'

export type ProposalParts = ChangesParts & {
  readonly approvals: {
    ask(wish: QuestionWish, signal: AbortSignal): Promise<Outcome>
    consume(id: string, digest: string): Promise<boolean>
    finished(id: string, result: { readonly code?: string }): Promise<void>
  }
  /** What is wrong with what the file would say. Nothing is asked then. */
  check(target: string, wish: ProposalWish): Promise<readonly string[]>
}

/** I54: Changes of the operator's files that agents propose. Nothing of them is ever run, and nothing changes without an answer. */
export type Proposals = {
  /** Resolves with the id under which it can be taken back. @throws proposal_invalid, approval_denied and its kin, proposal_outdated */
  propose(asker: Asker, wish: ProposalWish, reason: string, signal: AbortSignal): Promise<ProposalView>
  /** The file as it is; undefined where there is none. @throws proposal_invalid */
  read(asker: Asker, wish: Omit<ProposalWish, 'content'>): Promise<string | undefined>
  /**
   * What a wish would change, for a question that asks about more than the file.
   * @throws proposal_invalid
   */
  prepare(asker: Asker, wish: ProposalWish): Promise<PreparedChange>
  /** Makes a change that somebody approved, under the id of the question. @throws proposal_outdated */
  apply(id: string, change: PreparedChange, asker: Asker): Promise<ProposalView>
  /** Those that were applied, the latest first. */
  list(): Promise<ProposalView[]>
  /** Puts back what was there before, unless the file has changed since. @throws proposal_invalid, proposal_outdated */
  revert(id: string): Promise<ProposalView>
  /** How files are changed, for who else changes them: one at a time. */
  readonly changes: Changes
}

/** A change of one file, with all of what it would say. */
export type PreparedChange = {
  readonly of: ProposalSubject['of']
  readonly target: string
  readonly before?: string
  readonly after: string
}

export function createProposals(parts: ProposalParts): Proposals {
  const { home, approvals, system } = parts
  const changes = createChanges(parts)

  async function prepare(asker: Asker, wish: ProposalWish): Promise<PreparedChange> {
    const target = targetOf(home, asker.workspace, wish)
    const problems = await parts.check(target, wish)
    if (problems.length > 0)
      throw new SallyportError('proposal_invalid', `what it would say is not valid:\n${problems.slice(0, PROBLEMS_MAX).join('\n')}`)
    const before = await textOf(home, target)
    if (before === wish.content) throw new SallyportError('proposal_invalid', 'it changes nothing')
    const change = { of: wish.of, target, ...(before !== undefined && { before }), after: wish.content }
    // What could not be read again could not be taken back.
    if (Buffer.byteLength(JSON.stringify(change)) > LIMITS.proposalRecordBytesMax - RECORD_REST_BYTES)
      throw new SallyportError('proposal_invalid', `with what is there now it has more than ${LIMITS.proposalRecordBytesMax} bytes`)
    return change
  }

  const apply = (id: string, change: PreparedChange, { workspace }: Asker): Promise<ProposalView> =>
    changes.apply({ id, ...change, appliedAt: system.now() }, workspace)

  return {
    read: ({ workspace }, wish) => textOf(home, targetOf(home, workspace, wish)),
    prepare,
    apply,
    async propose(asker, wish, reason, signal) {
      const change = await prepare(asker, wish)
      const outcome = await approvals.ask(questionOf(asker, change, reason), signal)
      if (outcome.decision === 'deny') throw denialOf(outcome)
      const { id, digest } = outcome.question
      if (!(await approvals.consume(id, digest))) throw new SallyportError('approval_denied', 'the approval was used before')
      try {
        const view = await apply(id, change, asker)
        await approvals.finished(id, {})
        return view
      } catch (error) {
        await approvals.finished(id, { code: codeOf(error) })
        throw error
      }
    },
    list: () => changes.list(),
    revert: (id) => changes.takeBack(id),
    changes,
  }
}

/** Of a record beside its target and its two texts. */
const RECORD_REST_BYTES = 1_024
const PROBLEMS_MAX = 10

/** What a change becomes, as the operator is shown it. @throws proposal_invalid when it is too long for that */
export function fileChangeOf({ target, before, after }: PreparedChange): FileChange {
  const diff = diffOf(target, before, after)
  if (diff.length > LIMITS.proposalBytesMax)
    throw new SallyportError('proposal_invalid', `the change is larger than ${LIMITS.proposalBytesMax} bytes as a diff`)
  return { target, diff, ...(before !== undefined && { before: digestOf(before) }), after: digestOf(after) }
}

function questionOf(asker: Asker, change: PreparedChange, reason: string): QuestionWish {
  const { of, target } = change
  return {
    asker,
    subject: { kind: 'proposal', of, ...fileChangeOf(change) },
    reason,
    // It changes what everything later may do.
    risk: { level: 'dangerous', reasons: [`it changes ${visible(target)}`] },
    tier: 'T1',
    expiresInMs: LIMITS.proposalExpiryMs,
  }
}
