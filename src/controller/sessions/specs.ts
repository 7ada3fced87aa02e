import { LIMITS } from '../../kernel/limits.ts'
import { AGENT_HOME, agentEnvironment, OWN_VARIABLES, WORKSPACE } from './agent-environment.ts'
import type { EngineInfo, ImageFacts } from './engine.ts'
import type { Bind, ContainerSpec, Scratch } from './hardening.ts'
import type { Jail } from './jail.ts'
import { checkedSource, checkedTarget, type GuardedPlaces } from './mount-sources.ts'
import { refuseImage, refuseProhibited, refuseVariables } from './prohibited.ts'
import { foldersOf, HOME_COPIES } from './session-files.ts'
import { engineName, labelsOf } from './session-names.ts'
import type { IssuedLease, SessionPlan, SessionRecord, UpRequest, WorkspaceMounts } from './session-parts.ts'
import type { WorkspaceMount } from './workspace-covers.ts'

/** What both containers of a session are made of. */
export type SpecContext = {
  readonly home: string
  readonly id: string
  readonly plan: SessionPlan
  readonly request: UpRequest
  readonly record: Pick<SessionRecord, 'owner' | 'control' | 'workspace'>
  readonly info: EngineInfo
  readonly jail: Jail
  readonly agentImage: ImageFacts
  readonly sidecarImage: ImageFacts
}

/** Nobody's command: the session waits for `exec`. */
const IDLE = ['sleep', 'infinity'] as const

/**
 * Refuses what the policy, the harness, the operator or the image must not bring, before anything is made. Gives the mounts with their
 * real sources.
 * @throws SallyportError config_prohibited, config_invalid
 */
export function refuseUnsafe(plan: Pick<SessionPlan, 'agent'>, request: UpRequest, image: ImageFacts, places: GuardedPlaces): Bind[] {
  refuseProhibited(plan.agent.settings)
  refuseVariables([...Object.keys(plan.agent.environment), ...Object.keys(request.environment ?? {})], OWN_VARIABLES)
  refuseImage(plan.agent.image, image)
  return plan.agent.mounts.map(({ source, target, readOnly }) => ({
    source: checkedSource(source, places),
    target: checkedTarget(target),
    readOnly,
  }))
}

/** Files that their program writes anew are copied to HOME, which is empty at the start, by the first program there. */
function withCopies(command: readonly string[], files: SessionPlan['agent']['files']): readonly string[] {
  if (!files.some(({ isRewritten }) => isRewritten)) return command
  const run = command.length === 0 ? IDLE : command
  return ['/bin/sh', '-c', `cp -R ${HOME_COPIES}/. "$HOME"/ && exec "$@"`, 'sh', ...run]
}

/** The agent, as compose.yaml has it or stricter. */
export function agentSpec(context: SpecContext, lease: IssuedLease, workspace: WorkspaceMounts, binds: readonly Bind[]): ContainerSpec {
  const { home, id, plan, request, record, info, jail, agentImage } = context
  const { agent } = plan
  const user = agent.user ?? record.owner
  const [program, ...args] = withCopies(agent.command, agent.files)
  const all = [...binds, ...workspace.mounts.flatMap((mount) => (mount.kind === 'bind' ? mountOf(mount) : []))]
  return {
    kind: 'agent',
    name: engineName(id, 'agent'),
    labels: labelsOf(home, id, 'agent'),
    image: agentImage.id,
    user,
    command: program === undefined ? IDLE : [program, ...args],
    folder: WORKSPACE,
    environment: {
      ...agent.environment,
      ...request.environment,
      ...workspace.environment,
      ...agentEnvironment(lease.token, plan.requiresLease ? lease.short : undefined),
      ...(request.tty && { TERM: request.environment?.['TERM'] ?? 'xterm-256color' }),
    },
    binds: all,
    scratch: writableScratch({
      owner: user,
      bytes: LIMITS.scratchBytes,
      folders: foldersOf(agent.files),
      mounts: workspace.mounts,
      volumes: agentImage.volumes,
      binds: all,
    }),
    network: { name: engineName(id, 'jail'), gate: jail.sidecar },
    memoryBytes: agent.memoryBytes ?? LIMITS.agentMemoryBytes,
    cpus: Math.min(agent.cpus ?? LIMITS.agentCpusMax, info.cpus),
    processes: agent.processes ?? LIMITS.agentProcessesMax,
    runtime: agent.runtime ?? info.defaultRuntime,
    ...(agent.seccompProfile !== undefined && { seccompProfile: agent.seccompProfile }),
    tty: request.tty,
    stdin: true,
    keepsLog: true,
  }
}

