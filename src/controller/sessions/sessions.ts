import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { selftestTarget } from './probe.ts'
import { siblingImage } from './sibling-image.ts'
import { previewSession } from './preview.ts'
import { ProjectManager } from './project-manager.ts'
import { lookAtSandbox } from './sandbox.ts'
import { policyFolder } from './session-names.ts'
import type { SessionParts, Sessions } from './session-parts.ts'
import { createUsage } from './usage.ts'
import { notRunning, recordOf, SessionManager } from './session-manager.ts'

export type { SessionParts, SessionRecord, Sessions } from './session-parts.ts'
export { checkWish, PINNED } from './sibling-wish.ts'
export type { Sibling, SiblingEnd, SiblingImage, SiblingWish } from './sibling.ts'

/** The sessions of one home. Nothing runs before `adopt`. */
export function createSessions(parts: SessionParts): Sessions {
  const manager = new SessionManager(parts)
  const projects = new ProjectManager(parts, (event) => manager.hub.emit(event))
  return {
    up: (request, signal, progress, onPull) => manager.up(request, signal, { step: progress, pull: onPull ?? (() => undefined) }),
    register: (project) => projects.register(project),
    list: () => [
      ...parts.state.live().flatMap((row) => (recordOf(row).project === undefined ? manager.view(row) : [])),
      ...projects.list(),
    ],
    async inspect(session) {
      const row = manager.find(session)
      const { owner, control, filesystem, jail, agent, sidecar } = recordOf(row)
      const asked = { ...(agent && { agent: agent.options }), ...(sidecar && { sidecar: sidecar.options }) }
      const user = agent?.options.User ?? `${owner.uid}:${owner.gid}`
      const view = recordOf(row).project === undefined ? manager.view(row) : projects.view(row)
      return { ...view, step: row.step, user, control, filesystem, ...(jail && { jail }), asked }
    },
    preview: (request) => previewSession(parts, request),
    usage: createUsage(parts.engine, () => runningOf(parts, manager), parts.system),
    async down(session) {
      const row = manager.find(session)
      return recordOf(row).project === undefined ? await manager.down(row.id, 'ended') : await projects.down(row.id)
    },
    ...agentVerbs(parts, manager),
    events: (signal) => manager.hub.listen(signal),
    async adopt(signal) {
      await manager.adopt(signal)
      await projects.adopt(signal)
    },
    async refreshPolicy(session) {
      const row = manager.find(session)
      const record = recordOf(row)
      if (record.project === undefined)
        await parts.refreeze({ id: row.id, workspace: record.workspace, policyFolder: policyFolder(parts.home, row.id) }, record)
      const link = record.project === undefined ? manager.link(row.id) : projects.link(row.id)
      try {
        await link.pushPolicy()
      } catch (error) {
        // It has a secret that the one before had not: its gate takes both together.
        if (codeOf(error) !== 'secret_missing') throw error
        await link.pushSecrets(await parts.secrets(row.id, AbortSignal.timeout(LIMITS.sidecarReadyMs)))
      }
    },
    async pushSecrets(session, bundle) {
      const row = manager.find(session)
      const link = recordOf(row).project === undefined ? manager.link(row.id) : projects.link(row.id)
      await link.pushSecrets(bundle)
    },
    async testServer(session, server, pass) {
      const row = manager.find(session)
      const link = recordOf(row).project === undefined ? manager.link(row.id) : projects.link(row.id)
      return await link.testServer(server, pass)
    },
    async revoke(session) {
      const row = manager.find(session)
      const withdrawn = parts.requests?.endSession(row.id)
      await (recordOf(row).project === undefined ? manager.revoke(row.id) : projects.revoke(row.id))
      await withdrawn
      manager.hub.emit({ at: parts.system.now(), session: row.id, name: row.name, event: 'revoked' })
    },
    async [Symbol.asyncDispose]() {
      await projects.dispose()
      await manager.dispose()
    },
  }
}

/** Whose agent runs, with its container. */
function runningOf({ state }: SessionParts, manager: SessionManager): { readonly id: string; readonly container: string }[] {
  return state.live().flatMap((row) => {
    if (row.state !== 'running' || recordOf(row).project !== undefined) return []
    const { running, container } = manager.view(row).agent
    return running && container !== undefined ? [{ id: row.id, container }] : []
  })
}

type AgentVerbs =
  | 'sandbox'
  | 'reset'
  | 'attach'
  | 'exec'
  | 'logs'
  | 'forward'
  | 'resize'
  | 'wait'
  | 'selftestTarget'
  | 'startSibling'
  | 'siblingImage'

/** What is done to the containers of a session: to those that were made here. */
function agentVerbs(parts: SessionParts, manager: SessionManager): Pick<Sessions, AgentVerbs> {
  /** @throws usage for a session that docker compose makes the containers of */
  const own = (session: string): string => {
    const { project } = recordOf(manager.find(session))
    if (project === undefined) return session
    throw new SallyportError('usage', `session "${session}" is a compose project`, {
      hint: `its containers are docker compose's: docker compose -p ${project} exec agent bash, or logs, or restart`,
    })
  }
  return {
    async sandbox(session) {
      const { record, live, row } = manager.agent(own(session), 'or ended')
      return await lookAtSandbox(parts, row.id, record, live.siblings.visits)
    },
    reset: (session) => manager.reset(own(session)),
    async attach(session, { size, replay = false } = {}) {
      const { id, record } = manager.agent(own(session), 'or ended')
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
      const { id, record } = manager.agent(own(session))
      const user = record.agent?.options.User ?? ''
      return await parts.engine.exec(id, { argv, user, folder, environment, tty, ...(size !== undefined && { size }) })
    },
    logs(session, { of = 'agent', ...options }, signal) {
      const id = recordOf(manager.find(own(session))).ids[of]
      if (id === undefined) throw notRunning(session, `has no ${of} yet`)
      return parts.engine.logs(id, options, signal)
    },
    forward: (session, port) => manager.forward(own(session), port),
    resize: async (session, size) => await parts.engine.resize(manager.agent(own(session)).id, size),
    async wait(session, signal) {
      const id = recordOf(manager.find(own(session))).ids.agent
      if (id === undefined) throw notRunning(session, 'has no agent yet')
      return await parts.engine.wait(id, signal)
    },
    startSibling: (session, wish, signal) => manager.startSibling(own(session), wish, signal),
    async siblingImage(session, image) {
      const row = manager.find(own(session))
      return await siblingImage(parts, row.id, recordOf(row), image)
    },
    async selftestTarget(session) {
      const row = manager.find(own(session))
      return selftestTarget(parts, recordOf(row), row.id, await parts.engine.info())
    },
  }
}
