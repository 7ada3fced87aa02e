import { chmodSync, chownSync, lstatSync, readdirSync, realpathSync } from 'node:fs'
import { lstat, opendir } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Owner } from './agent-files.ts'
import { isWithin } from './real-path.ts'

/**
 * Makes a folder of the session the one that a sibling may write.
 * @param below the session's own folder
 * @throws SallyportError sibling_refused when it lies elsewhere, leads elsewhere, or has something in it
 */
export function lendOutput(folder: string, below: string, { uid, gid }: Owner): void {
  const refuse = (why: string): never => {
    throw new SallyportError('sibling_refused', `the folder for the output, ${folder}, ${why}`)
  }
  try {
    if (folder === below || !isWithin(below, folder) || realpathSync(folder) !== folder) refuse('is none of its session')
    if (!lstatSync(folder).isDirectory() || readdirSync(folder).length > 0) refuse('is not an empty folder')
  } catch (error) {
    if (error instanceof SallyportError) throw error
    refuse(`cannot be used (${codeOf(error)})`)
  }
  chmodSync(folder, 0o700)
  if (process.getuid?.() === 0) chownSync(folder, uid, gid)
}

/** Whether there is more in a folder than so many bytes, or more names than `LIMITS.siblingOutputNamesMax`. What cannot be counted is too much. */
export async function isOverfull(folder: string, bytesMax: number): Promise<boolean> {
  // Bytes all the way: by a name that is no text nothing would be found, and its room not be counted.
  const folders = [Buffer.from(folder)]
  let bytes = 0
  let room = 0
  let names = 0
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    try {
      // Only sizes are looked at: one who puts a link in the place of a folder meanwhile gets other files counted, and sees nothing of them.
      for await (const { name } of await opendir(next, { encoding: 'latin1' })) {
        names += 1
        const path = Buffer.concat([next, Buffer.from(`/${name}`, 'latin1')])
        const found = await lstat(path).catch(ignoreGone)
        if (found?.isDirectory()) folders.push(path)
        bytes += found?.isFile() === true ? found.size : 0
        // Room can be taken without a length (fallocate), and file systems take some in advance.
        room += (found?.blocks ?? 0) * 512
        if (bytes > bytesMax || names > LIMITS.siblingOutputNamesMax || room > 2 * bytesMax + LIMITS.siblingOutputRoomBytes) return true
      }
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') return true
    }
  }
  return false
}

/** Looks at the folder until `signal`, and calls once when it is too full. A file of its own is bounded by the kernel already. */
export async function watchOutput(folder: string, bytesMax: number, onOverfull: () => void, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    if (await isOverfull(folder, bytesMax)) return onOverfull()
    await delay(LIMITS.siblingOutputLookMs, undefined, { signal, ref: false }).catch(() => undefined)
  }
}

function ignoreGone(error: unknown): undefined {
  if (codeOf(error) === 'ENOENT') return undefined
  throw error
}
