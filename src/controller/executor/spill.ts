import { mkdir, open, readdir, stat, unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'

/** The whole of what a command printed, redacted, both streams as they came; kept only when the result has not all of it. */
export type Spill = {
  write(bytes: Buffer): Promise<void>
  /** The file, which stays if it is `needed` and could be written. */
  end(needed: boolean): Promise<string | undefined>
}

/**
 * Nothing touches the disk before `LIMITS.commandSpillAfterBytesMax`, and no more than `LIMITS.commandSpillBytesMax` does. The oldest files give way to
 * new ones. A disk that is full costs the file and nothing else.
 */
export function createSpill(home: string, system: Pick<System, 'random'>): Spill {
  const folder = join(home, 'output')
  const path = join(folder, `${system.random(12).toString('hex')}.log`)
  let waiting: Buffer[] = []
  let waitingBytes = 0
  let written = 0
  let handle: FileHandle | undefined
  let isLost = false

  const flush = async (): Promise<void> => {
    if (isLost) return
    try {
      if (handle === undefined) {
        await mkdir(folder, { recursive: true, mode: 0o700 })
        await makeRoom(folder)
        handle = await open(path, 'wx', 0o600)
      }
      const room = LIMITS.commandSpillBytesMax - written
      const bytes = Buffer.concat(waiting).subarray(0, room)
      waiting = []
      waitingBytes = 0
      await handle.writeFile(bytes)
      written += bytes.length
    } catch {
      isLost = true
      waiting = []
      await handle?.close().catch(() => undefined)
      if (handle !== undefined) await unlink(path).catch(() => undefined)
      handle = undefined
    }
  }
  return {
    async write(bytes) {
      if (isLost || bytes.length === 0 || written >= LIMITS.commandSpillBytesMax) return
      waiting.push(Buffer.from(bytes))
      waitingBytes += bytes.length
      if (waitingBytes >= LIMITS.commandSpillAfterBytesMax) await flush()
    },
    async end(needed) {
      if (needed && waitingBytes > 0) await flush()
      waiting = []
      await handle?.close().catch(() => undefined)
      if (handle === undefined) return undefined
      if (needed) return path
      await unlink(path).catch(() => undefined)
      return undefined
    },
  }
}

async function makeRoom(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => /^[0-9a-f]{24}\.log$/.test(name))
  const files = await Promise.all(
    names.map(async (name) => ({ path: join(folder, name), stat: await stat(join(folder, name)).catch(() => undefined) })),
  )
  const known = files.flatMap(({ path, stat: found }) => (found === undefined ? [] : [{ path, bytes: found.size, at: found.mtimeMs }]))
  let bytes = known.reduce((sum, file) => sum + file.bytes, 0)
  for (const file of known.toSorted((a, b) => a.at - b.at)) {
    if (bytes + LIMITS.commandSpillBytesMax <= LIMITS.commandSpillsBytesMax) return
    await unlink(file.path).catch(() => undefined)
    bytes -= file.bytes
  }
}
