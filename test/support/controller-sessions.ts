import { mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { chown, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createDockerEngine } from '../../src/controller/sessions/docker-engine.ts'
import { engineAddress } from '../../src/controller/sessions/engine-address.ts'
import type { Engine } from '../../src/controller/sessions/engine.ts'
import { ownerOf } from '../../src/controller/sessions/owner.ts'
import { engineName, homeLabel, sessionOf } from '../../src/controller/sessions/session-names.ts'
import type {
  AuthorityPair,
  FilesystemPolicy,
  LeaseClaims,
  SessionAuditEvent,
  SessionParts,
  SessionPlan,
  UpRequest,
} from '../../src/controller/sessions/session-parts.ts'
import { createSessions, type Sessions } from '../../src/controller/sessions/sessions.ts'
import { openState, type StateFile } from '../../src/controller/state.ts'
import { system } from '../../src/kernel/system.ts'
import { openAuthority } from '../../src/pki/pki.ts'
import { capture } from '../../scripts/steps.ts'

export const AGENT_IMAGE = 'sallyport/agent:0.1.0'
/** One that takes its authority from a folder. */
export const SIDECAR_IMAGE = process.env['SALLYPORT_SIDECAR_IMAGE'] ?? 'sallyport/sidecar:0.1.0'
const POLICY = 'version: 1\nnetwork: {rules: []}\n'

/** Sessions of a home of their own on the real engine. The gate is the image's, with its authority from a folder. */
export type SessionsUnderTest = AsyncDisposable & {
  readonly home: string
  readonly workspace: string
  readonly engine: Engine
  readonly sessions: Sessions
  readonly state: StateFile
  readonly parts: SessionParts
  readonly audited: SessionAuditEvent[]
  /** A request for a session of the workspace, with these changes. */
  request(change?: Partial<UpRequest>): UpRequest
  up(change?: Partial<UpRequest>): ReturnType<Sessions['up']>
  /** Runs a program in a session's agent. */
  run(session: string, argv: readonly string[]): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }>
}

export type Changes = {
  readonly home?: string
  /** Default: the machine's. */
  readonly base?: Engine
  /** What there is stays when this is disposed of: for whoever comes next. */
  readonly keeps?: boolean
  readonly engine?: (engine: Engine) => Engine
  readonly plan?: (plan: SessionPlan) => SessionPlan
  readonly parts?: (parts: SessionParts) => SessionParts
}

export async function makeHome(): Promise<string> {
  return realpathSync(await mkdtemp(join(tmpdir(), 'sallyport-home-')))
}

export async function openSessions(change: Changes = {}): Promise<SessionsUnderTest> {
  const home = change.home ?? (await makeHome())
  const workspace = join(home, '..', `workspace-${home.split('-').at(-1)}`)
  await mkdir(workspace, { recursive: true })
  const real = change.base ?? createDockerEngine(engineAddress(process.env))
  const engine = change.engine?.(real) ?? real
  const state = openState(join(home, 'state.db'), system)
  const audited: SessionAuditEvent[] = []
  const basic = createParts(home, engine, state, audited, change.plan ?? ((plan) => plan))
  const parts = change.parts?.(basic) ?? basic
  const sessions = createSessions(parts)
  const request = (wish: Partial<UpRequest> = {}): UpRequest => ({
    workspace,
    policy: [],
    command: [],
    tty: false,
    selftest: false,
    ...wish,
  })
  return {
    home,
    workspace,
    engine,
    sessions,
    state,
    parts,
    audited,
    request,
    up: (wish) => sessions.up(request(wish), new AbortController().signal, () => {}),
    async run(session, argv) {
      const { stream, stderr, exitCode } = await sessions.exec(session, argv, { tty: false })
      stream.end()
      const [out, err] = await Promise.all([textOf(stream), stderr === undefined ? '' : textOf(stderr)])
      return { code: await exitCode(), stdout: out, stderr: err }
    },
    async [Symbol.asyncDispose]() {
      await sessions[Symbol.asyncDispose]()
      if (change.keeps !== true) for (const { id } of sessions.list()) await sessions.down(id).catch(() => {})
      state[Symbol.dispose]()
      if (change.keeps === true) return
      await removeLeft(real, home)
      if (change.home === undefined) await rm(home, { recursive: true, force: true })
      await rm(workspace, { recursive: true, force: true })
    },
  }
}

/** What is in the engine with the labels of this home. */
export async function leftIn(engine: Engine, home: string): Promise<{ containers: string[]; networks: string[] }> {
  const label = homeLabel(home)
  const [containers, networks] = await Promise.all([engine.containers(label), engine.networks()])
  return {
    containers: containers.map(({ name }) => name).toSorted(),
    networks: networks
      .filter(({ labels }) => labels['sallyport.home'] === label['sallyport.home'])
      .map(({ name }) => name)
      .toSorted(),
  }
}

