import type { Duplex, Readable } from 'node:stream'
import type { EngineNetwork } from './subnets.ts'

/** The container engine, as sessions use it. `docker-engine.ts` is the one that there is. */
export type Engine = {
  /** @throws engine_unavailable */
  info(): Promise<EngineInfo>
  /** What is known of an image that the engine has; undefined where it has none of this name. */
  image(name: string): Promise<ImageFacts | undefined>
  /** Fetches an image. @throws image_missing when nobody has it or no registry answers; engine_unavailable */
  pull(name: string, progress: (step: PullStep) => void, signal: AbortSignal): Promise<void>

  networks(): Promise<ListedNetwork[]>
  /** Gives the network's id. `isOverlap` of engine-call.ts tells whether it was refused for its subnet. @throws engine_refused */
  createNetwork(options: NetworkOptions): Promise<string>
  network(name: string): Promise<NetworkInspection | undefined>
  /** Also while it runs. */
  connect(network: string, container: string, endpoint?: Endpoint): Promise<void>
  /** Whether it runs or not. What is gone or was not connected is fine. */
  disconnect(network: string, container: string): Promise<void>
  /** One that is gone already is fine. @throws engine_refused while something is connected to it */
  removeNetwork(id: string): Promise<void>

  /** Every container with these labels, running or not. */
  containers(labels: Readonly<Record<string, string>>): Promise<ListedContainer[]>
  /** Gives the container's id. It does not run yet. @throws engine_refused */
  create(options: ContainerOptions): Promise<string>
  /** @throws engine_refused with the engine's reason (a program that is not there) */
  start(id: string): Promise<void>
  inspect(id: string): Promise<ContainerInspection | undefined>
  /** What it uses, counted once; undefined where it does not run. */
  usage(id: string): Promise<ContainerUsage | undefined>
  /** Sends a signal to the first process. One that does not run is fine. */
  kill(id: string, signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
  /** Kills and removes it with what it kept. One that is gone already is fine. */
  remove(id: string): Promise<void>
  /** Its processes stand still until `unpause`. One that does not run is fine. */
  pause(id: string): Promise<void>
  /** One that is gone or not paused is fine. */
  unpause(id: string): Promise<void>
  /** Resolves when it runs no more, with its exit code. */
  wait(id: string, signal: AbortSignal): Promise<number>
  /** A file as the container has it, whether it runs or not; links are followed within it. At most `LIMITS.imageFileBytesMax`. */
  readFile(id: string, path: string): Promise<Buffer | undefined>
  /** What is at a path of a container's files, whether it runs or not; links on the way are followed within it, the last one is not. */
  stat(id: string, path: string): Promise<PathFacts | undefined>
  /** Its first process's streams. `replay`: also what it printed before; `only` that, for one that has ended. */
  attach(id: string, options: { readonly tty: boolean; readonly replay: boolean | 'only' }): Promise<EngineStream>
  exec(id: string, options: ExecOptions): Promise<EngineStream>
  resize(id: string, size: TerminalSize): Promise<void>
  /** What it printed: both streams in order. Ends with the container where `follow` is asked for. */
  logs(id: string, options: LogOptions, signal: AbortSignal): AsyncIterable<Buffer>
  /** What happens to containers with these labels from now on. Ends with an error when the engine goes. */
  events(labels: Readonly<Record<string, string>>, signal: AbortSignal): AsyncIterable<EngineEvent>
}

export type EngineInfo = {
  readonly version: string
  readonly apiVersion: string
  readonly operatingSystem: string
  readonly cpus: number
  /** Where the engine keeps its state on its machine. */
  readonly rootFolder: string
  readonly defaultRuntime: string
  readonly runtimes: readonly string[]
  readonly cgroupVersion: string
  readonly storageDriver: string
  /** The engine runs without root: uids of a container are not those of the host. */
  readonly isRootless: boolean
  /** Uids of containers are moved away (userns-remap). */
  readonly isRemapped: boolean
  readonly hasSeccomp: boolean
  readonly hasAppArmor: boolean
  /** It runs on this machine: its socket is a file here, and it is no Desktop, whose machine is a virtual one. */
  readonly isLocal: boolean
  /** Its socket, where it is a file. */
  readonly socket: string | undefined
}

export type ImageFacts = {
  readonly id: string
  readonly environment: readonly string[]
  readonly volumes: readonly string[]
  readonly labels: Readonly<Record<string, string>>
  readonly user: string
  readonly entrypoint: readonly string[]
  readonly command: readonly string[]
}

/** Sums since it started, and what is so now. */
export type ContainerUsage = {
  /** By the engine's clock, in milliseconds. */
  readonly atMs: number
  readonly processorMs: number
  readonly memoryBytes: number
  readonly memoryBytesMax: number
  readonly pids: number
  readonly pidsMax: number
}

export type PathFacts = { readonly kind: 'file' | 'folder' | 'link' | 'other'; readonly isExecutable: boolean; readonly linkTarget: string }

export type PullStep = { readonly layer: string; readonly status: string; readonly doneBytes?: number; readonly totalBytes?: number }
export type TerminalSize = { readonly columns: number; readonly rows: number }
export type LogOptions = { readonly follow: boolean; readonly tail?: number }
export type ExecOptions = {
  readonly argv: readonly string[]
  readonly user: string
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
  readonly tty: boolean
  readonly size?: TerminalSize
}

/** The streams of a process in a container. */
export type EngineStream = {
  /** To its stdin; from its stdout, or from its terminal, where both are one. */
  readonly stream: Duplex
  /** Apart from stdout where there is no terminal. Must be read, or the other stands still. */
  readonly stderr: Readable | undefined
  readonly resize: (size: TerminalSize) => Promise<void>
  /** Once the process has ended. */
  readonly exitCode: () => Promise<number>
}

export type EngineEvent = {
  readonly container: string
  readonly name: string
  readonly action: string
  readonly labels: Readonly<Record<string, string>>
  readonly exitCode?: number
}

export type ListedContainer = {
  readonly id: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly isRunning: boolean
}
export type ListedNetwork = EngineNetwork & {
  readonly id: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
}

/** A network as it is asked for, in the engine's own words. */
export type NetworkOptions = {
  readonly Name: string
  readonly CheckDuplicate: true
  readonly Driver: 'bridge'
  readonly Internal: boolean
  readonly Attachable: false
  readonly Ingress: false
  readonly EnableIPv6: false
  readonly IPAM: { readonly Driver: 'default'; readonly Config: readonly { readonly Subnet: string; readonly IPRange?: string }[] }
  readonly Options: Readonly<Record<string, string>>
  readonly Labels: Readonly<Record<string, string>>
}
export type NetworkInspection = Omit<NetworkOptions, 'CheckDuplicate' | 'EnableIPv6'> & {
  readonly EnableIPv6: boolean
  readonly Id: string
  readonly Containers: Readonly<Record<string, { readonly Name: string }>>
}

/** A container as it is asked for, in the engine's own words, so that what `inspect` shows can be held against it. */
export type ContainerOptions = {
  readonly name: string
  readonly Image: string
  readonly User: string
  readonly Entrypoint: readonly string[]
  readonly Cmd: readonly string[]
  readonly WorkingDir: string
  readonly Env: readonly string[]
  readonly Labels: Readonly<Record<string, string>>
  readonly Healthcheck: { readonly Test: readonly ['NONE'] }
  readonly Tty: boolean
  readonly OpenStdin: boolean
  readonly StdinOnce: boolean
  readonly HostConfig: HostConfig
  readonly NetworkingConfig: { readonly EndpointsConfig: Readonly<Record<string, Endpoint>> }
}
export type Endpoint = { readonly IPAMConfig?: { readonly IPv4Address: string }; readonly Aliases?: readonly string[] }

export type HostConfig = {
  readonly CapAdd: readonly never[]
  readonly CapDrop: readonly ['ALL']
  readonly SecurityOpt: readonly string[]
  readonly Privileged: false
  readonly ReadonlyRootfs: true
  readonly Init: true
  readonly IpcMode: 'private'
  readonly PidMode: ''
  readonly UTSMode: ''
  readonly UsernsMode: ''
  readonly CgroupnsMode: 'private'
  readonly NetworkMode: string
  readonly Runtime: string
  readonly Sysctls: Readonly<Record<string, string>>
  readonly Memory: number
  readonly MemorySwap: number
  readonly NanoCpus: number
  readonly PidsLimit: number
  readonly OomKillDisable: false
  readonly Ulimits: readonly { readonly Name: string; readonly Soft: number; readonly Hard: number }[]
  readonly Tmpfs: Readonly<Record<string, string>>
  readonly Mounts: readonly MountOptions[]
  readonly MaskedPaths: readonly string[]
  readonly ReadonlyPaths: readonly string[]
  readonly Dns: readonly string[]
  readonly DnsSearch: readonly string[]
  readonly DnsOptions: readonly string[]
  readonly ExtraHosts: readonly string[]
  readonly RestartPolicy: { readonly Name: string; readonly MaximumRetryCount: 0 }
  readonly LogConfig: { readonly Type: string; readonly Config: Readonly<Record<string, string>> }
  readonly AutoRemove: false
  readonly PublishAllPorts: false
}
export type MountOptions = {
  readonly Type: 'bind'
  readonly Source: string
  readonly Target: string
  readonly ReadOnly: boolean
  readonly BindOptions: { readonly Propagation: 'rprivate'; readonly NonRecursive: true }
}

/** What `inspect` shows of a container, as far as it is looked at. */
export type ContainerInspection = {
  readonly Id: string
  readonly Name: string
  readonly Image: string
  readonly AppArmorProfile?: string
  readonly State: {
    readonly Running: boolean
    /** Between two starts: then it is `Running` too. */
    readonly Restarting?: boolean
    readonly Paused?: boolean
    readonly OOMKilled?: boolean
    readonly Pid: number
    readonly ExitCode: number
    readonly StartedAt: string
  }
  readonly Config: {
    readonly User: string
    readonly Env: readonly string[] | null
    readonly Entrypoint: readonly string[] | null
    readonly Cmd: readonly string[] | null
    readonly WorkingDir: string
    readonly Labels: Readonly<Record<string, string>> | null
    readonly Healthcheck?: { readonly Test?: readonly string[] | null } | null
    readonly Tty: boolean
    readonly OpenStdin: boolean
    readonly StdinOnce: boolean
  }
  readonly HostConfig: Readonly<Record<string, unknown>>
  readonly Mounts: readonly ShownMount[]
  readonly NetworkSettings: {
    readonly Networks: Readonly<Record<string, { readonly NetworkID: string; readonly IPAddress: string }>>
    readonly Ports?: Readonly<Record<string, unknown>> | null
  }
}
export type ShownMount = {
  readonly Type: string
  readonly Source: string
  readonly Destination: string
  readonly RW: boolean
  readonly Propagation: string
}
