import { isDeepStrictEqual } from 'node:util'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { RequestAuditEvent } from '../../audit/audit.ts'
import { describeSource } from '../../policy/policy.ts'
import type { AgentParams } from '../../wire/agent-requests.ts'
import type { Question, QuestionWish, SecretSubject } from '../../wire/question.ts'
import type { Approvals } from '../approvals/approvals.ts'
import { fileChangeOf, type PreparedChange, type Proposals } from '../proposals/proposals.ts'
import { denialOf } from '../requests/endings.ts'
import type { Ending, OpenRequest, RequestPlace } from '../requests/requests.ts'
import { lifeOf, type HandleBook } from './handle-book.ts'
import { canBeGranted, knownSecret, type KnownSecret, type KnownSecretParts } from './known-secret.ts'
import { persistedPolicy } from './persisted-policy.ts'

export type SecretRequestParts = KnownSecretParts & {
  readonly approvals: Pick<Approvals, 'ask' | 'consume' | 'finished'>
  readonly proposals: Pick<Proposals, 'prepare' | 'apply' | 'read'>
  readonly handles: HandleBook
  /** A session that runs, as it is now. @throws session_not_running, session_revoked */
  readonly place: (session: string) => RequestPlace
  /** Resolves when it is written. */
  readonly audit: (event: RequestAuditEvent) => Promise<void>
  readonly system: System
}

type Wish = AgentParams<'secret.request'>

/**
 * The story of a handle: what is behind the name → whether the policy has said so already → else what the operator says → a handle. Whatever
 * is behind the name, the agent is told the same until somebody said yes; and a yes to what is not there is told as a no.
 */
export async function secretRequest(parts: SecretRequestParts, session: string, wish: Wish, request: OpenRequest): Promise<Ending> {
  const place = parts.place(session)
  const known = await knownSecret(parts, place, wish.name)
  parts.handles.refuseSurplus(session)
  await parts.audit({
    event: 'secret_requested',
    request: request.id,
    of: session,
    name: wish.name,
    scope: wish.scope,
    decision: known.permission === 'free' ? 'allow' : 'ask',
    source: describeSource(known.source),
    state: known.state,
  })
  if (known.permission === 'free') return granted(parts, session, wish, known, request)
  // Worked out for every name: with nobody there to ask, how long it takes would tell one from the other.
  const worked = wish.scope === 'persisted' ? await changeOf(parts, place, wish.name, known) : undefined
  const change = known.permission === 'ask' ? worked : undefined
  const question = await asked(parts, questionOf(place, wish, known, change), request)
  let code: string | undefined
  try {
    // What was put into the vault since is there now; what is another secret by now was not allowed.
    const now = await knownSecret(parts, parts.place(session), wish.name)
    if (!canBeGranted(now) || !isDeepStrictEqual(now.source, known.source)) throw plainDenial(question)
    if (change !== undefined) await parts.proposals.apply(question.id, change, place.asker)
    return await granted(parts, session, wish, now, request, question)
  } catch (error) {
    code = codeOf(error)
    throw error
  } finally {
    await parts.approvals.finished(question.id, code === undefined ? {} : { code })
  }
}

/** On the disk before it is given. */
async function granted(
  { handles, audit, system, place }: SecretRequestParts,
  session: string,
  { name, scope }: Wish,
  { source }: KnownSecret,
  request: OpenRequest,
  question?: Question,
): Promise<Ending> {
  await audit({
    event: 'secret_granted',
    request: request.id,
    of: session,
    name,
    scope,
    source: describeSource(source),
    ...(question && { question: question.id }),
    expires: new Date(system.now() + lifeOf(scope)).toISOString(),
  })
  // Whoever withdrew it, or whose session is over, gets none.
  if (request.signal.aborted) throw new SallyportError('approval_cancelled', 'it was withdrawn before the handle was given')
  place(session)
  const { handle, lifeMs } = handles.grant(session, { name, scope, source, by: question === undefined ? 'policy' : 'operator' })
  return { status: 'done', handle, expires_in: Math.floor(lifeMs / 1_000) }
}

/** @throws approval_denied and its kin, approver_absent, too_many_questions, audit_unavailable */
async function asked({ approvals }: SecretRequestParts, wish: QuestionWish, request: OpenRequest): Promise<Question> {
  const outcome = await approvals.ask(wish, request.signal)
  if (outcome.decision === 'deny') throw denialOf(outcome)
  const { question } = outcome
  // I41
  if (await approvals.consume(question.id, question.digest)) return question
  throw new SallyportError('approval_denied', 'the approval was used or taken back before')
}

function questionOf(place: RequestPlace, wish: Wish, known: KnownSecret, change: PreparedChange | undefined): QuestionWish {
  const { asker } = place
  const level = wish.scope === 'persisted' ? 'dangerous' : 'caution'
  return {
    asker,
    subject: subjectOf(place, wish, known, change),
    reason: wish.reason,
    risk: {
      level,
      reasons: [
        'commands that you allow one by one can then have the value',
        ...(level === 'dangerous' ? ['later sessions of the workspace get such a handle without being asked'] : []),
      ],
    },
    tier: place.policy().effective.hostCommands.presence[level].value,
    expiresInMs: LIMITS.askExpiryMs,
  }
}

function subjectOf(
  { asker: { workspace } }: RequestPlace,
  { name, scope }: Wish,
  { source, state, note, permission }: KnownSecret,
  change: PreparedChange | undefined,
): SecretSubject {
  const isLeftOut = scope === 'persisted' && change === undefined && permission === 'ask'
  return {
    kind: 'secret',
    name,
    scope,
    source: describeSource(source),
    state,
    note: isLeftOut ? `${note}; ${NOT_CHANGED}` : note,
    ...(scope === 'single-command' && { uses: 1 }),
    lifeMs: lifeOf(scope),
    workspace,
    ...(change && { change: fileChangeOf(change) }),
  }
}

const NOT_CHANGED =
  'your policy for the workspace cannot be changed for it, as another file declares it or it has a mistake: allowing this is for this session alone'

/** What `persisted` makes of the operator's policy; undefined where that cannot be done, of which the agent is told nothing. */
async function changeOf(
  { proposals }: SecretRequestParts,
  { asker }: RequestPlace,
  name: string,
  known: KnownSecret,
): Promise<PreparedChange | undefined> {
  try {
    const wanted = known.permission === 'ask' ? known : { source: known.source }
    const content = persistedPolicy(await proposals.read(asker, { of: 'policy', name: '' }), name, wanted)
    if (content === undefined) return undefined
    const change = await proposals.prepare(asker, { of: 'policy', name: '', content })
    // With what is beside it in the question: one that cannot be put would tell what is behind the name.
    return fileChangeOf(change).diff.length > LIMITS.questionBytesMax / 4 ? undefined : change
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'proposal_invalid') return undefined
    throw error
  }
}

/** Word for word what a no without words is. */
function plainDenial(question: Question): SallyportError {
  return denialOf({ decision: 'deny', code: 'approval_denied', question })
}
