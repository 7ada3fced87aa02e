import { join } from 'node:path'
import { parse as parseToml } from 'smol-toml'
import { parse as parseJsonc, type ParseError } from 'jsonc-parser'

/** A value as a harness reads it: text, and variables of the environment that it puts in. */
export type UserValue = readonly (string | { readonly variable: string; readonly otherwise?: string })[]

/** One MCP server as the operator has written it for a harness. */
export type FoundServer = {
  readonly server: string
  readonly command?: readonly string[]
  readonly env: Readonly<Record<string, UserValue>>
  readonly url?: string
  readonly headers: Readonly<Record<string, UserValue>>
  readonly tools?: readonly string[]
  readonly isDisabled: boolean
  /** What it asks for that a session cannot give it. */
  readonly unfit?: string
}

/** Where a harness keeps its servers, and how it writes them. */
export type UserFormat = {
  /** Paths to try, the first that is there counts. */
  files(home: string, env: Environment): readonly string[]
  /** By name. @throws what is wrong with the text */
  read(text: string): readonly FoundServer[]
}

export type Environment = Readonly<Record<string, string | undefined>>
type Fields = Readonly<Record<string, unknown>>

/** `${NAME}` and `${NAME:-otherwise}`. */
const BRACED = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g
/** The same, and `$NAME`. */
const DOLLAR = /\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))/g
/** `${env:NAME}`. */
const NAMED = /\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}/g
/** `{env:NAME}`. */
const BRACE = /\{env:([A-Za-z_][A-Za-z0-9_]*)\}/g
const NEVER = /(?!)/g

/** By harness. Sources are the documentation of each program. */
export const USER_FORMATS: Readonly<Record<string, UserFormat>> = {
  claude: {
    files: (home, env) => [join(env['CLAUDE_CONFIG_DIR'] || home, '.claude.json')],
    read: (text) => servers(fieldsOf(json(text))['mcpServers'], (entry) => usual(entry, BRACED)),
  },
  codex: {
    files: (home, env) => [join(env['CODEX_HOME'] || join(home, '.codex'), 'config.toml')],
    read: (text) => servers(fieldsOf(parseToml(text))['mcp_servers'], codexServer),
  },
  gemini: {
    files: (home, env) => [join(env['GEMINI_CLI_HOME'] || home, '.gemini', 'settings.json')],
    read: (text) =>
      servers(fieldsOf(json(text))['mcpServers'], (entry) => ({
        ...usual({ ...entry, url: entry['httpUrl'] ?? entry['url'] }, DOLLAR),
        ...toolsOf(entry['includeTools']),
        ...(isFilled(entry['excludeTools']) && { unfit: 'it has excludeTools' }),
      })),
  },
  opencode: {
    files: (home, env) => {
      const folder = join(env['XDG_CONFIG_HOME'] || join(home, '.config'), 'opencode')
      return [env['OPENCODE_CONFIG'] ?? '', join(folder, 'opencode.json'), join(folder, 'opencode.jsonc')].filter((path) => path !== '')
    },
    read(text) {
      const section = fieldsOf(fieldsOf(json(text))['mcp'])
      const nested = section['servers']
      const isNested = typeof nested === 'object' && nested !== null && !('type' in nested)
      return servers(isNested ? nested : section, opencodeServer)
    },
  },
  cursor: {
    files: (home) => [join(home, '.cursor', 'mcp.json')],
    read: (text) =>
      servers(fieldsOf(json(text))['mcpServers'], (entry) => ({
        ...usual(entry, NAMED),
        ...(entry['envFile'] !== undefined && { unfit: 'it has envFile' }),
      })),
  },
  copilot: {
    files: (home, env) => [join(env['COPILOT_HOME'] || join(home, '.copilot'), 'mcp-config.json')],
    read: (text) => servers(fieldsOf(json(text))['mcpServers'], (entry) => ({ ...usual(entry, BRACED), ...toolsOf(entry['tools']) })),
  },
}

