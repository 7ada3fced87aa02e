import { resolve } from 'node:path'
import { SallyportError } from '../kernel/errors.ts'
import { shown } from '../kernel/shown.ts'
import { system } from '../kernel/system.ts'
import { visible, visibleJson } from '../kernel/visible.ts'
import { PullView, type SessionView } from '../wire/operator.ts'
import { attachTo } from './attach.ts'
import { homeOf, parseFlags, type Command, type Io } from './command.ts'
import { daemonClient, type DaemonClient } from './daemon-client.ts'
import { DEFAULT_DETACH_KEYS, parseDetachKeys } from './detach-keys.ts'
import { createPulling } from './pulling.ts'

const UP = 'sallyport up [--workspace DIR] [--harness NAME] [--policy FILE]… [--role NAME] [--image REF] [--name NAME] [--detach] [-- CMD…]'
const RUN = 'sallyport run [the same] -- CMD…'

const FLAGS = `  --workspace DIR    what the agent works on (default: the current folder)
  --harness NAME     claude, codex, gemini, opencode, copilot or cursor: its image, settings, tools and policy
  --policy FILE      policy of this session, over those of the operator; may be given several times
  --role NAME        the role's policy as well ($SALLYPORT_HOME/policies/roles/NAME.yaml)
  --image REF        the agent's image (default: the policy's, the harness's, else a plain one)
  --name NAME        name of the session (default: the workspace's)
  --no-selftest      starts the agent without trying first that every way out is shut; the audit says so
`

export const upCommand: Command = {
  summary: 'start a hardened session for a workspace and attach to it',
  usage: `usage: ${UP}

Starts the session's gate and its agent, tries that every way out but the gate is shut, and attaches this terminal to the agent (detach
with ctrl-p ctrl-q). The session goes on when the terminal is gone; end it with "sallyport down". Needs a running "sallyport daemon".

${FLAGS}  --detach           does not attach; prints the session's id
  --json             with --detach: the session as JSON
  --detach-keys KEYS keys to detach with (default ctrl-p,ctrl-q)
`,
  async run(argv, io) {
    const { request, values } = parseUp(
      argv,
      { detach: { type: 'boolean', default: false }, json: { type: 'boolean', default: false }, 'detach-keys': { type: 'string' } },
      UP,
    )
    const detachKeys = parseDetachKeys(String(values['detach-keys'] ?? DEFAULT_DETACH_KEYS))
    const daemon = daemonClient(homeOf(io.env))
    const isDetached = values['detach'] === true
    if (!isDetached && values['json'] === true) throw new SallyportError('usage', '--json needs --detach', { hint: UP })
    const session = await startSession(daemon, request(!isDetached), io)
    for (const warning of session.warnings) io.err(`warning: ${visible(warning).replaceAll('\n', '\\n')}\n`)
    if (isDetached) {
      io.out(values['json'] === true ? visibleJson(session) : `${session.id}\n`)
      return 0
    }
    return attachTo(session.id, detachKeys, io)
  },
}

export const runCommand: Command = {
  summary: 'start a session for one command, wait for it, and end the session',
  usage: `usage: ${RUN}

Starts a session, attaches to the command in it, ends the session with the command, and exits with its code. Ctrl-C goes to the command.

${FLAGS}`,
  async run(argv, io) {
    const { request } = parseUp(argv, {}, RUN)
    const wanted = request(true)
    if (wanted.command.length === 0) throw new SallyportError('usage', 'CMD is missing', { hint: `usage: ${RUN}` })
    const daemon = daemonClient(homeOf(io.env))
    const session = await startSession(daemon, wanted, io)
    try {
      return await attachTo(session.id, [], io)
    } finally {
      await daemon.request('POST', `/v1/sessions/${session.id}/down`)
    }
  },
}

type Wanted = Record<string, unknown> & { readonly command: readonly string[] }

function parseUp(argv: readonly string[], more: Record<string, { type: 'boolean' | 'string'; default?: boolean }>, usage: string) {
  const end = argv.indexOf('--')
  const { values } = parseFlags(
    end < 0 ? argv : argv.slice(0, end),
    {
      workspace: { type: 'string' },
      harness: { type: 'string' },
      policy: { type: 'string', multiple: true },
      role: { type: 'string' },
      image: { type: 'string' },
      name: { type: 'string' },
      'no-selftest': { type: 'boolean', default: false },
      ...more,
    },
    { min: 0, max: 0, usage },
  )
  const given = values as Record<string, string | boolean | string[] | undefined>
  const { harness, role, image, name } = given
  const request = (isAttached: boolean): Wanted => {
    const tty = isAttached && process.stdin.isTTY && process.stdout.isTTY
    return {
      workspace: resolve(String(given['workspace'] ?? '.')),
      policy: ((given['policy'] as string[] | undefined) ?? []).map((file) => resolve(file)),
      command: end < 0 ? [] : argv.slice(end + 1),
      tty: tty || !isAttached,
      ...(tty && { size: { columns: process.stdout.columns, rows: process.stdout.rows } }),
      ...(tty && process.env['TERM'] !== undefined && { environment: { TERM: process.env['TERM'] } }),
      selftest: given['no-selftest'] !== true,
      ...(harness !== undefined && { harness }),
      ...(role !== undefined && { role }),
      ...(image !== undefined && { image }),
      ...(name !== undefined && { name }),
    }
  }
  return { request, values: given }
}

/** Says each step on stderr while it starts, and how images come that the engine does not have. @throws what the daemon says */
export async function startSession(daemon: DaemonClient, request: Wanted, io: Io): Promise<SessionView> {
  let session: SessionView | undefined
  const pulling = createPulling(
    (text) => io.err(text),
    () => (process.stderr.isTTY ? process.stderr.columns : undefined),
    system,
  )
  await daemon
    .follow('POST', '/v1/sessions', request, (line) => {
      const pull = PullView.safeParse(line['pull'])
      if (pull.success) return pulling.pull(pull.data)
      pulling.clear()
      if (typeof line['step'] === 'string') io.err(`· ${shown(line['step'])}\n`)
      if (line['session'] !== undefined) session = line['session'] as SessionView
    })
    .finally(() => pulling.clear())
  if (session === undefined)
    throw new SallyportError('daemon_unavailable', 'the daemon ended before the session was up', {
      hint: 'see its log; start it again: sallyport daemon',
    })
  return session
}
