import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/** Calls that change what names a folder has. */
export const NAMING = ['linkSync', 'renameSync', 'link', 'rename', 'unlink', 'rm'] as const
export type Death = `${(typeof NAMING)[number]}:${number}:${'before' | 'after'}`

/** Kills this process, as kill -9 does, before or after the nth call of that function. Must run before what calls it is imported. */
export function dieAt(death: Death): void {
  const [name = '', nth, when] = death.split(':')
  const place = (name.endsWith('Sync') ? fs : fs.promises) as unknown as Record<string, (...args: unknown[]) => unknown>
  const real = place[name]
  let calls = 0
  const die = (): void => void process.kill(process.pid, 'SIGKILL')
  place[name] = (...args) => {
    calls += 1
    if (calls !== Number(nth)) return real?.(...args)
    if (when === 'before') die()
    const result = real?.(...args)
    if (result instanceof Promise)
      return result.then((value: unknown) => {
        die()
        return value
      })
    die()
    return result
  }
  syncBuiltinESMExports()
}