type Read = Omit<FoundServer, 'server'>

function servers(section: unknown, read: (entry: Fields) => Read): FoundServer[] {
  return Object.entries(fieldsOf(section)).map(([server, entry]) => ({ server, ...read(fieldsOf(entry)) }))
}

/** As most write them: `command`, `args`, `env`; `url`, `headers`. */
function usual(entry: Fields, expansion: RegExp): Read {
  const { command, args, url, type } = entry
  const isCalled = typeof url === 'string'
  return {
    ...(!isCalled && typeof command === 'string' && { command: [command, ...textsOf(args)] }),
    env: isCalled ? {} : valuesOf(entry['env'], expansion),
    ...(isCalled && { url }),
    headers: isCalled ? valuesOf(entry['headers'], expansion) : {},
    isDisabled: entry['disabled'] === true || entry['enabled'] === false,
    ...(typeof type === 'string' && /^(?:sse|ws|websocket)$/i.test(type) && { unfit: `its transport is ${type.toLowerCase()}` }),
  }
}

function codexServer(entry: Fields): Read {
  const bearer = entry['bearer_token_env_var']
  const named = textsOf(entry['env_vars']).map((variable) => [variable, [{ variable }]] as const)
  const fromVariables = Object.entries(fieldsOf(entry['env_http_headers'])).flatMap(([header, variable]) =>
    typeof variable === 'string' ? [[header, [{ variable }]] as const] : [],
  )
  const { env, headers, ...rest } = usual({ ...entry, headers: entry['http_headers'] }, NEVER)
  const isCalled = rest.url !== undefined
  return {
    ...rest,
    env: isCalled ? {} : { ...Object.fromEntries(named), ...env },
    headers: isCalled
      ? {
          ...headers,
          ...Object.fromEntries(fromVariables),
          ...(typeof bearer === 'string' && { Authorization: ['Bearer ', { variable: bearer }] }),
        }
      : {},
    ...toolsOf(entry['enabled_tools']),
    ...(isFilled(entry['disabled_tools']) && { unfit: 'it has disabled_tools' }),
  }
}

function opencodeServer(entry: Fields): Read {
  const [command, ...args] = textsOf(entry['command'])
  const isCalled = entry['type'] === 'remote'
  return usual({ ...entry, type: undefined, command, args, env: entry['environment'], url: isCalled ? entry['url'] : undefined }, BRACE)
}

/** One `*` means all of them. */
function toolsOf(value: unknown): { tools?: readonly string[] } {
  if (value === undefined) return {}
  const tools = textsOf(value)
  return tools.includes('*') ? {} : { tools }
}

function valuesOf(section: unknown, expansion: RegExp): Record<string, UserValue> {
  return Object.fromEntries(
    Object.entries(fieldsOf(section)).flatMap(([name, value]) =>
      typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
        ? [[name, split(String(value), expansion)] as const]
        : [],
    ),
  )
}

function split(text: string, expansion: RegExp): UserValue {
  const parts: (string | { variable: string; otherwise?: string })[] = []
  let end = 0
  for (const { index, 0: whole, 1: braced, 2: otherwise, 3: plain } of text.matchAll(expansion)) {
    if (index > end) parts.push(text.slice(end, index))
    parts.push({ variable: braced ?? plain ?? '', ...(otherwise !== undefined && { otherwise }) })
    end = index + whole.length
  }
  if (end < text.length || parts.length === 0) parts.push(text.slice(end))
  return parts
}

/** With comments and commas behind the last entry, as most of these programs take them. */
function json(text: string): unknown {
  const errors: ParseError[] = []
  const value: unknown = parseJsonc(text, errors, { allowTrailingComma: true })
  if (errors.length > 0) throw new Error(`it is not JSON (at character ${errors[0]?.offset ?? 0})`)
  return value
}

function isFilled(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}
