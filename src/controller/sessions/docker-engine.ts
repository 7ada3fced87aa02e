import type { Readable } from 'node:stream'
import Docker from 'dockerode'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { ContainerInspection, Engine, EngineEvent, EngineInfo, ImageFacts, NetworkInspection, PullStep } from './engine.ts'
import type { EngineAddress } from './engine-address.ts'
import { isNotConnected, orNothing, pairs, translated, type Caller } from './engine-call.ts'
import { readContainerFile, resize, statContainerPath, streamVerbs } from './engine-streams.ts'
import { readUsage } from './engine-usage.ts'

/** Of API 1.41 (Engine 20.10), by the numbers of the version. */
const API_MIN = [1, 41] as const

/** The Docker Engine at this address, by dockerode. Nothing is asked of it yet. */
export function createDockerEngine(address: EngineAddress): Engine {
  const docker = new Docker({ ...address })
  const call = caller(docker)
  const socket = 'socketPath' in address ? address.socketPath : undefined
  return {
    info: () => readInfo(call, socket),
    image: async (name) => imageFacts(await orNothing(call({ path: `/images/${encodeURIComponent(name)}/json` }))),
    pull: (name, progress, signal) => pull(docker, call, name, progress, signal),
    ...networkVerbs(call),
    ...containerVerbs(call),
    usage: (id) => readUsage(call, id),
    ...streamVerbs(call),
    readFile: (id, path) => readContainerFile(call, id, path),
    stat: (id, path) => statContainerPath(call, id, path),
  }
}

/** One question to the engine. What is asked goes in the body: a query would be in the engine's log. */
function caller(docker: Docker): Caller {
  return ({ method = 'GET', path, query = {}, body = {}, signal, stream, isLong = false }) => {
    const bound = isLong || stream !== undefined ? undefined : AbortSignal.timeout(LIMITS.engineCallMs)
    const signals = [signal, bound].filter((one) => one !== undefined)
    const dial = {
      method,
      path: `${path}?`,
      options: { _query: query, ...(method === 'POST' && { _body: body }) },
      statusCodes: { 101: true, 200: true, 201: true, 204: true, 304: true },
      ...(stream === 'read' && { isStream: true }),
      ...(stream === 'both' && { isStream: true, hijack: true, openStdin: true, allowEmpty: true }),
      ...(signals.length > 0 && { abortSignal: AbortSignal.any(signals) }),
    }
    return new Promise((resolve, reject) => {
      docker.modem.dial(dial, (error: unknown, result: unknown) => {
        if (error === null || error === undefined) resolve(result)
        else reject(signal?.aborted === true ? (signal.reason as Error) : translated(error, `${method} ${path}`))
      })
    })
  }
}

type RawInfo = {
  readonly ServerVersion: string
  readonly OperatingSystem: string
  readonly NCPU: number
  readonly DockerRootDir: string
  readonly DefaultRuntime: string
  readonly Runtimes: Readonly<Record<string, unknown>>
  readonly CgroupVersion?: string
  readonly Driver: string
  readonly SecurityOptions: readonly string[] | null
}

async function readInfo(call: Caller, socket: string | undefined): Promise<EngineInfo> {
  const [raw, version] = (await Promise.all([call({ path: '/info' }), call({ path: '/version' })])) as [RawInfo, { ApiVersion: string }]
  const [major = 0, minor = 0] = version.ApiVersion.split('.').map(Number)
  if (major < API_MIN[0] || (major === API_MIN[0] && minor < API_MIN[1])) {
    throw new SallyportError('engine_unavailable', `the engine ${raw.ServerVersion} is too old: its API is ${version.ApiVersion}`, {
      hint: `Docker Engine 20.10 (API ${API_MIN.join('.')}) or newer is needed`,
    })
  }
  const options = (raw.SecurityOptions ?? []).join(' ')
  return {
    version: raw.ServerVersion,
    apiVersion: version.ApiVersion,
    operatingSystem: raw.OperatingSystem,
    cpus: raw.NCPU,
    rootFolder: raw.DockerRootDir,
    defaultRuntime: raw.DefaultRuntime,
    runtimes: Object.keys(raw.Runtimes),
    cgroupVersion: raw.CgroupVersion ?? '1',
    storageDriver: raw.Driver,
    isRootless: options.includes('name=rootless'),
    isRemapped: options.includes('name=userns'),
    hasSeccomp: options.includes('name=seccomp'),
    hasAppArmor: options.includes('name=apparmor'),
    isLocal: socket !== undefined && process.platform === 'linux' && !/desktop/i.test(raw.OperatingSystem),
    socket,
  }
}

