import { constants, open, type FileHandle } from 'node:fs/promises'
import { LIMITS } from '../kernel/limits.ts'
import { createBell, type Outgoing } from './outgoing.ts'
import { readLine } from './read-line.ts'

const NEWLINE = 0x0a
/** What is read at once: a line that is longer than what goes in one frame still goes. */
const READ_BYTES = Math.max(LIMITS.controlLinesBytesMax, LIMITS.auditLineBytesMax + 1)

/** The lines of an audit file, from the file: it holds what its reader has not taken yet, memory holds none of it. */
export function followFile(file: string): Outgoing & { /** Lines were added. */ written(): void } {
  const bell = createBell()
  let position = 0
  /** Bytes of each line of the last `next`, its newline included. */
  let sizes: readonly number[] = []
  let last: { seq: number; hash: string } | undefined
  let lines: readonly string[] = []

  async function read(): Promise<readonly string[]> {
    await using handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const found = await linesAt(handle, position)
    sizes = found.map((line) => line.length + 1)
    lines = found.map((line) => line.toString('latin1'))
    return lines
  }

  return {
    written: () => bell.ring(),
    async next(signal) {
      for (;;) {
        // What is written during the look is not missed.
        const { rings } = bell
        const found = await read()
        if (found.length > 0 || signal.aborted) return found
        await bell.wait(rings, signal)
      }
    },
    acknowledge(count) {
      position += sizes.slice(0, count).reduce((sum, size) => sum + size, 0)
      const link = readLine(Buffer.from(lines[count - 1] ?? '', 'latin1'))
      if (typeof link !== 'string') last = link
      lines = []
      sizes = []
    },
    async resumeAfter(mark) {
      if (last?.seq === mark.seq && last.hash === mark.hash) return
      await using handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
      for (let at = 0; ;) {
        const found = await linesAt(handle, at)
        if (found.length === 0) return
        for (const line of found) {
          at += line.length + 1
          const link = readLine(line)
          if (typeof link === 'string' || link.seq !== mark.seq || link.hash !== mark.hash) continue
          position = at
          last = link
          return
        }
      }
    },
  }
}

/** Whole lines from there on, without their newlines. */
async function linesAt(handle: FileHandle, position: number): Promise<Buffer[]> {
  const buffer = Buffer.allocUnsafe(READ_BYTES)
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, position)
  const lines: Buffer[] = []
  let start = 0
  for (let end = buffer.subarray(0, bytesRead).indexOf(NEWLINE); end !== -1 && lines.length < LIMITS.controlLinesMax;) {
    lines.push(buffer.subarray(start, end))
    start = end + 1
    end = buffer.subarray(0, bytesRead).indexOf(NEWLINE, start)
  }
  return lines
}
