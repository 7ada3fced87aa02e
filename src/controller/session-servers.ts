import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import type { System } from '../kernel/system.ts'
import { VERSION } from '../kernel/version.ts'
import type { Leases } from '../lease/lease.ts'
import { applySecrets } from './operator/apply-secrets.ts'
import { checkAgentLease } from './approver.ts'
import type { UserPlace } from './mcp-servers/mcp-servers.ts'
import { createOperatorServers, type OperatorServers } from './mcp-servers/operator-servers.ts'
import { createTools, type Tools } from './mcp-servers/tool-connections.ts'
import type { LateVault } from './late-vault.ts'
import { createPlanning, type Planning } from './planning.ts'
import type { Providers } from './providers/providers.ts'
import type { Requests } from './requests/requests.ts'
import { entitledOf } from './session-facts.ts'
import type { SessionSecrets } from './session-secrets.ts'
import { HARNESS_NAMES } from './sessions/harness.ts'
import type { SessionParts, Sessions } from './sessions/sessions.ts'
import { openTrust } from './sessions/workspace-trust.ts'
import type { StateFile } from './state.ts'

type Environment = Readonly<Record<string, string | undefined>>

export type ServersOf = {
  readonly home: string
  /** The folder of the installation. */
  readonly packageRoot: string
  readonly env: Environment
  readonly user: UserPlace
  readonly state: StateFile
  readonly leases: Leases
  readonly providers: Providers
  readonly vault: Pick<LateVault, 'has' | 'opened'>
  readonly secrets: Pick<SessionSecrets, 'bundle'>
  readonly audit: Audit
  /** Asked for when they are there. */
  readonly sessions: () => Sessions
  readonly log: Log
  readonly system: System
}

/** How sessions are planned with their MCP servers, those that run beside them, and what the operator does with both. */
export function openServers(parts: ServersOf): { readonly planning: Planning; readonly tools: Tools; readonly operator: OperatorServers } {
  const { home, packageRoot, env, user, state, leases, providers, vault, secrets, audit, sessions, log, system } = parts
  const secretProblem = secretProblemOf(providers)
  const planning = createPlanning({
    userServers: user,
    secretProblem,
    home,
    presets: join(packageRoot, 'policies'),
    trust: openTrust(home, system),
    images: imagesOf(env),
    gate: gateOf(env),
    system,
  })
  const tools = createTools({
    entitledOf: (session) => entitledOf(session, home, state),
    providers,
    checkLease: (session, lease) => checkAgentLease({ leases, state }, session, lease),
    startSibling: (session, wish, signal) => sessions().startSibling(session, wish, signal),
    audit: (event) => audit.append(event),
    log,
    system,
  })
  const operator = createOperatorServers({
    plan: (query, homeText) => planning.servers(query, homeText),
    home,
    harnesses: HARNESS_NAMES,
    vault,
    apply: () => applySecrets({ sessions: sessions(), secrets, audit }, AbortSignal.timeout(LIMITS.secretExecMs * 4)),
    secretProblem,
    providers,
    tools,
    sessions,
    audit,
    system,
  })
  return { planning, tools, operator }
}

/** What ends with a session's questions and commands: the MCP servers that it has. */
export function withTools(requests: Requests, tools: Tools): NonNullable<SessionParts['requests']> {
  return {
    call: (session, call, signal) => requests.call(session, call, signal),
    ask: (session, ask, signal) => requests.ask(session, ask, signal),
    tool: (session, request, signal) => tools.call(session, request, signal),
    async endSession(session) {
      await Promise.all([requests.endSession(session), tools.endSession(session)])
    },
  }
}

/** Where the operator's own configuration is. */
export function userPlaceOf(env: Environment): UserPlace {
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

function imagesOf(env: Environment): { sidecar: string; agent: string } {
  return {
    sidecar: env['SALLYPORT_SIDECAR_IMAGE'] || `sallyport/sidecar:${VERSION}`,
    agent: env['SALLYPORT_AGENT_IMAGE'] || `sallyport/agent:${VERSION}`,
  }
}

/** What of the operator's surroundings every gate needs. */
function gateOf(env: Environment): Pick<Parameters<typeof createPlanning>[0]['gate'], 'environment' | 'mounts'> {
  const extra = env['SALLYPORT_EXTRA_CA']
  const proxy = env['SALLYPORT_UPSTREAM_PROXY']
  const target = '/etc/sallyport/extra-ca.pem'
  return {
    environment: { ...(extra && { SALLYPORT_EXTRA_CA: target }), ...(proxy && { SALLYPORT_UPSTREAM_PROXY: proxy }) },
    mounts: extra ? [{ source: realpathSync(extra), target, readOnly: true }] : [],
  }
}
