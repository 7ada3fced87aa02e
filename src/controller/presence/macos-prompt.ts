import { runCommand } from '../../credential/credential.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { promptText, type SystemPrompt } from './proof.ts'
import { trustedProgram } from './trusted-program.ts'

/** Compiled and placed by host/macos/install.sh. */
const HELPER = ['/usr/local/libexec/sallyport/presence'] as const
/** Of host/macos/presence.swift. */
const REFUSED = 1

/**
 * macOS LocalAuthentication, by a helper of ours that only root can replace: Touch ID, a watch, or the password of the user. The system
 * shows it on its own screen, to whoever sits there: no process is asked about.
 * @param find gives the path of the helper, where it can be trusted
 */
export function macosPrompt(find: () => string | undefined = () => trustedProgram(HELPER)): SystemPrompt {
  return {
    problem: () => (find() === undefined ? `the helper ${HELPER[0]} is not installed` : undefined),
    async confirm(_asking, of, signal) {
      const helper = find()
      if (helper === undefined)
        throw new SallyportError('presence_failed', `the helper ${HELPER[0]} is not installed`, {
          hint: 'install it as root: host/macos/install.sh; docs/PRESENCE.md',
        })
      const argv = [helper, promptText(of)]
      const outcome = await runCommand({ argv, env: { PATH: '/usr/bin:/bin' }, timeMaxMs: LIMITS.presencePromptMs, signal })
      if (!('failed' in outcome)) return 'macos'
      const why = outcome.exitCode === REFUSED ? 'macOS says that it was not its user' : `macOS could not be asked (${outcome.failed})`
      throw new SallyportError('presence_failed', why, { hint: 'nothing was decided: answer once more' })
    },
  }
}
