import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'

/** Where the engine listens. */
export type EngineAddress =
  | { readonly socketPath: string }
  | {
      readonly host: string
      readonly port: number
      readonly protocol: 'http' | 'https'
      readonly ca?: Buffer
      readonly cert?: Buffer
      readonly key?: Buffer
    }

type Environment = Readonly<Record<string, string | undefined>>

const DEFAULT_SOCKET = '/var/run/docker.sock'

/**
 * As the docker CLI reads it: DOCKER_HOST (`unix://`, `tcp://`, the latter by TLS where DOCKER_TLS_VERIFY is set), else the first socket
 * that is there of the usual one, a rootless engine's and Docker Desktop's.
 * @throws SallyportError config_invalid for an address of another kind
 */
export function engineAddress(environment: Environment): EngineAddress {
  const host = environment['DOCKER_HOST']
  if (!host) return { socketPath: usualSockets(environment).find((path) => existsSync(path)) ?? DEFAULT_SOCKET }
  const socketPath = /^unix:\/\/(\/.+)$/.exec(host)?.[1]
  if (socketPath !== undefined) return { socketPath }
  const tcp = /^tcp:\/\/(\[[0-9a-f:.]+\]|[^:/[\]]+):(\d{1,5})\/?$/i.exec(host)
  if (tcp?.[1] === undefined) {
    throw new SallyportError('config_invalid', `DOCKER_HOST "${host}" is neither a socket nor a TCP address`, {
      hint: 'write unix:///path/to/docker.sock or tcp://HOST:PORT',
    })
  }
  const address = { host: tcp[1].replace(/^\[|\]$/g, ''), port: Number(tcp[2]) }
  if (!environment['DOCKER_TLS_VERIFY']) return { ...address, protocol: 'http' }
  const folder = environment['DOCKER_CERT_PATH'] || join(environment['HOME'] ?? '/', '.docker')
  const read = (name: string): Buffer => {
    try {
      return readFileSync(join(folder, name))
    } catch (cause) {
      throw new SallyportError('config_invalid', `${join(folder, name)} cannot be read, and DOCKER_TLS_VERIFY asks for it`, {
        hint: 'set DOCKER_CERT_PATH to the folder of ca.pem, cert.pem and key.pem',
        cause,
      })
    }
  }
  return { ...address, protocol: 'https', ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') }
}

function usualSockets(environment: Environment): string[] {
  const runtime = environment['XDG_RUNTIME_DIR']
  const home = environment['HOME']
  return [DEFAULT_SOCKET, ...(runtime ? [join(runtime, 'docker.sock')] : []), ...(home ? [join(home, '.docker/run/docker.sock')] : [])]
}
