import type { Tier } from '../wire/question.ts'
import { homeOf, parseFlags, parseVerb, type Command } from './command.ts'
import { daemonClient } from './daemon-client.ts'
import { askNewPassphrase, askPassphrase } from './secret-input.ts'
import { refuseSharedTerminal } from './shared-terminal.ts'

const PASSWORD = 'sallyport approver password'

export const approverCommand: Command = {
  summary: "set the operator's password, which dangerous answers need",
  usage: `usage: ${PASSWORD}

Sets the password that a yes to a question of T1 needs, or changes it: then the old one is asked for first. It is asked for at this terminal,
hidden, twice, and kept as what scrypt makes of it.

Exit code: 0 set; 1 not set, with the reason; 2 usage.
`,
  async run(argv, io) {
    parseVerb('approver', argv[0], ['password'])
    parseFlags(argv.slice(1), {}, { min: 0, max: 0, usage: PASSWORD })
    const daemon = daemonClient(homeOf(io.env))
    const { available } = (await daemon.request('GET', '/v1/approver')) as { readonly available: readonly Tier[] }
    await refuseSharedTerminal(io.env)
    const old = available.includes('T1') ? await askPassphrase('Password of the operator, as it is') : undefined
    const next = await askNewPassphrase('New password of the operator')
    await daemon.request('POST', '/v1/approver/password', { ...(old && { old: old.reveal() }), next: next.reveal() })
    io.out('the password of the operator is set\n')
    return 0
  },
}
