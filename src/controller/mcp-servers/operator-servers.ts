import type { Audit } from '../../audit/audit.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { TestedServer } from '../../wire/control.ts'
import type { SecretHolder } from '../../wire/secret-holder.ts'
import type { ServersView } from '../../wire/servers.ts'
import type { Policy } from '../../policy/policy.ts'
import { createResolver, type Providers } from '../providers/providers.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { missingSecrets, sessionServers, type SecretProblem, type SessionServer } from './mcp-servers.ts'
import { createSecretStates, type SecretStatesParts } from './secret-states.ts'
import { createServersFile, type ServersFileEditor, type ServersFileParts } from './servers-file.ts'
import { viewServers } from './servers-view.ts'
import type { Tools } from './tool-connections.ts'
import type { KeptServers } from './user-servers.ts'

/** A session that might be; any, without a workspace. */
export type ServersQuery = {
  readonly workspace?: string | undefined
  readonly policy: string[]
  readonly role?: string | undefined
  readonly harness?: string | undefined
}

/** What a session of that query would have. */
export type PlannedServers = { readonly policy: Policy; readonly kept: KeptServers | undefined; readonly holder: SecretHolder }

export type OperatorServersParts = {
  readonly home: string
  readonly harnesses: readonly string[]
  readonly vault: SecretStatesParts['vault']
  readonly apply: ServersFileParts['apply']
  /** @throws policy_invalid and its kin, mcp_config_invalid, workspace_refused */
  readonly plan: (query: ServersQuery, homeText?: string) => Promise<PlannedServers>
  readonly secretProblem: (grant: Parameters<SecretProblem>[0], holder: SecretHolder) => Promise<string | undefined>
  readonly providers: Pick<Providers, 'get' | 'problem'>
  readonly tools: Pick<Tools, 'pass'>
  readonly sessions: () => Pick<Sessions, 'testServer' | 'inspect'>
  readonly audit: Pick<Audit, 'append'>
  readonly system: Pick<System, 'elapsed' | 'random'>
}

/** What the operator does with MCP servers. */
export type OperatorServers = {
  /** `problems`: secrets without a value, a line each. */
  check(query: ServersQuery): Promise<{
    readonly servers: readonly Omit<SessionServer, 'registered'>[]
    readonly notes: readonly string[]
    readonly problems: readonly string[]
  }>
  /** In a session that runs, as its agent would have it. @throws mcp_server_unknown, mcp_server_failed, session_not_running */
  test(session: string, server: string): Promise<TestedServer>
  /** What a session would have, and why none would start. */
  view(query: Omit<ServersQuery, 'policy'>): Promise<ServersView>
  /** `mcp.json` */
  readonly file: ServersFileEditor
  /** Values for a program that the operator starts himself. @throws secret_not_permitted, secret_missing and its kin */
  resolve(query: ServersQuery, server: string, keys: readonly string[], signal: AbortSignal): Promise<Readonly<Record<string, string>>>
}

export function createOperatorServers(parts: OperatorServersParts): OperatorServers {
  const shared = { ...parts, states: createSecretStates(parts) }
  return {
    view: (query) => viewServers(shared, query),
    file: createServersFile(shared),
    async check(query) {
      const { policy, kept, holder } = await parts.plan(query)
      const servers = sessionServers(policy, kept).map(({ registered: _registered, ...server }) => server)
      return {
        servers,
        notes: kept?.notes ?? [],
        problems: await missingSecrets(policy, (grant) => parts.secretProblem(grant, holder)),
      }
    },
    async test(session, server) {
      const { id, state } = await parts.sessions().inspect(session)
      if (state !== 'running') throw new SallyportError('session_not_running', `session "${session}" is ${state}`)
      await parts.audit.append({ event: 'operator', did: 'mcp_tested', details: `${id} ${server}` })
      using pass = parts.tools.pass(id, server)
      return await parts.sessions().testServer(id, server, pass.text)
    },
    async resolve(query, server, keys, signal) {
      const { policy, holder } = await parts.plan(query)
      await parts.audit.append({ event: 'operator', did: 'mcp_wrapped', details: `${server}: ${keys.join(',')}` })
      // I30: a key that neither the policy nor the configuration of that server names is given to nobody.
      const resolver = createResolver(policy.secrets, parts.providers, parts.system, holder)
      const bound = AbortSignal.any([signal, AbortSignal.timeout(LIMITS.toolOpenMs)])
      const values = await Promise.all(
        keys.map(async (key) => [key, (await resolver.resolve(key, { resource: `tool:${server}` }, bound)).reveal()] as const),
      )
      resolver.forget()
      return Object.fromEntries(values)
    },
  }
}
