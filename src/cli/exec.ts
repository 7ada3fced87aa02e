import { SallyportError } from '../kernel/errors.ts'
import { STREAM_PROTOCOL, type ExecRequest } from '../wire/stream-frames.ts'
import { exitCodeOf, TERMINAL_USAGE } from './attach.ts'
import { homeOf, parseFlags, type Command } from './command.ts'
import { daemonClient } from './daemon-client.ts'
import { DEFAULT_DETACH_KEYS, parseDetachKeys } from './detach-keys.ts'
import { carryStream, describeConsole, isTerminal } from './terminal.ts'

export const execCommand: Command = {
  summary: 'run a program in a session',
  usage: `usage: sallyport exec ID [--tty | --no-tty] [--detach-keys KEYS] -- COMMAND [ARGUMENT]…

Runs a program beside the agent of a session, in its container and with its rights: it reaches what the agent reaches.
Input and both outputs are connected with those of this command, so that it can stand in a pipe.

  --tty                 the program gets a terminal (default where input and output of this command are one)
  --no-tty              it gets none
  --detach-keys KEYS    leave a program that has a terminal, which goes on (default: ${DEFAULT_DETACH_KEYS})

${TERMINAL_USAGE}
Exit code: that of the program, 0 when detached, 1 failed, 2 usage.
`,
  async run(argv, io) {
    const usage = 'sallyport exec ID [--tty | --no-tty] [--detach-keys KEYS] -- COMMAND [ARGUMENT]…'
    const at = argv.indexOf('--')
    const { values, positionals } = parseFlags(
      at < 0 ? argv : argv.slice(0, at),
      {
        tty: { type: 'boolean' },
        'no-tty': { type: 'boolean' },
        'detach-keys': { type: 'string', default: DEFAULT_DETACH_KEYS },
      },
      { min: 1, max: 1, names: ['ID'], usage },
    )
    const [id = ''] = positionals
    const command = at < 0 ? [] : argv.slice(at + 1)
    if (command.length === 0) throw new SallyportError('usage', 'there is no command to run', { hint: `usage: ${usage}` })
    if (values.tty === true && values['no-tty'] === true)
      throw new SallyportError('usage', '--tty and --no-tty exclude each other', { hint: `usage: ${usage}` })
    const detachKeys = parseDetachKeys(values['detach-keys'])
    const tty = values.tty ?? (values['no-tty'] !== true && isTerminal(process.stdin) && isTerminal(process.stdout))
    const request: ExecRequest = { argv: command, tty, ...describeConsole(process) }
    const upgraded = await daemonClient(homeOf(io.env)).upgrade(`/v1/sessions/${encodeURIComponent(id)}/exec`, STREAM_PROTOCOL)
    const end = await carryStream(upgraded, process, { request, tty, detachKeys, env: io.env })
    if (end.kind === 'detached') io.err('\ndetached: the program goes on\n')
    return exitCodeOf(end)
  },
}
