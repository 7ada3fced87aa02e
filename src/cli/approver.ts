import * as z from 'zod'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Secret } from '../kernel/secret.ts'
import { refuseAgentsTerminal, refuseSession } from './attached-terminals.ts'
import { homeOf, parseFlags, parseVerb, type Command, type Io } from './command.ts'
import { daemonClient } from './daemon-client.ts'
import { askHidden } from './hidden-input.ts'

const PASSWORD = 'sallyport approver password [--stdin]'

const USAGE = `usage: ${PASSWORD}

Sets or changes the password that proves who answers questions of tier T1 (docs/PRESENCE.md). It is asked for at a hidden prompt; where one
is set, the one before is asked for first. Never on a terminal that an agent is attached to. The daemon keeps what it is looked at with
(scrypt) in $SALLYPORT_HOME/approver.json, never the password. After a wrong one the next is looked at later, each time twice as late.

  --stdin    take it from stdin: the new password in a line of its own, where one is set the one before in the line above

Exit code: 0 done, 1 wrong, refused or no daemon, 2 usage or a new password of a wrong length.
`

/** What the daemon answers to `GET /v1/approver`. */
const Approver = z.object({ available: z.array(z.string()) })

type Given = { readonly old: Secret | undefined; readonly next: Secret }

/** `sallyport approver password`. */
export const approverCommand: Command = {
  summary: 'set the password that proves who answers',
  usage: USAGE,
  async run([name, ...rest], io) {
    parseVerb('approver', name, ['password'])
    const isPiped = parsePiped(rest)
    if (isPiped) refuseSession(io.env)
    else refuseAgentsTerminal(io.env)
    const daemon = daemonClient(homeOf(io.env))
    const isSet = Approver.parse(await daemon.request('GET', '/v1/approver')).available.includes('T1')
    const { old, next } = await (isPiped ? readGiven(isSet) : askGiven(isSet, io))
    await daemon.request('POST', '/v1/approver/password', { ...(old && { old: old.reveal() }), next: next.reveal() })
    io.out(`the password is ${isSet ? 'changed' : 'set'}\n`)
    return 0
  },
}

/** What is not understood may be the password in the wrong place: none of it is repeated (I1). */
function parsePiped(argv: readonly string[]): boolean {
  try {
    return parseFlags(argv, { stdin: { type: 'boolean', default: false } }, { min: 0, max: 0, usage: PASSWORD }).values.stdin
  } catch {
    throw new SallyportError('usage', 'approver password takes --stdin and no argument; what else was given is not shown here', {
      hint: `a password that was typed as an argument is in the history of the shell: choose another one. usage: ${PASSWORD}`,
    })
  }
}

async function askGiven(isSet: boolean, io: Io): Promise<Given> {
  const old = isSet ? await ask('Password of the approver') : undefined
  const next = await ask('New password of the approver')
  const again = await ask('The same again')
  if (!next.equals(again))
    throw new SallyportError('input_ended', 'the two passwords are not the same', { hint: 'nothing was changed; try again' })
  // An agent may have been attached while the operator typed: nothing goes on then.
  refuseAgentsTerminal(io.env)
  return { old, next }
}

async function ask(question: string): Promise<Secret> {
  const bytes = await askHidden(`${question} (hidden): `)
  try {
    return textOf(bytes)
  } finally {
    bytes.fill(0)
  }
}

async function readGiven(isSet: boolean): Promise<Given> {
  const wanted = isSet ? 2 : 1
  const lines = await readLines(wanted)
  if (lines.length !== wanted)
    throw new SallyportError('usage', `stdin has ${lines.length} lines: ${wanted} is what it takes`, {
      hint: isSet ? 'the password before, then the new one, each in a line' : 'the new password in one line: none is set yet',
    })
  return isSet ? { old: lines[0], next: lines[1] as Secret } : { old: undefined, next: lines[0] as Secret }
}

async function readLines(wanted: number): Promise<Secret[]> {
  const chunks: Buffer[] = []
  let length = 0
  const late = setTimeout(() => process.stdin.destroy(ended('no password came by stdin in time')), LIMITS.operatorInputMs)
  try {
    for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      length += chunk.length
      // UTF-8 has four bytes at most for a character of UTF-16, and each line its end.
      if (length > wanted * (4 * LIMITS.approverPasswordCharsMax + 2)) throw ended('stdin has more than passwords')
    }
    const whole = Buffer.concat(chunks)
    const { length: last } = whole
    const text = textOf(whole.subarray(0, whole[last - 1] === 0x0a ? last - 1 : last)).reveal()
    whole.fill(0)
    return text === '' ? [] : text.split('\n').map((line) => new Secret('password', line.replace(/\r$/, '')))
  } finally {
    clearTimeout(late)
    for (const chunk of chunks) chunk.fill(0)
  }
}

function ended(why: string): SallyportError {
  return new SallyportError('input_ended', why, { hint: 'nothing was changed' })
}

function textOf(bytes: Buffer): Secret {
  try {
    return new Secret('password', new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    throw new SallyportError('config_invalid', 'the password is no UTF-8 text', { hint: 'nothing was changed' })
  }
}
