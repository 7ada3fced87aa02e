import { LIMITS } from '../../kernel/limits.ts'
import type { Owner } from './agent-files.ts'
import type { ContainerOptions, Endpoint, HostConfig, MountOptions, NetworkOptions } from './engine.ts'
import type { Jail } from './jail.ts'

/** What a container shall be, in our words. Everything that holds it is not here but in `harden`, and cannot be asked for. */
export type ContainerSpec = {
  readonly kind: 'agent' | 'sidecar' | 'probe' | 'sibling'
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  /** By its id: a name could lead to another image by the time that the container is made. */
  readonly image: string
  readonly user: Owner
  /** The program and its arguments; whatever the image would start is not asked. */
  readonly command: readonly [string, ...string[]]
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
  readonly binds: readonly Bind[]
  readonly scratch: readonly Scratch[]
  readonly network: ContainerNetwork
  readonly memoryBytes: number
  readonly cpus: number
  readonly processes: number
  readonly runtime: string
  /** A seccomp profile as JSON; without one the engine's own. */
  readonly seccompProfile?: string
  readonly tty: boolean
  readonly stdin: boolean
  /** False where what it prints must not be on the engine's disk. */
  readonly keepsLog: boolean
  /** The longest file that it may write. */
  readonly fileBytesMax?: number
}

/** A file or folder of the host. `source` is its real path. */
export type Bind = { readonly source: string; readonly target: string; readonly readOnly: boolean }

/** A writable folder in memory. */
export type Scratch = {
  readonly target: string
  readonly bytes: number
  readonly mode: string
  readonly owner?: Owner
  /** Whether programs may be run from it. */
  readonly runs: boolean
  readonly readOnly?: boolean
}

export type ContainerNetwork = {
  readonly name: string
  readonly address?: string
  readonly aliases?: readonly string[]
  /** The address that its resolver and the name `sallyport` lead to. */
  readonly gate?: string
}

/** What the kernel shows of the machine and nobody in a container needs: the engine's own list, said aloud so that it can be verified. */
export const MASKED_PATHS = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/interrupts',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/sys/devices/virtual/powercap',
  '/sys/firmware',
]
export const READONLY_PATHS = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']

/** The jail's bridge keeps an IPv6 link-local address on the host, whatever the network says. Without IPv6 nobody gets there. */
const NO_IPV6 = { 'net.ipv6.conf.all.disable_ipv6': '1' }
/** The sidecar draws the line between two networks and must not route between them. Ports below 1024 need no capability so. I12 */
const SIDECAR_SYSCTLS = { ...NO_IPV6, 'net.ipv4.ip_forward': '0', 'net.ipv4.ip_unprivileged_port_start': '0' }

/**
 * I14: nobody in a session holds a capability, can gain one, writes to its root filesystem, or uses more than its share. What is
 * here holds for each container that is ever started; nothing of it depends on what was asked for but names, sizes and paths.
 */
