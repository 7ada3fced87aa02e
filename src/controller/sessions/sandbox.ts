import { SallyportError } from '../../kernel/errors.ts'
import type { System } from '../../kernel/system.ts'
import type { SandboxFlag, SandboxView } from '../../wire/session-facts.ts'
import { WORKSPACE } from './agent-environment.ts'
import { containersOf } from './bring-up.ts'
import type { ContainerInspection, Engine, EngineInfo, NetworkInspection } from './engine.ts'
import { engineName } from './session-names.ts'
import type { SessionRecord } from './session-parts.ts'
import { containerDifferences, networkDifferences, type Visit } from './verify.ts'

/**
 * I84: Looks at a session's containers and its jail as they are now: what holds the agent, in words, out of what the engine shows, and every
 * difference to what was asked for.
 * @throws session_not_running when its agent's container is gone, engine_unavailable
 */
export async function lookAtSandbox(
  { engine, system }: { readonly engine: Engine; readonly system: Pick<System, 'now'> },
  id: string,
  record: SessionRecord,
  visits: ReadonlyMap<string, Visit>,
): Promise<SandboxView> {
  const jailName = engineName(id, 'jail')
  const earlier = new Map(visits)
  const [info, agent, sidecar, jail] = await Promise.all([
    engine.info(),
    engine.inspect(record.ids.agent ?? ''),
    engine.inspect(record.ids.sidecar ?? ''),
    engine.network(jailName),
  ])
  if (agent === undefined || record.agent === undefined)
    throw new SallyportError('session_not_running', `session "${id}" has no container of its agent`, {
      hint: 'sallyport ls lists those that run',
    })
  const askedJail = record.networks?.find(({ Name }) => Name === jailName)
  const differences = [
    ...containerDifferences(record.agent, agent, info).map((line) => `agent: ${line}`),
    ...(sidecar === undefined || record.sidecar === undefined
      ? ['gate: its container is gone']
      : containerDifferences(record.sidecar, sidecar, info, new Map([...earlier, ...visits])).map((line) => `gate: ${line}`)),
    ...(jail === undefined || askedJail === undefined
      ? [`network ${jailName} is gone`]
      : networkDifferences(askedJail, jail, containersOf(id, jailName))),
  ]
  return {
    at: system.now(),
    flags: [...holdOf(agent, info), jailFlag(agent, jail, jailName), ...workspaceFlags(agent, record)],
    differences,
  }
}

/** What of a container's own settings holds it, as the engine shows them. */
function holdOf(found: ContainerInspection, info: EngineInfo): SandboxFlag[] {
  const host = found.HostConfig
  const list = (name: string): string[] => (Array.isArray(host[name]) ? (host[name] as unknown[]).map(String) : [])
  const count = (name: string): number => (typeof host[name] === 'number' ? host[name] : 0)
  const [dropped, added, options] = [list('CapDrop'), list('CapAdd'), list('SecurityOpt')]
  const noPrivileges = options.some((option) => /^no-new-privileges(?:[:=]true)?$/.test(option))
  const shared = (['PidMode', 'IpcMode', 'UTSMode', 'UsernsMode', 'CgroupnsMode'] as const).flatMap((name) => {
    const value = typeof host[name] === 'string' ? host[name] : ''
    return value === '' || value === 'private' ? [] : [`${name} ${value}`]
  })
  const [memory, cpus, pids] = [count('Memory'), count('NanoCpus') / 1e9, count('PidsLimit')]
  return [
    flag('read_only_root', 'Root file system', host['ReadonlyRootfs'] === true, host['ReadonlyRootfs'] === true ? 'read-only' : 'writable'),
    flag(
      'capabilities',
      'Capabilities',
      dropped.includes('ALL') && added.length === 0,
      `dropped: ${dropped.join(', ') || 'none'}; added: ${added.join(', ') || 'none'}`,
    ),
    flag('privileged', 'Privileged', host['Privileged'] !== true, host['Privileged'] === true ? 'yes' : 'no'),
    flag('no_new_privileges', 'no-new-privileges', noPrivileges, noPrivileges ? 'on' : 'off'),
    seccompFlag(options, info),
    appArmorFlag(found, info),
    userFlag(found, info),
    flag('namespaces', 'Namespaces', shared.length === 0, shared.length === 0 ? 'its own' : shared.join(', ')),
    flag('memory', 'Memory', memory > 0, memory > 0 ? `at most ${memory} bytes` : 'no limit'),
    flag('cpus', 'Processors', cpus > 0, cpus > 0 ? `at most ${cpus}` : 'no limit'),
    flag('pids', 'Processes', pids > 0, pids > 0 ? `at most ${pids}` : 'no limit'),
  ]
}

