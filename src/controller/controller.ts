import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import { system as realSystem, type System } from '../kernel/system.ts'
import { VERSION } from '../kernel/version.ts'
import { openLeases, type Leases } from '../lease/lease.ts'
import { makeAuthorityPems } from '../pki/pki.ts'
import { openVault, type Unlock } from '../vault/vault.ts'
import { checkAgentLease, openApprover, type Late } from './approver.ts'
import { freeSocketPath, holdHome } from './home.ts'
import { createLinks } from './links/links.ts'
import { userValues, type UserPlace } from './mcp-servers/mcp-servers.ts'
import { createOperatorServers, type OperatorServers } from './mcp-servers/operator-servers.ts'
import { createTools, type Tools } from './mcp-servers/tool-connections.ts'
import { openNotify } from './notify/notify.ts'
import { openSurfaces } from './operator/surfaces.ts'
import { createPlanning, type Planning } from './planning.ts'
import type { Requests } from './requests/requests.ts'
import { openProviders, readProviderSettings, type Providers } from './providers/providers.ts'
import { refuseOpen, runSelftest } from './selftest/selftest.ts'
import { openHomeAudit } from './record/home-audit.ts'
import { createSessionChains, type SessionChains } from './session-chains.ts'
import { openLateVault } from './late-vault.ts'
import { entitledOf, keptOf } from './session-facts.ts'
import { createSessionSecrets, type SessionSecrets } from './session-secrets.ts'
import { createDockerEngine } from './sessions/docker-engine.ts'
import { engineAddress } from './sessions/engine-address.ts'
import { createRedaction, shownText } from './terminal/redacted.ts'
import { createSessions, type SessionParts, type Sessions } from './sessions/sessions.ts'
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
  /** Port of the page on loopback; 0 takes any, and without one there is none. Nobody chose a default: where it is taken there is no page. */
  readonly web?: { readonly port: number; readonly isDefault: boolean }
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
  const audit = parts.use(await openHomeAudit(home, (session) => state.live().some(({ id }) => id === session), system, log))
  await audit.append({ event: 'started', version: VERSION, policy: '' })
  parts.defer(() =>
    audit.append({ event: 'stopped' }).catch((error: unknown) => log.error({ code: codeOf(error) }, 'the end could not be audited')),
  )
  const leases = await openLeases(join(home, 'lease.key'), (session, lease) => state.isLive(session, lease), system)
  const vault = parts.use(await openLateVault(join(home, 'vault.db'), (file) => openVault(file, config.unlock, system), log))
  const user = userPlaceOf(config.env)
  const providers = parts.use(
    openProviders({ env: config.env, vault, mcpConfig: userValues(user), ...readProviderSettings(join(home, 'providers.yaml')) }),
  )
  const secrets = createSessionSecrets(providers, (session) => entitledOf(session, home, state), system)
  const chains = parts.use(createSessionChains(join(home, 'audit', 'sessions'), audit, system, audit.copySession))
  const links = parts.use(createLinks({ version: VERSION, graceMs: LIMITS.controllerGraceMs, log, system }))
  const workspace = createWorkspaceGuard(home, () => keptOf(state), system)
  const late: Late = {}
  const redact = (session: string, text: string): string =>
    shownText(
      createRedaction(() => secrets.shown(session)),
      text,
    )
  const approver = parts.use(
    await openApprover({
      home,
      packageRoot: config.packageRoot,
      env: config.env,
      state,
      leases,
      secrets,
      providers,
      vault,
      workspace,
      audit,
      late,
      system,
      log,
    }),
  )
  const planning = planningOf(config, { home, user, providers, system })
  const tools = createTools({
    entitledOf: (session) => entitledOf(session, home, state),
    providers,
    checkLease: (session, lease) => checkAgentLease({ leases, state }, session, lease),
    startSibling: (session, wish, signal) => sessions.startSibling(session, wish, signal),
    audit: (event) => audit.append(event),
    log,
    system,
  })
  const requests = withTools(approver.requests, tools)
  const sessions = parts.use(
    sessionsOf(config, { home, state, leases, links, audit, secrets, chains, workspace, requests, planning, redact, system, log }),
  )
  late.sessions = sessions
  parts.use(tools)
  const running = new AbortController()
  parts.defer(() => running.abort(new SallyportError('daemon_unavailable', 'the daemon ends')))
  await sessions.adopt(running.signal)

  const servers = createOperatorServers({
    plan: planning.servers,
    secretProblem: secretProblemOf(providers),
    providers,
    tools,
    sessions: () => sessions,
    audit,
    system,
  })
  const host = { sessions, servers, kept: () => keptOf(state), state, leases, secrets, audit, system }
  const surfaces = parts.use(await openSurfaces(freeSocketPath(home), config.web, { ...host, ...approver, signal: running.signal, log }))
  late.web = surfaces.web
  parts.use(
    await openNotify({
      home,
      approvals: approver.approvals,
      attest: (means, of) => approver.presence.attest(means, of),
      resolveSecret: (key) => vault.get(key),
      redact,
      ...(surfaces.web && { link: surfaces.web.url }),
      environment: config.env,
      system,
      log,
    }),
  )
  const open = parts.move()
  const { socket, web } = surfaces
  return { socket, ...(web && { web: web.url }), [Symbol.asyncDispose]: () => open.disposeAsync() }
}