export function harden(spec: ContainerSpec): ContainerOptions {
  const { network, seccompProfile } = spec
  const host: HostConfig = {
    CapAdd: [],
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges:true', ...(seccompProfile === undefined ? [] : [`seccomp=${seccompProfile}`])],
    Privileged: false,
    ReadonlyRootfs: true,
    // Reaps what the agent's programs leave, and ends at a signal.
    Init: true,
    IpcMode: 'private',
    PidMode: '',
    UTSMode: '',
    UsernsMode: '',
    CgroupnsMode: 'private',
    NetworkMode: network.name,
    Runtime: spec.runtime,
    Sysctls: spec.kind === 'sidecar' ? SIDECAR_SYSCTLS : NO_IPV6,
    Memory: spec.memoryBytes,
    // The same: no swap.
    MemorySwap: spec.memoryBytes,
    NanoCpus: Math.round(spec.cpus * 1e9),
    PidsLimit: spec.processes,
    OomKillDisable: false,
    Ulimits: [
      { Name: 'core', Soft: 0, Hard: 0 },
      ...(spec.fileBytesMax === undefined ? [] : [{ Name: 'fsize', Soft: spec.fileBytesMax, Hard: spec.fileBytesMax }]),
    ],
    Tmpfs: Object.fromEntries(spec.scratch.map((scratch) => [scratch.target, tmpfs(scratch)])),
    Mounts: spec.binds.map(mount),
    MaskedPaths: MASKED_PATHS,
    ReadonlyPaths: READONLY_PATHS,
    // The only resolver is the sidecar, and the host's search domains are not tried.
    Dns: network.gate === undefined ? [] : [network.gate],
    DnsSearch: network.gate === undefined ? [] : ['.'],
    DnsOptions: network.gate === undefined ? [] : ['timeout:1', 'attempts:2'],
    ExtraHosts: network.gate === undefined ? [] : [`sallyport:${network.gate}`],
    // The gate comes back by itself, with the same address; an agent that has ended has ended.
    RestartPolicy: { Name: spec.kind === 'sidecar' ? 'unless-stopped' : 'no', MaximumRetryCount: 0 },
    LogConfig: spec.keepsLog
      ? { Type: 'json-file', Config: { 'max-size': String(LIMITS.containerLogBytesMax), 'max-file': String(LIMITS.containerLogFilesMax) } }
      : { Type: 'none', Config: {} },
    AutoRemove: false,
    PublishAllPorts: false,
  }
  const [program, ...args] = spec.command
  return {
    name: spec.name,
    Image: spec.image,
    User: `${spec.user.uid}:${spec.user.gid}`,
    Entrypoint: [program],
    Cmd: args,
    WorkingDir: spec.folder,
    Env: Object.entries(spec.environment).map(([name, value]) => `${name}=${value}`),
    Labels: spec.labels,
    // An image's own check would run its program over and over.
    Healthcheck: { Test: ['NONE'] },
    Tty: spec.tty,
    OpenStdin: spec.stdin,
    // Where a pipe is attached its end is the program's: else the engine takes the end of the input for the end of the output.
    StdinOnce: (spec.kind === 'agent' || spec.kind === 'sibling') && spec.stdin && !spec.tty,
    HostConfig: host,
    NetworkingConfig: { EndpointsConfig: network.name === 'none' ? {} : { [network.name]: endpoint(network) } },
  }
}

/** The session's network without a way out. `isolates`: the engine can leave the bridge without an address by itself (28 and newer). */
export function jailNetwork(name: string, jail: Jail, labels: Readonly<Record<string, string>>, isolates: boolean): NetworkOptions {
  return {
    ...bridge(name, labels),
    Internal: true,
    // The sidecar's address is left out, so that no other container can get it first.
    IPAM: { Driver: 'default', Config: [{ Subnet: jail.subnet, IPRange: jail.ipRange }] },
    Options: {
      // "internal" alone leaves every service of the host reachable by the bridge's own address.
      'com.docker.network.bridge.inhibit_ipv4': 'true',
      ...(isolates && { 'com.docker.network.bridge.gateway_mode_ipv4': 'isolated' }),
    },
  }
}

/** The network that only the sidecar has, by which what is allowed leaves. */
export function uplinkNetwork(name: string, subnet: string, labels: Readonly<Record<string, string>>): NetworkOptions {
  return { ...bridge(name, labels), Internal: false, IPAM: { Driver: 'default', Config: [{ Subnet: subnet }] }, Options: {} }
}

function bridge(name: string, labels: Readonly<Record<string, string>>) {
  return {
    Name: name,
    CheckDuplicate: true,
    Driver: 'bridge',
    Attachable: false,
    Ingress: false,
    EnableIPv6: false,
    Labels: labels,
  } as const
}

function mount({ source, target, readOnly }: Bind): MountOptions {
  return {
    Type: 'bind',
    Source: source,
    Target: target,
    ReadOnly: readOnly,
    // What else is mounted below the source on the host (a socket, another disk) does not come along; older engines would leave
    // that writable under a read-only mount.
    BindOptions: { Propagation: 'rprivate', NonRecursive: true },
  }
}

function tmpfs({ bytes, mode, owner, runs, readOnly = false }: Scratch): string {
  const owned = owner === undefined ? [] : [`uid=${owner.uid}`, `gid=${owner.gid}`]
  return [readOnly ? 'ro' : 'rw', runs ? 'exec' : 'noexec', 'nosuid', 'nodev', `size=${bytes}`, `mode=${mode}`, ...owned].join(',')
}

function endpoint({ address, aliases }: ContainerNetwork): Endpoint {
  return {
    ...(address !== undefined && { IPAMConfig: { IPv4Address: address } }),
    ...(aliases !== undefined && { Aliases: aliases }),
  }
}
