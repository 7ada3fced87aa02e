import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Audit } from '../../audit/audit.ts'
import { SallyportError } from '../../kernel/errors.ts'
import {
  ActChallengeRequest,
  AnswerChallengeRequest,
  PasskeyRegisterRequest,
  PasskeyRenameRequest,
  type PasskeyView,
  type ProofAsked,
} from '../../wire/passkeys.ts'
import type { Tier } from '../../wire/question.ts'
import type { Approvals } from '../approvals/approvals.ts'
import type { Presence, ProofPurpose } from '../presence/presence.ts'
import { purposeOf, tierOfAct } from './acts.ts'
import { answerPurpose } from './proofs.ts'
import { rowAt, unknownRoute } from './route-table.ts'
import { read } from './session-routes.ts'

type ById = { Params: { id: string } }

export type PasskeyRouteParts = {
  readonly approvals: Pick<Approvals, 'get'>
  readonly presence: Presence
  readonly audit: Pick<Audit, 'append'>
}

/** On the page alone: what a proof could be given with, and the passkeys that it is given with. */
export function addPasskeyRoutes(app: FastifyInstance, { approvals, presence, audit }: PasskeyRouteParts): void {
  const { passkeys } = presence

  app.post<ById>('/v1/questions/:id/challenge', (request): ProofAsked => {
    const { id } = request.params
    const wish = read(AnswerChallengeRequest, request.body)
    const { digest, tier, state } = approvals.get(id)
    if (wish.digest !== digest)
      throw new SallyportError('digest_mismatch', `${id} is asked with the digest ${digest}`, { hint: 'look at the question again' })
    if (state !== 'pending' && state !== 'claimed') throw new SallyportError('question_settled', `${id} is ${state}`)
    return askedFor(presence, tier, answerPurpose(id, wish), request)
  })
  app.post('/v1/presence/challenge', (request): ProofAsked => {
    const { method, path, body } = read(ActChallengeRequest, request.body)
    const row = rowAt(method, path)
    const tier = row && tierOfAct(row.presence, presence)
    if (tier === undefined) throw unknownRoute({ method, url: path })
    return askedFor(presence, tier, purposeOf(method, path, body), request)
  })

  app.get('/v1/passkeys', () => passkeys.view())
  app.post('/v1/passkeys/challenge', (request) => passkeys.creation(loginOf(request), originOf(request)))
  app.post('/v1/passkeys', async (request) => {
    const { name, response } = read(PasskeyRegisterRequest, request.body)
    return await recorded(await passkeys.register(loginOf(request), name, response), 'registered', request)
  })
  app.patch<ById>('/v1/passkeys/:id', async (request) => {
    const { name } = read(PasskeyRenameRequest, request.body)
    return await recorded(await passkeys.rename(request.params.id, name), 'renamed', request)
  })
  app.delete<ById>('/v1/passkeys/:id', async (request) => await recorded(await passkeys.remove(request.params.id), 'removed', request))

  const recorded = async (passkey: PasskeyView, did: string, request: FastifyRequest): Promise<PasskeyView> => {
    const by = `${request.method} ${request.routeOptions.url ?? ''} on the web, login ${loginOf(request)}`
    await audit.append({ event: 'config_changed', of: 'operator', what: `passkey ${passkey.id} "${passkey.name}"`, did, by })
    return passkey
  }
}

function askedFor({ available, passkeys }: Presence, tier: Tier, purpose: ProofPurpose, request: FastifyRequest): ProofAsked {
  return {
    tier,
    digest: purpose.digest,
    password: (tier === 'T0' || tier === 'T1') && available.includes('T1'),
    ...(passkeys.isAny() && { passkey: passkeys.challenge(purpose, originOf(request)) }),
  }
}

/** Of the page that asks: its Host was held against the listener's own before anything else. */
export function originOf({ headers }: FastifyRequest): string {
  return `http://${headers.host ?? ''}`
}

function loginOf({ login }: FastifyRequest): string {
  if (login === undefined) throw new SallyportError('internal', 'a route of the page was reached without a login')
  return login.id
}
