import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocket } from 'ws'
import { routeTo, startTls, type Carrying, type EveryWay, type Way } from './every-way.ts'
import { openHttp2Upstream, type Http2Upstream, type StreamRequest } from './http2-upstream.ts'
import { openRawUpstream, openUpstream, type Upstream } from './upstream.ts'
import { openWebSocketUpstream } from './websocket-upstream.ts'

/** Something that an agent has going through the gate. */
export type Running = {
  /** Proves that it goes on: something new gets through. */
  ping(): Promise<void>
  /** When the agent sees its end. */
  readonly closed: Promise<unknown>
  end(): void
}

export const RUNNING_HOSTS = { api: 'api.example.com', pinned: 'pinned.example.com', mail: 'mail.example.com' } as const
const { api: API, pinned: PINNED, mail: MAIL } = RUNNING_HOSTS

/** Allows all that runs, by every way. */
export const RUNNING_POLICY = `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, addresses: ["127.0.0.0/8"]}
    - {id: pinned, host: ${PINNED}, action: allow, tls: passthrough, addresses: ["127.0.0.0/8"]}
    - {id: mail, host: ${MAIL}, ports: [25], protocol: tcp, action: allow, addresses: ["127.0.0.0/8"]}
routes:
  - {name: ${routeTo('https', API)}, upstream: "https://${API}", addresses: ["127.0.0.0/8"]}
  - {name: ${routeTo('http', API)}, upstream: "http://${API}", addresses: ["127.0.0.0/8"]}
`

/** The upstreams that running things lead to. `secure` echoes bodies, and at /events says what `tick` makes it say. */
export type RunningPeers = AsyncDisposable & {
  readonly secure: Http2Upstream
  readonly plain: Upstream
  readonly pinned: Upstream
  /** Says something new to all who listen, and gives it back. */
  tick(): string
}

