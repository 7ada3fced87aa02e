import type { FastifyReply } from 'fastify'
import { SallyportError } from '../../kernel/errors.ts'
import type { PresenceProof } from '../../wire/question.ts'
import type { Surface } from './route-table.ts'

/** A page knows no process: one that it names would be a guess at somebody's. @throws presence_required */
export function refuseForeign(proof: PresenceProof, surface: Surface, hint: string): void {
  if (surface === 'web' && proof.kind === 'system')
    throw new SallyportError('presence_required', 'the operating system is asked from a terminal only', { hint })
}

/** Aborted when the client is gone before it has its answer. */
export function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  reply.raw.on('close', () => gone.abort(new SallyportError('input_ended', 'the operator left before the proof was complete')))
  return gone.signal
}
