import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import { SallyportError } from '../kernel/errors.ts'
import { visibleJson } from '../kernel/visible.ts'
import { homeOf, parseFlags, type Command } from './command.ts'
import { daemonClient, type Bounds } from './daemon-client.ts'

const USAGE = 'sallyport selftest ID [--json]'

const Rows = z
  .array(z.object({ id: z.string(), what: z.string(), expected: z.string(), why: z.string(), ok: z.boolean(), detail: z.string() }))
  .min(1)
/** As long as the selftest itself takes at most, and what a probe may print, with the texts of the ways. */
const BOUNDS: Bounds = { ms: LIMITS.selftestMs + LIMITS.settleMs, bytes: LIMITS.probeOutputBytesMax * 2 }
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
    const path = `/v1/sessions/${encodeURIComponent(positionals[0] ?? '')}/selftest`
    const rows = readRows(await daemonClient(homeOf(io.env)).request('POST', path, undefined, BOUNDS))
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