type RawImage = {
  readonly Id: string
  readonly Config: {
    readonly Env?: readonly string[] | null
    readonly Volumes?: Readonly<Record<string, unknown>> | null
    readonly Labels?: Readonly<Record<string, string>> | null
    readonly User?: string
    readonly Entrypoint?: readonly string[] | null
    readonly Cmd?: readonly string[] | null
  } | null
}

function imageFacts(answer: unknown): ImageFacts | undefined {
  if (answer === undefined) return undefined
  const { Id, Config } = answer as RawImage
  return {
    id: Id,
    environment: Config?.Env ?? [],
    volumes: Object.keys(Config?.Volumes ?? {}),
    labels: Config?.Labels ?? {},
    user: Config?.User ?? '',
    entrypoint: Config?.Entrypoint ?? [],
    command: Config?.Cmd ?? [],
  }
}

type RawPull = { readonly id?: string; readonly status?: string; readonly progressDetail?: { current?: number; total?: number } }

async function pull(docker: Docker, call: Caller, name: string, progress: (step: PullStep) => void, signal: AbortSignal): Promise<void> {
  // Without a tag the engine would fetch every one there is.
  const isExact = name.includes('@') || /:[^/]+$/.test(name)
  try {
    const fromImage = isExact ? name : `${name}:latest`
    const stream = (await call({ method: 'POST', path: '/images/create', query: { fromImage }, stream: 'read', signal })) as Readable
    await new Promise<void>((resolve, reject) => {
      const abort = (): void => void stream.destroy(signal.reason as Error)
      signal.addEventListener('abort', abort, { once: true })
      docker.modem.followProgress(
        stream as NodeJS.ReadableStream,
        (error) => {
          signal.removeEventListener('abort', abort)
          if (error === null) resolve()
          else reject(error)
        },
        ({ id, status, progressDetail }: RawPull) =>
          progress({
            layer: id ?? '',
            status: status ?? '',
            ...(progressDetail?.current !== undefined && { doneBytes: progressDetail.current }),
            ...(progressDetail?.total !== undefined && { totalBytes: progressDetail.total }),
          }),
      )
    })
  } catch (cause) {
    signal.throwIfAborted()
    if (cause instanceof SallyportError && cause.code === 'engine_unavailable') throw cause
    const said = cause instanceof Error ? cause.message.replace(/^the engine refused [^:]*: /, '') : String(cause)
    throw new SallyportError('image_missing', `the engine has no image ${name}, and could not fetch it: ${said}`, {
      hint: 'is its name right, and does its registry answer? An image of your own: docker build -t NAME .',
      cause,
    })
  }
}

type RawNetwork = {
  readonly Id: string
  readonly Name: string
  readonly Labels: Readonly<Record<string, string>> | null
  readonly IPAM: { readonly Config: readonly { readonly Subnet?: string }[] | null }
}

