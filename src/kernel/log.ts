import { destination, pino, type Logger } from 'pino'

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

/** More than a turn writes: what is beyond goes out at once. */
const HELD_CHARS = 8 * 1024

/**
 * The operational log: JSON lines on stderr, those of one turn of the event loop in one write at its end. It is not the audit. Values of
 * secrets never reach it.
 */
export function createLog(level: string): Log {
  const lines = destination({ dest: 2, sync: true, minLength: HELD_CHARS })
  let isDue = false
  const flush = (): void => {
    isDue = false
    // Without waiting for the disk, as `flushSync` would.
    lines.flush()
  }
  // Also what is said last, of a fault that ends the process.
  process.once('exit', () => lines.flushSync())
  const stream = {
    write(line: string): void {
      lines.write(line)
      if (!isDue) setImmediate(flush)
      isDue = true
    },
  }
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, stream)
}
