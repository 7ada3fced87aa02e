import { posix } from 'node:path'
import type { Duplex, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import Docker from 'dockerode'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { readArchiveEntry } from './archive.ts'
import type {
  ContainerInspection,
  Engine,
  EngineEvent,
  EngineInfo,
  EngineStream,
  ImageFacts,
  NetworkInspection,
  PullStep,
  TerminalSize,
} from './engine.ts'
import type { EngineAddress } from './engine-address.ts'
import { createFrameReader, splitFrames } from './frames.ts'
import { ProcessStream } from './process-stream.ts'

/** Of API 1.41 (Engine 20.10), by the numbers of the version. */
const API_MIN = [1, 41] as const
/** An exec that has ended says so in its streams a moment before it has an exit code. */
const EXIT_LOOKS_MAX = 100
const EXIT_LOOK_MS = 20

type Call = {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  readonly signal?: AbortSignal
  readonly stream?: 'read' | 'both'
  /** A question that takes as long as it takes. */
  readonly isLong?: boolean
}

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
    ...streamVerbs(call),
    readFile: (id, path) => readContainerFile(call, id, path),
  }
}

type Caller = (call: Call) => Promise<unknown>

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

/** What dockerode throws, with a code of ours. The engine's own words are kept: they name the program that is missing, the subnet that overlaps. */
function translated(error: unknown, question: string): SallyportError {
  const { statusCode, json } = error as { statusCode?: number; json?: { message?: string } | null }
  if (statusCode === undefined) {
    const hint =
      codeOf(error) === 'EACCES'
        ? 'you may not use its socket: be in its group, or use a rootless engine'
        : 'is the Docker Engine running, and may you use it? "docker version" must show a Server'
    return new SallyportError('engine_unavailable', `the Docker Engine does not answer (${codeOf(error)})`, { hint, cause: error })
  }
  const said = (json?.message ?? (error instanceof Error ? error.message.replace(/^\(HTTP code \d+\) [^-]*- /, '') : String(error))).trim()
  return new EngineRefusal(
    statusCode,
    `the engine refused ${question.replaceAll(/[0-9a-f]{64}/g, (id) => id.slice(0, 12))}: ${said}`,
    error,
  )
}

/** `engine_refused`, with the number that the engine gave. */
class EngineRefusal extends SallyportError {
  readonly status: number

  constructor(status: number, message: string, cause: unknown) {
    super('engine_refused', message, { cause })
    this.status = status
  }
}

async function orNothing(answer: Promise<unknown>, ...statuses: number[]): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof EngineRefusal && [404, ...statuses].includes(error.status)) return undefined
    throw error
  }
}

