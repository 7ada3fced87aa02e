import { chmodSync, lstatSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { codeOf } from '../kernel/errors.ts'

/**
 * I72: Removes a folder with all that another program left in it, whatever that is: names that are no text, paths longer than the system takes,
 * folders that keep out whoever is not root. What is not there is no fault. No link is followed.
 */
export function removeFolder(folder: string): void {
  try {
    remove(folder)
  } catch (error) {
    if (!['EACCES', 'EPERM'].includes(codeOf(error))) throw error
    letIn(folder)
    remove(folder)
  }
}

/** The synchronous one goes from folder to folder (openat): that with promises writes whole paths, which get too long, and follows what was swapped. */
function remove(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
}

/** Every folder below it is moved directly into it, so that none is too far down to be told its mode. */
function letIn(root: string): void {
  const base = Buffer.from(`${root}/`)
  let moved = 0
  const place = (): Buffer => Buffer.concat([base, Buffer.from(`moved-${(moved += 1)}`)])
  const folders: Buffer[] = [Buffer.from(root)]
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    chmodSync(folder, 0o700)
    for (const entry of readdirSync(folder, { withFileTypes: true, encoding: 'buffer' })) {
      const from = Buffer.concat([folder, Buffer.from('/'), entry.name])
      if (!lstatSync(from).isDirectory()) continue
      // One that gets another folder above it is written to.
      chmodSync(from, 0o700)
      let to = place()
      while (lstatSync(to, { throwIfNoEntry: false }) !== undefined) to = place()
      renameSync(from, to)
      folders.push(to)
    }
  }
}