function flag(id: string, what: string, holds: boolean | null, found: string): SandboxFlag {
  return { id, what, found, holds }
}

function seccompFlag(options: readonly string[], { hasSeccomp }: EngineInfo): SandboxFlag {
  const named = options.find((option) => option.startsWith('seccomp'))
  const isOff = named?.endsWith('unconfined') === true
  const found = isOff
    ? 'off'
    : named !== undefined
      ? 'a profile of the policy'
      : hasSeccomp
        ? 'the engine’s profile'
        : 'the engine has none'
  return { id: 'seccomp', what: 'System calls (seccomp)', found, holds: isOff ? false : named !== undefined || hasSeccomp ? true : null }
}

function appArmorFlag({ AppArmorProfile: profile = '' }: ContainerInspection, { hasAppArmor }: EngineInfo): SandboxFlag {
  const isOn = profile !== '' && profile !== 'unconfined'
  return {
    id: 'apparmor',
    what: 'AppArmor',
    found: isOn ? profile : hasAppArmor ? profile || 'no profile' : 'the engine has none',
    holds: isOn ? true : hasAppArmor ? false : null,
  }
}

function userFlag({ Config: { User: user } }: ContainerInspection, { isRootless, isRemapped }: EngineInfo): SandboxFlag {
  const isRoot = user === '' || /^(?:0|root)(?::|$)/.test(user)
  const moved = isRootless ? ', in the user namespace of a rootless engine' : isRemapped ? ', in a user namespace of its own' : ''
  return { id: 'user', what: 'User', found: `${user === '' ? 'root' : user}${moved}`, holds: !isRoot || moved !== '' }
}

/** The agent's only network leads nowhere: internal, without an address of the host, without IPv6. */
function jailFlag(agent: ContainerInspection, jail: NetworkInspection | undefined, name: string): SandboxFlag {
  const networks = Object.keys(agent.NetworkSettings.Networks)
  const open = [
    ...(jail === undefined ? ['the network is gone'] : []),
    ...networks.filter((one) => one !== name).map((one) => `also on ${one}`),
    ...(networks.includes(name) ? [] : ['not on its network']),
    ...(jail?.Internal === false ? ['not internal'] : []),
    ...(jail !== undefined && jail.Options['com.docker.network.bridge.inhibit_ipv4'] !== 'true' ? ['the host has an address on it'] : []),
    ...(jail?.EnableIPv6 === true ? ['with IPv6'] : []),
  ]
  return {
    id: 'jail',
    what: 'Network jail',
    found: open.length === 0 ? 'internal, no address of this machine, the gate is the only way out' : open.join('; '),
    holds: open.length === 0,
  }
}

/** What of the workspace the agent cannot write or see, by what is mounted. */
function workspaceFlags({ Mounts: mounts, HostConfig: host }: ContainerInspection, { filesystem }: SessionRecord): SandboxFlag[] {
  const whole = mounts.find(({ Destination }) => Destination === WORKSPACE)
  const workspace: SandboxFlag = {
    id: 'workspace',
    what: 'Workspace',
    found: whole === undefined ? 'none of this machine' : whole.RW ? 'read and write' : 'read-only',
    holds: true,
  }
  if (whole?.RW !== true) return [workspace, { id: 'git', what: 'Git protection', found: 'nothing of it can be written', holds: true }]
  const covers = mounts.filter(({ Destination, RW }) => !RW && Destination.startsWith(`${WORKSPACE}/`)).length
  const inMemory = Object.keys(host['Tmpfs'] ?? {}).filter((path) => path.startsWith(`${WORKSPACE}/`)).length
  const over = covers + inMemory
  const isProtected = filesystem.git_metadata === 'protected'
  const found = `${isProtected ? 'on' : 'off'}; ${over} ${over === 1 ? 'place' : 'places'} of the workspace covered, hidden ones too`
  return [workspace, { id: 'git', what: 'Git protection', found, holds: isProtected }]
}
