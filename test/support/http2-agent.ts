import { once } from 'node:events'
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream, type OutgoingHttpHeaders } from 'node:http2'
import type { Duplex } from 'node:stream'
import { frame, headers, settings, FLAG, TYPE, type Frame } from './http2-frames.ts'
import { openTlsTunnel } from './raw-client.ts'

/** What is of interest of a gate and an upstream behind it. */
export type Towards = { readonly port: number; readonly host: string; readonly targetPort: number; readonly ca: string }

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/** An agent that writes HTTP/2 frames by hand. */
export type FrameAgent = Disposable & {
  readonly socket: Duplex
  /** Every frame that came so far. */
  readonly frames: readonly Frame[]
  readonly isClosed: boolean
  send(...frames: readonly Buffer[]): void
  /** The first frame, old or new, that it is true for. Rejects when the connection ends before. */
  until(is: (frame: Frame) => boolean): Promise<Frame>
  /** Resolves with the frames when the connection has ended. */
  closed(): Promise<readonly Frame[]>
}

/** A tunnel, TLS in it, and the preface. */
export async function openFrameAgent(to: Towards, first: Buffer = settings()): Promise<FrameAgent> {
  const socket = await openTlsTunnel(to.port, to.host, to.targetPort, to.ca, { ALPNProtocols: ['h2'] })
  return speakFrames(socket, first)
}

/** The same on a connection that is there. */
export function speakFrames(socket: Duplex, first: Buffer = settings()): FrameAgent {
  const frames: Frame[] = []
  const waiting = new Set<() => void>()
  let isClosed = false
  let buffer = Buffer.alloc(0)
  const tell = (): void => waiting.forEach((look) => look())
  socket.on('error', () => {})
  socket.on('close', () => {
    isClosed = true
    tell()
  })
  socket.on('data', (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk])
    while (buffer.length >= 9) {
      const end = 9 + buffer.readUIntBE(0, 3)
      if (buffer.length < end) break
      const read = { type: buffer[3] ?? 0, flags: buffer[4] ?? 0, stream: buffer.readUInt32BE(5), payload: buffer.subarray(9, end) }
      buffer = buffer.subarray(end)
      frames.push(read)
      if (read.type === TYPE.SETTINGS && (read.flags & FLAG.ACK) === 0) socket.write(frame(TYPE.SETTINGS, FLAG.ACK, 0))
    }
    tell()
  })
  socket.write(Buffer.concat([PREFACE, first]))

  function wait<T>(look: () => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const again = (): void => {
        const found = look()
        if (found === undefined && !isClosed) return
        waiting.delete(again)
        if (found === undefined) reject(new Error('the connection ended'))
        else resolve(found)
      }
      waiting.add(again)
      again()
    })
  }
  return {
    socket,
    frames,
    get isClosed() {
      return isClosed
    },
    send: (...more) => void socket.write(Buffer.concat(more)),
    until: (is) => wait(() => frames.find(is)),
    closed: () => wait(() => (isClosed ? frames : undefined)),
    [Symbol.dispose]: () => socket.destroy(),
  }
}

/** What became of a request: `answered`, `reset`, `the connection ends`, or the code that the gate refused it with. */
export async function fateOf(agent: FrameAgent, stream = 1): Promise<string> {
  const isLast = ({ type, flags, stream: of }: Frame): boolean =>
    type === TYPE.GOAWAY ||
    (of === stream && (type === TYPE.RST_STREAM || ((type === TYPE.DATA || type === TYPE.HEADERS) && (flags & FLAG.END_STREAM) !== 0)))
  const last = await agent.until(isLast).catch(() => undefined)
  if (last === undefined || last.type === TYPE.GOAWAY) return 'the connection ends'
  if (last.type === TYPE.RST_STREAM) return 'reset'
  const body = agent.frames.filter(({ type, stream: of }) => type === TYPE.DATA && of === stream).map(({ payload }) => payload.toString())
  return /"code":"(\w+)"/.exec(body.join(''))?.[1] ?? 'answered'
}

/** The fields of a plain GET. */
export function getOf(authority: string, path = '/'): [string, string][] {
  return [
    [':method', 'GET'],
    [':scheme', 'https'],
    [':authority', authority],
    [':path', path],
  ]
}

/** A HEADERS frame that ends its stream too. */
export function whole(stream: number, fields: readonly (readonly [string, string])[]): Buffer {
  return headers(stream, fields, FLAG.END_HEADERS | FLAG.END_STREAM)
}

/** An agent with Node's own HTTP/2, through a tunnel. */
export async function openHttp2Agent(to: Towards): Promise<ClientHttp2Session & Disposable> {
  const socket = await openTlsTunnel(to.port, to.host, to.targetPort, to.ca, { ALPNProtocols: ['h2'] })
  const session = connect(`https://${to.host}:${to.targetPort}`, { createConnection: () => socket })
  session.on('error', () => {})
  return Object.assign(session, { [Symbol.dispose]: () => session.destroy() })
}

export type Answered = {
  readonly status: number
  /** Names and values in turn, without pseudo-header fields. */
  readonly headers: readonly string[]
  readonly body: string
  readonly bytes: Buffer
  readonly trailers: readonly string[]
  /** Interim answers, each its status and fields. */
  readonly interim: readonly Readonly<Record<string, unknown>>[]
  /** How the stream was reset, 0 if it was not. */
  readonly rstCode: number
  /** END_STREAM stood in the head. */
  readonly isHeadAll: boolean
}

/** Reads the answer of a stream to its end. A stream that breaks off gives what had come. */
export async function answerOf(stream: ClientHttp2Stream): Promise<Answered> {
  const interim: Record<string, unknown>[] = []
  const chunks: Buffer[] = []
  let trailers: readonly string[] = []
  let fields: readonly string[] = []
  let status = 0
  let isHeadAll = false
  stream.on('error', () => {})
  stream.on('headers', (head: Record<string, unknown>) => interim.push({ ...head }))
  stream.on('response', (head, flags, raw) => {
    status = Number(head[':status'])
    fields = raw.filter((_part, i) => raw[i - (i % 2)] !== ':status')
    isHeadAll = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0
  })
  stream.on('trailers', (_fields, _flags, raw) => (trailers = raw))
  stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  if (!stream.closed || !stream.destroyed) await once(stream, 'close').catch(() => {})
  const bytes = Buffer.concat(chunks)
  return { status, headers: fields, body: bytes.toString(), bytes, trailers, interim, rstCode: stream.rstCode ?? 0, isHeadAll }
}

/** One request on a session, with a body or without. */
export function askStream(session: ClientHttp2Session, head: OutgoingHttpHeaders, body?: string | Buffer): Promise<Answered> {
  const stream = session.request(head, { endStream: body === undefined })
  if (body !== undefined) stream.end(body)
  return answerOf(stream)
}
