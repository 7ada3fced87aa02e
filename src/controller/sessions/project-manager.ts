import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import type { StateRow } from '../state.ts'
import { auditEvent } from './bring-up.ts'
import type { EngineEvent, ListedContainer } from './engine.ts'
import { newLive, openGateLink, type LiveSession } from './gate.ts'
import { canMountSocket } from './plan-session.ts'
import { findProject, projectSocketFolder, projectsOf, type ProjectFile } from './project-file.ts'
import { homeLabel, newSessionId } from './session-names.ts'
import type { SessionEvent, SessionParts, SessionRecord, SessionView } from './session-parts.ts'
import { endAgents, removeContainers } from './take-down.ts'
import { watchEngine } from './watch.ts'

type ProjectRecord = SessionRecord & { readonly project: string }
type ProjectRow = StateRow & { readonly record: ProjectRecord }
type Emit = (event: SessionEvent) => void

/** On its row's step until a gate has come: nobody's session yet. */
const WAITING = 'waiting'
const SERVICE = 'com.docker.compose.service'

/**
 * I55: Sessions whose containers docker compose makes. For each project of the home a socket and a lease wait in a folder that its gate
 * mounts; a session begins when a gate comes, and ends when the project's containers are gone. Then the next one waits.
 */
export class ProjectManager {
  readonly #parts: SessionParts
  readonly #emitTo: Emit
  readonly #live = new Map<string, LiveSession>()
  readonly #over = new AbortController()
  /** One change after the other. */
  #changes: Promise<unknown> = Promise.resolve()
  #watching: Promise<void> | undefined

  constructor(parts: SessionParts, emit: Emit) {
    this.#parts = parts
    this.#emitTo = emit
  }

  /** @throws config_invalid, control_socket_invalid, engine_unavailable */
  register(name: string): Promise<SessionView> {
    return this.#serially(async () => {
      const project = findProject(this.#parts.home, name)
      if (project === undefined)
        throw new SallyportError('config_invalid', `there is no compose project "${name}" in ${this.#parts.home}`, {
          hint: 'sallyport compose makes one',
        })
      const found = this.#rowOf(name)
      if (found !== undefined && !isWaiting(found)) return this.view(found)
      if (found !== undefined) await this.#forget(found, 'ended')
      return this.view(await this.#begin(project))
    })
  }

  /** Those that a gate has come to. */
  list(): SessionView[] {
    return this.#rows().flatMap((row) => (isWaiting(row) ? [] : this.view(row)))
  }

  view({ id, name, state, createdAt, record }: StateRow): SessionView {
    const { workspace, project, warnings } = record as SessionRecord
    const isHealthy = this.#live.get(id)?.gateHealthy ?? false
    return {
      id,
      name,
      state,
      workspace,
      harness: null,
      ...(project !== undefined && { project }),
      agent: { running: state === 'running' },
      sidecar: { healthy: isHealthy },
      createdAt,
      warnings,
      alerts: [],
      isRevoked: this.#parts.state.isRevoked(id),
    }
  }

  /** @throws session_not_running */
  link(id: string) {
    const link = this.#live.get(id)?.link
    if (link === undefined) throw new SallyportError('session_not_running', `session "${id}" has no gate`)
    return link
  }

