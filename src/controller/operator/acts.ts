import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { SallyportError } from '../../kernel/errors.ts'
import { PresenceProof, type Tier } from '../../wire/question.ts'
import { canonicalJson } from '../approvals/canonical.ts'
import type { Presence, ProofPurpose } from '../presence/presence.ts'
import { proven, refuseForeign } from './proofs.ts'
import { rowOf, type RoutePresence, type Surface } from './route-table.ts'
import { read } from './session-routes.ts'

const NamesPolicy = z.looseObject({ policy: z.unknown().optional() })
const Act = z.looseObject({ proof: PresenceProof.exactOptional() })

/**
 * Has every route that the table marks so prove who is there before its handler is reached, which sees the body without the proof. What
 * needs none where the operator has set up nothing came with a login, which came from the socket.
 */
export function requirePresence(app: FastifyInstance, presence: Presence, surface: Surface): void {
  app.addHook('preHandler', async (request, reply) => {
    const wanted = rowOf(request)?.presence
    const tier = wanted === undefined ? undefined : tierOfAct(wanted, presence)
    if (tier === undefined || (wanted === 'session' && (surface === 'socket' || !namesPolicy(request.body)))) return
    const { proof = { kind: 'key' }, ...body } = read(Act, request.body ?? {})
    refuseForeign(proof, surface, 'give the password, or use a passkey')
    if (tier !== 'T0' && proof.kind === 'key') throw presenceRequired(tier)
    await proven(presence, { tier, proof, purpose: purposeOf(request.method, request.url, body) }, request, reply)
    request.body = body
  })
}

/** What a call has to prove now, by what the table says of its route and what the operator has set up. None of what is no act. */
export function tierOfAct(wanted: RoutePresence, { has }: Pick<Presence, 'has'>): Tier | undefined {
  switch (wanted) {
    case 'proof':
      return 'T1'
    case 'act':
    case 'session':
      return has.password || has.passkey ? 'T1' : 'T0'
    // I75
    case 'strongest':
      return has.passkey ? 'T3' : has.password ? 'T1' : 'T0'
    case 'password':
      return has.passkey && !has.password ? 'T3' : 'T0'
    default:
      return undefined
  }
}

/** A session's own layer can be as wide as a change of any other. Without one it has what the operator's files give it. */
function namesPolicy(body: unknown): boolean {
  const { policy } = read(NamesPolicy, body ?? {})
  return !Array.isArray(policy) || policy.length > 0
}

/** What a proof for a call is given for: exactly this call. `digest` is SHA-256, hex, of its canonical JSON (RFC 8785). */
export function purposeOf(method: string, path: string, body: Readonly<Record<string, unknown>>): ProofPurpose {
  return { digest: hash('sha256', canonicalJson({ method, path, body }), 'hex'), decision: 'allow', scope: 'once' }
}

function presenceRequired(tier: Tier): SallyportError {
  return tier === 'T3'
    ? new SallyportError('presence_required', 'this needs a passkey', { hint: 'do it on the page, which asks for it: sallyport open' })
    : new SallyportError('presence_required', 'this needs the operator’s password or a passkey', {
        hint: 'sallyport approver password sets one',
      })
}
