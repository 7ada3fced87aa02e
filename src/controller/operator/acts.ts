import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { SallyportError } from '../../kernel/errors.ts'
import { PresenceProof } from '../../wire/question.ts'
import { canonicalJson } from '../approvals/canonical.ts'
import type { Presence, ProofPurpose } from '../presence/presence.ts'
import { goneSignal, refuseForeign } from './proofs.ts'
import { rowOf, type Surface } from './route-table.ts'
import { read } from './session-routes.ts'

const Act = z.looseObject({ proof: PresenceProof.exactOptional() })

/**
 * Has every route that the table marks `act` or `proof` prove who is there before its handler is reached, which sees the body without
 * the proof. `proof` always needs the password or a passkey; `act` where the operator has one: a login alone came from the socket.
 */
export function requirePresence(app: FastifyInstance, presence: Presence, surface: Surface): void {
  app.addHook('preHandler', async (request, reply) => {
    const wanted = rowOf(request)?.presence
    if (wanted !== 'act' && wanted !== 'proof') return
    const { proof = { kind: 'key' }, ...body } = read(Act, request.body ?? {})
    refuseForeign(proof, surface, 'give the password, or use a passkey')
    const tier = wanted === 'proof' || presence.available.some((one) => one === 'T1' || one === 'T3') ? 'T1' : 'T0'
    if (tier === 'T1' && proof.kind === 'key')
      throw new SallyportError('presence_required', 'this needs the operator’s password or a passkey', {
        hint: 'sallyport approver password sets one',
      })
    const purpose = purposeOf(request.method, request.url, body)
    const evidence = await presence.prove(tier, proof, purpose, goneSignal(reply))
    presence.redeem(evidence, tier, purpose)
    request.body = body
  })
}

/** What a proof for a call is given for: exactly this call. `digest` is SHA-256, hex, of its canonical JSON (RFC 8785). */
export function purposeOf(method: string, path: string, body: Readonly<Record<string, unknown>>): ProofPurpose {
  return { digest: hash('sha256', canonicalJson({ method, path, body }), 'hex'), decision: 'allow', scope: 'once' }
}
