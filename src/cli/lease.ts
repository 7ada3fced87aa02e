import * as z from 'zod'
import { SallyportError } from '../kernel/errors.ts'
import { visibleJson } from '../kernel/visible.ts'
import { homeOf, parseFlags, parseVerb, type Command, type Io } from './command.ts'
import { daemonClient, type DaemonClient } from './daemon-client.ts'

const LS = 'sallyport lease ls [--json]'
const REVOKE = 'sallyport lease revoke ID'
const ROTATE = 'sallyport lease rotate-key [--now]'

const USAGE = `usage: ${LS}
       ${REVOKE}
       ${ROTATE}

A lease is what a session's agent and its sidecar show to prove whose they are. It has no expiry: it is valid while its session lives.

sallyport lease ls: the leases of all sessions, by id. The leases themselves are never shown.
sallyport lease revoke: ends both leases of a session at once. ID is that of a lease or of its session. Tunnels are cut and the
sidecar's secrets wiped within a second; the containers go on, with no way out. It cannot be taken back: start the session anew.
sallyport lease rotate-key: a new key for the leases from now on. Those of running sessions stay valid until they end.

  --json    one JSON document
  --now     of rotate-key: no lease of a key before is valid any more, which ends what all running sessions can do

Exit code: 0 done, 1 the daemon does not answer or refused, 2 usage.
`

/** One row of `GET /v1/leases`. */
const LeaseRow = z.object({
  id: z.string(),
  session: z.string(),
  audience: z.enum(['sidecar', 'agent']),
  workspace: z.string(),
  role: z.string().optional(),
  agent: z.string(),
  state: z.enum(['live', 'revoked', 'ended']),
})
/** What the daemon answers to `GET /v1/leases`. */
const LeaseList = z.object({ leases: z.array(LeaseRow) })

/** `sallyport lease ls|revoke|rotate-key`. */
export const leaseCommand: Command = {
  summary: "list and revoke the sessions' leases, rotate their key",
  usage: USAGE,
  async run([name, ...rest], io) {
    const verb = parseVerb('lease', name, ['ls', 'revoke', 'rotate-key'])
    const daemon = daemonClient(homeOf(io.env))
    switch (verb) {
      case 'ls':
        return list(rest, io, daemon)
      case 'revoke':
        return revoke(rest, io, daemon)
      case 'rotate-key':
        return rotate(rest, io, daemon)
    }
  },
}

async function list(argv: readonly string[], io: Io, daemon: DaemonClient): Promise<number> {
  const { values } = parseFlags(argv, { json: { type: 'boolean' } }, { min: 0, max: 0, usage: LS })
  const parsed = LeaseList.safeParse(await daemon.request('GET', '/v1/leases'))
  if (!parsed.success) throw new SallyportError('internal', 'the daemon answered something else than leases', { cause: parsed.error })
  const { leases } = parsed.data
  if (values.json === true) io.out(visibleJson(leases))
  else if (leases.length === 0) io.out('no session has a lease\n')
  else for (const lease of leases) io.out(`${describe(lease)}\n`)
  return 0
}

async function revoke(argv: readonly string[], io: Io, daemon: DaemonClient): Promise<number> {
  const { positionals } = parseFlags(argv, {}, { min: 1, max: 1, names: ['ID'], usage: REVOKE })
  const [id = ''] = positionals
  await daemon.request('POST', `/v1/leases/${encodeURIComponent(id)}/revoke`)
  io.out(`${id}: revoked\n`)
  return 0
}

async function rotate(argv: readonly string[], io: Io, daemon: DaemonClient): Promise<number> {
  const { values } = parseFlags(argv, { now: { type: 'boolean', default: false } }, { min: 0, max: 0, usage: ROTATE })
  await daemon.request('POST', '/v1/leases/rotate-key', { now: values.now })
  io.out(values.now ? 'a new key signs the leases, and no earlier lease is valid\n' : 'a new key signs the leases from now on\n')
  return 0
}

function describe({ id, session, audience, workspace, role, agent, state }: z.infer<typeof LeaseRow>): string {
  return [id, state.padEnd(7), audience.padEnd(7), session, workspace, agent, role && `role ${role}`].filter(Boolean).join('  ')
}
