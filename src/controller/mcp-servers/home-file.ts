import { join } from 'node:path'
import { parse as parseJsonc, type ParseError } from 'jsonc-parser'
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

/** The operator's MCP servers of all sessions: `mcp.json` of the home. */
export function homeServersFile(home: string): string {
  return join(home, 'mcp.json')
}

/**
 * The servers of `mcp.json`, as entries of a policy; none where there is no file.
 * @throws mcp_config_invalid with every problem in the message, a line each. Never with a value.
 */
export function readHomeServers(home: string): readonly ServerEntry[] {
  const file = homeServersFile(home)
  let text: string | undefined
  try {
    text = readBoundedText(file)
  } catch (cause) {
    throw invalid(file, [cause instanceof Error ? cause.message : codeOf(cause)])
  }
  if (text === undefined) return []
  const errors: ParseError[] = []
  const parsed = Servers.safeParse(parseJsonc(text, errors, { allowTrailingComma: true }))
  if (errors.length > 0) throw invalid(file, [`it is not JSON, at line ${text.slice(0, errors[0]?.offset).split('\n').length}`])
  if (!parsed.success) throw invalid(file, ['it must be {"mcpServers": {NAME: …}}, and nothing else'])
  const problems: string[] = []
  const entries: ServerEntry[] = []
  for (const [name, raw] of Object.entries(parsed.data.mcpServers)) {
    const server = Server.safeParse(raw)
    if (server.success) entries.push(entryOf(name, server.data))
    else problems.push(`"${shown(name)}": ${shapeProblem(raw)}`)
  }
  // What a policy would be refused for, this is.
  const { errors: faults } = checkPolicy([{ file, text: policyText(entries) }], { policyDirs: [] })
  problems.push(...faults.map(({ message }) => message))
  if (problems.length > 0) throw invalid(file, [...new Set(problems)])
  return entries
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

function invalid(file: string, problems: readonly string[]): SallyportError {
  return new SallyportError('mcp_config_invalid', problems.map((problem) => `${file}: ${problem}`).join('\n'), {
    hint: `docs/MCP-SERVERS.md has what an entry may say, of ${LIMITS.mcpServersMax} at most; secrets are stored with "sallyport secret set KEY"`,
  })
}
