import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import * as z from 'zod'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { readValue, secretsIn } from '../policy/policy.ts'
import { MCP_SERVER_NAME } from '../wire/mcp-server.ts'
import { homeOf, parseFlags, type Io } from './command.ts'
import { daemonClient } from './daemon-client.ts'
import { MCP_USAGES, QUERY_FLAGS, queryOf } from './mcp-usages.ts'

const Resolved = z.object({ values: z.record(z.string(), z.string()) })
/** Of this program, and no business of the one that it runs. */
const OWN_VARIABLES = /^SALLYPORT_/
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const

/** `sallyport mcp wrap`: standard input and output are the program's own. Resolves with its exit code. */
export async function wrapServer(argv: readonly string[], io: Io): Promise<number> {
  const end = argv.indexOf('--')
  const { harness: _harness, ...flags } = QUERY_FLAGS
  const { values } = parseFlags(
    end < 0 ? argv : argv.slice(0, end),
    { ...flags, name: { type: 'string' } },
    { min: 0, max: 0, usage: MCP_USAGES.wrap },
  )
  const [program, ...args] = end < 0 ? [] : argv.slice(end + 1)
  const hint = `usage: ${MCP_USAGES.wrap}`
  if (program === undefined) throw new SallyportError('usage', 'CMD is missing', { hint })
  const { name, ...query } = values
  if (name === undefined || !MCP_SERVER_NAME.test(name))
    throw new SallyportError('usage', name === undefined ? '--name is missing' : `--name "${name}" is no name of an MCP server`, { hint })
  const environment = await filled(io, name, queryOf(query))
  return await run(program, args, environment)
}

async function filled(io: Io, server: string, query: ReturnType<typeof queryOf>): Promise<Record<string, string>> {
  const own = Object.entries(io.env).filter((entry): entry is [string, string] => entry[1] !== undefined && !OWN_VARIABLES.test(entry[0]))
  const written = own.map(([variable, value]) => [variable, value.includes('${secret:') ? readValue(value) : [{ text: value }]] as const)
  for (const [variable, parts] of written)
    if (typeof parts === 'string') throw new SallyportError('mcp_config_invalid', `the variable ${variable}: ${parts}`)
  const keys = [...new Set(own.flatMap(([, value]) => secretsIn(value)))]
  const values = keys.length === 0 ? {} : await resolveKeys(io, server, keys, query)
  return Object.fromEntries(
    written.map(([variable, parts]) => [
      variable,
      typeof parts === 'string' ? '' : parts.map((part) => ('text' in part ? part.text : (values[part.secret] ?? ''))).join(''),
    ]),
  )
}

async function resolveKeys(
  io: Io,
  server: string,
  keys: readonly string[],
  query: ReturnType<typeof queryOf>,
): Promise<Readonly<Record<string, string>>> {
  const bounds = { ms: LIMITS.toolOpenMs, bytes: LIMITS.daemonAnswerBytesMax }
  const answer = Resolved.safeParse(
    await daemonClient(homeOf(io.env)).request('POST', '/v1/mcp/resolve', { ...query, server, keys }, bounds),
  )
  // Without a cause: what was parsed has values in it.
  if (!answer.success) throw new SallyportError('internal', 'the daemon answered something else than values')
  return answer.data.values
}

function run(program: string, args: readonly string[], env: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'inherit', env })
    const handlers = SIGNALS.map((signal) => [signal, () => void child.kill(signal)] as const)
    for (const [signal, handler] of handlers) process.on(signal, handler)
    const done = (): void => {
      for (const [signal, handler] of handlers) process.off(signal, handler)
    }
    child.once('error', (cause) => {
      done()
      reject(new SallyportError('usage', `"${program}" cannot be run (${codeOf(cause)})`, { cause }))
    })
    child.once('exit', (code, signal) => {
      done()
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]))
    })
  })
}