/** The gate, as compose.yaml has it; its keys and its audit are in memory. */
export function sidecarSpec(context: SpecContext, binds: readonly Bind[]): ContainerSpec {
  const { home, id, plan, record, info, jail, sidecarImage } = context
  const own = { owner: record.owner, runs: false, mode: '0700' }
  return {
    kind: 'sidecar',
    name: engineName(id, 'sidecar'),
    labels: labelsOf(home, id, 'sidecar'),
    image: sidecarImage.id,
    user: record.owner,
    command: gateCommand(sidecarImage, sidecarImage.command),
    folder: '/',
    environment: {
      SALLYPORT_LOG_LEVEL: 'info',
      ...plan.sidecar.environment,
      SALLYPORT_SIDECAR_IP: jail.sidecar,
      SALLYPORT_SUBNET: jail.subnet,
      SALLYPORT_POLICY: inGate(plan.policy.files),
      SALLYPORT_POLICY_RESTRICTED: inGate(plan.policy.restricted),
      SALLYPORT_POLICY_DIRS: inGate(plan.policy.policyDirs),
      SALLYPORT_AUDIT: '/var/lib/sallyport/audit/audit.jsonl',
      SALLYPORT_CA_DIR: '/var/lib/sallyport/ca',
      SALLYPORT_SESSION: id,
      SALLYPORT_WORKSPACE: record.workspace,
      SALLYPORT_CONTROL: record.control === 'unix' ? 'unix:/run/sallyport/control.sock' : 'stdio',
    },
    binds,
    scratch: [
      { target: '/tmp', bytes: LIMITS.scratchSmallBytes, mode: '1777', runs: false },
      { target: '/var/lib/sallyport/ca', bytes: LIMITS.scratchSmallBytes, ...own },
      { target: '/var/lib/sallyport/audit', bytes: LIMITS.sidecarAuditBytes, ...own },
    ],
    network: { name: engineName(id, 'jail'), address: jail.sidecar, aliases: ['sallyport'] },
    memoryBytes: LIMITS.sidecarMemoryBytes,
    cpus: LIMITS.sidecarCpusMax,
    processes: LIMITS.sidecarProcessesMax,
    runtime: info.defaultRuntime,
    tty: false,
    stdin: record.control === 'stdio',
    // The control channel's frames are not for the engine's disk.
    keepsLog: record.control === 'unix',
  }
}

/** Where the gate has the folder of its policy. */
export const GATE_POLICY = '/etc/sallyport/policy'

function inGate(paths: readonly string[]): string {
  return paths.map((path) => `${GATE_POLICY}/${path}`).join(':')
}

/** What the gate's image runs, with another command. */
export function gateCommand({ entrypoint }: Pick<ImageFacts, 'entrypoint'>, command: readonly string[]): [string, ...string[]] {
  const [program = 'sallyport', ...args] = entrypoint
  return [program, ...args, ...command]
}

/** Folders of a container of an agent's image that are its own and begin empty, whatever the image has there; those that it declares as volumes too. */
export const SCRATCH = ['/tmp', '/run', AGENT_HOME] as const

/**
 * What a container of an agent's image may write besides the workspace, all in memory, `bytes` each: also `folders` of its own, and where
 * its image wants a volume.
 */
export function writableScratch(of: {
  readonly owner: ContainerSpec['user']
  readonly bytes: number
  readonly folders: readonly string[]
  readonly mounts: readonly WorkspaceMount[]
  readonly volumes: readonly string[]
  readonly binds: readonly Bind[]
}): Scratch[] {
  const { owner, bytes } = of
  const fixed: Scratch[] = [
    { target: SCRATCH[0], bytes, mode: '1777', runs: true },
    { target: SCRATCH[1], bytes: LIMITS.scratchRunBytes, mode: '0755', owner, runs: false },
    ...[SCRATCH[2], ...of.folders].map((target) => ({ target, bytes, mode: '0700', owner, runs: true })),
    ...of.mounts.flatMap((mount) =>
      mount.kind === 'bind'
        ? []
        : {
            target: mount.target,
            bytes: mount.bytesMax,
            mode: `0${mount.mode.toString(8)}`,
            owner: { uid: mount.uid, gid: mount.gid },
            runs: true,
            readOnly: mount.readOnly,
          },
    ),
  ]
  const taken = new Set([...fixed, ...of.binds].map(({ target }) => target))
  const declared = of.volumes.map((path) => path.replace(/\/+$/, '')).filter((path) => !taken.has(path))
  return [...fixed, ...declared.map((target) => ({ target, bytes, mode: '0755', owner, runs: true }))]
}

function mountOf({ source, target, readOnly }: Bind): Bind {
  return { source, target, readOnly }
}
