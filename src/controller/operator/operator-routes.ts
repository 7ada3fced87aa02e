import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { SallyportError } from '../../kernel/errors.ts'
import { VERSION } from '../../kernel/version.ts'
import type { Host } from '../controller.ts'
import { runSelftest } from '../selftest/selftest.ts'
import { addMcpRoutes } from './mcp-routes.ts'
import type { Surface } from './route-table.ts'
import { addSessionRoutes, read } from './session-routes.ts'

type ById = { Params: { id: string } }
const Registration = z.strictObject({ name: z.string().min(1).max(128) })
const Rotation = z.strictObject({ now: z.boolean().default(false) })
/** What a command changed by itself, for the record. */
const Changes = z.strictObject({
  changes: z
    .array(
      z.strictObject({
        of: z.enum(['policy', 'secret', 'operator', 'rule', 'trust', 'vault', 'mcp']),
        what: z.string().max(65_536),
        did: z.string().max(64),
        version: z.int().min(0).optional(),
        digest: z
          .string()
          .regex(/^[0-9a-f]{64}$/)
          .optional(),
        by: z.string().max(256),
      }),
    )
    .max(1_000),
})

/** Every call that the operator's commands make, but for the streams. */
export function addOperatorRoutes(app: FastifyInstance, host: Host, signal: AbortSignal, surface: Surface): void {
  const { sessions, state, leases, secrets, audit } = host
  app.get('/v1/status', () => ({ version: VERSION, pid: process.pid, sessions: sessions.list().length }))
  addSessionRoutes(app, sessions, (session) => secrets.shown(session))
  addMcpRoutes(app, host.servers, surface)
  app.post<ById>('/v1/sessions/:id/selftest', async ({ params }) => {
    const target = await sessions.selftestTarget(params.id)
    return runSelftest(target, target.setting, signal)
  })

  app.get('/v1/workspaces', () => ({ kept: host.kept() }))
  app.post('/v1/projects', async ({ body }) => ({ session: await sessions.register(read(Registration, body).name) }))

  app.get('/v1/leases', () => ({ leases: state.leases() }))
  app.post<ById>('/v1/leases/:id/revoke', async ({ params }) => {
    const lease = state.leases().find(({ id, session }) => id === params.id || session === params.id)
    if (lease === undefined)
      throw new SallyportError('session_not_found', `there is no lease or session "${params.id}"`, {
        hint: 'sallyport lease ls lists them',
      })
    await audit.append({ event: 'operator', did: 'lease_revoked', details: lease.session })
    state.revokeLeases(lease.session)
    leases.revoke(lease.session)
    await sessions.revoke(lease.session)
    return {}
  })
  app.post('/v1/leases/rotate-key', async ({ body }) => {
    const { now } = read(Rotation, body ?? {})
    await audit.append({ event: 'operator', did: 'lease_key_rotated', ...(now && { details: 'no earlier lease is valid' }) })
    await leases.rotateKey({ now })
    return {}
  })

  app.post('/v1/audit/changes', async ({ body }) => {
    for (const change of read(Changes, body).changes) await audit.append({ event: 'config_changed', ...change })
    return {}
  })
}
