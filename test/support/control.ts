import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Duplex, type Readable, type Writable } from 'node:stream'
import { pino } from 'pino'
import { createLinks, type LinkedSession, type Links, type LinksParts, type SessionLink } from '../../src/controller/links/links.ts'
import { system } from '../../src/kernel/system.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { makeAuthorityPems } from '../../src/pki/pki.ts'
import { readAuditLine } from '../../src/audit/audit.ts'
import { cleanEnvironment } from './command.ts'
import { MAIN } from './main-file.ts'

export const SESSION = 'abcdefghij234567'
export const SIDECAR_LEASE = 'sidecar-lease-canary-51d0aa7e'
export const AGENT_LEASE = 'agent-lease-canary-93ce04b1'

/** A session as the controller has it, and all that its link said of it. */
export type TestSession = LinkedSession & {
  readonly states: string[]
  readonly lines: string[]
  /** What `secrets` gives. */
  bundle: { version: number; values: Record<string, string> }
  secretsAsked: number
  isRevoked: boolean
}

export async function createTestSession(
  values: Record<string, string>,
  more: Partial<LinkedSession> = {},
): Promise<TestSession & AsyncDisposable> {
  const home = await mkdtemp(join(tmpdir(), 'sp-'))
  const pems = makeAuthorityPems('test', system)
  const session: TestSession & AsyncDisposable = {
    id: SESSION,
    socketDir: join(home, 's'),
    sidecarLease: SIDECAR_LEASE,
    states: [],
    lines: [],
    bundle: { version: 1, values },
    secretsAsked: 0,
    isRevoked: false,
    verifyLease: (token) => token === SIDECAR_LEASE && !session.isRevoked,
    secrets() {
      session.secretsAsked += 1
      return Promise.resolve(session.bundle)
    },
    authority: () => pems,
    agentLeases: () => [createHash('sha256').update(AGENT_LEASE).digest('hex')],
    onLines(lines) {
      session.lines.push(...lines)
      return Promise.resolve()
    },
    lastLine() {
      const link = readAuditLine(Buffer.from(session.lines.at(-1) ?? ''))
      return typeof link === 'string' ? undefined : { seq: link.seq, hash: link.hash }
    },
    onState: (state) => void session.states.push(state),
    ...more,
    [Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
  }
  return session
}

export type TestController = AsyncDisposable & { readonly links: Links; readonly link: SessionLink; log(): string }

export async function openTestController(session: LinkedSession, parts: Partial<LinksParts> = {}): Promise<TestController> {
  const logged: string[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => void logged.push(line) })
  const links = createLinks({ version: VERSION, graceMs: 600_000, log, system, ...parts })
  const link = await links.open(session)
  return { links, link, log: () => logged.join(''), [Symbol.asyncDispose]: () => links[Symbol.asyncDispose]() }
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>

export type TestSidecar = AsyncDisposable & {
  readonly child: Child
  readonly folder: string
  readonly policy: string
  /** A controller attaches to the streams, as the engine lets it: it may leave without a word, and another may come. */
  attach(link: SessionLink): { detach(): void }
  stdout(): Buffer
  stderr(): string
  /** Resolves at its end with the exit code. */
  readonly closed: Promise<number | null>
}

/** `sallyport sidecar` in a process of its own, on loopback. */
export async function startSidecar(options: {
  transport: 'unix' | 'stdio'
  session: LinkedSession
  policy: string
  env?: Record<string, string>
}): Promise<TestSidecar> {
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-sidecar-'))
  const policy = join(folder, 'policy.yaml')
  await writeFile(policy, options.policy)
  const env = {
    ...cleanEnvironment(folder),
    SALLYPORT_CONTROL: options.transport === 'stdio' ? 'stdio' : `unix:${join(options.session.socketDir, 'control.sock')}`,
    SALLYPORT_SESSION: options.session.id,
    SALLYPORT_SIDECAR_IP: '127.0.0.2',
    SALLYPORT_SUBNET: '127.0.0.0/8',
    SALLYPORT_POLICY: policy,
    SALLYPORT_CA_DIR: join(folder, 'ca'),
    NODE_OPTIONS: `--heapsnapshot-signal=SIGUSR2 --diagnostic-dir=${folder}`,
    ...options.env,
  }
  const child = spawn(process.execPath, [MAIN, 'sidecar'], { env, stdio: ['pipe', 'pipe', 'pipe'] })
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  // The engine reads on also when nobody is attached.
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
  child.stdin.on('error', () => undefined)
  const closed = (once(child, 'close') as Promise<[number | null]>).then(([code]) => code)
  return {
    child,
    folder,
    policy,
    closed,
    stdout: () => Buffer.concat(stdout),
    stderr: () => Buffer.concat(stderr).toString(),
    attach(link) {
      const stream = attachment(child)
      link.attach(stream)
      return { detach: () => stream.destroy() }
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await closed
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The engine's stream: who destroys it leaves the container's own as they are. */
function attachment(child: Child): Duplex {
  const stream = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => void child.stdin.write(chunk, () => done()),
    destroy: (error, done) => {
      child.stdout.off('data', give)
      done(error)
    },
  })
  const give = (chunk: Buffer): void => void stream.push(chunk)
  child.stdout.on('data', give)
  child.once('close', () => stream.destroy())
  return stream
}

export type TestControllerProcess = AsyncDisposable & {
  /** Waits until it has said so of the sidecar. */
  printed(state: 'connected' | 'ready' | 'lost'): Promise<void>
  kill(): Promise<void>
}

/** A controller in a process of its own, to be killed. */
export async function startController(options: { socketDir: string; graceMs: number; token: string }): Promise<TestControllerProcess> {
  const program = `
const { createTestSession, openTestController } = await import(process.argv[1])
const { socketDir, graceMs, token } = JSON.parse(process.argv[2])
const session = await createTestSession({ TOKEN: token }, { socketDir, onState: (state) => console.log(state) })
await openTestController(session, { graceMs })
`
  const argv = ['--input-type=module', '-e', program, import.meta.url, JSON.stringify(options)]
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await closed
  }
  return {
    async printed(state) {
      while (!output.includes(state)) await once(child.stdout, 'data')
    },
    kill,
    [Symbol.asyncDispose]: kill,
  }
}
