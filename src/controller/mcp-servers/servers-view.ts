import { SallyportError } from '../../kernel/errors.ts'
import { secretsOfServer } from '../../policy/policy.ts'
import type { ServersView, ServerView } from '../../wire/servers.ts'
import { homeServersFile } from './home-file.ts'
import { sessionServers } from './mcp-servers.ts'
import type { PlannedServers, ServersQuery } from './operator-servers.ts'
import type { SecretStates } from './secret-states.ts'

export type ServersViewParts = {
  readonly home: string
  readonly harnesses: readonly string[]
  readonly plan: (query: ServersQuery, homeText?: string) => Promise<PlannedServers>
  readonly states: SecretStates
}

/** In the place of an `mcp.json` that is broken: what else sessions have can be shown all the same. */
export const NO_SERVERS = '{"mcpServers": {}}'

/** Every server that a session of a query would have. Why none would start is part of the answer. */
export async function viewServers(parts: ServersViewParts, query: Omit<ServersQuery, 'policy'>): Promise<ServersView> {
  const problems: string[] = []
  const attempt = async (homeText?: string): Promise<PlannedServers | undefined> => {
    try {
      return await parts.plan({ ...query, policy: [] }, homeText)
    } catch (error) {
      if (!(error instanceof SallyportError)) throw error
      problems.push(...error.message.split('\n'))
      return undefined
    }
  }
  const planned = (await attempt()) ?? (await attempt(NO_SERVERS))
  const { harnesses } = parts
  if (planned === undefined) return { servers: [], leftOut: [], harnesses, problems: [...new Set(problems)] }
  const { policy, kept, holder } = planned
  const written = new Map(policy.effective.mcpServers.map((server) => [server.name, server]))
  const servers = await Promise.all(
    sessionServers(policy, kept).map(async ({ name, how, what, secrets, tools }): Promise<ServerView> => {
      const server = written.get(name)
      const { file, line } = server?.from ?? { file: kept?.file ?? '', line: 0 }
      const source = file === homeServersFile(parts.home) ? 'home' : file === kept?.file ? 'harness' : 'policy'
      return {
        name,
        how,
        what: server?.kind === 'stdio' ? server.command : [what],
        source,
        file,
        line: source === 'harness' ? 0 : line,
        secrets: await Promise.all(secrets.map((key) => parts.states.of(key, policy.secrets, holder))),
        ...(tools && { tools }),
      }
    }),
  )
  const harness = policy.effective.harness?.value
  const file = kept?.file ?? ''
  return {
    servers,
    leftOut: (kept?.leftOut ?? []).map(({ name, why }) => ({ name, file, why })),
    ...(harness !== undefined && { harness }),
    harnesses,
    problems: [...new Set(problems)],
  }
}

/** Keys of the secrets that an entry names. */
export function keysOf(entry: {
  readonly env?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
}): string[] {
  return secretsOfServer({ kind: entry.env === undefined ? 'http' : 'stdio', ...entry })
}
