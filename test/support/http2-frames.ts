import type { TLSSocket } from 'node:tls'
import { openTlsSockets, type TestServer } from './upstream-client.ts'

/** Frame types and flags of RFC 9113 §6, ALTSVC of RFC 7838 §4 and ORIGIN of RFC 8336 §2. */
export const TYPE = {
  DATA: 0,
  HEADERS: 1,
  RST_STREAM: 3,
  SETTINGS: 4,
  PUSH_PROMISE: 5,
  PING: 6,
  GOAWAY: 7,
  WINDOW_UPDATE: 8,
  CONTINUATION: 9,
  ALTSVC: 10,
  ORIGIN: 12,
} as const
export const FLAG = { END_STREAM: 1, ACK: 1, END_HEADERS: 4 } as const

export function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** A field block of literals that are not indexed, without Huffman coding (RFC 7541 §6.2.2). */
export function fieldBlock(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]))
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1')
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes])
  const length = [127]
  let left = bytes.length - 127
  for (; left >= 128; left = Math.floor(left / 128)) length.push((left % 128) + 128)
  return Buffer.concat([Buffer.from([...length, left]), bytes])
}

export function headers(stream: number, fields: readonly (readonly [string, string])[], flags: number = FLAG.END_HEADERS): Buffer {
  return frame(TYPE.HEADERS, flags, stream, fieldBlock(fields))
}

export function reset(stream: number, code: number): Buffer {
  const payload = Buffer.alloc(4)
  payload.writeUInt32BE(code)
  return frame(TYPE.RST_STREAM, 0, stream, payload)
}

export function settings(pairs: readonly (readonly [id: number, value: number])[] = []): Buffer {
  const payload = Buffer.alloc(pairs.length * 6)
  pairs.forEach(([id, value], i) => {
    payload.writeUInt16BE(id, i * 6)
    payload.writeUInt32BE(value, i * 6 + 2)
  })
  return frame(TYPE.SETTINGS, 0, 0, payload)
}

export type Frame = { readonly type: number; readonly flags: number; readonly stream: number; readonly payload: Buffer }

const PREFACE_BYTES = 24

/** A server of HOST that says it speaks h2, sends SETTINGS, and then whatever `onFrame` writes for each frame that comes. */
export function openFrames(
  onFrame: (frame: Frame, socket: TLSSocket) => void,
  first: Buffer = settings(),
  { acknowledges = true } = {},
): Promise<TestServer> {
  return openTlsSockets(
    (socket) => {
      let buffer = Buffer.alloc(0)
      let isGreeted = false
      socket.write(first)
      socket.on('data', (chunk: Buffer) => {
        buffer = Buffer.concat([buffer, chunk])
        if (!isGreeted) {
          if (buffer.length < PREFACE_BYTES) return
          buffer = buffer.subarray(PREFACE_BYTES)
          isGreeted = true
        }
        while (buffer.length >= 9) {
          const end = 9 + buffer.readUIntBE(0, 3)
          if (buffer.length < end) return
          const read = { type: buffer[3] ?? 0, flags: buffer[4] ?? 0, stream: buffer.readUInt32BE(5), payload: buffer.subarray(9, end) }
          buffer = buffer.subarray(end)
          if (acknowledges && read.type === TYPE.SETTINGS && (read.flags & FLAG.ACK) === 0) socket.write(frame(TYPE.SETTINGS, FLAG.ACK, 0))
          onFrame(read, socket)
        }
      })
    },
    ['h2'],
  )
}

export const PING = frame(TYPE.PING, 0, 0, Buffer.alloc(8, 'p'))
export const isPong = ({ type, flags }: Frame): boolean => type === TYPE.PING && (flags & FLAG.ACK) !== 0

export function windowUpdate(stream: number, bytes: number): Buffer {
  const payload = Buffer.alloc(4)
  payload.writeUInt32BE(bytes)
  return frame(TYPE.WINDOW_UPDATE, 0, stream, payload)
}

/** The same for requests only: called with the id of each stream that a HEADERS frame opens. */
export function openFrameAnswers(answer: (stream: number, socket: TLSSocket) => void, first?: Buffer): Promise<TestServer> {
  return openFrames(({ type, stream }, socket) => {
    if (type === TYPE.HEADERS) answer(stream, socket)
  }, first)
}