/** All that the engine has: containers, networks and volumes of everybody. */
export async function engineInventory(): Promise<string[]> {
  const lists = await Promise.all([
    capture('docker', ['ps', '--all', '--format', 'container {{.Names}}']),
    capture('docker', ['network', 'ls', '--format', 'network {{.Name}}']),
    capture('docker', ['volume', 'ls', '--format', 'volume {{.Name}}']),
  ])
  return lists.flatMap(({ stdout }) => stdout.split('\n').filter(Boolean)).toSorted()
}

async function removeLeft(engine: Engine, home: string): Promise<void> {
  for (const one of await engine.containers(homeLabel(home))) if (sessionOf(home, one) !== undefined) await engine.remove(one.id)
  for (const network of await engine.networks()) if (sessionOf(home, network) !== undefined) await engine.removeNetwork(network.id)
}

function createParts(
  home: string,
  engine: Engine,
  state: StateFile,
  audited: SessionAuditEvent[],
  change: (plan: SessionPlan) => SessionPlan,
): SessionParts {
  const authorities = new Map<string, AuthorityPair>()
  const claims = new Map<string, LeaseClaims>()
  return {
    home,
    engine,
    state,
    system,
    log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    links: {
      async open({ id, socketDir, sidecarLease, owner, onState }) {
        await mkdir(socketDir, { recursive: true, mode: 0o700 })
        writeFileSync(join(socketDir, 'lease'), sidecarLease, { mode: 0o600 })
        if (process.getuid?.() === 0) await chown(socketDir, owner.uid, owner.gid)
        const readies = (text: string): number => text.split('"event":"ready"').length - 1
        const sidecar = engineName(id, 'sidecar')
        // Of a gate that ran before: it is ready when it says so once more, unless it runs still.
        const found = await engine.inspect(sidecar)
        const before =
          found === undefined || found.State.Running
            ? 0
            : readies(await textOf(engine.logs(sidecar, { follow: false }, new AbortController().signal)))
        return {
          socketDir,
          async ready(signal) {
            let text = ''
            for await (const piece of engine.logs(sidecar, { follow: true }, signal)) {
              text += piece.toString('utf8')
              if (readies(text) > before) return onState('ready')
            }
            await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
          },
          attach: () => {},
          pushSecrets: async () => {},
          pushPolicy: async () => {},
          revoke: async () => {},
          [Symbol.asyncDispose]: async () => {},
        }
      },
    },
    leases: {
      async issue(claim) {
        const token = system.random(24).toString('base64url')
        claims.set(token, claim)
        return { token, short: token, id: system.random(16).toString('hex') }
      },
      verify(token) {
        const found = claims.get(token)
        if (found === undefined) throw new Error('no such lease')
        return found
      },
      revoke: () => {},
    },
    async prepare(request, { id }) {
      const owner = ownerOf(request.workspace)
      const folder = join(home, 'authorities', id)
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      const authority = await openAuthority(folder, id, system)
      authorities.set(id, { certificatePem: authority.certificatePem, keyPem: '' })
      for (const path of [folder, ...(await readdir(folder)).map((name) => join(folder, name))]) await chown(path, owner.uid, owner.gid)
      return change({
        agent: { image: request.image ?? AGENT_IMAGE, command: request.command, environment: {}, files: [], mounts: [], settings: {} },
        sidecar: {
          image: SIDECAR_IMAGE,
          environment: { SALLYPORT_CA_PERSIST: '/var/lib/sallyport/ca-key' },
          mounts: [{ source: folder, target: '/var/lib/sallyport/ca-key', readOnly: false }],
        },
        policy: [{ name: 'policy.yaml', content: POLICY }],
        filesystem: { workspace: 'rw', hide: [], git_metadata: 'protected' },
        requiresLease: false,
        warnings: [],
      })
    },
    workspace: {
      mounts: async ({ workspace, filesystem, owner }) => ({
        mounts: [workspaceMount(workspace, filesystem, owner)],
        environment: {},
        warnings: [],
        kept: { workspace },
      }),
      release: async () => [],
    },
    secrets: async () => ({ version: 1, values: {} }),
    createAuthority: (id) => authorities.get(id) ?? { certificatePem: '', keyPem: '' },
    auditLines: async () => {},
    audit: async (event) => void audited.push(event),
  }
}

function workspaceMount(workspace: string, filesystem: FilesystemPolicy, owner: { uid: number; gid: number }) {
  if (filesystem.workspace === 'none')
    return { kind: 'tmpfs', target: '/workspace', readOnly: false, bytesMax: 1024 ** 3, mode: 0o700, ...owner } as const
  return { kind: 'bind', source: workspace, target: '/workspace', readOnly: filesystem.workspace === 'ro' } as const
}

export async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces).toString('utf8')
}
