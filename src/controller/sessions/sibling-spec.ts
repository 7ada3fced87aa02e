import { LIMITS } from '../../kernel/limits.ts'
import { AGENT_HOME, siblingEnvironment, WORKSPACE } from './agent-environment.ts'
import type { Owner } from './agent-files.ts'
import type { ContainerOptions, EngineInfo, ImageFacts } from './engine.ts'
import type { Bind, ContainerSpec, Scratch } from './hardening.ts'
import type { SiblingNetwork } from './jail.ts'
import { siblingCommand } from './sibling-shim.ts'
import type { SiblingWish } from './sibling.ts'
import type { WorkspaceMount } from './workspace-covers.ts'

/** Where what a sibling writes is for the operator to look through. */
export const OUTPUT = '/output'

/** Folders of a sibling that are its own and begin empty, whatever its image has there; those that the image declares as volumes too. */
export const SCRATCH = ['/tmp', '/run', AGENT_HOME] as const

/** What a sibling is made of. */
export type SiblingContext = {
  /** Of container and network. */
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  /** As the agent was asked for: its image, user, runtime, seccomp profile and limits. */
  readonly agent: Omit<ContainerOptions, 'Env'>
  readonly image: ImageFacts
  readonly info: EngineInfo
  readonly network: SiblingNetwork
  /** Of ours: trust, resolver, pinned files. */
  readonly binds: readonly Bind[]
  /** What it has of the workspace; without one it has an empty folder. */
  readonly workspace: { readonly mounts: readonly WorkspaceMount[]; readonly environment: Readonly<Record<string, string>> }
}

/** A container beside the agent: what the agent is, with less of everything, no lease, and nothing that outlives it but its output. */
export function siblingSpec(context: SiblingContext, wish: SiblingWish): ContainerSpec {
  const { name, labels, agent, image, info, network, workspace } = context
  const user = ownerOfAgent(agent)
  const { HostConfig: host } = agent
  const seccomp = host.SecurityOpt.find((option) => option.startsWith('seccomp='))
  const binds = [
    ...context.binds,
    ...workspace.mounts.flatMap((mount) =>
      mount.kind === 'bind' ? { source: mount.source, target: mount.target, readOnly: mount.readOnly } : [],
    ),
    ...(wish.output === undefined ? [] : [{ source: wish.output.folder, target: OUTPUT, readOnly: false }]),
  ]
  return {
    kind: 'sibling',
    name,
    labels,
    image: image.id,
    user,
    command: siblingCommand(wish),
    folder: wish.folder ?? WORKSPACE,
    environment: { ...wish.environment, ...workspace.environment, ...siblingEnvironment() },
    binds,
    scratch: scratchOf(user, workspace.mounts, image.volumes, binds),
    network: { name, address: network.sibling, gate: network.sidecar },
    memoryBytes: Math.min(host.Memory, LIMITS.siblingMemoryBytes),
    cpus: Math.min(host.NanoCpus / 1e9, LIMITS.siblingCpusMax, info.cpus),
    processes: Math.min(host.PidsLimit, LIMITS.siblingProcessesMax),
    runtime: host.Runtime,
    ...(seccomp !== undefined && { seccompProfile: seccomp.slice('seccomp='.length) }),
    tty: false,
    stdin: true,
    // What comes in and goes out is for nobody but who asked.
    keepsLog: false,
    ...(wish.output !== undefined && { fileBytesMax: wish.output.bytesMax }),
  }
}

/** Whom the agent's processes are, and with them those beside it. */
export function ownerOfAgent({ User }: Pick<ContainerOptions, 'User'>): Owner {
  const [uid = 0, gid = 0] = User.split(':').map(Number)
  return { uid, gid }
}

function scratchOf(owner: Owner, mounts: readonly WorkspaceMount[], volumes: readonly string[], binds: readonly Bind[]): Scratch[] {
  const bytes = LIMITS.siblingScratchBytes
  const fixed: Scratch[] = [
    { target: SCRATCH[0], bytes, mode: '1777', runs: true },
    { target: SCRATCH[1], bytes: LIMITS.scratchRunBytes, mode: '0755', owner, runs: false },
    { target: SCRATCH[2], bytes, mode: '0700', owner, runs: true },
    ...mounts.flatMap((mount) =>
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
  const taken = new Set([...fixed, ...binds].map(({ target }) => target))
  if (!taken.has(WORKSPACE)) fixed.push({ target: WORKSPACE, bytes, mode: '0700', owner, runs: true })
  const declared = volumes.map((path) => path.replace(/\/+$/, '')).filter((path) => !taken.has(path) && path !== WORKSPACE)
  return [...fixed, ...declared.map((target) => ({ target, bytes, mode: '0755', owner, runs: true }))]
}
