import { TTY_HEADER, STREAM_PROTOCOL, type AttachRequest } from '../wire/stream-frames.ts'
import { homeOf, parseFlags, type Command, type Io } from './command.ts'
import { daemonClient } from './daemon-client.ts'
import { DEFAULT_DETACH_KEYS, parseDetachKeys } from './detach-keys.ts'
import { carryStream, describeConsole, type StreamEnd } from './terminal.ts'

/** What the help of each command that has a terminal says of it. */
export const TERMINAL_USAGE = `What the program prints is filtered: it cannot reach the clipboard, set titles or links, ask the terminal questions whose answers
would be typed, or leave it in another state. Secrets of the session are shown as asterisks. The terminal has to read UTF-8 and say so
(LC_ALL, LC_CTYPE or LANG): else letters beyond ASCII become question marks.
`

export const attachCommand: Command = {
  summary: 'connect the terminal with a session',
  usage: `usage: sallyport attach ID [--detach-keys KEYS]

Connects this terminal with the agent of a session: what it prints, what is typed, the size of the window. Ends when the agent
does, with its exit code, or by the detach keys: then the agent goes on, and another "sallyport attach ID" comes back to it.

  --detach-keys KEYS    keys with commas between, each one character or ctrl- and a letter or one of @[\\]^_ (default: ${DEFAULT_DETACH_KEYS})

${TERMINAL_USAGE}
Exit code: that of the agent, 0 when detached, 1 failed, 2 usage.
`,
  async run(argv, io) {
    const usage = 'sallyport attach ID [--detach-keys KEYS]'
    const { values, positionals } = parseFlags(
      argv,
      { 'detach-keys': { type: 'string', default: DEFAULT_DETACH_KEYS } },
      { min: 1, max: 1, names: ['ID'], usage },
    )
    const [id = ''] = positionals
    return attachTo(id, parseDetachKeys(values['detach-keys']), io)
  },
}

/** Connects this terminal with a session's agent. Without detach keys all keys are the agent's. */
export async function attachTo(id: string, detachKeys: readonly number[], io: Io): Promise<number> {
  const upgraded = await daemonClient(homeOf(io.env)).upgrade(`/v1/sessions/${encodeURIComponent(id)}/attach`, STREAM_PROTOCOL)
  const request: AttachRequest = describeConsole(process)
  const tty = upgraded.headers[TTY_HEADER] === '1'
  const end = await carryStream(upgraded, process, { request, tty, detachKeys, env: io.env })
  if (end.kind === 'detached') io.err(`\ndetached: the agent goes on, sallyport attach ${id} comes back\n`)
  return exitCodeOf(end)
}

/** Of a command whose output nobody reads any more it is that of a program that SIGPIPE ended, as shells have it. */
export function exitCodeOf(end: StreamEnd): number {
  switch (end.kind) {
    case 'exit':
      return end.code
    case 'detached':
      return 0
    case 'unread':
      return 128 + 13
  }
}
