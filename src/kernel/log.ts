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
  #held = ''
  #isDue = false

  write(line: string): void {
    this.#held += line
    if (this.#isDue) return
    this.#isDue = true
    setImmediate(this.flush)
  }

  readonly flush = (): void => {
    this.#isDue = false
    const bytes = Buffer.from(this.#held)
    this.#held = ''
    let written = 0
    try {
      while (written < bytes.length) written += writeSync(STDERR, bytes, written)
    } catch (error) {
      // A pipe that is full. Nobody waits for whoever does not read: what is too much is lost.
      if (codeOf(error) !== 'EAGAIN' || bytes.length - written > LIMITS.logHeldBytesMax) return
      this.#held = bytes.toString('utf8', written) + this.#held
      this.#isDue = true
      setTimeout(this.flush, RETRY_MS)
    }
  }
}
