import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** The first of these programs that only root can have put there: it, and each folder above it, belongs to root and lets nobody else write. */
export function trustedProgram(paths: readonly string[]): string | undefined {
  return paths.find((path) => {
    try {
      const real = realpathSync(path)
      accessSync(real, constants.X_OK)
      return statSync(real).isFile() && above(real).every(isRoots) && above(path).slice(1).every(isRoots)
    } catch {
      return false
    }
  })
}

function above(path: string): string[] {
  return path === '/' ? ['/'] : [path, ...above(dirname(path))]
}

function isRoots(path: string): boolean {
  const { uid, mode } = statSync(path)
  return uid === 0 && (mode & 0o022) === 0
}
