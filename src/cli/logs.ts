import { SallyportError } from '../kernel/errors.ts'
import { markAttached } from './attached-terminals.ts'
import { homeOf, parseFlags, type Command } from './command.ts'
import { daemonClient } from './daemon-client.ts'
import { takeTerminal } from './taken-terminal.ts'
import { filterFor, isTerminal, show } from './terminal.ts'

export const logsCommand: Command = {
  summary: 'print what a session printed',
  usage: `usage: sallyport logs ID [--follow] [--tail N]

Prints what the agent of a session printed, as far as the engine kept it. Secrets of the session are shown as asterisks. On a
terminal colours stay, and everything else that is no text is left out: what stands on the screen is not written over.

  --follow     go on printing until the agent ends
  --tail N     begin with the last N lines (default: all)

Exit code: 0 done, 1 failed, 2 usage.
`,
  async run(argv, io) {
    const usage = 'sallyport logs ID [--follow] [--tail N]'
    const { values, positionals } = parseFlags(
      argv,
      {
        follow: { type: 'boolean', default: false },
        tail: { type: 'string' },
      },
      { min: 1, max: 1, names: ['ID'], usage },
    )
    const [id = ''] = positionals
    const { stdout } = process
    const query = new URLSearchParams({
      ...(values.follow && { follow: '1' }),
      ...(values.tail !== undefined && { tail: parseTail(values.tail, usage) }),
      ...(isTerminal(stdout) && { terminal: '1' }),
    })
    const answer = await daemonClient(homeOf(io.env)).read(`/v1/sessions/${encodeURIComponent(id)}/logs?${query.toString()}`)
    await using lifetime = new AsyncDisposableStack()
    const filter = filterFor(stdout, false, io.env)
    if (filter !== undefined) {
      lifetime.use(markAttached(io.env))
      lifetime.use(takeTerminal({ fd: stdout.fd, filter }))
    }
    let isUnread = false
    stdout.on('error', () => {
      // "| head" has seen enough.
      isUnread = true
      answer.destroy()
    })
    try {
      for await (const chunk of answer) await show(stdout, filter, chunk as Buffer)
    } catch (cause) {
      if (isUnread) return 0
      throw new SallyportError('stream_lost', 'the daemon broke off', { hint: 'sallyport ls shows whether the session is there', cause })
    }
    return 0
  },
}

function parseTail(text: string, usage: string): string {
  if (/^\d{1,9}$/.test(text)) return text
  throw new SallyportError('usage', `--tail "${text}" is no number of lines`, { hint: `usage: ${usage}` })
}
