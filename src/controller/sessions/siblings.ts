import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { createVerified, startVerified, verifyContainer, verifyNetwork } from './containers.ts'
import { isOverlap } from './engine-call.ts'
import type { EngineInfo, ImageFacts, NetworkOptions } from './engine.ts'
import { gateLeaves } from './gate-leaves.ts'
import type { LiveSession } from './gate.ts'
import { harden, jailNetwork } from './hardening.ts'
import { isolatesBridges } from './engine-facts.ts'
import { siblingSubnets, type SiblingNetwork } from './jail.ts'
import { engineName, labelsOf, sessionFolder, siblingsFolder } from './session-names.ts'
import type { SessionParts, SessionRecord, WorkspacePart } from './session-parts.ts'
import { siblingBinds } from './sibling-files.ts'
import { realProgram, siblingImageFacts } from './sibling-image.ts'
import { lendOutput } from './sibling-output.ts'
import { SHELL } from './sibling-shim.ts'
import { ownerOfAgent, siblingSpec } from './sibling-spec.ts'
import { attachSibling, runningSibling } from './sibling-streams.ts'
import type { Sibling, SiblingWish } from './sibling.ts'
import { checkWish } from './sibling-wish.ts'
import { askedOf } from './verify.ts'

/** The session that a container is to run beside, as it is now. */
export type Beside = { readonly id: string; readonly live: LiveSession; readonly record: SessionRecord }

/**
 * I64: Starts a container beside a session's agent, in a network of its own with nothing but the gate. Each part is made, looked at, and only
 * then used; what it is not to be seen with comes last, through its stdin, and no sooner than all of it is what was asked for.
 * @throws too_many_siblings, sibling_refused, shell_missing, image_missing, session_unverified, session_not_running, workspace_suspect and
 * its kin, engine_refused: nothing of it is left then
 */
export async function startSibling(parts: SessionParts, session: Beside, wish: SiblingWish, signal: AbortSignal): Promise<Sibling> {
  checkWish(wish)
  const { siblings } = session.live
  const stop = AbortSignal.any([signal, siblings.over.signal])
  stop.throwIfAborted()
  if (siblings.names.size >= LIMITS.siblingsMax)
    throw new SallyportError('too_many_siblings', `${siblings.names.size} containers run beside the agent of session ${session.id}`, {
      hint: 'wait until one of them has ended',
    })
  const name = `${engineName(session.id, 'sibling')}-${wish.label}-${parts.system.random(6).toString('hex')}`
  siblings.names.add(name)
  const rising = raiseOrNothing(parts, session, { name, wish }, stop)
  siblings.rising.add(rising)
  try {
    return await rising
  } finally {
    siblings.rising.delete(rising)
  }
}

async function raiseOrNothing(parts: SessionParts, session: Beside, named: Named, signal: AbortSignal): Promise<Sibling> {
  const stack = new AsyncDisposableStack()
  try {
    return await raise(parts, session, named, stack, signal)
  } catch (error) {
    await stack.disposeAsync().catch((fault: unknown) => {
      const { log } = parts
      log.error({ container: named.name, code: codeOf(fault) }, 'a container beside an agent could not be taken back whole')
    })
    throw error
  }
}

type Named = { readonly name: string; readonly wish: SiblingWish }

