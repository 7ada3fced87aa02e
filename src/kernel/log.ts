import { writeSync } from 'node:fs'
import { pino, type Logger } from 'pino'
import { codeOf } from './errors.ts'
import { LIMITS } from './limits.ts'
import { system } from './system.ts'

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

const STDERR = 2
/** A reader that is behind is waited for so long before it is tried again. */
const RETRY_MS = 10

/**
 * The operational log: JSON lines on stderr, those of one turn of the event loop in one write at its end. It is not the audit. Values of
 * secrets never reach it.
 */
export function createLog(level: string): Log {
  const lines = new HeldLines()
  // Also what is said last, of a fault that ends the process.
  process.once('exit', () => lines.flush())
  return pino({ level, base: null, timestamp: timestamp() }, lines)
}

/** The time of a line as pino takes it. Lines come many in a millisecond. */
function timestamp(): () => string {
  let ms = NaN
  let text = ''
  return () => {
    const now = system.now()
    if (now !== ms) text = `,"time":"${new Date(now).toISOString()}"`
    ms = now
    return text
  }
}

class HeldLines {
  #lines = ''
  /** What a full pipe did not take, from the middle of a line perhaps. */
  #rest: Buffer = Buffer.alloc(0)
  #isDue = false

  write(line: string): void {
    this.#lines += line
    if (this.#isDue) return
    this.#isDue = true
    setImmediate(this.flush)
  }

  readonly flush = (): void => {
    this.#isDue = false
    const lines = Buffer.from(this.#lines)
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, lines]) : lines
    this.#lines = ''
    let written = 0
    try {
      while (written < bytes.length) written += writeSync(STDERR, bytes, written)
    } catch (error) {
      // Where there is no stderr, nobody is told.
      if (codeOf(error) !== 'EAGAIN') written = bytes.length
    }
    this.#rest = bounded(bytes.subarray(written))
    if (this.#rest.length === 0) return
    this.#isDue = true
    setTimeout(this.flush, RETRY_MS)
  }
}

/** Nobody waits for whoever does not read: of what is too much, the line that was begun is ended, and the rest is lost. */
function bounded(rest: Buffer): Buffer {
  return rest.length <= LIMITS.logHeldBytesMax ? rest : rest.subarray(0, rest.indexOf('\n') + 1)
}
