import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { RevertRequest } from '../../wire/operator.ts'
import type { Presence } from '../presence/presence.ts'
import type { Proposals } from '../proposals/proposals.ts'
import { read } from './session-routes.ts'

/** The changes that were proposed and applied, and how they are taken back: with the proof that allowing them took. */
export function addProposalRoutes(
  app: FastifyInstance,
  { proposals, presence }: { readonly proposals: Proposals; readonly presence: Presence },
): void {
  app.get('/v1/proposals', () => proposals.list())
  app.post<{ Params: { id: string } }>('/v1/proposals/:id/revert', async ({ params, body }) => {
    const { proof } = read(RevertRequest, body)
    const purpose = { digest: createHash('sha256').update(`revert ${params.id}`).digest('hex'), decision: 'allow', scope: 'once' } as const
    const evidence = await presence.prove('T1', proof, purpose, new AbortController().signal)
    presence.redeem(evidence, 'T1', purpose)
    return await proposals.revert(params.id)
  })
}
