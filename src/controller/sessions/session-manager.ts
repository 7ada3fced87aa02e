import { rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { StateRow } from '../state.ts'
import { adoptSessions, reapStrays } from './adopt.ts'
import { auditEvent, bringUp, startAgent, type Rising, type Step as Progress } from './bring-up.ts'
import { createVerified, verifyContainer } from './containers.ts'
import type { EngineEvent } from './engine.ts'
import { createTurns } from '../turns.ts'
import { createEventHub } from './event-hub.ts'
import { openRelay, type Relay } from './forward.ts'
import { newLive, type LiveSession } from './gate.ts'
import { controlStream } from './gate-ready.ts'
import { planSession } from './plan-session.ts'
import { engineName, newSessionId, sessionFolder, sessionName, sessionOf } from './session-names.ts'
import type { OnPull, ResetReport, SessionEvent, SessionParts, SessionRecord, SessionView, UpRequest } from './session-parts.ts'
import { startSibling } from './siblings.ts'
import { endSiblings } from './siblings-held.ts'
import { removeLeftSiblings } from './siblings-left.ts'
import type { Sibling, SiblingWish } from './sibling.ts'
import { takeDown } from './take-down.ts'
import { watchEngine } from './watch.ts'
import { watchWorkspace } from './workspace-alerts.ts'

/** Who hears how a session comes up. */
type Watching = { readonly step: Progress; readonly pull: OnPull }

/** What is in memory of this home's sessions, and the one who watches over them. */
export class SessionManager {
  readonly hub = createEventHub<SessionEvent>()
  readonly #parts: SessionParts
  readonly #live = new Map<string, LiveSession>()
  /** On their way to be recorded: their folders are not what somebody left. */
  readonly #planned = new Set<string>()
  /** One run at a time for each session. */
  readonly #ending = new Map<string, Promise<readonly string[]>>()
  readonly #over = new AbortController()
  readonly #rises = createTurns(Math.min(availableParallelism(), LIMITS.sessionsRisingMax))
  readonly #background: Promise<unknown>[] = []

  constructor(parts: SessionParts) {
    this.#parts = parts
  }

  async up(request: UpRequest, signal: AbortSignal, progress: Watching): Promise<SessionView> {
    const id = newSessionId(this.#parts.system)
    const name = sessionName(request.name, request.workspace, id)
    this.#refuseTaken(name)
    const stop = AbortSignal.any([signal, this.#over.signal])
    return await this.#rises.take(stop, () => this.#rise(request, { id, name }, progress, stop))
  }

  async #rise(request: UpRequest, names: Pick<Rising, 'id' | 'name'>, progress: Watching, stop: AbortSignal): Promise<SessionView> {
    const { state } = this.#parts
    const { id, name } = names
    const rising = await this.#plan(request, names, progress, stop)
    this.#live.set(id, rising.live)
    this.#emit(id, name, 'starting')
    try {
      const step = (what: string): void => {
        state.step(id, what)
        progress.step(what)
      }
      rising.live.rising = [stop]
      await bringUp(this.#parts, rising, step, stop)
      // From here on it is of no matter to the session whether somebody waits for it.
      rising.live.rising = undefined
      this.#watchOver(rising.live)
      const { agent } = rising.record.ids
      if (request.tty && request.size !== undefined && agent !== undefined) await this.#parts.engine.resize(agent, request.size)
      step('running')
    } catch (error) {
      await Promise.allSettled(rising.pending)
      await this.#fail(id, error)
      throw error
    }
    this.#emit(id, name, 'running')
    return this.view(this.find(id))
  }

  /** Recorded when it resolves, and nothing is left of it when it does not. */
  async #plan(request: UpRequest, names: Pick<Rising, 'id' | 'name'>, progress: Watching, stop: AbortSignal): Promise<Rising> {
    const { id, name } = names
    const { home, state } = this.#parts
    this.#planned.add(id)
    try {
      progress.step('plan')
      const planned = await planSession(this.#parts, request, names, { signal: stop, onPull: progress.pull })
      stop.throwIfAborted()
      this.#refuseTaken(name)
      const rising: Rising = { ...planned, live: newLive(id), onGate: this.#onGate(id), pending: [] }
      await this.#parts.audit(auditEvent(rising, 'starting'))
      // Once more: another may have taken it while this one was written down.
      this.#refuseTaken(name)
      state.begin({ id, name, step: 'begin', record: rising.record })
      return rising
    } catch (error) {
      rmSync(sessionFolder(home, id), { recursive: true, force: true })
      throw error
    } finally {
      this.#planned.delete(id)
    }
  }

  async adopt(signal: AbortSignal): Promise<void> {
    const stop = AbortSignal.any([signal, this.#over.signal])
    for (const { row, live } of await adoptSessions(this.#parts, (id) => this.#onGate(id), stop)) {
      this.#live.set(row.id, live)
      this.#watchOver(live)
    }
    const { engine, home, log } = this.#parts
    const report = (code: string): void => log.error({ code }, 'the engine is away; sessions are looked at when it is back')
    const over = this.#over.signal
    this.#background.push(
      watchEngine(
        engine,
        home,
        (event) => this.#onEvent(event),
        () => this.#resync(),
        report,
        over,
      ),
      delay(LIMITS.reapAgainMs, undefined, { signal: over, ref: false })
        .then(() => reapStrays(this.#parts, this.#planned))
        .catch((error: unknown) => {
          if (!over.aborted) log.warn({ code: codeOf(error) }, 'leftovers could not be looked for')
        }),
    )
  }

  /** Once, however many ask. */
  down(id: string, outcome: 'ended' | 'failed', details: readonly string[] = []): Promise<readonly string[]> {
    const running = this.#ending.get(id)
    if (running !== undefined) return running
    const ending = this.#takeDown(id, outcome, details).finally(() => this.#ending.delete(id))
    this.#ending.set(id, ending)
    return ending
  }

  async #takeDown(id: string, outcome: 'ended' | 'failed', details: readonly string[]): Promise<readonly string[]> {
    const row = this.find(id)
    if (row.state === 'ended' || row.state === 'failed') return []
    const record = recordOf(row)
    const planted = await takeDown(this.#parts, id, this.#live.get(id), record, outcome)
    this.#live.delete(id)
    this.#emit(id, row.name, outcome, { details: [...details, ...planted] })
    await this.#parts.audit(auditEvent({ id, name: row.name, record }, outcome, [...details, ...planted]))
    return planted
  }

  async reset(session: string): Promise<ResetReport> {
    const row = this.find(session)
    const { id, name } = row
    const record = recordOf(row)
    const { agent, ids } = record
    const live = this.#live.get(id)
    if (row.state !== 'running' || live === undefined || agent === undefined || ids.agent === undefined)
      throw notRunning(session, `is ${row.state}`)
    const { engine, state } = this.#parts
    const info = await engine.info()
    try {
      // Its variables are in the engine alone: the lease is one of them.
      const found = await verifyContainer(engine, ids.agent, agent, info)
      await this.#parts.audit(auditEvent({ id, name, record }, 'reset'))
      state.step(id, 'reset')
      await engine.remove(ids.agent)
      const container = await createVerified(engine, { ...agent.options, Env: found.Config.Env ?? [] }, agent, info)
      const next = { ...record, ids: { ...ids, agent: container } }
      state.save(id, next)
      await startAgent(this.#parts, live, { ...next, id }, container, info)
    } catch (error) {
      // As long as nothing was done, only a difference ends it.
      const isUntouched = this.find(id).step === 'running'
      if (!isUntouched || (error instanceof SallyportError && error.code === 'session_unverified')) await this.#fail(id, error)
      throw error
    }
    state.step(id, 'running')
    this.#emit(id, name, 'reset')
    const { Mounts, Tmpfs } = agent.options.HostConfig
    return { wiped: Object.keys(Tmpfs), kept: Mounts.flatMap(({ Source, ReadOnly }) => (ReadOnly ? [] : Source)) }
  }

  async revoke(session: string): Promise<void> {
    const { id, record } = this.find(session)
    const { sidecar } = (record as SessionRecord).ids
    const ended = this.#endSiblings(id, `the leases of session ${id} were revoked`)
    try {
      await this.link(id).revoke()
    } catch (error) {
      this.#parts.log.warn({ session: id, code: codeOf(error) }, 'the gate did not confirm that its secrets are gone: it is stopped')
      if (sidecar !== undefined) await this.#parts.engine.kill(sidecar, 'SIGKILL')
    }
    await ended
  }

  /** @throws session_not_found, session_not_running, session_revoked, and whatever `startSibling` of siblings.ts does */
  async startSibling(session: string, wish: SiblingWish, signal: AbortSignal): Promise<Sibling> {
    const { live, record, row } = this.agent(session, 'or ended')
    if (this.#parts.state.isRevoked(row.id)) throw new SallyportError('session_revoked', `the leases of session ${row.id} were revoked`)
    if (!live.gateHealthy) throw notRunning(session, 'has a gate that is away')
    return await startSibling(this.#parts, { id: row.id, live, record }, wish, signal)
  }

  async forward(session: string, port: number) {
    if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new SallyportError('usage', `"${port}" is no port`)
    const { id: agent, live, record, row } = this.agent(session)
    if (live.relay === undefined) {
      const found = await this.#parts.engine.inspect(agent)
      const address = found?.NetworkSettings.Networks[engineName(row.id, 'jail')]?.IPAddress
      if (!address || record.ids.sidecar === undefined) throw notRunning(session, 'has no address')
      const user = record.sidecar?.options.User ?? ''
      const relay: Promise<Relay> = openRelay(this.#parts.engine, record.ids.sidecar, user, address, () => {
        if (live.relay === relay) live.relay = undefined
      })
      relay.catch(() => (live.relay = undefined))
      live.relay = relay
    }
    return await (await live.relay).open(port)
  }

  /** @throws session_not_found */
  find(session: string): StateRow {
    const row = this.#parts.state.find(session)
    if (row !== undefined) return row
    throw new SallyportError('session_not_found', `there is no session "${session}"`, { hint: 'sallyport ls lists those that run' })
  }

  /** @throws session_not_found, session_not_running */
  agent(session: string, which: 'running' | 'or ended' = 'running') {
    const row = this.find(session)
    const record = recordOf(row)
    const live = this.#live.get(row.id)
    if (row.state !== 'running' || live === undefined || record.ids.agent === undefined) throw notRunning(session, `is ${row.state}`)
    if (!live.agentRunning && which === 'running')
      throw notRunning(session, `has an agent that ended with code ${live.agentExitCode ?? '?'}`)
    return { id: record.ids.agent, record, live, row }
  }

  /** @throws session_not_running */
  link(id: string) {
    const link = this.#live.get(id)?.link
    if (link === undefined) throw notRunning(id, 'has no gate')
    return link
  }

  view({ id, name, state, createdAt, record }: StateRow): SessionView {
    const { workspace, harness, harnessInUse = harness, role, ids, warnings, alerts = [], image, selftestAt } = record as SessionRecord
    const live = this.#live.get(id)
    const { agentRunning = false, agentExitCode, gateHealthy = false } = live ?? {}
    return {
      id,
      name,
      state,
      workspace,
      harness: harnessInUse ?? null,
      ...(role !== undefined && { role }),
      agent: {
        ...(ids.agent !== undefined && { container: ids.agent }),
        running: agentRunning,
        ...(agentExitCode !== undefined && { exitCode: agentExitCode }),
      },
      sidecar: { ...(ids.sidecar !== undefined && { container: ids.sidecar }), healthy: gateHealthy },
      ...(ids.jail !== undefined && { network: engineName(id, 'jail') }),
      createdAt,
      warnings,
      alerts,
      ...(image !== undefined && { image }),
      ...(selftestAt !== undefined && { selftestAt }),
      isRevoked: this.#parts.state.isRevoked(id),
    }
  }

  /** The controller ends; sessions go on, and the next one adopts them. */
  async dispose(): Promise<void> {
    this.#over.abort(new SallyportError('session_not_running', 'the controller ends'))
    await Promise.allSettled([...this.#background, ...this.#ending.values()])
    for (const live of this.#live.values()) {
      await this.#endSiblings(live.id, 'the controller ends')
      live.watching?.[Symbol.dispose]()
      const relay = await live.relay?.catch(() => undefined)
      await relay?.[Symbol.asyncDispose]()
      await live.link?.[Symbol.asyncDispose]()
    }
    this.#live.clear()
  }

  /** What of them does not go now is removed with the session, or when the engine is back. Never rejects. */
  async #endSiblings(id: string, why: string): Promise<void> {
    const live = this.#live.get(id)
    if (live === undefined) return
    await endSiblings(live.siblings, new SallyportError('session_not_running', why)).catch((error: unknown) =>
      this.#parts.log.error({ session: id, code: codeOf(error) }, 'a container beside an agent could not be removed yet'),
    )
  }

  #watchOver(live: LiveSession): void {
    watchWorkspace(this.#parts, live, (name, details) => this.#emit(live.id, name, 'uncovered', { details }))
  }

  #refuseTaken(name: string): void {
    if (!this.#parts.state.live().some((row) => row.name === name)) return
    throw new SallyportError('config_invalid', `there is a session "${name}" already`, {
      hint: 'end it, or choose another name with --name',
    })
  }

  #onGate(id: string) {
    return (state: 'connected' | 'ready' | 'lost'): void => {
      const row = this.#parts.state.row(id)
      // Its ways in their networks are gone with it, and what they were to get through is lost.
      if (state === 'lost') void this.#endSiblings(id, `the gate of session ${id} is gone`)
      if (row?.state === 'running' && state !== 'connected') this.#emit(id, row.name, state === 'lost' ? 'gate_lost' : 'gate_ready')
    }
  }

  async #onEvent(event: EngineEvent): Promise<void> {
    const id = sessionOf(this.#parts.home, event)
    if (id === undefined) return
    const row = this.#parts.state.row(id)
    const live = this.#live.get(id)
    if (row === undefined || live === undefined || this.#ending.has(id)) return
    const record = recordOf(row)
    const isAgent = event.container === record.ids.agent
    if (!isAgent && event.container !== record.ids.sidecar) return
    if (event.action === 'die') {
      if (isAgent) {
        live.agentRunning = false
        live.agentExitCode = event.exitCode
        this.#emit(id, row.name, 'agent_ended', event.exitCode === undefined ? {} : { exitCode: event.exitCode })
      } else {
        live.gateHealthy = false
        this.#emit(id, row.name, 'gate_lost')
      }
      return
    }
    if ((event.action === 'start' || event.action === 'update') && row.state === 'running' && row.step === 'running')
      await this.#lookAgain(row, isAgent ? 'agent' : 'sidecar', event.action === 'start')
  }

  /** Somebody else than us started or changed it: it goes on only as what was asked for. */
  async #lookAgain(row: StateRow, which: 'agent' | 'sidecar', isStarted: boolean): Promise<void> {
    const { engine } = this.#parts
    const record = recordOf(row)
    const live = this.#live.get(row.id)
    const container = record.ids[which]
    const asked = record[which]
    if (live === undefined || container === undefined || asked === undefined) return
    try {
      const visits = which === 'sidecar' ? live.siblings.visits : undefined
      const found = await verifyContainer(engine, container, asked, await engine.info(), visits)
      if (which === 'agent') live.agentRunning = found.State.Running
      else if (isStarted && record.control === 'stdio') live.link?.attach(await controlStream(engine, container, live))
    } catch (error) {
      if (error instanceof SallyportError && error.code === 'engine_unavailable') throw error
      await this.#fail(row.id, error)
    }
  }

  /** After the engine was away. */
  async #resync(): Promise<void> {
    for (const row of this.#parts.state.live()) {
      if (row.state !== 'running' || !this.#live.has(row.id)) continue
      await this.#lookAgain(row, 'agent', false)
      await this.#lookAgain(row, 'sidecar', true)
      const held = this.#live.get(row.id)?.siblings.names
      if (held !== undefined) await removeLeftSiblings(this.#parts, row.id, recordOf(row).ids.sidecar, held)
    }
    await reapStrays(this.#parts, this.#planned)
  }

  /** The session ends for this reason, which is recorded. What cannot be removed now is at the next start. */
  async #fail(id: string, error: unknown): Promise<void> {
    const reason = error instanceof SallyportError ? `${error.code}: ${error.message}` : codeOf(error)
    const row = this.find(id)
    if (error instanceof SallyportError && error.code === 'session_unverified')
      await this.#parts
        .audit(auditEvent({ id, name: row.name, record: recordOf(row) }, 'unverified', error.message.split('\n').slice(1)))
        .catch((fault: unknown) => this.#parts.log.error({ session: id, code: codeOf(fault) }, 'a difference could not be recorded'))
    await this.down(id, 'failed', [reason]).catch((fault: unknown) =>
      this.#parts.log.error({ session: id, code: codeOf(fault) }, 'a session that failed could not be removed yet'),
    )
  }

  #emit(session: string, name: string, event: SessionEvent['event'], more: Pick<SessionEvent, 'exitCode' | 'details'> = {}): void {
    this.hub.emit({ at: this.#parts.system.now(), session, name, event, ...more })
  }
}

export function recordOf(row: StateRow): SessionRecord {
  return row.record as SessionRecord
}

export function notRunning(session: string, why: string): SallyportError {
  return new SallyportError('session_not_running', `session "${session}" ${why}`, { hint: 'sallyport ls lists those that run' })
}
