import type { Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'
import type { Recognised } from '../egress/tunnel.ts'
import { ClientHelloReader } from './client-hello.ts'

const TLS_HANDSHAKE = 22
/** A request line begins with a method: upper-case letters, then a space. The longest that llhttp knows has 12. */
const METHOD = /^[A-Z][A-Z-]{0,15}(?: |$)/

const NOTHING = Buffer.alloc(0)

/** What a client of HTTP/2 begins with that has not asked whether it is spoken here (RFC 9113 §3.4). As a method PRI is nobody's. */
const HTTP2_PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/**
 * Looks at the first bytes until they tell TLS from HTTP, `LIMITS.recognitionMs` at most. The bytes are put back: whoever
 * takes the socket reads them again. The socket is left paused.
 */
export function recognise(socket: Socket): Promise<Recognised> {
  if (socket.destroyed || socket.readableEnded) return Promise.resolve({ kind: 'closed' })
  return new Promise((resolve) => {
    const held = new FirstBytes()
    const hello = new ClientHelloReader()
    function settle(found: Recognised): void {
      clearTimeout(timer)
      socket.off('data', onData)
      socket.off('close', onClosed)
      socket.off('end', onClosed)
      socket.pause()
      if (held.bytes.length > 0 && !socket.destroyed && !socket.readableEnded) socket.unshift(held.bytes)
      resolve(found)
    }
    function onData(chunk: Buffer): void {
      held.add(chunk)
      const found = look(held.bytes, hello)
      if (found) settle(found)
    }
    function onClosed(): void {
      settle(
        held.bytes.length === 0
          ? { kind: 'closed' }
          : { kind: 'unknown', problem: 'the connection ended before the first message was complete' },
      )
    }
    const timer = setTimeout(() => {
      const problem = held.bytes.length === 0 ? 'nothing was sent in time' : 'the first message was not complete in time'
      settle({ kind: 'unknown', problem })
    }, LIMITS.recognitionMs)
    // Events of the data, not of its being readable: those come two turns later, for each piece.
    socket.on('data', onData)
    socket.on('close', onClosed)
    socket.on('end', onClosed)
    socket.resume()
  })
}

function look(bytes: Buffer, reader: ClientHelloReader): Recognised | undefined {
  if (bytes[0] === TLS_HANDSHAKE) {
    const hello = reader.read(bytes)
    if (hello.state === 'complete') return { kind: 'tls', serverName: hello.serverName, hasEch: hello.hasEch }
    if (hello.state === 'invalid') return { kind: 'unknown', problem: `the TLS handshake is malformed: ${hello.problem}` }
    return bytes.length > LIMITS.clientHelloBytesMax ? { kind: 'unknown', problem: 'the ClientHello is too long' } : undefined
  }
  const preface = bytes.subarray(0, HTTP2_PREFACE.length)
  if (HTTP2_PREFACE.subarray(0, preface.length).equals(preface)) {
    return preface.length === HTTP2_PREFACE.length ? { kind: 'h2c' } : undefined
  }
  const start = bytes.subarray(0, 17).toString('latin1')
  if (!METHOD.test(start)) return { kind: 'unknown', problem: 'the bytes are neither TLS nor HTTP' }
  return start.includes(' ') ? { kind: 'http' } : undefined
}

/** Bytes one behind the other. The room doubles: a client that sends them one by one must not cost their square. */
class FirstBytes {
  bytes: Buffer = NOTHING
  #room: Buffer = NOTHING

  add(chunk: Buffer): void {
    const before = this.bytes.length
    const length = before + chunk.length
    if (before === 0) this.#room = chunk
    else if (length > this.#room.length) this.#room = Buffer.concat([this.bytes, chunk], 2 * length)
    else chunk.copy(this.#room, before)
    this.bytes = length === this.#room.length ? this.#room : this.#room.subarray(0, length)
  }
}
