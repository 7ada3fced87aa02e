import { selftestTarget } from './probe.ts'
import { policyFolder } from './session-names.ts'
import type { SessionParts, Sessions } from './session-parts.ts'
import { notRunning, recordOf, SessionManager } from './session-manager.ts'

export type { SessionParts, SessionRecord, Sessions } from './session-parts.ts'

/** The sessions of one home. Nothing runs before `adopt`. */
export function createSessions(parts: SessionParts): Sessions {
  const manager = new SessionManager(parts)
  return {
    up: (request, signal, progress) => manager.up(request, signal, progress),
    list: () => parts.state.live().map((row) => manager.view(row)),
    async inspect(session) {
      const row = manager.find(session)
      const { owner, control, filesystem, jail, agent, sidecar } = recordOf(row)
      const asked = { ...(agent && { agent: agent.options }), ...(sidecar && { sidecar: sidecar.options }) }
      const user = agent?.options.User ?? `${owner.uid}:${owner.gid}`
      return { ...manager.view(row), step: row.step, user, control, filesystem, ...(jail && { jail }), asked }
    },
    down: async (session) => await manager.down(manager.find(session).id, 'ended'),
    reset: (session) => manager.reset(session),
    async attach(session, { size, replay = false } = {}) {
      const { id, record } = manager.agent(session, 'or ended')
      const stream = await parts.engine.attach(id, { tty: record.tty, replay })
      const found = await parts.engine.inspect(id)
      if (found?.State.Running !== true) {
        // It was quicker: whoever asked for it still gets what it printed, and its code.
        stream.stream.destroy()
        return await parts.engine.attach(id, { tty: record.tty, replay: 'only' })
      }
      if (record.tty && size !== undefined) await stream.resize(size)
      return stream
    },
    async exec(session, argv, { tty, size, folder = '/workspace', environment = {} }) {
      const { id, record } = manager.agent(session)
      const user = record.agent?.options.User ?? ''
      return await parts.engine.exec(id, { argv, user, folder, environment, tty, ...(size !== undefined && { size }) })
    },
    logs(session, { of = 'agent', ...options }, signal) {
      const id = recordOf(manager.find(session)).ids[of]
      if (id === undefined) throw notRunning(session, `has no ${of} yet`)
      return parts.engine.logs(id, options, signal)
    },
    forward: (session, port) => manager.forward(session, port),
    resize: async (session, size) => await parts.engine.resize(manager.agent(session).id, size),
    async wait(session, signal) {
      const id = recordOf(manager.find(session)).ids.agent
      if (id === undefined) throw notRunning(session, 'has no agent yet')
      return await parts.engine.wait(id, signal)
    },
    events: (signal) => manager.hub.listen(signal),
    adopt: (signal) => manager.adopt(signal),
    async refreshPolicy(session) {
      const row = manager.find(session)
      const record = recordOf(row)
      await parts.refreeze({ id: row.id, workspace: record.workspace, policyFolder: policyFolder(parts.home, row.id) }, record)
      await manager.link(row.id).pushPolicy()
    },
    pushSecrets: (session, bundle) => manager.link(manager.find(session).id).pushSecrets(bundle),
    revoke: (session) => manager.revoke(session),
    async selftestTarget(session) {
      const row = manager.find(session)
      return selftestTarget(parts, recordOf(row), row.id, await parts.engine.info())
    },
    [Symbol.asyncDispose]: () => manager.dispose(),
  }
}