/** What is made goes on the stack before it is made, as a call that failed may have been carried out. */
async function raise(
  parts: SessionParts,
  session: Beside,
  { name, wish }: Named,
  stack: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<Sibling> {
  const { engine, home } = parts
  const { id, live, record } = session
  stack.defer(() => void live.siblings.names.delete(name))
  const [info, image] = await Promise.all([engine.info(), siblingImageFacts(engine, record, wish.image)])
  if (wish.output !== undefined) lendOutput(wish.output.folder, sessionFolder(home, id), ownerOfAgent(agentOf(record)))
  const folder = join(siblingsFolder(home, id), name)
  stack.defer(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(folder, { recursive: true, mode: 0o755 })

  signal.throwIfAborted()
  const { network, options, networkId } = await openNetwork(parts, session, { name, info }, stack)
  await enterGate(parts, session, { name, wish, network, options, info }, stack, signal)

  signal.throwIfAborted()
  const files = { folder, network, image, pinned: wish.pinned, runtime: info.defaultRuntime }
  const binds = await siblingBinds(parts, session, files)
  // Before the container is made, so that one whose making the engine did not answer goes too.
  stack.defer(async () => await engine.remove(name))
  const { container, stream } = await calmly(parts, session, wish, folder, signal, async (workspace) => {
    const context = { name, labels: labelsOf(home, id, 'sibling'), agent: agentOf(record), image, info, network, binds, workspace }
    const hardened = harden(siblingSpec(context, wish))
    const asked = askedOf(hardened, image.environment, { [name]: networkId })
    const made = await createVerified(engine, hardened, asked, info)
    await refuseWithoutShell(parts, made, image)
    signal.throwIfAborted()
    const attached = await attachSibling(engine, made, stack)
    await startVerified(engine, made, asked, info)
    return { container: made, stream: attached }
  })
  await verifyNetwork(engine, options, [engineName(id, 'sidecar'), name])
  signal.throwIfAborted()
  return runningSibling(parts, live.siblings, { name, container, stream, wish, signal }, stack.move())
}

/** The first of the session's networks that nobody has. A subnet that the engine has in use without listing it is left for the next. */
async function openNetwork(
  { engine, home }: SessionParts,
  { id, live, record }: Beside,
  { name, info }: { readonly name: string; readonly info: EngineInfo },
  stack: AsyncDisposableStack,
): Promise<{ readonly network: SiblingNetwork; readonly options: NetworkOptions; readonly networkId: string }> {
  const { siblings } = live
  const { jail, uplink } = record
  const all = jail === undefined || uplink === undefined ? [] : siblingSubnets(jail, uplink)
  for (const network of all) {
    const { subnet } = network
    if (siblings.subnets.has(subnet)) continue
    siblings.subnets.add(subnet)
    const options = jailNetwork(name, network, labelsOf(home, id, 'sibling'), isolatesBridges(info))
    await using attempt = new AsyncDisposableStack()
    attempt.defer(() => void siblings.subnets.delete(subnet))
    // A gate that is in a network that is gone does not start again.
    attempt.defer(async () => (siblings.visits.has(name) ? undefined : await engine.removeNetwork(name)))
    try {
      const networkId = await engine.createNetwork(options)
      await verifyNetwork(engine, options, [])
      stack.use(attempt.move())
      return { network, options, networkId }
    } catch (error) {
      if (!isOverlap(error)) throw error
    }
  }
  throw new SallyportError('too_many_siblings', `session ${id} has no network left for a container beside its agent`, {
    hint: all.length === 0 ? 'it was begun by an earlier version: begin another session' : 'wait until one of them has ended',
  })
}

type Entering = Named & { readonly network: SiblingNetwork; readonly options: NetworkOptions; readonly info: EngineInfo }

/** The gate gets a place in the network, is looked at once more, and opens its ways there. */
async function enterGate(
  { engine }: SessionParts,
  { id, live, record }: Beside,
  { name, wish, network, options, info }: Entering,
  stack: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<void> {
  const { siblings, link } = live
  const { sidecar, ids } = record
  if (link === undefined || sidecar === undefined || ids.sidecar === undefined)
    throw new SallyportError('session_not_running', `session ${id} has no gate`)
  const gate = ids.sidecar
  const { sidecar: address, subnet } = network
  // Known before it is so: whoever looks at the gate meanwhile finds what was asked for.
  siblings.visits.set(name, { address })
  stack.defer(async () => {
    await gateLeaves(engine, name, gate)
    siblings.visits.delete(name)
  })
  await engine.connect(name, gate, { IPAMConfig: { IPv4Address: address }, Aliases: ['sallyport'] })
  await verifyContainer(engine, gate, sidecar, info, siblings.visits)
  await verifyNetwork(engine, options, [engineName(id, 'sidecar')])
  signal.throwIfAborted()
  const ways = { address, subnet, label: `${wish.kind}-${wish.label}` }
  stack.defer(async () => {
    // A gate that is away is told when it comes; its network goes in any case.
    const bound = AbortSignal.timeout(LIMITS.siblingWaysCloseMs)
    const closed = link.ways(ways, false, bound).catch((error: unknown) => {
      if (codeOf(error) !== 'sidecar_unreachable') throw error
    })
    await Promise.race([closed, once(bound, 'abort')])
  })
  await link.ways(ways, true, signal)
}

/**
 * Makes a container while nobody moves what is mounted in it: where files are hidden from an agent that can write, the agent stands still.
 * It could else rename a folder between our look and the engine's, and what is hidden in it would lie open beside its cover.
 */
async function calmly<T>(
  parts: SessionParts,
  { id, live, record }: Beside,
  { workspace }: SiblingWish,
  folder: string,
  signal: AbortSignal,
  make: (workspace: WorkspacePart) => Promise<T>,
): Promise<T> {
  const { filesystem } = record
  if (workspace === 'none' || filesystem.workspace === 'none') return await make({ mounts: [], environment: {} })
  const filesDir = join(folder, 'files')
  mkdirSync(filesDir, { mode: 0o755 })
  const request = { workspace: record.workspace, filesystem, owner: ownerOfAgent(agentOf(record)), filesDir }
  const look = async (): Promise<T> => await make(await parts.workspace.beside(request, record.kept))
  if (filesystem.hide.length === 0 || filesystem.workspace === 'ro') return await look()
  return await live.siblings.calm.take(signal, async () => {
    const agent = (parts.state.row(id)?.record as SessionRecord | undefined)?.ids.agent
    if (agent === undefined) throw new SallyportError('session_not_running', `session ${id} has no agent`)
    await using still = new AsyncDisposableStack()
    still.defer(async () => await parts.engine.unpause(agent))
    await parts.engine.pause(agent)
    const found = await parts.engine.inspect(agent)
    if (found?.State.Running === true && found.State.Paused !== true)
      throw new SallyportError('workspace_suspect', `the agent of session ${id} does not stand still`)
    return await look()
  })
}

/** @throws shell_missing */
async function refuseWithoutShell({ engine }: SessionParts, container: string, { id }: ImageFacts): Promise<void> {
  if ((await realProgram(engine, container, SHELL)) !== undefined) return
  throw new SallyportError('shell_missing', `the image ${id} has no ${SHELL}`, {
    hint: 'a shell is what hands secrets over to the command: use an image that has one',
  })
}

/** @throws session_not_running */
function agentOf({ agent }: SessionRecord) {
  if (agent === undefined) throw new SallyportError('session_not_running', 'the session has no agent')
  return agent.options
}