  /** As `docker compose down` does, by labels. */
  down(id: string): Promise<readonly string[]> {
    return this.#serially(async () => {
      const row = this.#rows().find((one) => one.id === id)
      return row === undefined ? [] : await this.#end(row, 'ended', { removes: true })
    })
  }

  async revoke(id: string): Promise<void> {
    try {
      await this.link(id).revoke()
    } catch (error) {
      this.#parts.log.warn({ session: id, code: codeOf(error) }, 'the gate did not confirm that its secrets are gone: it is stopped')
      const row = this.#rows().find((one) => one.id === id)
      const gates = row === undefined ? [] : (await this.#containers(row.record.project)).filter(isService('sidecar'))
      // One that is started again finds nobody who answers its lease.
      await Promise.all(gates.map((gate) => this.#parts.engine.kill(gate.id, 'SIGKILL')))
    }
  }

  /** At the start, once. What went down meanwhile is ended, what lives goes on, and every other project of the home is waited for. */
  async adopt(signal: AbortSignal): Promise<void> {
    const { engine, home, log } = this.#parts
    if (!canMountSocket(await engine.info())) return
    await this.#serially(async () => {
      for (const row of this.#rows()) {
        signal.throwIfAborted()
        await this.#resume(row).catch((error: unknown) => {
          if (error instanceof SallyportError && error.code === 'engine_unavailable') throw error
          log.warn({ session: row.id, code: codeOf(error) }, 'a compose project could not be taken over')
        })
      }
      for (const project of projectsOf(home)) {
        if (this.#rowOf(project.name) !== undefined) continue
        await this.#beginOr(project)
      }
    })
    const report = (code: string): void => log.error({ code }, 'the engine is away; compose projects are looked at when it is back')
    const look = (): Promise<void> => this.#lookAtAll()
    this.#watching = watchEngine(engine, home, (event) => this.#onEvent(event), look, report, this.#over.signal)
    // What went between the first look and the watch.
    await this.#lookAtAll()
  }

  /** Sessions go on. Where none is, the gate of a project that comes up meanwhile works without a controller. */
  async dispose(): Promise<void> {
    this.#over.abort(new SallyportError('session_not_running', 'the controller ends'))
    await Promise.allSettled([this.#watching, this.#changes])
    for (const row of this.#rows()) {
      const isFree = isWaiting(row) && this.#live.has(row.id)
      await this.#live.get(row.id)?.link?.[Symbol.asyncDispose]()
      if (isFree) this.#removeLease(row.record.project)
    }
    this.#live.clear()
  }

  async #begin(project: ProjectFile): Promise<ProjectRow> {
    const { state, system, engine } = this.#parts
    if (!canMountSocket(await engine.info()))
      throw new SallyportError('control_socket_invalid', 'no socket of this machine can be mounted into containers of this engine', {
        hint: 'the project works without the daemon; sallyport up works with it',
      })
    const { name, workspace, owner, filesystem, agentLeases, kept } = project
    const record: ProjectRecord = {
      workspace,
      project: name,
      policy: [],
      owner,
      tty: false,
      control: 'unix',
      filesystem,
      warnings: [],
      agentLeases,
      kept,
      ids: {},
    }
    const id = newSessionId(system)
    state.begin({ id, name, step: WAITING, record })
    const row = this.#rowOf(name)
    if (row === undefined) throw new Error('a row that was begun is there')
    try {
      await this.#open(row)
    } catch (error) {
      await this.#forget(row, 'failed')
      throw error
    }
    return row
  }

  /** Others go on where one cannot. */
  async #beginOr(project: ProjectFile): Promise<void> {
    await this.#begin(project).catch((error: unknown) =>
      this.#parts.log.warn({ project: project.name, code: codeOf(error) }, 'a compose project has no socket'),
    )
  }

  async #open({ id, record }: ProjectRow): Promise<void> {
    const live = newLive(id)
    this.#live.set(id, live)
    const parts = {
      ...this.#parts,
      secrets: async (session: string, signal: AbortSignal) => {
        await this.#arrive(session)
        return await this.#parts.secrets(session, signal)
      },
    }
    let isRenewed = false
    await openGateLink(parts, live, record, {
      onState: (state) => {
        if (state === 'connected') return
        void this.#onGate(id, state === 'ready', state === 'ready' && isRenewed)
        if (state === 'ready') isRenewed = false
      },
      renew: () => (isRenewed = true),
    })
  }

  /** Before it has a secret it is recorded as one that has. */
  async #arrive(id: string): Promise<void> {
    const { state, workspace } = this.#parts
    const row = this.#rows().find((one) => one.id === id)
    if (row === undefined) throw new SallyportError('session_not_found', `there is no session "${id}"`)
    if (row.step !== WAITING) return
    const record = { ...row.record, kept: await workspace.renewed(row.record.kept) }
    await this.#parts.audit(auditEvent({ ...row, record }, 'starting', [`compose project ${record.project}`]))
    state.save(id, record)
    state.step(id, 'gate')
  }

  async #onGate(id: string, isReady: boolean, isRenewed: boolean): Promise<void> {
    const row = this.#rows().find((one) => one.id === id)
    if (row === undefined || this.#over.signal.aborted) return
    if (row.state !== 'starting') this.#emit(row, isReady ? 'gate_ready' : 'gate_lost')
    if (!isReady) return
    try {
      if (row.state === 'starting') {
        await this.#parts.audit(auditEvent(row, 'running'))
        this.#parts.state.move(id, 'running')
        this.#parts.state.step(id, 'running')
        this.#emit(row, 'running')
      }
      if (isRenewed) await this.#renewTrust(row.record.project)
    } catch (error) {
      this.#parts.log.error({ session: id, code: codeOf(error) }, 'a compose project could not be taken on')
    }
  }

  /** The gate has another authority than an agent that runs already trusts: what made the agent's roots is run again. */
  async #renewTrust(project: string): Promise<void> {
    const containers = await this.#containers(project)
    if (!containers.some((one) => isService('agent')(one) && one.isRunning)) return
    for (const one of containers) if (isService('trust')(one) && !one.isRunning) await this.#parts.engine.start(one.id)
  }

  async #resume(row: ProjectRow): Promise<void> {
    const { state, home } = this.#parts
    const { project } = row.record
    const file = findProject(home, project)
    if (isWaiting(row)) {
      if (file === undefined) return await this.#forget(row, 'ended')
      return await this.#open(row)
    }
    const isRevoked = state.isRevoked(row.id)
    const isGone = (await this.#containers(project)).length === 0
    if (isRevoked || isGone || row.state === 'stopping' || file === undefined)
      return void (await this.#end(row, 'ended', { removes: isRevoked || row.state === 'stopping' }))
    await this.#parts.audit(auditEvent(row, 'adopted'))
    await this.#open(row)
  }

  async #onEvent({ action, labels }: EngineEvent): Promise<void> {
    const project = labels['sallyport.project']
    if (project === undefined || action !== 'destroy') return
    await this.#serially(() => this.#look(project))
  }

  async #lookAtAll(): Promise<void> {
    for (const { record } of this.#rows()) await this.#serially(() => this.#look(record.project))
  }

  /** A project that is made anew has its next containers before the last of the ones before is gone. */
  async #look(project: string): Promise<void> {
    const row = this.#rowOf(project)
    if (row === undefined || isWaiting(row) || (await this.#containers(project)).length > 0) return
    await this.#end(row, 'ended', { removes: false })
  }

  async #end(row: ProjectRow, outcome: 'ended' | 'failed', { removes }: { readonly removes: boolean }): Promise<readonly string[]> {
    const { state, leases, workspace, home } = this.#parts
    const { id, record } = row
    state.move(id, 'stopping')
    state.revokeLeases(id)
    leases.revoke(id)
    const withdrawn = this.#parts.requests?.endSession(id)
    const live = this.#live.get(id)
    if (removes) {
      await live?.link
        ?.revoke()
        .catch((error: unknown) => this.#parts.log.warn({ session: id, code: codeOf(error) }, 'the gate did not confirm its end'))
      await this.#remove(record.project)
    }
    await withdrawn
    const planted = await workspace.look(record.kept)
    await this.#forget(row, outcome)
    if (!isWaiting(row)) this.#emit(row, outcome, planted)
    try {
      if (!isWaiting(row)) await this.#parts.audit(auditEvent(row, outcome, planted))
    } finally {
      const next = findProject(home, record.project)
      if (next !== undefined && !this.#over.signal.aborted) await this.#beginOr(next)
    }
    return planted
  }

  /** Volumes stay, as with docker compose: the next session of the project goes on with them. */
  async #remove(project: string): Promise<void> {
    const { engine } = this.#parts
    const containers = await this.#containers(project)
    await endAgents({ engine }, containers.filter(isService('agent')))
    await removeContainers({ engine }, containers)
    const mine = Object.entries(this.#labels(project))
    const networks = (await engine.networks()).filter(({ labels }) => mine.every(([name, value]) => labels[name] === value))
    await Promise.all(networks.map(({ id }) => engine.removeNetwork(id)))
  }

  /** Nothing of it is left here. */
  async #forget({ id, record }: ProjectRow, outcome: 'ended' | 'failed'): Promise<void> {
    await this.#live.get(id)?.link?.[Symbol.asyncDispose]()
    this.#live.delete(id)
    this.#removeLease(record.project, id)
    this.#parts.state.move(id, outcome)
  }

  /** @param session only where it is this one's */
  #removeLease(project: string, session?: string): void {
    const folder = projectSocketFolder(this.#parts.home, project)
    try {
      if (session !== undefined && readFileSync(join(folder, 'session'), 'utf8') !== session) return
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'ENOTDIR') throw error
    }
    for (const name of ['lease', 'session']) rmSync(join(folder, name), { force: true })
  }

  #containers(project: string): Promise<ListedContainer[]> {
    return this.#parts.engine.containers(this.#labels(project))
  }

  #labels(project: string): Record<string, string> {
    return { ...homeLabel(this.#parts.home), 'sallyport.project': project }
  }

  #rows(): ProjectRow[] {
    return this.#parts.state.live().filter((row): row is ProjectRow => (row.record as SessionRecord).project !== undefined)
  }

  #rowOf(project: string): ProjectRow | undefined {
    return this.#rows().find(({ record }) => record.project === project)
  }

  #emit({ id, name }: StateRow, event: SessionEvent['event'], details: readonly string[] = []): void {
    this.#emitTo({ at: this.#parts.system.now(), session: id, name, event, ...(details.length > 0 && { details }) })
  }

  #serially<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changes.then(change)
    this.#changes = done.catch(() => undefined)
    return done
  }
}

function isWaiting({ state, step }: StateRow): boolean {
  return state === 'starting' && step === WAITING
}

function isService(name: string) {
  return ({ labels }: ListedContainer): boolean => labels[SERVICE] === name
}
