import { Http2Connection } from '../../src/http2/connection.ts'
import type { RequestFields } from '../../src/http2/fields.ts'
import type { ConnectionOptions } from '../../src/http2/options.ts'
import type { Break, ConnectionError } from '../../src/http2/protocol.ts'
import type { Http2Stream, StreamOwner } from '../../src/http2/stream.ts'
import type { Duplex } from 'node:stream'

/** What came on one stream. */
export class Story implements StreamOwner {
  readonly head: RequestFields | undefined
  readonly interim: [number, string[]][] = []
  status = 0
  headers: string[] = []
  body = ''
  trailers: string[] = []
  isWhole = false
  isHeld = false
  drains = 0
  broken: Break | undefined
  readonly over = Promise.withResolvers<void>()

  constructor(head?: RequestFields) {
    this.head = head
  }

  onInterim(status: number, headers: string[]): void {
    this.interim.push([status, headers])
  }

  onHead(status: number, headers: string[]): void {
    this.status = status
    this.headers = headers
  }

  onData(chunk: Buffer): void {
    this.body += chunk.toString('latin1')
  }

  onEnd(trailers: string[]): void {
    this.isWhole = true
    this.trailers = trailers
  }

  onDrain(): void {
    this.drains += 1
  }

  onHeld(): void {
    this.isHeld = true
  }

  onSent(): void {}

  onBreak(why: Break): void {
    this.broken = why
    this.over.resolve()
  }

  onClose(): void {
    this.over.resolve()
  }
}

export const OPTIONS: ConnectionOptions = {
  role: 'server',
  streamsMax: 100,
  streamWindowBytes: 100_000,
  windowBytes: 1_000_000,
  headers: { bytesMax: 32_768, fieldsMax: 256 },
  noiseBurstMax: 50,
  noisePerSecondMax: 10,
}

/** One end of a connection whose other end a test holds. */
export type End = {
  readonly connection: Http2Connection
  /** What was sent and not taken out. */
  readonly sent: Buffer[]
  readonly stories: Story[]
  readonly streams: Http2Stream[]
  /** Undefined while it lasts. */
  readonly ends: (ConnectionError | undefined)[]
  /** What `send` gives back. */
  takes: boolean
}

/** `onRequest` sees each stream that a client opens; `send` gets what goes out, else it is kept. */
export function openEnd(
  options: Partial<ConnectionOptions> = {},
  more: { onRequest?: (stream: Http2Stream, story: Story) => void; send?: (bytes: Buffer) => void; onEnd?: () => void } = {},
): End {
  const end: Omit<End, 'connection'> = { sent: [], stories: [], streams: [], ends: [], takes: true }
  const connection = new Http2Connection(
    { ...OPTIONS, ...options },
    {
      send(bytes) {
        if (more.send) more.send(bytes)
        else end.sent.push(bytes)
        return end.takes
      },
      onRequest(stream, head) {
        const story = new Story(head)
        end.stories.push(story)
        end.streams.push(stream)
        more.onRequest?.(stream, story)
        return story
      },
      onSettings() {},
      onGoaway() {},
      onRoom() {},
      onEnd(error) {
        end.ends.push(error)
        more.onEnd?.()
      },
    },
  )
  return Object.assign(end, { connection })
}

/** The same over a socket. */
export function openOver(
  socket: Duplex,
  options: Partial<ConnectionOptions> = {},
  onRequest: (stream: Http2Stream, story: Story) => void = () => {},
): End {
  const end = openEnd(options, { onRequest, send: (bytes) => socket.write(bytes), onEnd: () => socket.end() })
  socket.on('data', (chunk: Buffer) => end.connection.receive(chunk))
  socket.on('close', () => end.connection.lost())
  return end
}
