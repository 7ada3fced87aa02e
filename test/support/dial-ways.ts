import type { Socket } from 'node:net'
import { connect } from 'node:net'
import { once } from 'node:events'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { SocksClient } from 'socks'
import { openTunnel } from './raw-client.ts'
import { portOf, type Ways } from './ways.ts'

/** The ways in that carry a connection of its own, for clients that are given a socket. */
export const DIALLED = ['CONNECT', 'SOCKS5', 'a transparent port'] as const
export type Dialled = (typeof DIALLED)[number]

/** A connection to the host as the agent would get one. Rejects when the way refuses it. */
export async function dialBy(way: Dialled, ways: Ways, host: string, port: 80 | 443): Promise<Socket> {
  switch (way) {
    case 'CONNECT': {
      const { status, head, socket } = await openTunnel(ways.proxy.port, `${host}:${port}`)
      if (status !== 200) throw new Error(`CONNECT was answered ${head}`)
      return socket
    }
    case 'SOCKS5': {
      const proxy = { host: '127.0.0.1', port: portOf(ways.socks), type: 5 } as const
      return (await SocksClient.createConnection({ proxy, command: 'connect', destination: { host, port } })).socket
    }
    case 'a transparent port': {
      const socket = connect(portOf(port === 80 ? ways.transparent.http : ways.transparent.https), '127.0.0.1')
      await once(socket, 'connect')
      return socket
    }
  }
}

/** TLS to the host, with the session's authority trusted. */
export async function dialTlsBy(way: Dialled, ways: Ways, host: string, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = await dialBy(way, ways, host, 443)
  const secure = connectTls({ socket, servername: host, ca: ways.ca, ...options })
  await once(secure, 'secureConnect')
  return secure
}
