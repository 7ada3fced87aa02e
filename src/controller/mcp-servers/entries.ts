import { secretsIn } from '../../policy/policy.ts'

/** An entry of `mcp_servers`, as a policy writes it. */
export type ServerEntry =
  | {
      readonly name: string
      readonly command: readonly [string, ...string[]]
      readonly env: Readonly<Record<string, string>>
      readonly tools?: readonly string[]
      readonly workspace?: 'none' | 'ro'
      readonly image?: string
    }
  | { readonly name: string; readonly url: string; readonly headers: Readonly<Record<string, string>>; readonly tools?: readonly string[] }

/** Whether the program of an entry runs in a container of its own. */
export function isContainedEntry(entry: Extract<ServerEntry, { readonly command: unknown }>): boolean {
  return entry.tools !== undefined || Object.values(entry.env).some((value) => secretsIn(value).length > 0)
}

/**
 * The text of a policy file with these and nothing else. JSON is YAML.
 * @param lines where each server stands in the file that it is from: it stands there in the text too, and what is said of it names that line
 */
export function policyText(servers: readonly ServerEntry[], secrets: readonly unknown[] = [], lines: readonly number[] = []): string {
  let text = '{"version":1'
  let line = 1
  for (const [at, server] of servers.entries()) {
    text += at === 0 ? ',"mcp_servers":[' : ','
    const wanted = lines[at] ?? line
    text += '\n'.repeat(Math.max(0, wanted - line))
    line = Math.max(line, wanted)
    text += JSON.stringify(withoutEmpty(server))
  }
  if (servers.length > 0) text += ']'
  return `${text}${secrets.length > 0 ? `,"secrets":${JSON.stringify(secrets)}` : ''}}`
}

function withoutEmpty(entry: ServerEntry): unknown {
  return Object.fromEntries(
    Object.entries(entry).filter(([, value]) => typeof value !== 'object' || Array.isArray(value) || Object.keys(value).length > 0),
  )
}
