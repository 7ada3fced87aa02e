import { join } from 'node:path'
import { findNodeAtLocation, getLocation, getNodeValue, parseTree, type JSONPath, type Node, type ParseError } from 'jsonc-parser'
import * as z from 'zod'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import { checkPolicy } from '../../policy/policy.ts'
import { policyText, type ServerEntry } from './entries.ts'
import { readBoundedText } from './read-text.ts'

/** As clients of MCP write it, and `tools`. */
const Server = z.union([
  z.strictObject({
    type: z.enum(['stdio', 'local']).optional(),
    command: z.string().min(1),
    args: z.array(z.string()).optional(),
    env: z.record(z.string(), z.string()).optional(),
    tools: z.array(z.string()).min(1).optional(),
    workspace: z.enum(['none', 'ro']).optional(),
    image: z.string().optional(),
  }),
  z.strictObject({
    type: z.enum(['http', 'remote', 'streamable-http']).optional(),
    url: z.string().min(1),
    headers: z.record(z.string(), z.string()).optional(),
    tools: z.array(z.string()).min(1).optional(),
  }),
])
const Servers = z.strictObject({ mcpServers: z.record(z.string(), z.unknown()) })

/** What is wrong with the file, where. Never with a value. */
export type HomeProblem = {
  readonly message: string
  /** Of the text, in UTF-16 units. */
  readonly offset: number
  /** Which one, where it is one's. */
  readonly server?: string
}

/** Servers as entries of a policy, with the line that each begins at. */
export type HomeServers = { readonly entries: readonly ServerEntry[]; readonly lines: readonly number[] }

const NONE: HomeServers = { entries: [], lines: [] }

/** The operator's MCP servers of all sessions: `mcp.json` of the home. */
export function homeServersFile(home: string): string {
  return join(home, 'mcp.json')
}

/** The file as it is; undefined where there is none. @throws mcp_config_invalid when it cannot be read */
export function readHomeText(home: string): string | undefined {
  const file = homeServersFile(home)
  try {
    return readBoundedText(file)
  } catch (cause) {
    throw invalidServers([`${file}: ${cause instanceof Error ? cause.message : codeOf(cause)}`])
  }
}

/**
 * The servers of `mcp.json`; none where there is no file.
 * @param text in the place of what the file has
 * @throws mcp_config_invalid with every problem in the message, a line each. Never with a value.
 */
export function readHomeServers(home: string, text = readHomeText(home)): HomeServers {
  if (text === undefined) return NONE
  const file = homeServersFile(home)
  const { problems, ...servers } = parseHomeServers(file, text)
  if (problems.length === 0) return servers
  const lines = problems.map(({ message, offset }) => `${file}:${lineAt(text, offset)}: ${message}`)
  throw invalidServers([...new Set(lines)])
}

/** The same without throwing: what can be read, and everything that is wrong. */
export function parseHomeServers(file: string, text: string): HomeServers & { readonly problems: readonly HomeProblem[] } {
  const errors: ParseError[] = []
  const tree = treeOf(text, errors)
  const [error] = errors
  if (tree === undefined || error !== undefined) {
    const offset = error?.offset ?? 0
    return { ...NONE, problems: [{ message: `it is not JSON, at line ${lineAt(text, offset)}`, offset }] }
  }
  const problems = [...repeated(tree)]
  const parsed = Servers.safeParse(getNodeValue(tree))
  if (!parsed.success)
    return { ...NONE, problems: [...problems, { message: 'it must be {"mcpServers": {NAME: …}}, and nothing else', offset: tree.offset }] }
  const offsetOf = (path: JSONPath): number => placeIn(tree, ['mcpServers', ...path])
  const entries: ServerEntry[] = []
  for (const [name, raw] of Object.entries(parsed.data.mcpServers)) {
    const server = Server.safeParse(raw)
    if (server.success) entries.push(entryOf(name, server.data))
    else problems.push({ message: `"${shown(name)}": ${shapeProblem(raw)}`, offset: offsetOf([name]), server: name })
  }
  const lines = entries.map(({ name }) => lineAt(text, offsetOf([name])))
  // What a policy would be refused for, this is.
  const policy = policyText(entries, [], lines)
  for (const { message, line, column } of checkPolicy([{ file, text: policy }], { policyDirs: [] }).errors) {
    const [, at, ...path] = getLocation(policy, offsetAt(policy, line, column)).path
    const entry = typeof at === 'number' ? entries[at] : undefined
    if (entry === undefined) problems.push({ message, offset: tree.offset })
    else problems.push({ message, offset: offsetOf([entry.name, ...asWritten(path)]), server: entry.name })
  }
  return { entries, lines, problems: withoutRepeats(problems) }
}

