import { existsSync } from 'node:fs'
import { runCommand } from '../../credential/credential.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { checkProcess, type ProcessIdentity } from './process-identity.ts'
import { promptText, type SystemPrompt } from './proof.ts'
import { trustedProgram } from './trusted-program.ts'

const ACTION = 'org.sallyport.approve'
const PKCHECK = ['/usr/bin/pkcheck', '/usr/local/bin/pkcheck', '/run/current-system/sw/bin/pkcheck'] as const
/** Where polkitd looks for actions: the first in every version. */
const ACTION_FOLDERS = [
  '/usr/share/polkit-1/actions',
  '/usr/local/share/polkit-1/actions',
  '/etc/polkit-1/actions',
  '/run/polkit-1/actions',
  '/run/current-system/sw/share/polkit-1/actions',
] as const
/** pkcheck(1), EXIT STATUS; what it answers for a caller that may not ask is 1 too. */
const EXIT = { notAuthorized: 1, challenge: 2, dismissed: 3 } as const

const INSTALL = 'install it as root: host/polkit/install.sh; docs/PRESENCE.md'

/**
 * polkit, asked by `pkcheck`: its `auth_self` has the user of the asking process give their own password, each time anew.
 * @param uid of this process
 */
export function polkitPrompt(uid = process.getuid?.()): SystemPrompt {
  const problem = (): string | undefined => {
    // polkit(8): root is authorized for everything, and asked for nothing.
    if (uid === 0) return 'polkit asks root for nothing'
    if (trustedProgram(PKCHECK) === undefined) return 'there is no pkcheck of the system'
    if (!ACTION_FOLDERS.some((folder) => existsSync(`${folder}/${ACTION}.policy`))) return `polkit does not know the action ${ACTION}`
    return undefined
  }
  return {
    problem,
    async confirm(asking, of, signal) {
      const why = problem()
      if (why !== undefined) throw failed(why, INSTALL)
      checkProcess(asking)
      const ask = (extra: readonly string[]) => check(asking, uid ?? -1, promptText(of), extra, signal)
      const unasked = await ask([])
      // A rule of the machine that says yes by itself proves nobody's presence.
      if (unasked.exitCode === 0)
        throw failed(`polkit allows ${ACTION} without asking`, 'a rule in /etc/polkit-1/rules.d says so: take it back')
      if (unasked.exitCode !== EXIT.challenge)
        throw failed(`polkit does not ask about ${ACTION} (${unasked.failed})`, `is this user named in the installed policy? ${INSTALL}`)
      const answer = await ask(['--allow-user-interaction'])
      if (answer.exitCode !== 0) throw failed(...whyNot(answer))
      checkProcess(asking)
      return 'polkit'
    },
  }
}

type Answer = { readonly exitCode?: number; readonly failed: string }

async function check(
  { pid, startTime }: ProcessIdentity,
  uid: number,
  text: string,
  extra: readonly string[],
  signal: AbortSignal,
): Promise<Answer> {
  const argv = [
    trustedProgram(PKCHECK) ?? '',
    '--action-id',
    ACTION,
    '--process',
    // With start and user, CVE-2013-4288: the number alone could be another process by then.
    `${pid},${startTime},${uid}`,
    // Shown in the prompt, where it can be held against the question.
    '--detail',
    'question',
    text,
    ...extra,
  ]
  // No DBUS_SYSTEM_BUS_ADDRESS: a bus that somebody else serves could say yes.
  const outcome = await runCommand({ argv, env: { PATH: '/usr/bin:/bin' }, timeMaxMs: LIMITS.presencePromptMs, signal })
  return 'failed' in outcome ? outcome : { exitCode: 0, failed: '' }
}

function whyNot({ exitCode, failed: how }: Answer): [string, string] {
  switch (exitCode) {
    case EXIT.dismissed:
      return ['the prompt of the operating system was dismissed', 'nothing was decided: answer once more']
    case EXIT.challenge:
      return [
        'nothing here can show the prompt of the operating system',
        'a desktop has an agent for it; on a terminal start one: pkttyagent --process PID',
      ]
    case EXIT.notAuthorized:
      return ['the operating system says that it was not its user', 'nothing was decided: answer once more']
    default:
      return [`the operating system could not be asked (${how})`, 'docs/PRESENCE.md']
  }
}

function failed(message: string, hint: string): SallyportError {
  return new SallyportError('presence_failed', message, { hint })
}
