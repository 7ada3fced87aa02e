import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:tls'
import { promisify } from 'node:util'
import { isHostname, parseHostname, type Hostname } from '../../src/kernel/hostname.ts'
import type { System } from '../../src/kernel/system.ts'
import type { Authority } from '../../src/pki/pki.ts'

export const exec = promisify(execFile)

export function hostname(text: string): Hostname {
  const host = parseHostname(text)
  if (!isHostname(host)) throw new Error(`${text}: ${host.problem}`)
  return host
}

/** A clock that is set by hand, and real randomness. */
export function testSystem(now = Date.now()): Pick<System, 'now' | 'random'> & { set(ms: number): void } {
  let ms = now
  return { now: () => ms, random: randomBytes, set: (value) => void (ms = value) }
}

/** Why a test that needs the program can't run here; `false` where it can. For the `skip` option of a test. */
export function without(program: string, ...versionFlag: string[]): string | false {
  const { error } = spawnSync(program, versionFlag, { stdio: 'ignore' })
  return error === undefined ? false : `${program} is not installed here`
}

/** A TLS server on loopback that shows the leaf of `host`, says "hello" and ends. */
export async function serveLeaf(
  authority: Authority,
  host: Hostname,
  address = '127.0.0.1',
): Promise<AsyncDisposable & { readonly port: number }> {
  const { certPem, keyPem } = authority.leafFor(host)
  const server = createServer({ cert: certPem, key: keyPem }, (socket) => {
    socket.on('error', () => undefined)
    socket.end('hello')
  })
  server.on('tlsClientError', () => undefined)
  server.listen(0, address)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
    },
  }
}
