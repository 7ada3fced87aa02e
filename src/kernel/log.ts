import { destination, pino, type Logger } from 'pino'

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

/** The operational log: JSON lines on stderr. It is not the audit. Values of secrets never reach it. */
export function createLog(level: string): Log {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination({ dest: 2, sync: true }))
}
