import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { shown } from '../../kernel/shown.ts'
import { RevertRequest } from '../../wire/operator.ts'
import type { Presence } from '../presence/presence.ts'
import type { Proposals } from '../proposals/proposals.ts'
import { goneSignal, refuseForeign } from './proofs.ts'
import type { Surface } from './route-table.ts'
import { read } from './session-routes.ts'

/** The changes that were proposed and applied, and how they are taken back: with the proof that allowing them took. */
export function addProposalRoutes(
  app: FastifyInstance,
  { proposals, presence }: { readonly proposals: Proposals; readonly presence: Presence },
  surface: Surface,
): void {
  app.get('/v1/proposals', () => proposals.list())
  app.post<{ Params: { id: string } }>('/v1/proposals/:id/revert', async ({ params, body }, reply) => {
    const { proof } = read(RevertRequest, body)
    refuseForeign(proof, surface, `sallyport proposals revert ${shown(params.id)}`)
    const purpose = { digest: createHash('sha256').update(`revert ${params.id}`).digest('hex'), decision: 'allow', scope: 'once' } as const
    const evidence = await presence.prove('T1', proof, purpose, goneSignal(reply))
    presence.redeem(evidence, 'T1', purpose)
    return await proposals.revert(params.id)
  })
}
