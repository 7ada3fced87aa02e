import { statSync } from 'node:fs'
import { codeOf } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'

/**
 * Calls `onChange` when one of the files has changed and then kept still for one look, so that a half-written one is not
 * read. Looked at by time: notifications miss files behind bind mounts and links that are swapped. While `isFailing` it is
 * called at every look: what is wrong may be put right in a file that nobody knows of yet. `onLook` is called at each.
 */
export function watchFiles(
  files: () => readonly string[],
  onChange: () => void,
  isFailing: () => boolean,
  onLook: () => void = () => undefined,
): Disposable {
  let settled = fingerprint(files())
  let last = settled
  const timer = setInterval(() => {
    onLook()
    const now = fingerprint(files())
    if (now === last && (now !== settled || isFailing())) {
      onChange()
      settled = fingerprint(files())
    }
    last = now
  }, LIMITS.reloadPollMs).unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

function fingerprint(files: readonly string[]): string {
  return files
    .map((file) => {
      try {
        const stats = statSync(file, { throwIfNoEntry: false })
        return stats ? `${file} ${stats.ino} ${stats.size} ${stats.mtimeMs} ${stats.ctimeMs}` : `${file} gone`
      } catch (error) {
        // A link to itself, a folder that was closed: reading it says what is wrong, and the gate goes on.
        return `${file} ${codeOf(error)}`
      }
    })
    .join('\n')
}
