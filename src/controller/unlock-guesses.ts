import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { System } from '../kernel/system.ts'

/** Tries to unlock the vault, as somebody makes them who may only guess. */
export type UnlockGuesses = {
  /**
   * One at a time; after `LIMITS.unlockGuessesFreeMax` that were wrong each wait is twice the one before.
   * @throws vault_locked when it is not looked at yet; what the try throws
   */
  take<T>(attempt: () => Promise<T>): Promise<T>
}

export function createUnlockGuesses(system: Pick<System, 'elapsed'>): UnlockGuesses {
  let [failures, openAtMs, isBusy] = [0, 0, false]
  return {
    async take(attempt) {
      const waitMs = openAtMs - system.elapsed()
      // Not looked at, it says nothing of what was given.
      if (waitMs > 0) throw notYet(`after wrong ones the next is looked at in ${Math.ceil(waitMs / 1_000)} s`)
      if (isBusy) throw notYet('another one is being looked at')
      isBusy = true
      try {
        const value = await attempt()
        failures = 0
        return value
      } catch (error) {
        if (codeOf(error) === 'vault_key_wrong') failures += 1
        const beyond = failures - LIMITS.unlockGuessesFreeMax
        if (beyond > 0) openAtMs = system.elapsed() + Math.min(LIMITS.approverWaitMinMs * 2 ** (beyond - 1), LIMITS.approverWaitMaxMs)
        throw error
      } finally {
        isBusy = false
      }
    },
  }
}

function notYet(why: string): SallyportError {
  return new SallyportError('vault_locked', `the passphrase was not looked at: ${why}`, { hint: 'try again then' })
}
