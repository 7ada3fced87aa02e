import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { macosPrompt } from './macos-prompt.ts'
import { polkitPrompt } from './polkit-prompt.ts'
import type { SystemPrompt } from './proof.ts'

/** @param platform of `process.platform` */
export function openSystemPrompt(platform: NodeJS.Platform = process.platform): SystemPrompt {
  switch (platform) {
    case 'linux':
      return bounded(polkitPrompt())
    case 'darwin':
      return bounded(macosPrompt())
    default:
      return absent(`there is no prompt of the operating system on ${platform}`)
  }
}

/** So many at the same time: each is a process, and a window on somebody's screen. */
export function bounded(prompt: SystemPrompt): SystemPrompt {
  let open = 0
  return {
    problem: () => prompt.problem(),
    async confirm(asking, of, signal) {
      if (open >= LIMITS.presencePromptsMax)
        throw new SallyportError('presence_failed', `${open} prompts of the operating system are open`, { hint: 'answer those first' })
      open += 1
      try {
        return await prompt.confirm(asking, of, signal)
      } finally {
        open -= 1
      }
    },
  }
}

function absent(why: string): SystemPrompt {
  return {
    problem: () => why,
    confirm: () => Promise.reject(new SallyportError('presence_failed', why, { hint: 'name T1 in the policy, at "presence"' })),
  }
}
