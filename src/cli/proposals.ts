import { system } from '../kernel/system.ts'
import { visible, visibleJson } from '../kernel/visible.ts'
import type { ProposalView } from '../wire/operator.ts'
import { refuseAgentsTerminal } from './attached-terminals.ts'
import { homeOf, parseFlags, parseVerb, type Command } from './command.ts'
import { daemonClient } from './daemon-client.ts'
import { askPassphrase, readPassword } from './secret-input.ts'

const LS = 'sallyport proposals ls [--json]'
const REVERT = 'sallyport proposals revert ID [--password-stdin]'

const USAGE = `usage: ${LS}
       ${REVERT}

Agents propose changes of the operator's files: the policy of their workspace, tools, skills, settings. They wait in the inbox like every
question (sallyport approve), for half an hour, and change nothing before they are allowed.

sallyport proposals ls: the changes that were allowed, the latest first.
sallyport proposals revert: puts back what was there before a change, unless the file has changed since. ID is that of its question.

  --json            one JSON array
  --password-stdin  the operator's password comes from stdin; else it is asked for, hidden

Exit code: 0 done, 1 the daemon does not answer or refused, 2 usage.
`

/** `sallyport proposals ls|revert`. */
export const proposalsCommand: Command = {
  summary: 'list what agents proposed and was applied, and take it back',
  usage: USAGE,
  async run([name, ...rest], io) {
    const verb = parseVerb('proposals', name, ['ls', 'revert'])
    const daemon = daemonClient(homeOf(io.env), `terminal ${process.pid}`)
    if (verb === 'ls') {
      const { values } = parseFlags(rest, { json: { type: 'boolean' } }, { min: 0, max: 0, usage: LS })
      const found = (await daemon.request('GET', '/v1/proposals')) as ProposalView[]
      if (values.json) io.out(visibleJson(found))
      else if (found.length === 0) io.out('nothing that was proposed was applied\n')
      else for (const one of found) io.out(`${lineOf(one)}\n`)
      return 0
    }
    const { values, positionals } = parseFlags(
      rest,
      { 'password-stdin': { type: 'boolean', default: false } },
      { min: 1, max: 1, names: ['ID'], usage: REVERT },
    )
    const [id = ''] = positionals
    if (!values['password-stdin']) refuseAgentsTerminal(io.env)
    const password = values['password-stdin'] ? await readPassword() : await askPassphrase(`Password of the operator, to take ${id} back`)
    const proof = { kind: 'password', password: password.reveal() }
    const { target } = (await daemon.request('POST', `/v1/proposals/${encodeURIComponent(id)}/revert`, { proof })) as ProposalView
    io.out(`${id}: ${visible(target)} is as it was before\n`)
    return 0
  },
}

function lineOf({ id, of, target, appliedAt, revertedAt }: ProposalView): string {
  const days = Math.floor((system.now() - appliedAt) / 86_400_000)
  return [id, of.padEnd(13), days === 0 ? 'today' : `${days}d ago`, revertedAt === undefined ? '' : 'taken back', visible(target)].join(
    '  ',
  )
}
