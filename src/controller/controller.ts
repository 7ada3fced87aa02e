import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import { system as realSystem, type System } from '../kernel/system.ts'
import { VERSION } from '../kernel/version.ts'
import { openLeases, type Leases } from '../lease/lease.ts'
import { makeAuthorityPems } from '../pki/pki.ts'
import type { Unlock } from '../vault/vault.ts'
import { createActivity, type Activity } from './activity/activity.ts'
import { openChains, watchAsks } from './activity/watched.ts'
import { openApprover, type Late } from './approver.ts'
import { freeSocketPath, holdHome } from './home.ts'
import { createLinks } from './links/links.ts'
import { userValues } from './mcp-servers/mcp-servers.ts'
import type { OperatorServers } from './mcp-servers/operator-servers.ts'
import { openNotify } from './notify/notify.ts'
import { openSurfaces } from './operator/surfaces.ts'
import type { Planning } from './planning.ts'
import { openPolicyFiles } from './policy-files/policy-files.ts'
import { openProviders, readProviderSettings } from './providers/providers.ts'
import { refuseOpen, runSelftest } from './selftest/selftest.ts'
import { openDaemonVault } from './daemon-vault.ts'
import { operatorSecretsOf } from './operator-secrets.ts'
import { openHomeAudit } from './record/home-audit.ts'
import type { SessionChains } from './session-chains.ts'
import { entitledOf, keptOf } from './session-facts.ts'
import { openServers, userPlaceOf, withTools } from './session-servers.ts'
import { createSessionSecrets, type SessionSecrets } from './session-secrets.ts'
import { createDockerEngine } from './sessions/docker-engine.ts'
import { engineAddress } from './sessions/engine-address.ts'
import { createRedaction, shownText } from './terminal/redacted.ts'
import { createSessions, type SessionParts, type Sessions } from './sessions/sessions.ts'
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
  const kept = parts.use(await openDaemonVault(home, config.unlock, system, log))
  const { vault } = kept
  const user = userPlaceOf(config.env)
  const mcpConfig = userValues(user)
  const settings = readProviderSettings(join(home, 'providers.yaml'))
  const providers = parts.use(openProviders({ env: config.env, vault, mcpConfig, ...settings }))
  const secrets = createSessionSecrets(providers, (session) => entitledOf(session, home, state), system)
  const activity = createActivity(system, log)
  const chains = parts.use(await openChains(home, { audit, activity, state, system, log }))
  const links = parts.use(createLinks({ version: VERSION, graceMs: LIMITS.controllerGraceMs, log, system }))
  const workspace = createWorkspaceGuard(home, () => keptOf(state), system)
  const late: Late = {}
  const redact = (session: string, text: string): string =>
    shownText(
      createRedaction(() => secrets.shown(session)),
      text,
    )
  const { packageRoot, env } = config
  const shared = { home, packageRoot, env, state, leases, providers, audit, system, log }
  const approver = parts.use(await openApprover({ ...shared, secrets, vault, workspace, late }))
  const servers = openServers({ ...shared, user, vault, secrets, sessions: () => sessions })
  const { planning } = servers
  const requests = watchAsks(withTools(approver.requests, servers.tools), activity)
  const sessions = parts.use(
    sessionsOf(config, { home, state, leases, links, audit, secrets, chains, workspace, requests, planning, redact, system, log }),
  )
  late.sessions = sessions
  parts.use(servers.tools)
  const running = new AbortController()
  parts.defer(() => running.abort(new SallyportError('daemon_unavailable', 'the daemon ends')))
  await sessions.adopt(running.signal)

  const host = { home, sessions, activity, servers: servers.operator, kept: () => keptOf(state), state, leases, secrets, audit, system }
  const { approvals, proposals } = approver
  const policies = parts.use(
    await openPolicyFiles({
      ...shared,
      sessions,
      planning,
      approvals,
      changes: proposals.changes,
      operatorPorts: () => (late.web === undefined ? [] : [late.web.port]),
    }),
  )
  const surfaces = parts.use(
    await openSurfaces(freeSocketPath(home), config.web, {
      ...host,
      operatorSecrets: operatorSecretsOf({ ...shared, kept, secrets, sessions, vaultAddress: settings.hashicorp?.address }),
      ...approver,
      place: { home, packageRoot, environment: env },
      policies,
      pageFolder: join(packageRoot, 'dist', 'page'),
      signal: running.signal,
      log,
    }),
  )
  late.web = surfaces.web
  parts.use(
    await openNotify({
      home,
      approvals: approver.approvals,
      attest: (means, of) => approver.presence.attest(means, of),
      resolveSecret: (key) => vault.get(key, { use: 'notify' }),
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

/** What the operator's routes work on. */
export type Host = {
  /** `$SALLYPORT_HOME`, links resolved. */
  readonly home: string
  readonly sessions: Sessions
  readonly activity: Activity
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
