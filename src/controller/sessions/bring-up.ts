import { mkdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { leaseDigest } from '../../lease/lease.ts'
import { createVerified, startVerified, verifyNetwork } from './containers.ts'
import { isOverlap } from './engine-call.ts'
import { isolatesBridges } from './engine-facts.ts'
import type { ContainerOptions, EngineInfo } from './engine.ts'
import { openGateLink, type LiveSession } from './gate.ts'
import { controlStream, gateReady, startGate } from './gate-ready.ts'
import { harden, jailNetwork, uplinkNetwork, type Bind } from './hardening.ts'
import { imageRoots } from './image-roots.ts'
import { dividedJail, type Jail } from './jail.ts'
import type { PlannedSession } from './plan-session.ts'
import { selftestTarget } from './probe.ts'
import { makeSessionFolder, writeAgentPart, writeTrust } from './session-files.ts'
import { engineName, labelsOf, outputFolder, sessionFolder, socketFolder } from './session-names.ts'
import type { IssuedLease, SessionAuditEvent, SessionParts, SessionRecord } from './session-parts.ts'
import { agentSpec, GATE_POLICY, sidecarSpec, type SpecContext } from './specs.ts'
import { reserveJail } from './subnets.ts'
import { askedOf } from './verify.ts'

/** A session on its way up: what is known of it so far is in `record`, and on disk. */
export type Rising = Omit<PlannedSession, 'record'> & {
  readonly live: LiveSession
  readonly onGate: (state: 'connected' | 'ready' | 'lost') => void
  /** What was begun and must have ended before anything is taken down. */
  readonly pending: Promise<unknown>[]
  record: SessionRecord
}

/** Records what is about to be done, and tells the operator. */
export type Step = (name: string) => void

/**
 * Networks, gate, agent: each made, looked at, and only then used. The agent runs when this resolves.
 * @throws session_unverified, sidecar_not_ready, engine_refused, subnet_exhausted and whatever the parts throw. What was made is the
 * caller's to take down, once all of `rising.pending` has settled.
 */
export async function bringUp(parts: SessionParts, rising: Rising, step: Step, signal: AbortSignal): Promise<void> {
  const folder = sessionFolder(parts.home, rising.id)
  makeSessionFolder(folder)
  mkdirSync(join(parts.home, 's'), { recursive: true, mode: 0o700 })
  const lease = await issueAgentLease(parts, rising)
  const authority = (rising.live.authority = parts.createAuthority(rising.id))

  step('networks')
  const { jail, roots, workspace } = await layOut(parts, rising, folder)
  signal.throwIfAborted()
  const context: SpecContext = { home: parts.home, jail, ...rising }
  const gate = harden(sidecarSpec(context, gateBinds(parts, rising, folder)))
  const agent = harden(
    agentSpec(context, lease, workspace, [
      ...writeTrust(folder, roots, authority.certificatePem, parts.system),
      { source: outputFolder(parts.home, rising.id), target: '/sallyport/output', readOnly: true },
      ...writeAgentPart(folder, jail.sidecar, rising.plan.agent.user ?? rising.record.owner, rising.plan.agent.files),
      ...rising.binds,
    ]),
  )

  step('containers')
  const { container, tested } = await raiseGate(parts, rising, { gate, agent }, step, signal)

  if (tested !== undefined) {
    step('selftest')
    await tested
    save(parts, rising, { selftestAt: parts.system.now() })
  } else if (!rising.request.selftest) {
    await parts.audit(auditEvent(rising, 'selftest_skipped'))
  }

  step('agent')
  signal.throwIfAborted()
  await parts.audit(auditEvent(rising, 'running', [`image ${rising.plan.agent.image} ${rising.agentImage.id}`]))
  await startAgent(parts, rising.live, { ...rising.record, id: rising.id }, container, rising.info)
  signal.throwIfAborted()
  parts.state.move(rising.id, 'running')
}

/** Starts the agent and looks at all of the session as it is then. @throws session_unverified, engine_refused */
export async function startAgent(
  { engine }: Pick<SessionParts, 'engine'>,
  live: LiveSession,
  { id, agent, networks = [] }: SessionRecord & { readonly id: string },
  container: string,
  info: EngineInfo,
): Promise<void> {
  if (agent === undefined) throw new SallyportError('session_not_running', `session ${id} has no agent`)
  const found = await startVerified(engine, container, agent, info)
  await Promise.all(networks.map((network) => verifyNetwork(engine, network, containersOf(id, network.Name))))
  live.agentRunning = found.State.Running
  live.agentExitCode = found.State.Running ? undefined : found.State.ExitCode
}

/** What does not need each other: networks, the image's roots, the workspace, the control channel. */
async function layOut(parts: SessionParts, rising: Rising, folder: string) {
  const { id, plan, info, record } = rising
  const trust = { name: engineName(id, 'trust'), Labels: labelsOf(parts.home, id, 'trust'), runtime: info.defaultRuntime }
  const work = [
    makeNetworks(parts, rising),
    imageRoots(parts.engine, rising.agentImage.id, join(parts.home, 'roots'), trust, parts.system),
    parts.workspace
      .mounts({
        workspace: record.workspace,
        filesystem: plan.filesystem,
        owner: record.owner,
        filesDir: join(folder, 'files'),
      })
      // At once: what was made in the workspace is taken back also when a part beside it fails.
      .then((workspace) => {
        save(parts, rising, { kept: workspace.kept, warnings: [...rising.record.warnings, ...workspace.warnings] })
        return workspace
      }),
    openGateLink(parts, rising.live, record, { onState: rising.onGate, renew: () => {} }),
  ] as const
  rising.pending.push(...work)
  const [jail, roots, workspace] = await Promise.all(work)
  return { jail, roots, workspace }
}

/** Both containers are made; the gate is started and ready. Gives the agent's, which does not run yet, and the selftest, which does. */
async function raiseGate(
  parts: SessionParts,
  rising: Rising,
  { gate, agent }: { readonly gate: ContainerOptions; readonly agent: ContainerOptions },
  step: Step,
  signal: AbortSignal,
): Promise<{ readonly container: string; readonly tested: Promise<void> | undefined }> {
  const { engine } = parts
  const { id, info, live } = rising
  const [jail, uplink] = [engineName(id, 'jail'), engineName(id, 'uplink')]
  const { ids } = rising.record
  const asked = {
    sidecar: askedOf(gate, rising.sidecarImage.environment, { [jail]: ids.jail, [uplink]: ids.uplink }),
    agent: askedOf(agent, rising.agentImage.environment, { [jail]: ids.jail }),
  }
  save(parts, rising, asked)
  const made = createVerified(engine, agent, asked.agent, info)
  rising.pending.push(made)
  made.catch(() => {})
  const sidecar = await createVerified(engine, gate, asked.sidecar, info, { connect: uplink })
  if (rising.record.control === 'stdio') live.link?.attach(await controlStream(engine, sidecar, live))
  signal.throwIfAborted()

  const { link } = live
  if (link === undefined) throw new SallyportError('sidecar_not_ready', 'the gate has no control channel')
  const container = await made
  save(parts, rising, { ids: { ...rising.record.ids, sidecar, agent: container } })

  step('gate')
  const ready = startGate(parts, { sidecar, live }, asked.sidecar, info).then(() => gateReady(parts, link, { sidecar, live }, signal))
  ready.catch(() => {})
  // Its container starts beside the gate's: what needs no gate is tried while that boots.
  const tested = rising.request.selftest ? parts.selftest?.(selftestTarget(parts, rising.record, id, info, ready), signal) : undefined
  tested?.catch(() => {})
  rising.pending.push(ready, ...(tested ? [tested] : []))
  await ready
  live.gateHealthy = true
  return { container, tested }
}

function gateBinds(parts: SessionParts, { id, plan, record }: Rising, folder: string): Bind[] {
  return [
    { source: join(folder, 'policy'), target: GATE_POLICY, readOnly: true },
    ...(record.control === 'unix' ? [{ source: socketFolder(parts.home, id), target: '/run/sallyport', readOnly: true }] : []),
    ...plan.sidecar.mounts,
  ]
}

/** Who may be on a network of a session, by name. */
export function containersOf(id: string, network: string): string[] {
  const roles = network === engineName(id, 'jail') ? (['sidecar', 'agent', 'probe'] as const) : (['sidecar'] as const)
  return roles.map((role) => engineName(id, role))
}

export function auditEvent(
  { id, name, record }: Pick<Rising, 'id' | 'name' | 'record'>,
  event: SessionAuditEvent['event'],
  details: readonly string[] = [],
): SessionAuditEvent {
  return { session: id, name, workspace: record.workspace, event, ...(details.length > 0 && { details }) }
}

async function issueAgentLease(parts: SessionParts, rising: Rising): Promise<IssuedLease> {
  const { id, request, record } = rising
  const role = request.role === undefined ? {} : { role: request.role }
  const lease = await parts.leases.issue({
    session: id,
    workspace: basename(record.workspace),
    agent: request.harness ?? 'agent',
    audience: 'agent',
    ...role,
  })
  parts.state.addLease(lease.id, id, 'agent')
  save(parts, rising, { agentLeases: [lease.token, lease.short].map(leaseDigest) })
  return lease
}

/** Both networks at once. A subnet that the engine has in use without listing it is left for the next. */
async function makeNetworks(parts: SessionParts, rising: Rising): Promise<Jail> {
  const { engine, home } = parts
  const { id, info } = rising
  const taken = await engine.networks()
  const sessions = join(home, 'sessions')
  const isolates = isolatesBridges(info)
  for (let attempt = 1; ; attempt += 1) {
    const whole = reserveJail(sessions, id, undefined, taken)
    const { jail, uplink } = dividedJail(whole)
    const networks = [
      jailNetwork(engineName(id, 'jail'), jail, labelsOf(home, id, 'jail'), isolates),
      uplinkNetwork(engineName(id, 'uplink'), uplink, labelsOf(home, id, 'uplink')),
    ]
    save(parts, rising, { jail, uplink, networks })
    const results = await Promise.allSettled(networks.map((network) => engine.createNetwork(network)))
    const failed = results.find((result) => result.status === 'rejected')
    const made = results.map((result) => (result.status === 'fulfilled' ? result.value : undefined))
    if (failed === undefined) {
      const [jailId, uplinkId] = made
      save(parts, rising, { ids: { ...(jailId !== undefined && { jail: jailId }), ...(uplinkId !== undefined && { uplink: uplinkId }) } })
      await Promise.all(networks.map((network) => verifyNetwork(engine, network, [])))
      return jail
    }
    await Promise.all(made.flatMap((one) => (one === undefined ? [] : [engine.removeNetwork(one)])))
    if (!isOverlap(failed.reason) || attempt === LIMITS.jailTriesMax) throw failed.reason
    taken.push({ id: '', name: '', labels: {}, project: '', subnets: [whole.subnet] })
  }
}

function save(parts: SessionParts, rising: Rising, change: Partial<SessionRecord>): void {
  rising.record = { ...rising.record, ...change }
  parts.state.save(rising.id, rising.record)
}
