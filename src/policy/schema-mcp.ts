import * as z from 'zod'
import { GATE_SERVER_NAME, MCP_SERVER_NAME } from '../wire/mcp-server.ts'
import { argumentProblem, environmentValueProblem, headerProblem, isReserved } from './mcp-values.ts'
import { parseUpstream } from './routes.ts'
import { Addresses, complaint, list, text } from './schema-fields.ts'
import { imageProblem } from './session-values.ts'

const TOOL = /^[\x21-\x7e\u00a0-\u{10ffff}]{1,128}$/u
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

const Name = text((value) => {
  if (!MCP_SERVER_NAME.test(value)) return `MCP server name "${value}" may have lower-case letters, digits and "-" only, 32 at most`
  return value === GATE_SERVER_NAME ? `MCP server name "${value}" is the gate's own` : undefined
}, MCP_SERVER_NAME)

/** A value that may be empty: programs tell a variable that is empty from one that is not there. */
const Value = z.string().max(8_192)

/** One MCP server, which is either a program or a URL. */
export const McpServerEntry = z
  .strictObject({
    name: Name.describe('In the URL: http://sallyport:7070/mcp/NAME.'),
    command: z
      .array(z.string().min(1).max(4_096))
      .min(1)
      .max(256)
      .optional()
      .describe('Program and arguments of a server that speaks by standard input and output. No secret is in them.'),
    env: z
      .record(z.string().regex(VARIABLE), Value)
      .optional()
      .describe('Environment of the program; "${secret:KEY}" anywhere in a value is a secret.'),
    workspace: z.enum(['none', 'ro']).optional().describe('What the program sees of the workspace. Default: none.'),
    image: text(imageProblem).optional().describe("The image that the program runs in. Default: the agent's."),
    url: text(complaint(parseServerUrl)).optional().describe('Absolute URL of a server that speaks streamable HTTP, without query.'),
    headers: z
      .record(z.string().min(1).max(128), Value)
      .optional()
      .describe('Fields of each request; a value may end in one "${secret:KEY}".'),
    plaintext: z.enum(['accept', 'refuse']).optional().describe('Whether secrets may go to an http URL. Default: refuse.'),
    addresses: Addresses.optional().describe('Private or otherwise refused ranges that the URL may lead to.'),
    tools: list(
      text((value) => (TOOL.test(value) ? undefined : `tool "${value}" must be the name of a tool, with "*" for any letters of it`)),
      256,
    )
      .optional()
      .describe('Tools that agents see and may call: names, "*" for any part of one. Default: all.'),
  })
  .superRefine((entry, context) => {
    for (const { path, message } of entryProblems(entry)) context.addIssue({ code: 'custom', path, message })
  })

/** What holds for the servers that the operator has of his own. */
export const McpSection = z.strictObject({
  user_servers: z
    .enum(['keep', 'drop'])
    .optional()
    .describe("Whether sessions have the MCP servers of the operator's own configuration of their harness. Default: keep."),
})

export type McpServerShape = z.infer<typeof McpServerEntry>

/** What a URL of a server is refused for: that of a route, but that it may end in a slash, which means something to servers. */
function parseServerUrl(url: string): unknown {
  return parseUpstream(url.replace(/(?<=[^/])\/$/, ''))
}

const OF_COMMAND = ['env', 'workspace', 'image'] as const
const OF_URL = ['headers', 'plaintext', 'addresses'] as const

function entryProblems(
  entry: Readonly<Record<string, unknown>> & { readonly name: string },
): { path: (string | number)[]; message: string }[] {
  const { name, command, url, env = {}, headers = {} } = entry as unknown as McpServerShape
  const say = (message: string, ...path: (string | number)[]): { path: (string | number)[]; message: string } => ({
    path,
    message: `MCP server "${name}": ${message}`,
  })
  if ((command === undefined) === (url === undefined)) return [say('it has one of command and url: a program, or a server elsewhere')]
  const alien = (url === undefined ? OF_URL : OF_COMMAND).filter((key) => entry[key] !== undefined)
  const of = url === undefined ? 'url' : 'command'
  const scheme = url?.split(':', 1)[0]
  return [
    ...alien.map((key) => say(`${key} is for servers with ${of}`, key)),
    ...(scheme === 'https' && entry['plaintext'] !== undefined
      ? [say('plaintext has no effect on an https url: remove it', 'plaintext')]
      : []),
    ...(command ?? []).flatMap((word, at, all) => {
      const problem = argumentProblem(word, all[at - 1])
      return problem === undefined ? [] : [say(problem, 'command', at)]
    }),
    ...Object.entries(env).flatMap(([key, value]) => {
      const problem = isReserved(key) ? `the variable ${key} is the gate's to set` : environmentValueProblem(key, value)
      return problem === undefined ? [] : [say(problem, 'env', key)]
    }),
    ...Object.entries(headers).flatMap(([key, value]) => {
      const problem = headerProblem(key, value)
      return problem === undefined ? [] : [say(problem, 'headers', key)]
    }),
    ...twice(Object.keys(headers)).map((key) => say(`the header "${key}" stands there twice`, 'headers', key)),
  ]
}

function twice(names: readonly string[]): string[] {
  const lower = names.map((name) => name.toLowerCase())
  return names.filter((_, index) => lower.indexOf(lower[index] ?? '') !== index)
}
