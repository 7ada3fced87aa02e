import { execFileSync } from 'node:child_process'
import { mkdir, open, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../../src/kernel/errors.ts'
import { temporaryFolder } from './audit.ts'

/** A place for one file whose disk can be filled and freed again, by real means. */
export type Disk = AsyncDisposable & {
  readonly file: string
  /** Leaves so many bytes, or on a file system of pages less than a page more, after the end of the file. */
  fill(bytesLeft: number): Promise<void>
  free(): Promise<void>
}

/** A tmpfs, of 64 KiB unless said, filled by another file. `undefined` with a reason where mounting is not permitted. */
export async function smallDisk(name = 'audit.jsonl', kilobytes = 64): Promise<Disk | { readonly missing: string }> {
  const folder = await temporaryFolder()
  const path = join(folder.path, 'disk')
  await mkdir(path)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${kilobytes}k`, 'tmpfs', path], { stdio: 'pipe' })
  } catch {
    await folder[Symbol.asyncDispose]()
    return { missing: 'mounting a tmpfs is not permitted here: the same faults run against a limit of the file size' }
  }
  const ballast = join(path, 'ballast')
  return {
    file: join(path, name),
    async fill(bytesLeft) {
      await using handle = await open(ballast, 'w')
      const page = Buffer.alloc(4_096)
      for (;;) {
        try {
          await handle.write(page)
        } catch (error) {
          if (codeOf(error) !== 'ENOSPC') throw error
          const { size } = await handle.stat()
          await handle.truncate(Math.max(0, size - Math.ceil(bytesLeft / page.length) * page.length))
          return
        }
      }
    },
    free: () => rm(ballast, { force: true }),
    async [Symbol.asyncDispose]() {
      execFileSync('umount', [path])
      await folder[Symbol.asyncDispose]()
    },
  }
}

function limit(bytes: string): void {
  execFileSync('prlimit', ['--pid', String(process.pid), `--fsize=${bytes}:`])
}

/** RLIMIT_FSIZE of this very process: a write past it is short, the next fails with EFBIG. Needs no privilege. */
export async function limitedFileSize(): Promise<Disk> {
  const folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  return {
    file,
    fill: async (bytesLeft) => limit(String((await stat(file)).size + bytesLeft)),
    free: async () => limit('unlimited'),
    async [Symbol.asyncDispose]() {
      limit('unlimited')
      await folder[Symbol.asyncDispose]()
    },
  }
}
