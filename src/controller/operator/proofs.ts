import type { FastifyReply, FastifyRequest } from 'fastify'
import { SallyportError } from '../../kernel/errors.ts'
import type { Answer, PresenceEvidence, PresenceProof, Tier } from '../../wire/question.ts'
import type { Presence, ProofPurpose } from '../presence/presence.ts'
import type { Surface } from './route-table.ts'

/** A page knows no process: one that it names would be a guess at somebody's. @throws presence_required */
export function refuseForeign(proof: PresenceProof, surface: Surface, hint: string): void {
  if (surface === 'web' && proof.kind === 'system')
    throw new SallyportError('presence_required', 'the operating system is asked from a terminal only', { hint })
}

/** What the proof of an answer is given for: this question, and all of the answer but what the agent is told. */
export function answerPurpose(question: string, { digest, decision, scope, rule, expiresAt }: Omit<Answer, 'message'>): ProofPurpose {
  return { digest, decision, scope, question, rule, expiresAt }
}

/** Aborted when the client is gone before it has its answer. */
export function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  reply.raw.on('close', () => gone.abort(new SallyportError('input_ended', 'the operator left before the proof was complete')))
  return gone.signal
}

/**
 * Evidence that is used up, of a call that still counts: a proof takes a while, and the login that it came with may have ended meanwhile.
 * @throws presence_failed, login_required
 */
export async function proven(
  presence: Pick<Presence, 'prove' | 'redeem'>,
  { tier, proof, purpose }: { readonly tier: Tier; readonly proof: PresenceProof; readonly purpose: ProofPurpose },
  { login }: FastifyRequest,
  reply: FastifyReply,
): Promise<PresenceEvidence> {
  const evidence = await presence.prove(tier, proof, purpose, goneSignal(reply))
  presence.redeem(evidence, tier, purpose)
  login?.ended.throwIfAborted()
  return evidence
}
