import type { FastifyInstance, FastifyRequest } from 'fastify'
import { LIMITS } from '../../kernel/limits.ts'
import { Secret } from '../../kernel/secret.ts'
import { AnswerRequest, ClaimRequest, OPERATOR_HEADER, PasswordRequest, QuestionQuery, type QuestionLine } from '../../wire/operator.ts'
import type { Audit } from '../../audit/audit.ts'
import type { Approvals } from '../approvals/approvals.ts'
import type { Presence } from '../presence/presence.ts'
import { answerPurpose, proven, refuseForeign } from './proofs.ts'
import { inEvents, inLines, type Say } from './line-answers.ts'
import type { Surface } from './route-table.ts'
import { read } from './session-routes.ts'

type ById = { Params: { id: string } }

export type QuestionParts = { readonly approvals: Approvals; readonly presence: Presence; readonly audit: Pick<Audit, 'append'> }

/** The inbox: what waits and what was, its events, and the answers. Nothing in here is reached by an agent. */
export function addQuestionRoutes(app: FastifyInstance, { approvals, presence, audit }: QuestionParts, surface: Surface): void {
  const claims = new Claims(approvals)

  app.get('/v1/questions', ({ query }) => approvals.list(read(QuestionQuery, query)))
  app.get<ById>('/v1/questions/:id', ({ params }) => approvals.get(params.id))
  app.get('/v1/questions/events', (_request, reply) => {
    const answer = surface === 'web' ? inEvents : inLines
    return answer(reply, (say, signal) => tellEvents(approvals, surface, say, signal))
  })
  app.post<ById>('/v1/questions/:id/claim', async (request) => {
    claims.take(request.params.id, read(ClaimRequest, request.body).digest, operatorOf(request, surface))
    return {}
  })
  app.delete<ById>('/v1/questions/:id/claim', async (request) => {
    claims.release(request.params.id, operatorOf(request, surface))
    return {}
  })
  app.post<ById>('/v1/questions/:id/answer', async (request, reply) => {
    const { id } = request.params
    const { proof = { kind: 'key' }, ...answer } = read(AnswerRequest, request.body)
    refuseForeign(proof, surface, `sallyport approve ${id}`)
    const by = operatorOf(request, surface)
    // A no takes no more than a key, and nobody who thinks about a yes holds it up: it must never be the harder way.
    if (answer.decision === 'allow') claims.take(id, answer.digest, by)
    try {
      const { tier } = approvals.get(id)
      const evidence = await proven(presence, { tier, proof, purpose: answerPurpose(id, answer) }, request, reply)
      return await approvals.answer(id, answer, evidence, by)
    } finally {
      claims.release(id, by)
    }
  })

  app.get('/v1/approver', () => ({ available: presence.available }))
  app.post('/v1/approver/password', async ({ body }) => {
    const { old, next } = read(PasswordRequest, body)
    const before = old === undefined ? undefined : new Secret('old password', old)
    await presence.setPassword(before, new Secret('password', next))
    const did = before === undefined ? 'set' : 'changed'
    await audit.append({
      event: 'config_changed',
      of: 'operator',
      what: 'approver password',
      did,
      by: `POST /v1/approver/password on the ${surface}`,
    })
    return {}
  })
}

/** Begins with what waits, read when no event of it can be missed any more. Who reads it counts as somebody who watches. */
async function tellEvents(approvals: Approvals, surface: Surface, say: Say, signal: AbortSignal): Promise<unknown> {
  const tell = (line: QuestionLine): Promise<void> => say(line)
  const events = approvals.watch(surface === 'web' ? 'page' : 'terminal', signal)
  await tell({ pending: approvals.list({ state: 'pending' }) })
  for await (const event of events) await tell({ event })
  return {}
}

/** Who has a question in hand, from one call to the next. */
class Claims {
  readonly #approvals: Approvals
  readonly #held = new Map<string, { readonly by: string; readonly claim: Disposable; readonly late: NodeJS.Timeout }>()

  constructor(approvals: Approvals) {
    this.#approvals = approvals
  }

  /** Of who has it already it is held for longer. */
  take(id: string, digest: string, by: string): void {
    const claim = this.#approvals.claim(id, digest, by)
    clearTimeout(this.#held.get(id)?.late)
    // As long as the claim itself holds.
    const late = setTimeout(() => this.release(id, by), LIMITS.claimMs).unref()
    this.#held.set(id, { by, claim, late })
  }

  release(id: string, by: string): void {
    const held = this.#held.get(id)
    if (held?.by !== by) return
    this.#held.delete(id)
    clearTimeout(held.late)
    held.claim[Symbol.dispose]()
  }
}

/** A name for other operators: short, and nothing that could be taken for something else. */
function operatorOf(request: FastifyRequest, surface: Surface): string {
  if (surface === 'web') return `page ${request.login?.id ?? ''}`
  const said = request.headers[OPERATOR_HEADER]
  return typeof said === 'string' && /^[a-z]{1,16} \d{1,10}$/.test(said) ? said : 'command'
}
