import { SallyportError } from '../kernel/errors.ts'
import { shown } from '../kernel/shown.ts'
import { visible, visibleJson } from '../kernel/visible.ts'
import type { SessionView } from '../wire/operator.ts'
import { homeOf, parseFlags, type Command } from './command.ts'
import { daemonClient } from './daemon-client.ts'

const LS = 'sallyport ls [--json]'
const INSPECT = 'sallyport inspect ID'
const DOWN = 'sallyport down ID… | --all'
const RESET = 'sallyport reset ID [--yes]'

export const lsCommand: Command = {
  summary: 'list the sessions',
  usage: `usage: ${LS}

The sessions that live, and those that ended last: id, name, state, harness and workspace. A compose project that the daemon serves has
"compose" for its harness. Below a session, with "!", what came to be wrong with it while it runs, as a file of the workspace that a
program of yours has uncovered (docs/WORKSPACE.md).

  --json   one JSON array
`,
  async run(argv, io) {
    const { values } = parseFlags(argv, { json: { type: 'boolean', default: false } }, { min: 0, max: 0, usage: LS })
    const sessions = (await daemonClient(homeOf(io.env)).request('GET', '/v1/sessions')) as SessionView[]
    if (values.json) io.out(visibleJson(sessions))
    else if (sessions.length === 0) io.out('no session: sallyport up starts one\n')
    else
      for (const { id, name, state, agent, harness, project, workspace, alerts } of sessions) {
        const isOver = state === 'running' && project === undefined && !agent.running
        const shownState = isOver ? `exited ${agent.exitCode ?? '?'}` : state
        const by = harness ?? (project === undefined ? '-' : 'compose')
        io.out(`${[id, shown(name).padEnd(20), shownState.padEnd(10), by.padEnd(8), shown(workspace)].join('  ')}\n`)
        for (const alert of alerts) io.out(`${' '.repeat(18)}! ${visible(alert).replaceAll('\n', '\\n')}\n`)
      }
    return 0
  },
}

export const inspectCommand: Command = {
  summary: 'show all that is known of a session',
  usage: `usage: ${INSPECT}

As JSON: state, containers, network, policy, what was verified of the hardening, and what the selftest found.
`,
  async run(argv, io) {
    const { positionals } = parseFlags(argv, {}, { min: 1, max: 1, names: ['ID'], usage: INSPECT })
    const session = await daemonClient(homeOf(io.env)).request('GET', pathOf(positionals[0]))
    io.out(visibleJson(session))
    return 0
  },
}

export const downCommand: Command = {
  summary: 'end a session and remove all of it',
  usage: `usage: ${DOWN}

Ends the agent, revokes the leases, and removes containers and networks. The workspace stays, and the audit. ID is a session's id or name.

  --all   every session
`,
  async run(argv, io) {
    const { values, positionals } = parseFlags(argv, { all: { type: 'boolean', default: false } }, { min: 0, max: 100, usage: DOWN })
    const daemon = daemonClient(homeOf(io.env))
    const listed = values.all ? ((await daemon.request('GET', '/v1/sessions')) as SessionView[]) : []
    const ids = values.all ? listed.filter(({ state }) => state !== 'ended' && state !== 'failed').map(({ id }) => id) : positionals
    if (ids.length === 0 && !values.all) parseFlags([], {}, { min: 1, max: 1, names: ['ID'], usage: DOWN })
    // Side by side; the first that fails is told when all are through.
    const done = await Promise.allSettled(ids.map((id) => daemon.request('POST', `${pathOf(id)}/down`)))
    for (const [i, one] of done.entries()) if (one.status === 'fulfilled') io.out(`${shown(ids[i] ?? '')}: ended\n`)
    for (const one of done) if (one.status === 'rejected') throw one.reason
    return 0
  },
}

export const resetCommand: Command = {
  summary: "throw away what a session's agent keeps besides the workspace",
  usage: `usage: ${RESET}

Starts the agent's container anew from its image: HOME, /tmp and all processes are gone, the session and its workspace folder stay.

  --yes   does not ask
`,
  async run(argv, io) {
    const { values, positionals } = parseFlags(
      argv,
      { yes: { type: 'boolean', default: false } },
      { min: 1, max: 1, names: ['ID'], usage: RESET },
    )
    if (
      !values.yes &&
      !(await confirm(`throw away the agent of ${shown(positionals[0] ?? '')}, with its HOME and its processes? [y/N] `))
    ) {
      io.err('nothing was done\n')
      return 1
    }
    await daemonClient(homeOf(io.env)).request('POST', `${pathOf(positionals[0])}/reset`)
    return 0
  },
}

function pathOf(id: string | undefined): string {
  return `/v1/sessions/${encodeURIComponent(id ?? '')}`
}

/** @throws usage where nobody can be asked */
async function confirm(question: string): Promise<boolean> {
  if (!process.stdin.isTTY) throw new SallyportError('usage', 'nobody can be asked: this is no terminal', { hint: `say --yes: ${RESET}` })
  const { createInterface } = await import('node:readline/promises')
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await lines.question(question)
  lines.close()
  return /^y(es)?$/i.test(answer.trim())
}
