import { runCommand } from '../../credential/credential.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { Secret } from '../../kernel/secret.ts'
import type { Channel } from './channel.ts'
import type { Notice } from './notice.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** What a program needs to show something on a desktop. */
const DESKTOP = ['DISPLAY', 'WAYLAND_DISPLAY', 'XAUTHORITY']
const OSASCRIPT = 'display notification (item 2 of argv) with title (item 1 of argv)'

/** A program of the operator's: the arguments are those of the settings, the notice is JSON on its input. */
export function commandChannel(name: string, argv: readonly string[], env: Environment): Channel {
  return { name, send: (notice, _question, signal) => run(argv, env, signal, new Secret('notice', `${JSON.stringify(notice)}\n`)) }
}

/** The desktop that the daemon runs on. @param platform of `process.platform` */
export function desktopChannel(name: string, env: Environment, platform: NodeJS.Platform = process.platform): Channel {
  const argvOf = platform === 'darwin' ? osascriptArguments : notifySendArguments
  return { name, send: (notice, _question, signal) => run(argvOf(notice), env, signal) }
}

/**
 * notify-send(1) reads escapes of C in the body, then a desktop reads markup in it: a backslash of somebody else would make a `<` after
 * all were escaped (`\074`). Behind `--` nothing is an option.
 */
export function notifySendArguments({ title, text, subject, isUrgent }: Notice): string[] {
  const body = [text, ...(subject === undefined ? [] : [subject])].map((line) => markup(line).replaceAll('\\', '\\\\')).join('\\n')
  return ['notify-send', '--app-name=Sallyport', `--urgency=${isUrgent ? 'critical' : 'normal'}`, '--', title, body]
}

/** The script is fixed, and gets the words as what they are. The first of them is ours, so that none is taken for an option. */
export function osascriptArguments({ title, text, subject }: Notice): string[] {
  return [
    '/usr/bin/osascript',
    '-e',
    'on run argv',
    '-e',
    OSASCRIPT,
    '-e',
    'end run',
    title,
    subject === undefined ? text : `${text}\n${subject}`,
  ]
}

function markup(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

async function run(argv: readonly string[], env: Environment, signal: AbortSignal, input?: Secret): Promise<void> {
  const outcome = await runCommand({ argv, env, variables: DESKTOP, timeMaxMs: LIMITS.notifyMs, signal, ...(input && { input }) })
  if ('failed' in outcome) throw new SallyportError('notice_failed', `the notice was not given: ${outcome.failed}`)
}
