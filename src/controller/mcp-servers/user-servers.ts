import { checkedSecret } from '../../credential/credential.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import { checkPolicy, looksRandom, looksSecret, looksSecretArgument, namesSecret } from '../../policy/policy.ts'
import { GATE_SERVER_NAME } from '../../wire/mcp-server.ts'
import type { SourceOf } from '../../wire/secret-source.ts'
import type { Provider } from '../providers/provider.ts'
import { isContainedEntry, policyText, type ServerEntry } from './entries.ts'
import { readBoundedText } from './read-text.ts'
import { USER_FORMATS, type Environment, type FoundServer, type UserValue } from './user-formats.ts'

/** Where the operator's own configuration is looked for: their home folder and environment. Read, never written. */
export type UserPlace = { readonly home: string; readonly env: Environment }

/** What a session keeps of the operator's own servers. */
export type KeptServers = {
  /** The file that they are from; undefined where the harness has none. */
  readonly file: string | undefined
  /** For the policy of the session: those that the gate stands before, and programs in the agent. */
  readonly servers: readonly ServerEntry[]
  readonly secrets: readonly { readonly name: string; readonly source: string; readonly resources: readonly string[] }[]
  /** That the agent calls itself, under the rules of the policy. */
  readonly called: readonly { readonly name: string; readonly url: string }[]
  /** What was not kept, as the file calls it. */
  readonly leftOut: readonly { readonly name: string; readonly why: string }[]
  /** For the operator, a line each: what was kept and how, and what was not. */
  readonly notes: readonly string[]
}

const NOTHING: KeptServers = { file: undefined, servers: [], secrets: [], called: [], leftOut: [], notes: [] }

/**
 * The MCP servers of the operator's own configuration of a harness. A value that looks like a secret, or is one of the environment, stays
 * where it is: what is given back only names it. A file that is broken, or a server that is, is a note and no failure.
 * @param taken names that sessions have otherwise
 */
export function keepUserServers(place: UserPlace, harness: string, taken: ReadonlySet<string>): KeptServers {
  const found = findServers(place, harness)
  if (found === undefined) return NOTHING
  const { file } = found
  if ('problem' in found) return { ...NOTHING, file, notes: [`${file}: its MCP servers are not there: ${found.problem}`] }
  const kept = {
    servers: [] as ServerEntry[],
    secrets: [] as KeptServers['secrets'][number][],
    called: [] as KeptServers['called'][number][],
    leftOut: [] as KeptServers['leftOut'][number][],
  }
  const notes: string[] = []
  const leaveOut = (name: string, shownName: string, why: string): void => {
    kept.leftOut.push({ name, why })
    notes.push(`the MCP server "${shownName}" of ${file} is left out: ${why}`)
  }
  const names = new Set([...taken, GATE_SERVER_NAME])
  for (const server of found.servers.slice(0, LIMITS.mcpServersMax)) {
    if (server.isDisabled) continue
    const name = nameOf(server.server)
    const problem = names.has(name) ? `sessions have "${name}" already` : unfitness(server, name)
    if (problem !== undefined) {
      leaveOut(server.server, shown(server.server), problem)
      continue
    }
    if (server.url !== undefined && server.tools === undefined && Object.keys(server.headers).length === 0) {
      names.add(name)
      kept.called.push({ name, url: server.url })
      notes.push(`the MCP server "${name}" of ${file} is called by the agent itself, as far as rules allow its host`)
      continue
    }
    const { entry, secrets } = wrapped(harness, server, name)
    // What a policy would be refused for is left out alone: no session fails by it.
    const [fault] = checkPolicy([{ file, text: policyText([entry], secrets) }], { policyDirs: [] }).errors
    if (fault !== undefined) {
      leaveOut(server.server, name, fault.message)
      continue
    }
    names.add(name)
    kept.servers.push(entry)
    kept.secrets.push(...secrets)
    const how = 'url' in entry ? 'goes by the gate' : isContainedEntry(entry) ? 'runs in a container of its own' : 'runs in the agent'
    notes.push(
      `the MCP server "${name}" of ${file} ${how}${secrets.length > 0 ? `, with ${secrets.length} of its values held back from the agent` : ''}`,
    )
  }
  return { file, ...kept, notes }
}

/** Reads a value at the moment when it is used. */
export function userValues(place: UserPlace): Pick<Provider<'mcp-config'>, 'get' | 'problem'> {
  return {
    get(name, source) {
      const value = findValue(place, source)
      if (typeof value === 'object' && 'problem' in value)
        return Promise.reject(new SallyportError('secret_missing', `secret ${name}: ${value.problem}`))
      return new Promise((resolve) => resolve(checkedSecret(name, expand(name, value, place.env))))
    },
    problem(source) {
      const value = findValue(place, source)
      return 'problem' in value ? value.problem : undefined
    },
  }
}