/** Whether a network could not be made because its subnet is in use. */
export function isOverlap(error: unknown): boolean {
  return error instanceof EngineRefusal && /overlaps with other one|invalid pool request/i.test(error.message)
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

function networkVerbs(call: Caller): Pick<Engine, 'networks' | 'createNetwork' | 'network' | 'connect' | 'removeNetwork'> {
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
    connect: async (network, container) =>
      void (await call({ method: 'POST', path: `/networks/${network}/connect`, body: { Container: container } })),
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
): Pick<Engine, 'containers' | 'create' | 'start' | 'inspect' | 'kill' | 'remove' | 'wait' | 'resize' | 'events'> {
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

function streamVerbs(call: Caller): Pick<Engine, 'attach' | 'exec' | 'logs'> {
  return {
    async attach(id, { tty, replay }) {
      const query = { stream: true, stdin: true, stdout: true, stderr: true, logs: replay }
      const socket = (await call({ method: 'POST', path: `/containers/${id}/attach`, query, stream: 'both' })) as Duplex
      const ended = new Promise<void>((resolve) => socket.once('close', resolve))
      return engineStream(socket, tty, {
        resize: (size) => resize(call, `/containers/${id}`, size),
        // Asked once its streams have ended: before its start the engine would take it for one that runs no more.
        exitCode: async () => {
          await ended
          return ((await call({ method: 'POST', path: `/containers/${id}/wait`, isLong: true })) as { StatusCode: number }).StatusCode
        },
      })
    },
    async exec(id, { argv, user, folder, environment, tty, size }) {
      const body = {
        AttachStdin: true,
        AttachStdout: true,
        AttachStderr: true,
        Tty: tty,
        Cmd: argv,
        User: user,
        WorkingDir: folder,
        Privileged: false,
        Env: pairs(environment),
        // Engines before 23 don't know it, and are told below.
        ...(tty && size !== undefined && { ConsoleSize: [size.rows, size.columns] }),
      }
      const { Id } = (await call({ method: 'POST', path: `/containers/${id}/exec`, body })) as { Id: string }
      const socket = (await call({
        method: 'POST',
        path: `/exec/${Id}/start`,
        body: { Detach: false, Tty: tty },
        stream: 'both',
      })) as Duplex
      const ended = new Promise<void>((resolve) => socket.once('close', resolve))
      if (tty && size !== undefined) await resize(call, `/exec/${Id}`, size)
      return engineStream(socket, tty, {
        resize: (wanted) => resize(call, `/exec/${Id}`, wanted),
        exitCode: () => ended.then(() => execExitCode(call, Id)),
      })
    },
    logs: (id, options, signal) => logs(call, id, options, signal),
  }
}

function engineStream(socket: Duplex, tty: boolean, verbs: Pick<EngineStream, 'resize' | 'exitCode'>): EngineStream {
  // A terminal that is gone is no fault of the program's, and nobody else listens yet.
  socket.on('error', () => {})
  if (tty) return { stream: socket, stderr: undefined, ...verbs }
  const { stdout, stderr } = splitFrames(socket)
  stderr.on('error', () => {})
  return { stream: new ProcessStream(socket, stdout), stderr, ...verbs }
}

async function execExitCode(call: Caller, exec: string): Promise<number> {
  for (let look = 0; look < EXIT_LOOKS_MAX; look += 1) {
    const { Running, ExitCode } = (await call({ path: `/exec/${exec}/json` })) as { Running: boolean; ExitCode: number | null }
    if (!Running && ExitCode !== null) return ExitCode
    await delay(EXIT_LOOK_MS)
  }
  throw new SallyportError('engine_refused', 'the engine does not say how a program ended')
}

async function* logs(
  call: Caller,
  id: string,
  { follow, tail }: { follow: boolean; tail?: number },
  signal: AbortSignal,
): AsyncIterable<Buffer> {
  const { Config } = (await call({ path: `/containers/${id}/json` })) as ContainerInspection
  const query = { follow, stdout: true, stderr: true, tail: tail ?? 'all' }
  const stream = (await call({ path: `/containers/${id}/logs`, query, stream: 'read', signal })) as Readable
  const pieces: Buffer[] = []
  const read = createFrameReader((_stream, piece) => pieces.push(piece))
  for await (const chunk of stream) {
    if (Config.Tty) {
      yield chunk as Buffer
      continue
    }
    read(chunk as Buffer)
    yield* pieces.splice(0)
  }
}

/** A file of a container, by the archive that the engine makes of it: nothing of the image is run. */
async function readContainerFile(call: Caller, id: string, path: string): Promise<Buffer | undefined> {
  let at = path
  for (let links = 0; links <= LIMITS.imageLinksMax; links += 1) {
    const stream = (await orNothing(call({ path: `/containers/${id}/archive`, query: { path: at }, stream: 'read' }))) as
      | Readable
      | undefined
    if (stream === undefined) return undefined
    const entry = await readArchiveEntry(stream, LIMITS.imageFileBytesMax)
    stream.destroy()
    if (entry?.kind !== 'link') return entry?.content
    at = posix.resolve(posix.dirname(at), entry.target)
  }
  return undefined
}

async function resize(call: Caller, of: string, { columns, rows }: TerminalSize): Promise<void> {
  // 409 and 500: it has ended meanwhile.
  await orNothing(call({ method: 'POST', path: `${of}/resize`, query: { w: columns, h: rows } }), 409, 500)
}

function pairs(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).map(([name, value]) => `${name}=${value}`)
}