function networkVerbs(call: Caller): Pick<Engine, 'networks' | 'createNetwork' | 'network' | 'connect' | 'disconnect' | 'removeNetwork'> {
  return {
    async networks() {
      return ((await call({ path: '/networks' })) as RawNetwork[]).map(({ Id, Name, Labels, IPAM }) => ({
        id: Id,
        name: Name,
        labels: Labels ?? {},
        project: Labels?.['sallyport.session'] ?? Labels?.['com.docker.compose.project'] ?? '',
        subnets: (IPAM.Config ?? []).flatMap(({ Subnet }) => Subnet ?? []),
      }))
    },
    createNetwork: async (options) => ((await call({ method: 'POST', path: '/networks/create', body: options })) as { Id: string }).Id,
    network: async (name) => (await orNothing(call({ path: `/networks/${encodeURIComponent(name)}` }))) as NetworkInspection | undefined,
    connect: async (network, container, endpoint) =>
      void (await call({
        method: 'POST',
        path: `/networks/${network}/connect`,
        body: { Container: container, ...(endpoint !== undefined && { EndpointConfig: endpoint }) },
      })),
    async disconnect(network, container) {
      try {
        await orNothing(call({ method: 'POST', path: `/networks/${network}/disconnect`, body: { Container: container, Force: true } }))
      } catch (error) {
        if (!isNotConnected(error)) throw error
      }
    },
    removeNetwork: async (id) => void (await orNothing(call({ method: 'DELETE', path: `/networks/${id}` }))),
  }
}

type RawListed = {
  readonly Id: string
  readonly Names: readonly string[]
  readonly Labels: Readonly<Record<string, string>>
  readonly State: string
}

function containerVerbs(
  call: Caller,
): Pick<Engine, 'containers' | 'create' | 'start' | 'inspect' | 'kill' | 'pause' | 'unpause' | 'remove' | 'wait' | 'resize' | 'events'> {
  return {
    async containers(labels) {
      const listed = (await call({ path: '/containers/json', query: { all: true, filters: { label: pairs(labels) } } })) as RawListed[]
      return listed.map(({ Id, Names, Labels, State }) => ({
        id: Id,
        name: (Names[0] ?? '').replace(/^\//, ''),
        labels: Labels,
        isRunning: State === 'running',
      }))
    },
    async create({ name, ...body }) {
      return ((await call({ method: 'POST', path: '/containers/create', query: { name }, body })) as { Id: string }).Id
    },
    start: async (id) => void (await call({ method: 'POST', path: `/containers/${id}/start` })),
    inspect: async (id) => (await orNothing(call({ path: `/containers/${id}/json` }))) as ContainerInspection | undefined,
    // 409: it does not run.
    kill: async (id, signal) => void (await orNothing(call({ method: 'POST', path: `/containers/${id}/kill`, query: { signal } }), 409)),
    // 409 and, of engines before 25, 500: it does not run, or is paused already.
    pause: async (id) => void (await orNothing(call({ method: 'POST', path: `/containers/${id}/pause` }), 409, 500)),
    unpause: async (id) => void (await orNothing(call({ method: 'POST', path: `/containers/${id}/unpause` }), 409, 500)),
    // 409: somebody removes it already.
    remove: async (id) =>
      void (await orNothing(call({ method: 'DELETE', path: `/containers/${id}`, query: { force: true, v: true } }), 409)),
    async wait(id, signal) {
      return ((await call({ method: 'POST', path: `/containers/${id}/wait`, signal, isLong: true })) as { StatusCode: number }).StatusCode
    },
    resize: (id, size) => resize(call, `/containers/${id}`, size),
    events: (labels, signal) => events(call, labels, signal),
  }
}

type RawEvent = { readonly Action: string; readonly Actor: { readonly ID: string; readonly Attributes: Readonly<Record<string, string>> } }

async function* events(call: Caller, labels: Readonly<Record<string, string>>, signal: AbortSignal): AsyncIterable<EngineEvent> {
  const query = { filters: { type: ['container'], label: pairs(labels) } }
  const stream = (await call({ path: '/events', query, stream: 'read', signal })) as Readable
  let text = ''
  for await (const chunk of stream.setEncoding('utf8')) {
    text += String(chunk)
    const lines = text.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines.filter((one) => one.trim() !== '')) {
      const { Action, Actor } = JSON.parse(line) as RawEvent
      const { name = '', exitCode, ...attributes } = Actor.Attributes
      yield { container: Actor.ID, name, action: Action, labels: attributes, ...(exitCode !== undefined && { exitCode: Number(exitCode) }) }
    }
  }
  signal.throwIfAborted()
  throw new SallyportError('engine_unavailable', 'the engine ended its events')
}
