import { createHash, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import { readFileSync } from 'node:fs'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { isHostname, parseHostname, splitAuthority } from '../kernel/hostname.ts'
import {
  openSidecar,
  parseUpstreamProxy,
  type CheckLease,
  type Endpoint,
  type SidecarConfig,
  type UpstreamProxy,
} from '../sidecar/sidecar.ts'
import type { Io } from './command.ts'
import { beginForeground } from './foreground.ts'

/** Runs a gate until SIGTERM or SIGINT, then lets running exchanges end. Prints the ready line when it listens. */
export async function runGate(config: SidecarConfig, io: Io): Promise<number> {
  const { log, stop } = beginForeground(io)

  const listened = [...config.http, ...config.socks, ...config.transparent, ...config.gateway]
  const open = config.allowsClient ? [] : listened.filter(({ host }) => !isLoopback(host))
  for (const { host } of open)
    log.warn({ host }, 'whoever reaches this address gets the credentials written into their requests: use loopback')

  await using sidecar = await openSidecar(config, log)
  process.on('SIGHUP', () => void sidecar.reload())
  io.out(
    `${JSON.stringify({
      event: 'ready',
      ...(sidecar.http.length > 0 && { http: sidecar.http[0] }),
      ...(sidecar.socks.length > 0 && { socks: sidecar.socks[0] }),
      ...(sidecar.dns.length > 0 && { dns: sidecar.dns[0] }),
      ...(sidecar.transparent.length > 0 && { transparent: sidecar.transparent.slice(0, 2) }),
      ...(sidecar.gateway.length > 0 && { gateway: sidecar.gateway[0] }),
      ca: sidecar.caFile,
      audit: sidecar.auditFile,
      session: config.session,
      ...(Object.keys(sidecar.placeholders).length > 0 && { placeholders: sidecar.placeholders }),
    })}\n`,
  )
  collectWhenIdle()
  const signal = await stop
  log.info({ signal }, 'draining')
  await sidecar.drain()
  return 0
}

const IDLE_LOOK_MS = 500
/** Of a look's time: what an idle gate with a thousand tunnels takes. */
const IDLE_CPU_SHARE = 0.05
/** A collection takes some 30 ms: less than this is not worth it. */
const WORTH_BYTES = 4 * 1024 * 1024

/**
 * Reading the policy leaves megabytes behind, and so does much work at once, which an idle process would keep: the young generation stays
 * as large as it grew. Collected once it has come to rest. The image allows this (--expose-gc).
 */
function collectWhenIdle(): void {
  const { gc } = globalThis
  if (gc === undefined) return
  let rested = 0
  let before = process.cpuUsage()
  const collect = (): void => {
    gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    rested = process.memoryUsage.rss()
  }
  collect()
  setInterval(() => {
    const { user, system } = process.cpuUsage(before)
    const isIdle = user + system < IDLE_LOOK_MS * 1_000 * IDLE_CPU_SHARE
    if (isIdle && process.memoryUsage.rss() - rested > WORTH_BYTES) collect()
    before = process.cpuUsage()
  }, IDLE_LOOK_MS).unref()
}

/** Whether a text is the lease of `SALLYPORT_LEASE`; compared by hash, as the time of comparing texts tells how much of them is right. */
export function leaseOf(io: Io): { checkLease?: CheckLease } {
  const lease = io.env['SALLYPORT_LEASE']
  if (!lease) return {}
  // It has to fit where clients put it: header fields, and the 255 bytes that SOCKS5 has for a password (RFC 1929).
  if (!/^[\x21-\x7e]{16,255}$/.test(lease)) {
    throw new SallyportError('config_invalid', 'SALLYPORT_LEASE is not 16 to 255 characters of visible ASCII', {
      hint: 'make one with: openssl rand -hex 32',
    })
  }
  const known = createHash('sha256').update(lease).digest()
  return { checkLease: (token) => timingSafeEqual(createHash('sha256').update(token).digest(), known) }
}

/** What the session's placeholders are made from: the operator's own text, so that they stay what they are over restarts, or the session's id. */
export function placeholderSeedOf(io: Io, session: string): string {
  return io.env['SALLYPORT_PLACEHOLDER_SEED'] || session
}

/** The operator's own proxy: its URL, or `file:/path` of a file that holds it. @throws config_invalid */
export function upstreamProxyOf(text: string | undefined): { upstreamProxy?: UpstreamProxy } {
  if (!text) return {}
  if (!text.startsWith('file:/')) return { upstreamProxy: parseUpstreamProxy(text) }
  const file = text.slice('file:'.length)
  try {
    return { upstreamProxy: parseUpstreamProxy(readFileSync(file, 'utf8').trim()) }
  } catch (cause) {
    if (cause instanceof SallyportError) throw cause
    throw new SallyportError('config_invalid', `the upstream proxy's file ${file} cannot be read (${codeOf(cause)})`, { cause })
  }
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

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}
