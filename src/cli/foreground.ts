import { SallyportError } from '../kernel/errors.ts'
import { createLog, type Log } from '../kernel/log.ts'
import type { Io } from './command.ts'

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent']

/** What a command that runs until it is told to stop begins with. @throws config_invalid */
export function beginForeground(io: Io): { readonly log: Log; readonly stop: Promise<string> } {
  const level = io.env['SALLYPORT_LOG_LEVEL'] || 'info'
  if (!LEVELS.includes(level))
    throw new SallyportError('config_invalid', `SALLYPORT_LOG_LEVEL is "${level}"`, { hint: `use one of ${LEVELS.join(', ')}` })
  const log = createLog(level)
  const stop = new Promise<string>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
  })
  // A fault that nobody caught leaves the state unknown: end, so that a supervisor starts anew, rather than go on half working.
  process.on('uncaughtException', (error) => {
    log.error({ err: error }, 'uncaught')
    process.exit(1)
  })
  return { log, stop }
}
