import { realpathSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLinks } from '../../src/controller/links/links.ts'
import { createPlanning } from '../../src/controller/planning.ts'
import { createDockerEngine } from '../../src/controller/sessions/docker-engine.ts'
import { engineAddress } from '../../src/controller/sessions/engine-address.ts'
import type { Engine } from '../../src/controller/sessions/engine.ts'
import { homeLabel, sessionOf } from '../../src/controller/sessions/session-names.ts'
import type { SessionAuditEvent, SessionParts, SessionPlan, UpRequest } from '../../src/controller/sessions/session-parts.ts'
import { createSessions, type Sessions } from '../../src/controller/sessions/sessions.ts'
import { openTrust } from '../../src/controller/sessions/workspace-trust.ts'
import { openState, type StateFile } from '../../src/controller/state.ts'
import { createWorkspaceGuard } from '../../src/controller/workspace-guard.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system } from '../../src/kernel/system.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { openLeases } from '../../src/lease/lease.ts'
import { makeAuthorityPems } from '../../src/pki/pki.ts'
import { capture } from '../../scripts/steps.ts'

export const AGENT_IMAGE = 'sallyport/agent:0.1.0'
/** Another one may be tried. */
export const SIDECAR_IMAGE = process.env['SALLYPORT_SIDECAR_IMAGE'] || 'sallyport/sidecar:0.1.0'

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
  const basic = await createParts(home, engine, state, audited, change.plan ?? ((plan) => plan))
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

/** As the daemon builds them, but for secrets and the audit. */
async function createParts(
  home: string,
  engine: Engine,
  state: StateFile,
  audited: SessionAuditEvent[],
  change: (plan: SessionPlan) => SessionPlan,
): Promise<SessionParts> {
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const planning = createPlanning({
    home,
    presets: join(import.meta.dirname, '../../policies'),
    trust: openTrust(home, system),
    images: { sidecar: SIDECAR_IMAGE, agent: AGENT_IMAGE },
    gate: { environment: {}, mounts: [] },
    system,
  })
  return {
    home,
    engine,
    state,
    system,
    log,
    links: createLinks({ version: VERSION, graceMs: LIMITS.controllerGraceMs, log, system }),
    leases: await openLeases(join(home, 'lease.key'), (session, lease) => state.isLive(session, lease), system),
    ...planning,
    prepare: async (request, names) => change(await planning.prepare(request, names)),
    workspace: createWorkspaceGuard(home, () => state.live().map(({ record }) => (record as { kept?: unknown }).kept), system),
    secrets: async () => ({ version: 1, values: {} }),
    printed: (_session, text) => text,
    createAuthority: (session) => makeAuthorityPems(session, system),
    auditLines: async () => {},
    lastAuditLine: () => undefined,
    audit: async (event) => void audited.push(event),
  }
}

export async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces).toString('utf8')
}
