import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { openAudit, type Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import { system as realSystem, type System } from '../kernel/system.ts'
import { VERSION } from '../kernel/version.ts'
import { openLeases, type Leases } from '../lease/lease.ts'
import { makeAuthorityPems } from '../pki/pki.ts'
import { openVault, type Unlock } from '../vault/vault.ts'
import { openApprover } from './approver.ts'
import { freeSocketPath, holdHome } from './home.ts'
import { createLinks } from './links/links.ts'
import { addOpenRoute } from './operator/login-routes.ts'
import { Logins } from './operator/logins.ts'
import { addOperatorRoutes } from './operator/operator-routes.ts'
import { openOperatorApi } from './operator/operator.ts'
import { takeStreams } from './operator/streams.ts'
import { addProposalRoutes } from './operator/proposal-routes.ts'
import { addQuestionRoutes } from './operator/question-routes.ts'
import type { Surface } from './operator/route-table.ts'
import { openWeb, type Web } from './operator/web.ts'
import { createPlanning, plannedPolicy, type Planning } from './planning.ts'
import { openProviders, readProviderSettings } from './providers/providers.ts'
import { refuseOpen, runSelftest } from './selftest/selftest.ts'
import { createPlaces } from './requests/place.ts'
import { createSessionChains } from './session-chains.ts'
import { openLateVault } from './late-vault.ts'
import { createSessionSecrets, type Entitled } from './session-secrets.ts'
import { createDockerEngine } from './sessions/docker-engine.ts'
import { engineAddress } from './sessions/engine-address.ts'
import { policyFolder } from './sessions/session-names.ts'
import { createRedaction, shownText } from './terminal/redacted.ts'
import { createSessions, type SessionParts, type SessionRecord, type Sessions } from './sessions/sessions.ts'
import { openTrust } from './sessions/workspace-trust.ts'
import { openState, type StateFile } from './state.ts'
import { createWorkspaceGuard } from './workspace-guard.ts'

export type ControllerConfig = {
  /** `$SALLYPORT_HOME`. */
  readonly home: string
  /** The folder of the installation. */
  readonly packageRoot: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Where the vault's key is to be had without asking anybody. */
  readonly unlock: Unlock
  /** Port of the page on loopback; 0 takes any, and without one there is none. */
  readonly webPort?: number
}

export type Controller = AsyncDisposable & { readonly socket: string; /** URL of the page. */ readonly web?: string }

/**
 * Builds the host's side in order, and takes it down in reverse: sessions go on without it, and the next one adopts them. It answers its
 * socket when this resolves.
 * @throws listen_failed, config_invalid, daemon_running, state_invalid, lease_key_invalid, audit_open_failed, engine_unavailable
 */
export async function openController(config: ControllerConfig, log: Log, system: System = realSystem): Promise<Controller> {
  await using parts = new AsyncDisposableStack()
  parts.use(holdHome(config.home))
  const home = realpathSync(config.home)
  const state = parts.use(openState(join(home, 'state.db'), system))
  const audit = parts.use(await openAudit({ file: join(home, 'audit', 'controller.jsonl'), session: 'controller' }, system, log))
  await audit.append({ event: 'started', version: VERSION, policy: '' })
  parts.defer(() =>
    audit.append({ event: 'stopped' }).catch((error: unknown) => log.error({ code: codeOf(error) }, 'the end could not be audited')),
  )
  const leases = await openLeases(join(home, 'lease.key'), (session, lease) => state.isLive(session, lease), system)
  const vault = parts.use(await openLateVault(join(home, 'vault.db'), (file) => openVault(file, config.unlock, system), log))
  const providers = parts.use(openProviders({ env: config.env, vault, ...readProviderSettings(join(home, 'providers.yaml')) }))
  const secrets = createSessionSecrets(providers, (session) => entitledOf(session, home, state), system)
  const chains = parts.use(createSessionChains(join(home, 'audit', 'sessions'), audit, system))
  const links = parts.use(createLinks({ version: VERSION, graceMs: LIMITS.controllerGraceMs, log, system }))
  const engine = createDockerEngine(engineAddress(config.env))
  const workspace = createWorkspaceGuard(home, () => keptOf(state), system)
  // Known once they are there: what is asked of the host comes from sessions.
  const late: { sessions?: Sessions; web?: Web } = {}
  const approver = parts.use(
    await openApprover({
      home,
      policyDirs: [join(config.packageRoot, 'policies'), join(home, 'policies')],
      env: config.env,
      audit,
      place: createPlaces({
        home,
        state,
        policyOf: (session) => plannedPolicy(policyFolder(home, session)),
        secretsOf: (session) => secrets.shown(session),
        refuseSuspect: (kept) => workspace.refuseSuspect(kept),
        operatorPorts: () => (late.web === undefined ? [] : [late.web.port]),
      }),
      checkLease: (session, lease) => checkAgentLease(leases, session, lease),
      refresh: (folder) => refreshPolicies(late.sessions, folder),
      system,
      log,
    }),
  )
  const { requests } = approver
  const sessions = (late.sessions = parts.use(
    createSessions({
      home,
      engine,
      state,
      leases,
      links,
      ...planningOf(config, home, system),
      workspace,
      requests,
      secrets: (session, signal) => secrets.bundle(session, signal),
      printed: (session, text) =>
        shownText(
          createRedaction(() => secrets.shown(session)),
          text,
        ),
      createAuthority: (session) => makeAuthorityPems(session, system),
      auditLines: (session, lines) => chains.append(session, lines),
      lastAuditLine: (session) => chains.last(session),
      audit: auditOf(audit, async (session) => {
        await requests.endSession(session)
        secrets.forget(session)
        await chains.end(session)
      }),
      selftest: async (target, signal) => refuseOpen(await runSelftest(target, target.setting, signal)),
      system,
      log,
    }),
  ))
  const running = new AbortController()
  parts.defer(() => running.abort(new SallyportError('daemon_unavailable', 'the daemon ends')))
  await sessions.adopt(running.signal)

  const socket = freeSocketPath(home)
  const host = { sessions, state, leases, secrets, audit, system }
  const logins = parts.use(new Logins(system))
  const addRoutes = (app: FastifyInstance, surface: Surface): void => {
    addOperatorRoutes(app, host, running.signal)
    addQuestionRoutes(app, approver, surface)
    addProposalRoutes(app, approver)
  }
  const { webPort } = config
  const web =
    webPort === undefined ? undefined : parts.use(await openWeb({ port: webPort, logins, addRoutes: (app) => addRoutes(app, 'web'), log }))
  if (web) late.web = web
  parts.use(
    await openOperatorApi(
      socket,
      (app) => {
        addRoutes(app, 'socket')
        addOpenRoute(app, logins, web?.url)
      },
      takeStreams(sessions, (session) => secrets.shown(session), running.signal, log),
      log,
    ),
  )
  const open = parts.move()
  return { socket, ...(web && { web: web.url }), [Symbol.asyncDispose]: () => open.disposeAsync() }
}

function planningOf({ packageRoot, env }: ControllerConfig, home: string, system: System): Planning {
  return createPlanning({
    home,
    presets: join(packageRoot, 'policies'),
    trust: openTrust(home, system),
    images: imagesOf(env),
    gate: gateOf(env),
    system,
  })
}

/** What the operator's routes work on. */
export type Host = {
  readonly sessions: Sessions
  readonly state: StateFile
  readonly leases: Leases
  readonly secrets: ReturnType<typeof createSessionSecrets>
  readonly audit: Audit
  readonly system: System
}

/** Nothing of a session is left behind these. */
const OVER: ReadonlySet<string> = new Set(['ended', 'failed', 'reaped'])

function auditOf(audit: Audit, onOver: (session: string) => Promise<void>): SessionParts['audit'] {
  return async ({ session, name, workspace, event, details }) => {
    if (OVER.has(event)) await onOver(session)
    await audit.append({
      event: 'session',
      state: event,
      of: session,
      name,
      place: workspace,
      ...(details && { details: details.join('\n') }),
    })
  }
}

/** I42 @throws unauthenticated */
function checkAgentLease(leases: Leases, session: string, lease: string): void {
  try {
    if (leases.verifyShort(lease, session)) return
    leases.verify(lease, { audience: 'agent', session })
  } catch (cause) {
    throw new SallyportError('unauthenticated', 'the lease is not the one of this session, or was revoked', { cause })
  }
}

/** Those of one workspace, or all. One that has a fault keeps the policy that it has. */
async function refreshPolicies(sessions: Sessions | undefined, workspace: string | undefined): Promise<void> {
  const meant = (sessions?.list() ?? []).filter(
    (one) => one.state === 'running' && (workspace === undefined || one.workspace === workspace),
  )
  const results = await Promise.allSettled(meant.map(({ id }) => sessions?.refreshPolicy(id)))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

function entitledOf(session: string, home: string, state: StateFile): Entitled {
  const { workspace, role } = (state.row(session)?.record ?? {}) as Partial<SessionRecord>
  const holder = { ...(workspace !== undefined && { workspace }), ...(role !== undefined && { role }) }
  return { policy: plannedPolicy(policyFolder(home, session)), holder }
}

function keptOf(state: StateFile): unknown[] {
  return state.live().map(({ record }) => (record as { kept?: unknown }).kept)
}

function imagesOf(env: ControllerConfig['env']): { sidecar: string; agent: string } {
  return {
    sidecar: env['SALLYPORT_SIDECAR_IMAGE'] || `sallyport/sidecar:${VERSION}`,
    agent: env['SALLYPORT_AGENT_IMAGE'] || `sallyport/agent:${VERSION}`,
  }
}

/** What of the operator's surroundings every gate needs. */
function gateOf(env: ControllerConfig['env']): Pick<Parameters<typeof createPlanning>[0]['gate'], 'environment' | 'mounts'> {
  const extra = env['SALLYPORT_EXTRA_CA']
  const proxy = env['SALLYPORT_UPSTREAM_PROXY']
  const target = '/etc/sallyport/extra-ca.pem'
  return {
    environment: { ...(extra && { SALLYPORT_EXTRA_CA: target }), ...(proxy && { SALLYPORT_UPSTREAM_PROXY: proxy }) },
    mounts: extra ? [{ source: realpathSync(extra), target, readOnly: true }] : [],
  }
}
