import type { FastifyInstance } from 'fastify'
import { ChangeRequest, ChangeWish, PolicyCheck } from '../../wire/policies.ts'
import type { PolicyFiles } from '../policy-files/policy-files.ts'
import { read } from './session-routes.ts'

/** The operator's policies for the page: what is there, what would come of a change, and the change. */
export function addPolicyRoutes(app: FastifyInstance, policies: PolicyFiles): void {
  app.post('/v1/policies/check', async ({ body }) => {
    const { layer, content } = read(PolicyCheck, body)
    return { problems: await policies.changes.check(layer, content) }
  })
  app.post('/v1/policies/changes/preview', ({ body }) => policies.changes.preview(read(ChangeWish, body)))
  app.post('/v1/policies/changes', ({ body }) => policies.changes.apply(read(ChangeRequest, body)))
}
