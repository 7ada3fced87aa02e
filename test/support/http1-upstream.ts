import type { Socket } from 'node:net'
import { dialTcp, secure } from '../../src/sidecar/upstream/dial.ts'
import { Http1Origin } from '../../src/sidecar/upstream/http1-origin.ts'
import { HOST, TRUST } from './upstream-client.ts'
import { hostname } from './policy.ts'
import { openRawUpstream, type Upstream } from './upstream.ts'

/** One request without a body, as it came. */
export type Asked = {
  readonly socket: Socket
  /** Connections and requests on this one, from 1. */
  readonly connection: number
  readonly request: number
  readonly head: string
}

export type Http1Upstream = Upstream & { readonly heads: string[]; readonly sockets: Socket[] }

/** An upstream that answers each head with whatever `answer` writes. */
export async function openHttp1(answer: (asked: Asked) => void): Promise<Http1Upstream> {
  const heads: string[] = []
  const sockets: Socket[] = []
  const upstream = await openRawUpstream((socket) => {
    const connection = sockets.push(socket)
    let request = 0
    let heard = ''
    socket.on('end', () => socket.end())
    socket.on('data', (chunk: Buffer) => {
      heard += chunk.toString('latin1')
      for (let end = heard.indexOf('\r\n\r\n'); end !== -1; end = heard.indexOf('\r\n\r\n')) {
        const head = heard.slice(0, end + 4)
        heard = heard.slice(end + 4)
        heads.push(head)
        request += 1
        answer({ socket, connection, request, head })
      }
    })
  })
  return Object.assign(upstream, { heads, sockets })
}

/** What answers every request with its path, and keeps the connection. */
export function echoPath({ socket, head }: Asked): void {
  const path = head.split(' ')[1] ?? ''
  socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\n\r\n${path}`)
}

/** Requests to HOST at this port of loopback, in plain text or over TLS. */
export function openOrigin(port: number, scheme: 'http' | 'https' = 'http'): Http1Origin & AsyncDisposable {
  const target = { host: hostname(HOST), port, addresses: ['127.0.0.1'] }
  const origin = new Http1Origin(HOST, async () => {
    const socket = await dialTcp(target)
    return scheme === 'http' ? socket : secure(socket, target, TRUST, ['http/1.1'])
  })
  return Object.assign(origin, { [Symbol.asyncDispose]: () => origin.destroy() })
}
