import { realpathSync } from 'node:fs'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'

/**
 * What `read` gives of files and folders, all of one generation: where a link on the way to any of them leads elsewhere afterwards, it
 * reads again. Whoever replaces a policy of several files swaps one link, and may do so between two of the reads.
 * @throws policy_invalid when they are never the same for one read; else what `read` throws
 */
export function readWhole<T>(paths: readonly string[], read: () => T): T {
  for (let reads = 0; reads < LIMITS.policyReadsMax; reads += 1) {
    const before = placesOf(paths)
    try {
      const found = read()
      if (placesOf(paths) === before) return found
    } catch (error) {
      if (placesOf(paths) === before) throw error
    }
  }
  throw new SallyportError('policy_invalid', `${paths.join(', ')}: replaced each time while they were read`, {
    hint: 'the policy is read again when it stays as it is',
  })
}

function placesOf(paths: readonly string[]): string {
  return paths
    .map((path) => {
      try {
        return realpathSync(path)
      } catch {
        return ''
      }
    })
    .join('\n')
}