type SessionsOf = Pick<SessionParts, 'home' | 'state' | 'leases' | 'links' | 'workspace' | 'system' | 'log'> & {
  readonly audit: Audit
  readonly secrets: SessionSecrets
  readonly chains: SessionChains
  readonly requests: NonNullable<SessionParts['requests']>
  readonly planning: Planning
  readonly redact: SessionParts['printed']
}

function sessionsOf(config: ControllerConfig, parts: SessionsOf): Sessions {
  const { audit, secrets, chains, requests, planning, redact, ...own } = parts
  return createSessions({
    ...own,
    engine: createDockerEngine(engineAddress(config.env)),
    ...planning,
    requests,
    secrets: (session, signal) => secrets.bundle(session, signal),
    printed: redact,
    createAuthority: (session) => makeAuthorityPems(session, own.system),
    auditLines: (session, lines) => chains.append(session, lines),
    lastAuditLine: (session) => chains.last(session),
    audit: auditOf(audit, async (session) => {
      await requests.endSession(session)
      secrets.forget(session)
      await chains.end(session)
    }),
    selftest: async (target, signal) => refuseOpen(await runSelftest(target, target.setting, signal)),
  })
}

type PlanningOf = { readonly home: string; readonly user: UserPlace; readonly providers: Providers; readonly system: System }

function planningOf({ packageRoot, env }: ControllerConfig, { home, user, providers, system }: PlanningOf): Planning {
  return createPlanning({
    userServers: user,
    secretProblem: secretProblemOf(providers),
    home,
    presets: join(packageRoot, 'policies'),
    trust: openTrust(home, system),
    images: imagesOf(env),
    gate: gateOf(env),
    system,
  })
}

/** What ends with a session's questions and commands: the MCP servers that it has. */
function withTools(requests: Requests, tools: Tools): NonNullable<SessionParts['requests']> {
  return {
    call: (session, call, signal) => requests.call(session, call, signal),
    ask: (session, ask, signal) => requests.ask(session, ask, signal),
    tool: (session, request, signal) => tools.call(session, request, signal),
    async endSession(session) {
      await Promise.all([requests.endSession(session), tools.endSession(session)])
    },
  }
}

function userPlaceOf(env: ControllerConfig['env']): UserPlace {
  return { home: env['HOME'] || homedir(), env }
}

/** A key of the vault is looked for; of other places it is told what can be told without asking them. */
function secretProblemOf(providers: Providers): NonNullable<Parameters<typeof createPlanning>[0]['secretProblem']> {
  return async ({ name, source }, holder) => {
    if (source.kind !== 'vault') return providers.problem(source)
    try {
      await providers.get(name, source, AbortSignal.timeout(LIMITS.secretExecMs), holder)
      return undefined
    } catch (error) {
      return error instanceof SallyportError ? error.message : `the secret ${name} cannot be read (${codeOf(error)})`
    }
  }
}

/** What the operator's routes work on. */
export type Host = {
  readonly sessions: Sessions
  readonly servers: OperatorServers
  /** What is kept of the workspaces of sessions that live. */
  readonly kept: () => readonly unknown[]
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