function treeOf(text: string, errors: ParseError[]): Node | undefined {
  try {
    return parseTree(text, errors, { allowTrailingComma: true })
  } catch (error) {
    // Brackets within brackets, deeper than its parser goes.
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** Line of an offset, from 1. */
export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

/** @throws never: it is for `throw` */
export function invalidServers(problems: readonly string[]): SallyportError {
  return new SallyportError('mcp_config_invalid', problems.join('\n'), {
    hint: `docs/MCP-SERVERS.md has what an entry may say, of ${LIMITS.mcpServersMax} at most; secrets are stored with "sallyport secret set KEY"`,
  })
}

function offsetAt(text: string, line: number, column: number): number {
  const before = text.split('\n', Math.max(0, line - 1)).reduce((sum, one) => sum + one.length + 1, 0)
  // One further: on the first character of a value, not before it.
  return before + column
}

/** Of the key of a field, or of what an element is; of the nearest thing around it where there is none. */
function placeIn(tree: Node, path: JSONPath): number {
  for (let length = path.length; length > 0; length -= 1) {
    const found = findNodeAtLocation(tree, path.slice(0, length))
    if (found !== undefined) return found.parent?.type === 'property' ? found.parent.offset : found.offset
  }
  return tree.offset
}

/** A place in an entry of a policy, in a client's spelling of it. */
function asWritten([field, at, ...rest]: JSONPath): JSONPath {
  if (field !== 'command') return [field, at, ...rest].filter((part) => part !== undefined)
  return typeof at === 'number' && at > 0 ? ['args', at - 1] : ['command']
}

/** Of a key that stands there twice one would be read, and the other seen. */
function* repeated(node: Node, server?: string): Generator<HomeProblem> {
  const seen = new Set<unknown>()
  for (const child of node.children ?? []) {
    const [key, value] = child.type === 'property' ? (child.children ?? []) : []
    const depth = key === undefined ? undefined : depthOf(child)
    const of = depth === 2 ? String(key?.value) : server
    if (key !== undefined && seen.has(key.value))
      yield { message: `"${shown(String(key.value))}" stands there twice`, offset: key.offset, ...(of !== undefined && { server: of }) }
    seen.add(key?.value)
    yield* repeated(value ?? child, of)
  }
}

/** How many properties a property is in, itself included. */
function depthOf(node: Node | undefined): number {
  return node === undefined ? 0 : depthOf(node.parent) + (node.type === 'property' ? 1 : 0)
}

function withoutRepeats(problems: readonly HomeProblem[]): HomeProblem[] {
  return problems.filter((one, at) => problems.findIndex(({ message, offset }) => message === one.message && offset === one.offset) === at)
}

function entryOf(name: string, server: z.infer<typeof Server>): ServerEntry {
  if ('url' in server) {
    const { url, headers = {}, tools } = server
    return { name, url, headers, ...(tools && { tools }) }
  }
  const { type: _type, command, args = [], env = {}, tools, workspace, image } = server
  return {
    name,
    command: [command, ...args],
    env,
    ...(tools && { tools }),
    ...(workspace && { workspace }),
    ...(image !== undefined && { image }),
  }
}

const FIELDS: ReadonlySet<string> = new Set(['type', 'command', 'args', 'env', 'url', 'headers', 'tools', 'workspace', 'image'])

function shapeProblem(raw: unknown): string {
  if (typeof raw !== 'object' || raw === null) return 'it must be a map'
  const unknown = Object.keys(raw).filter((key) => !FIELDS.has(key))
  if (unknown.length > 0) return `it has ${unknown.map((key) => `"${shown(key)}"`).join(', ')}, which nothing here reads`
  if ('command' in raw && 'url' in raw) return 'it has a command and a url: it is one of them'
  if (!('command' in raw) && !('url' in raw)) return 'it has neither a command nor a url'
  return 'command' in raw
    ? 'command is a text, args a list of texts, env a map of texts, tools a list of texts, workspace none or ro, type stdio'
    : 'url is a text, headers a map of texts, tools a list of texts, type http (servers with "sse" alone are not spoken to)'
}
