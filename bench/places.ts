import { existsSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

/**
 * Everything that set-up makes and the runs leave: programs, npm peers, certificates, configuration, logs, results. Other users
 * must be able to enter it (squid and trafficserver drop root), and its path may have no spaces.
 */
export const WORK = path.resolve(process.env['BENCH_WORK'] || path.join(tmpdir(), 'sallyport-bench'))
export const BENCH = import.meta.dirname
/** What every intercepting peer writes into `X-Inject`. It opens nothing. */
export const TOKEN = 'secret-token'

/** The first three digits of every port: 24700 to 24799 unless the environment says otherwise. */
export const PORTS = process.env['BENCH_PORTS'] || '247'

/** The port with these last two digits, on loopback. */
export function port(twoDigits: number): number {
  return Number(PORTS) * 100 + twoDigits
}

/** Upstreams by how they are reached. */
export const TARGETS = {
  /** HTTP. */
  plain: `127.0.0.1:${port(0)}`,
  /** TLS with HTTP/1.1, to be intercepted. */
  intercept: `localhost:${port(1)}`,
  /** TLS with HTTP/2, to be intercepted. */
  interceptH2: `localhost:${port(2)}`,
  /** TLS, never intercepted. */
  passthrough: `localhost:${port(3)}`,
} as const
/** Where h2dial listens for h2load. */
export const H2_DIAL_PORT = port(4)

export function inWork(...parts: string[]): string {
  return path.join(WORK, ...parts)
}

/** The folder of the files that the upstream serves: in memory where the machine has a tmpfs. */
export function webRoot(): string {
  const noted = inWork('www.path')
  return existsSync(noted) ? readFileSync(noted, 'utf8').trim() : inWork('www')
}
