import { request } from 'node:http'
import { join } from 'node:path'
import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import { codeOf, ERRORS, SallyportError, type ErrorCode } from '../kernel/errors.ts'
import { visibleJson } from '../kernel/visible.ts'
import { homeOf, parseFlags, type Command } from './command.ts'

const USAGE = 'sallyport selftest ID [--json]'

const Rows = z
  .array(z.object({ id: z.string(), what: z.string(), expected: z.string(), why: z.string(), ok: z.boolean(), detail: z.string() }))
  .min(1)
type Row = z.infer<typeof Rows>[number]

/** `sallyport selftest ID`: the daemon runs it. */
export const selftestCommand: Command = {
  summary: 'try the ways out of a running session',
  usage: `usage: ${USAGE}

Puts a probe in the agent's place (the same network, mounts and hardening, beside the agent) and tries what is known to lead out
of a session: services of this machine, IPv6, raw sockets, names, other sessions, metadata services, mounts, capabilities, sockets
of engines. The same runs before an agent starts. Nothing is sent but to the session's gate and to this machine.

  ID         of the session, or its name
  --json     an array of {id, what, expected, why, ok, detail}

Exit code: 0 all are shut; 1 one is open or could not be tried; 2 for a wrong command line.
`,
  async run(argv, io) {
    const { values, positionals } = parseFlags(argv, { json: { type: 'boolean' } }, { min: 1, max: 1, names: ['ID'], usage: USAGE })
    const rows = readRows(await ask(join(homeOf(io.env), 'daemon.sock'), positionals[0] ?? ''))
    io.out(values.json === true ? visibleJson(rows) : print(rows))
    return rows.every(({ ok }) => ok) ? 0 : 1
  },
}

function readRows(body: unknown): Row[] {
  const rows = Rows.safeParse(body)
  if (rows.success) return rows.data
  throw new SallyportError('daemon_unavailable', 'the daemon did not answer with the rows of a selftest', {
    hint: 'is it of this version?',
  })
}

function print(rows: readonly Row[]): string {
  const width = Math.max(...rows.map(({ id }) => id.length))
  const lines = rows.map(({ id, ok, detail, what }) => `${ok ? '✓' : '✗'} ${id.padEnd(width)}  ${ok ? detail : `${detail} (${what})`}`)
  const open = rows.filter(({ ok }) => !ok).length
  return `${lines.join('\n')}\n\n${open === 0 ? `all ${rows.length} shut` : `${open} of ${rows.length} open`}\n`
}

function ask(socketPath: string, id: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const path = `/v1/sessions/${encodeURIComponent(id)}/selftest`
    const call = request(
      { socketPath, path, method: 'POST', signal: AbortSignal.timeout(LIMITS.selftestMs + LIMITS.settleMs) },
      (answer) => {
        let text = ''
        answer.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
          if (text.length > LIMITS.probeOutputBytesMax * 2) call.destroy(new Error('the answer is too long'))
        })
        answer.on('error', reject)
        answer.on('end', () => {
          const body = jsonOf(text)
          if (answer.statusCode === 200) resolve(body)
          else reject(errorOf(body, answer.statusCode ?? 0))
        })
      },
    )
    call.on('error', (cause) => {
      const message = `the daemon does not answer at ${socketPath}: ${codeOf(cause)}`
      reject(new SallyportError('daemon_unavailable', message, { hint: 'start it: sallyport daemon', cause }))
    })
    call.end()
  })
}

function errorOf(body: unknown, status: number): SallyportError {
  const { code, message, detail, hint } = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>
  const known = typeof code === 'string' && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'daemon_unavailable'
  const said = [message, detail].find((text) => typeof text === 'string') ?? `the daemon answered ${status}`
  return new SallyportError(known, said, typeof hint === 'string' ? { hint } : {})
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
