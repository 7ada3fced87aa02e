import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { removeFolder } from '../remove-folder.ts'
import type { StateRow } from '../state.ts'
import { containersOf } from './bring-up.ts'
import { verifyContainer, verifyNetwork } from './containers.ts'
import type { EngineInfo } from './engine.ts'
import { newLive, openGateLink, type LiveSession } from './gate.ts'
import { controlStream, gateReady, startGate } from './gate-ready.ts'
import { imageRoots } from './image-roots.ts'
import { engineName, homeLabel, isSessionId, labelsOf, sessionFolder, sessionOf, usesFolder } from './session-names.ts'
import type { SessionParts, SessionRecord } from './session-parts.ts'
import { namesIn, writeTrust } from './session-files.ts'
import { removeLeftSiblings } from './siblings-left.ts'
import { removeContainers, removeNetwork, takeDown } from './take-down.ts'

/** What a start finds: sessions that go on, with what is in memory of them. */
export type Adopted = { readonly row: StateRow; readonly live: LiveSession }

/**
 * I40: Takes over what another controller of this home left: a session that was up and whose containers are what was asked for goes on; any
 * other is taken down, with everything that carries its name and labels. What is not this home's is never touched.
 * @throws engine_unavailable
 */
export async function adoptSessions(
  parts: SessionParts,
  onGate: (id: string) => (state: 'connected' | 'ready' | 'lost') => void,
  signal: AbortSignal,
): Promise<Adopted[]> {
  const info = await parts.engine.info()
  const found = await Promise.all(
    parts.state
      .live()
      .filter(isOwn)
      .map(async (row) => {
        const live = await adoptOne(parts, row, info, onGate(row.id), signal)
        return live === undefined ? [] : [{ row, live }]
      }),
  )
  await reapStrays(parts)
  return found.flat()
}

/** Those of compose projects are another's to look after. */
function isOwn({ record }: StateRow): boolean {
  return (record as SessionRecord).project === undefined
}

/**
 * Removes what carries this home's labels and belongs to no session that lives: also its folders.
 * @param planned those that are not recorded yet, and have a folder already
 */
export async function reapStrays(parts: SessionParts, planned: ReadonlySet<string> = new Set()): Promise<void> {
  const { engine, home, state, log } = parts
  const listed = { containers: await engine.containers(homeLabel(home)), networks: await engine.networks() }
  const folders = { sessions: namesIn(join(home, 'sessions')), s: namesIn(join(home, 's')) }
  // Looked up last: a session is recorded before anything of it is made but for its folder.
  const live = new Set([...planned, ...state.live().map(({ id }) => id)])
  const isStray = (one: { readonly name: string; readonly labels: Readonly<Record<string, string>> }): boolean => {
    const session = sessionOf(home, one)
    return session !== undefined && !live.has(session)
  }
  const containers = listed.containers.filter(isStray)
  await removeContainers(parts, containers)
  const networks = listed.networks.filter(isStray)
  await Promise.all(networks.map(({ id }) => removeNetwork(parts, id)))
  for (const one of [...containers, ...networks]) log.warn({ name: one.name }, 'something of a session that is over was removed')
  const short = new Set([...live].map((id) => id.slice(0, 8)))
  const over = [
    ...folders.sessions.filter((name) => isSessionId(name) && !live.has(name)).map((name) => join(home, 'sessions', name)),
    ...folders.s.filter((name) => !short.has(name)).map((name) => join(home, 's', name)),
  ]
  for (const folder of over) rmSync(folder, { recursive: true, force: true })
}

async function adoptOne(
  parts: SessionParts,
  row: StateRow,
  info: EngineInfo,
  onGate: (state: 'connected' | 'ready' | 'lost') => void,
  signal: AbortSignal,
): Promise<LiveSession | undefined> {
  const { id, name } = row
  const record = row.record as SessionRecord
  const event = { session: id, name, workspace: record.workspace }
  const live = newLive(id)
  try {
    if (row.state !== 'running') throw new SallyportError('session_not_running', `it was ${row.state}: ${row.step}`)
    if (parts.state.isRevoked(id)) throw new SallyportError('session_revoked', 'its leases were revoked')
    live.rising = [signal]
    // Nobody reads what they print any more, or could tell them apart: what they were for is over with the controller that began them.
    const left = await removeLeftSiblings(parts, id, record.ids.sidecar)
    // With them what they wrote: nobody will look through it, and there may be values in it.
    removeFolder(usesFolder(parts.home, id))
    // One was being made, perhaps, when that controller died.
    if (left > 0 && record.ids.agent !== undefined) await parts.engine.unpause(record.ids.agent)
    await resume(parts, record, live, info, onGate, signal)
    live.rising = undefined
    await parts.audit({ ...event, event: 'adopted' })
    return live
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof SallyportError && error.code === 'engine_unavailable') throw error
    const reason = error instanceof SallyportError ? `${error.code}: ${error.message}` : codeOf(error)
    const isDifferent = error instanceof SallyportError && error.code === 'session_unverified'
    parts.log.warn({ session: id, reason }, 'a session could not go on and is removed')
    const planted = await takeDown(parts, id, live, record, row.state === 'stopping' ? 'ended' : 'failed')
    await parts.audit({ ...event, event: isDifferent ? 'unverified' : 'reaped', details: [reason, ...planted] })
    return undefined
  }
}

/** @throws whatever keeps it from going on */
async function resume(
  parts: SessionParts,
  record: SessionRecord,
  live: LiveSession,
  info: EngineInfo,
  onGate: (state: 'connected' | 'ready' | 'lost') => void,
  signal: AbortSignal,
): Promise<void> {
  const { engine, home } = parts
  const { id } = live
  const { agent, sidecar, networks = [], ids } = record
  if (agent === undefined || sidecar === undefined || ids.agent === undefined || ids.sidecar === undefined)
    throw new SallyportError('session_not_running', 'it was not up')
  const [agentFound, gateFound] = await Promise.all([
    verifyContainer(engine, ids.agent, agent, info),
    verifyContainer(engine, ids.sidecar, sidecar, info),
    ...networks.map((network) => verifyNetwork(engine, network, containersOf(id, network.Name))),
  ])
  const trust = { name: engineName(id, 'trust'), Labels: labelsOf(home, id, 'trust'), runtime: info.defaultRuntime }
  const roots = await imageRoots(engine, agent.options.Image, join(home, 'roots'), trust, parts.system)
  const link = await openGateLink(parts, live, record, {
    onState: onGate,
    renew: ({ certificatePem }) => void writeTrust(sessionFolder(home, id), roots, certificatePem, parts.system),
  })
  live.agentRunning = agentFound.State.Running
  live.agentExitCode = agentFound.State.Running ? undefined : agentFound.State.ExitCode
  if (record.control === 'stdio') link.attach(await controlStream(engine, ids.sidecar, live))
  const starting = { sidecar: ids.sidecar, live }
  if (!gateFound.State.Running) await startGate(parts, starting, sidecar, info)
  await gateReady(parts, link, starting, signal)
  live.gateHealthy = true
}