function findValue(place: UserPlace, source: SourceOf<'mcp-config'>): UserValue | { readonly problem: string } {
  const found = findServers(place, source.harness)
  if (found === undefined) return { problem: `the harness "${source.harness}" has no configuration of MCP servers here` }
  if ('problem' in found) return { problem: `${found.file}: ${found.problem}` }
  const server = found.servers.find((one) => one.server === source.server)
  const values = server?.[source.of] ?? {}
  const value = Object.hasOwn(values, source.field) ? values[source.field] : undefined
  return value ?? { problem: `${found.file} has no ${shown(source.field)} in ${source.of} of "${shown(source.server)}"` }
}

function expand(name: string, value: UserValue, env: Environment): string {
  return value
    .map((part) => {
      if (typeof part === 'string') return part
      const found = env[part.variable] || part.otherwise
      if (found !== undefined) return found
      throw new SallyportError('secret_missing', `secret ${name}: the environment variable ${part.variable} is not set`, {
        hint: `set ${part.variable} where the daemon is started`,
      })
    })
    .join('')
}

type Found = { readonly file: string } & ({ readonly servers: readonly FoundServer[] } | { readonly problem: string })

function findServers({ home, env }: UserPlace, harness: string): Found | undefined {
  const format = Object.hasOwn(USER_FORMATS, harness) ? USER_FORMATS[harness] : undefined
  for (const file of format?.files(home, env) ?? []) {
    let text: string | undefined
    try {
      text = readBoundedText(file)
    } catch (error) {
      return { file, problem: error instanceof Error ? error.message : codeOf(error) }
    }
    if (text === undefined) continue
    try {
      return { file, servers: format?.read(text) ?? [] }
    } catch {
      // What a parser says may quote a line, and a line may have a secret in it.
      return { file, problem: 'it cannot be read as what it should be' }
    }
  }
  return undefined
}

function nameOf(server: string): string {
  return server
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 32)
}

/** Why a server cannot be in a session. Without values, which may be secrets. */
function unfitness({ command, env, url, headers, unfit }: FoundServer, name: string): string | undefined {
  if (unfit !== undefined) return unfit
  if (name === '') return 'its name has no letter or digit'
  if (command === undefined && url === undefined) return 'it has neither a command nor a url'
  // It would be in the agent, or in a container's configuration.
  if (command?.some((word, at, all) => looksSecretArgument(word, all[at - 1]) || isKey(word)) === true)
    return 'an argument looks like a secret: move it into its env'
  if (command?.some((word) => /\$\{|\{env:/.test(word)) === true) return 'an argument has a variable of the environment in it'
  if (url !== undefined && !/^https?:\/\/[^@?#\s${}]+$/.test(url)) return 'its url has a query, a password or a variable in it'
  if (url !== undefined && !URL.canParse(url)) return 'its url is none'
  if (url !== undefined && looksRandom(new URL(url).pathname))
    return 'its url looks as if it had a key in it: write it into mcp.json, where the gate keeps it'
  const names = [...Object.keys(env), ...Object.keys(headers)]
  return names.length > LIMITS.mcpFieldsMax ? `it has more than ${LIMITS.mcpFieldsMax} values` : undefined
}

/** A path of the operator's is none, though it may have such a name in it. */
function isKey(text: string): boolean {
  return looksRandom(text.replaceAll(/(?:^|(?<==))[.~]?\/(?:[^/\s]*\/)*[^/\s]*|sha256:[0-9a-f]{64}/g, ''))
}

function wrapped(harness: string, server: FoundServer, name: string): { entry: ServerEntry; secrets: KeptServers['secrets'] } {
  const secrets: KeptServers['secrets'][number][] = []
  const value = (of: 'env' | 'headers', field: string, parts: UserValue): string => {
    const text = parts.map((part) => (typeof part === 'string' ? part : '')).join('')
    const isPlain =
      parts.every((part) => typeof part === 'string') &&
      !looksSecret(field, text) &&
      !isKey(text) &&
      !namesSecret(text) &&
      !text.includes('${secret:')
    if (isPlain) return text
    const key = `mcp.${name}.${field.replaceAll(/[^A-Za-z0-9_.-]/g, '_').slice(0, 64)}`
    const source = `mcp-config:${harness}/${[server.server, of, field].map(encodeURIComponent).join('/')}`
    secrets.push({ name: key, source, resources: [`tool:${name}`] })
    return `\${secret:${key}}`
  }
  const filled = (of: 'env' | 'headers'): Record<string, string> =>
    Object.fromEntries(Object.entries(server[of]).map(([field, parts]) => [field, value(of, field, parts)]))
  const tools = server.tools === undefined ? {} : { tools: server.tools }
  const { command: [program, ...args] = [], url } = server
  const entry: ServerEntry =
    url === undefined || program !== undefined
      ? { name, command: [program ?? '', ...args], env: filled('env'), ...tools }
      : { name, url, headers: filled('headers'), ...tools }
  return { entry, secrets }
}
