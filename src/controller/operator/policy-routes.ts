import type { FastifyInstance } from 'fastify'
import { SallyportError } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import { policyJsonSchema } from '../../policy/policy.ts'
import {
  ChangeRequest,
  ChangeWish,
  ExplainRequest,
  Nothing,
  PolicyCheck,
  PolicyQuery,
  TrustRequest,
  WorkspaceOnly,
} from '../../wire/policies.ts'
import type { PolicyFiles } from '../policy-files/policy-files.ts'
import { read } from './session-routes.ts'

type ById = { Params: { id: string } }

/** The operator's policies for the page: what is there, what would come of a change, and the change. */
export function addPolicyRoutes(app: FastifyInstance, policies: PolicyFiles): void {
  const { changes } = policies
  app.get('/v1/policies', () => policies.list())
  app.get<{ Params: { kind: string; name: string } }>('/v1/policies/presets/:kind/:name', ({ params }) => ({
    text: policies.preset(`${params.kind}/${params.name}`),
  }))
  app.post('/v1/policies/check', async ({ body }) => {
    const { layer, content } = read(PolicyCheck, body)
    return { problems: await changes.check(layer, content) }
  })
  app.post('/v1/policies/changes/preview', ({ body }) => changes.preview(read(ChangeWish, body)))
  app.post('/v1/policies/changes', ({ body }) => changes.apply(read(ChangeRequest, body)))

  app.get('/v1/policies/effective', ({ query }) => policies.effective(read(PolicyQuery, query)))
  app.post('/v1/policies/explain', ({ body }) => policies.explain(read(ExplainRequest, body)))
  app.get('/v1/policies/schema', () => policyJsonSchema())

  app.get('/v1/policies/history', async () => ({ entries: await policies.history() }))
  app.get<ById>('/v1/policies/history/:id', ({ params }) => policies.change(params.id))
  app.post<ById>('/v1/policies/history/:id/revert', ({ params, body }) => {
    read(Nothing, body)
    return changes.takeBack(params.id)
  })

  app.post<ById>('/v1/policies/remembered/:id/forget', async ({ params, body }) => {
    read(Nothing, body)
    if (!(await policies.forget(params.id)))
      throw new SallyportError('policy_change_invalid', `nothing is remembered as "${shown(params.id)}" (any more)`)
    return {}
  })
  app.post('/v1/policies/trust', async ({ body }) => {
    const { workspace, digest } = read(TrustRequest, body)
    await policies.accept(workspace, digest)
    return {}
  })
  app.post('/v1/policies/trust/withdraw', async ({ body }) => ({
    isWithdrawn: await policies.withdraw(read(WorkspaceOnly, body).workspace),
  }))
}
