import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { removeFolder } from '../remove-folder.ts'
import type { ListedContainer, ListedNetwork } from './engine.ts'
import type { LiveSession } from './gate.ts'
import { engineName, homeLabel, sessionFolder, sessionOf, socketFolder } from './session-names.ts'
import type { SessionParts, SessionRecord } from './session-parts.ts'
import { endSiblings } from './siblings-held.ts'
import { releaseJail } from './subnets.ts'

/**
 * Ends a session and removes whatever there is of it, by what the engine has and not by what is remembered: first its leases and its
 * secrets, then its agent, then the rest. Each part is tried; the first fault is thrown at the end, and the session stays one that is to
 * be removed. Gives what the guard of the workspace found.
 */
export async function takeDown(
  parts: SessionParts,
  id: string,
  live: LiveSession | undefined,
  record: SessionRecord | undefined,
  outcome: 'ended' | 'failed',
): Promise<readonly string[]> {
  const { engine, state, home, log } = parts
  // What is left of them goes with the rest below, where a fault counts.
  const report = (error: unknown): void =>
    log.warn({ session: id, code: codeOf(error) }, 'a container beside the agent did not end by itself')
  live?.watching?.[Symbol.dispose]()
  state.move(id, 'stopping')
  state.revokeLeases(id)
  parts.leases.revoke(id)
  // I53: before anything that takes long: what it asked for is not begun any more, and what runs for it ends.
  const withdrawn = parts.requests?.endSession(id)
  const revoked = live?.link
    ?.revoke()
    .catch((error: unknown) => log.warn({ session: id, code: codeOf(error) }, 'the gate did not confirm its end; it is removed'))
  if (live !== undefined) await endSiblings(live.siblings, new SallyportError('session_not_running', `session ${id} ends`)).catch(report)
  await (await live?.relay?.catch(() => undefined))?.[Symbol.asyncDispose]()
  const mine = (await engine.containers({ ...homeLabel(home), 'sallyport.session': id })).filter((one) => sessionOf(home, one) === id)
  const agents = mine.filter(({ name }) => name === engineName(id, 'agent'))
  await settled([
    endAgents(parts, agents).then(() => removeContainers(parts, agents)),
    Promise.race([revoked, delay(LIMITS.agentStopMs, undefined, { ref: false })])
      .then(() =>
        removeContainers(
          parts,
          mine.filter((one) => !agents.includes(one)),
        ),
      )
      // The agent was never on it. What does not go now is tried again below, where a fault counts.
      .then(() => removeUplink(parts, record).catch(() => {})),
  ])
  await live?.link?.[Symbol.asyncDispose]()
  await withdrawn
  await removeNetworks(parts, id, record)
  const planted = record?.kept === undefined ? [] : await parts.workspace.release(record.kept)
  removeFolders(parts, id)
  state.move(id, outcome)
  return planted
}

/** Each is asked to end first: programs keep what they have not written yet. */
export async function endAgents({ engine }: Pick<SessionParts, 'engine'>, agents: readonly ListedContainer[]): Promise<void> {
  for (const { id, isRunning } of agents) {
    if (!isRunning) continue
    await engine.kill(id, 'SIGTERM')
    const bound = AbortSignal.timeout(LIMITS.agentStopMs)
    await engine.wait(id, bound).catch((error: unknown) => {
      if (!bound.aborted) throw error
    })
  }
}

export async function removeContainers({ engine }: Pick<SessionParts, 'engine'>, containers: readonly ListedContainer[]): Promise<void> {
  await settled(containers.map(({ id }) => engine.remove(id)))
}

/** While the agent still ends: the engine takes a while for each network. */
async function removeUplink({ engine }: SessionParts, record: SessionRecord | undefined): Promise<void> {
  const uplink = record?.ids.uplink
  if (uplink !== undefined) await engine.removeNetwork(uplink)
}

/** By their names and labels, so that one whose id was never recorded goes as well. */
async function removeNetworks(parts: SessionParts, id: string, record: SessionRecord | undefined): Promise<void> {
  const { jail, uplink } = record?.ids ?? {}
  // Those of siblings are recorded nowhere else.
  const listed = ownNetworks(parts, await parts.engine.networks(), id).map((network) => network.id)
  const known = [jail, uplink].filter((one) => one !== undefined)
  await settled(Array.from(new Set([...known, ...listed]), (one) => removeNetwork(parts, one)))
}

/** What somebody else put on a network of ours leaves it, and goes on: else it would keep the network, and the daemon from starting. */
export async function removeNetwork({ engine }: Pick<SessionParts, 'engine'>, network: string): Promise<void> {
  try {
    await engine.removeNetwork(network)
  } catch (error) {
    if (codeOf(error) !== 'engine_refused') throw error
    for (const container of Object.keys((await engine.network(network))?.Containers ?? {})) await engine.disconnect(network, container)
    await engine.removeNetwork(network)
  }
}

export function ownNetworks({ home }: Pick<SessionParts, 'home'>, networks: readonly ListedNetwork[], id: string): ListedNetwork[] {
  return networks.filter((network) => sessionOf(home, network) === id)
}

export function removeFolders({ home }: Pick<SessionParts, 'home'>, id: string): void {
  for (const folder of [sessionFolder(home, id), socketFolder(home, id)]) removeFolder(folder)
  releaseJail(join(home, 'sessions'), id)
}

/** All to their end; then the first fault. */
async function settled(promises: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(promises)).find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
