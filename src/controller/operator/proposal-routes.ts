import type { FastifyInstance } from 'fastify'
import type { Proposals } from '../proposals/proposals.ts'

/** The changes that were proposed and applied, and how they are taken back. */
export function addProposalRoutes(app: FastifyInstance, { proposals }: { readonly proposals: Proposals }): void {
  app.get('/v1/proposals', () => proposals.list())
  app.post<{ Params: { id: string } }>('/v1/proposals/:id/revert', ({ params }) => proposals.revert(params.id))
}