export async function openRunningPeers(setting: EveryWay): Promise<RunningPeers> {
  await using parts = new AsyncDisposableStack()
  const listening = new Set<ServerResponse>()
  let ticks = 0
  const answer = (request: StreamRequest, response: ServerResponse): void => {
    if (request.url?.endsWith('/events') === true) {
      listening.add(response)
      response.once('close', () => listening.delete(response))
      response.write('data: begin\n\n')
    } else if (request.method === 'POST') request.pipe(response)
    else response.end('ok')
  }
  const secure = parts.use(await openHttp2Upstream(setting.tls(API), { place: setting.at(API, 443), answer, isRecording: false }))
  const plain = parts.use(await openWebSocketUpstream(undefined, setting.at(API, 80)))
  const pinned = parts.use(await openUpstream(undefined, setting.tls(PINNED), setting.at(PINNED, 443)))
  parts.use(await openRawUpstream((socket) => void socket.pipe(socket), setting.at(MAIL, 25)))
  const all = parts.move()
  return {
    secure,
    plain,
    pinned,
    tick() {
      ticks += 1
      for (const response of listening) response.write(`data: tick ${ticks}.\n\n`)
      return `tick ${ticks}.`
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

type Start = (setting: EveryWay, peers: RunningPeers) => Promise<Running>

const STARTS = {
  'events by absolute form': events('absolute form'),
  'events by CONNECT': events('CONNECT'),
  'events by SOCKS5': events('SOCKS5'),
  'events without a proxy': events('transparent'),
  'events by a route': events('route'),
  'an upload': async (setting) => {
    const { socket } = await setting.open('CONNECT', 'https', API)
    const reader = readerOf(socket)
    socket.write(`POST /upload HTTP/1.1\r\nHost: ${API}\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nmore\r\n`)
    await reader.until('more')
    return running(socket, async () => {
      socket.write('4\r\nping\r\n')
      await reader.until('ping')
    })
  },
  'an HTTP/2 stream': async (setting) => {
    const socket = await setting.dialTls('CONNECT', API, 443, { ALPNProtocols: ['h2'] })
    const session = connectHttp2(`https://${API}`, { createConnection: () => socket })
    session.on('error', () => {})
    const stream = session.request({ ':method': 'POST', ':path': '/upload' })
    stream.on('error', () => {})
    const reader = readerOf(stream)
    stream.write('more')
    await reader.until('more')
    return {
      closed: reader.closed,
      async ping() {
        stream.write('ping')
        await reader.until('ping')
      },
      end: () => session.destroy(),
    }
  },
  'a WebSocket': async (setting) => {
    const socket = await setting.dial('CONNECT', API, 80)
    const webSocket = new WebSocket(`ws://${API}/`, { createConnection: () => socket })
    webSocket.on('error', () => {})
    const message = (): Promise<unknown> => new Promise((resolve) => webSocket.once('message', resolve))
    await new Promise((resolve) => webSocket.once('open', resolve))
    return {
      closed: new Promise((resolve) => webSocket.once('close', resolve)),
      async ping() {
        webSocket.send('ping')
        assert.equal(String(await message()), 'ping')
      },
      end: () => webSocket.terminate(),
    }
  },
  'an idle tunnel': async (setting) => {
    const { socket } = await setting.open('CONNECT', 'https', API)
    const reader = readerOf(socket)
    return running(socket, async () => {
      socket.write(`GET /idle HTTP/1.1\r\nHost: ${API}\r\n\r\n`)
      // Each request in it is decided by itself: what goes on is the tunnel.
      await reader.until('HTTP/1.1 ')
    })
  },
  'a tunnel that nobody looks into': async (setting) => {
    const certificate = setting.tls(PINNED).cert
    const socket = await startTls(await setting.dial('CONNECT', PINNED, 443), { servername: PINNED, rejectUnauthorized: false })
    assert.ok(certificate.includes(socket.getPeerCertificate().raw.toString('base64').slice(0, 60)))
    const reader = readerOf(socket)
    return running(socket, async () => {
      socket.write(`GET /pinned HTTP/1.1\r\nHost: ${PINNED}\r\n\r\n`)
      await reader.until('ok')
    })
  },
  'a stream that is no HTTP': async (setting) => {
    const socket = await setting.dial('SOCKS5', MAIL, 25)
    const reader = readerOf(socket)
    socket.write('more')
    await reader.until('more')
    return running(socket, async () => {
      socket.write('ping')
      await reader.until('ping')
    })
  },
} satisfies Record<string, Start>

export type RunningName = keyof typeof STARTS
/** All that can be running when a policy changes. */
export const RUNNING: Readonly<Record<RunningName, Start>> = STARTS
export const RUNNING_NAMES = Object.keys(RUNNING) as RunningName[]

function events(way: Exclude<Way, 'SOCKS5 by our address'> | Carrying): Start {
  return async (setting, peers) => {
    const { socket, target, authority } = await setting.open(way, 'https', API)
    const reader = readerOf(socket)
    socket.write(`GET ${target('/events')} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
    await reader.until('begin')
    return running(
      socket,
      async () => {
        await reader.until(peers.tick())
      },
      reader,
    )
  }
}

function running(socket: Socket, ping: () => Promise<void>, { closed } = readerOf(socket)): Running {
  return { ping, closed, end: () => socket.destroy() }
}

type Stream = Pick<Duplex, 'on' | 'once'>

/** Reads a stream. What was waited for once is not found again. */
function readerOf(stream: Stream): { until(text: string): Promise<void>; readonly closed: Promise<void> } {
  let unread = ''
  let onMore: () => void = () => {}
  let isClosed = false
  stream.on('data', (chunk: Buffer) => {
    unread += chunk.toString('latin1')
    onMore()
  })
  const closed = new Promise<void>((resolve) => {
    stream.once('close', () => {
      isClosed = true
      onMore()
      resolve()
    })
  })
  return {
    closed,
    async until(text) {
      while (!unread.includes(text)) {
        assert.ok(!isClosed, `it was closed before "${text}" came: ${unread}`)
        await new Promise<void>((resolve) => (onMore = resolve))
      }
      unread = unread.slice(unread.indexOf(text) + text.length)
    },
  }
}
