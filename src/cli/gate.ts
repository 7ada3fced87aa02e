import { SallyportError } from '../kernel/errors.ts'
import { isHostname, parseHostname, splitAuthority } from '../kernel/hostname.ts'
import { createLog } from '../kernel/log.ts'
import { openSidecar, type Endpoint, type SidecarConfig } from '../sidecar/sidecar.ts'
import type { Io } from './command.ts'

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent']

/** Runs a gate until SIGTERM or SIGINT, then lets running exchanges end. Prints the ready line when it listens. */
export async function runGate(config: SidecarConfig, io: Io): Promise<number> {
  const level = io.env['SALLYPORT_LOG_LEVEL'] || 'info'
  if (!LEVELS.includes(level))
    throw new SallyportError('config_invalid', `SALLYPORT_LOG_LEVEL is "${level}"`, { hint: `use one of ${LEVELS.join(', ')}` })
  const log = createLog(level)
  const stop = new Promise<string>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
  })
  process.on('SIGHUP', () => log.warn('SIGHUP: this version reads its policy at start only; restart it'))
  // A fault that nobody caught leaves the state unknown: end, so that a supervisor starts anew, rather than go on half working.
  process.on('uncaughtException', (error) => {
    log.error({ err: error }, 'uncaught')
    process.exit(1)
  })
  for (const warning of config.policy.warnings) log.warn({ file: warning.file, line: warning.line }, warning.message)

  const open = config.allowsClient ? [] : config.http.filter(({ host }) => host !== '::1' && !host.startsWith('127.'))
  for (const { host } of open)
    log.warn({ host }, 'whoever reaches this address gets the credentials written into their requests: use loopback')

  await using sidecar = await openSidecar(config, log)
  io.out(
    `${JSON.stringify({
      event: 'ready',
      http: sidecar.http[0],
      ...(sidecar.gateway.length > 0 && { gateway: sidecar.gateway[0] }),
      ca: sidecar.caFile,
      audit: sidecar.auditFile,
      session: config.session,
    })}\n`,
  )
  const signal = await stop
  log.info({ signal }, 'draining')
  await sidecar.drain()
  return 0
}

/** `HOST:PORT` with a canonical address. Port 0 picks a free one. */
export function parseEndpoint(flag: string, text: string): Endpoint {
  const split = splitAuthority(text.replace(/:0$/, ':1'))
  const host = parseHostname(split?.host ?? '')
  if (!split || split.port === undefined || !isHostname(host)) {
    throw new SallyportError('config_invalid', `${flag} "${text}" is not HOST:PORT`, {
      hint: 'write for example 127.0.0.1:3128, or port 0 for a free one',
    })
  }
  return { host, port: text.endsWith(':0') ? 0 : split.port }
}
