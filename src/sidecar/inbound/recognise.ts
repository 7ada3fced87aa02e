import type { Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'
import { readClientHello } from './client-hello.ts'

/** What the first bytes of a connection are. `closed`: the agent went away without sending any. */
export type Recognised =
  | { readonly kind: 'tls'; readonly serverName: string | undefined }
  | { readonly kind: 'http' }
  | { readonly kind: 'unknown'; readonly problem: string }
  | { readonly kind: 'closed' }

const TLS_HANDSHAKE = 22
/** A request line begins with a method: upper-case letters, then a space. The longest that llhttp knows has 12. */
const METHOD = /^[A-Z][A-Z-]{0,15}(?: |$)/

/**
 * Looks at the first bytes until they tell TLS from HTTP, `LIMITS.recognitionMs` at most. The bytes are put back: whoever
 * takes the socket reads them again. The socket is left paused.
 */
export function recognise(socket: Socket): Promise<Recognised> {
  return new Promise((resolve) => {
    let bytes: Buffer = Buffer.alloc(0)
    const timer = setTimeout(
      () =>
        settle({
          kind: 'unknown',
          problem: bytes.length === 0 ? 'nothing was sent in time' : 'the first message was not complete in time',
        }),
      LIMITS.recognitionMs,
    )

    function settle(found: Recognised): void {
      clearTimeout(timer)
      socket.off('readable', onReadable)
      socket.off('close', onClosed)
      socket.off('end', onClosed)
      if (bytes.length > 0 && !socket.destroyed) socket.unshift(bytes)
      resolve(found)
    }
    function onReadable(): void {
      const chunk: unknown = socket.read()
      if (!Buffer.isBuffer(chunk)) return
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
      const found = look(bytes)
      if (found) settle(found)
    }
    function onClosed(): void {
      settle(
        bytes.length === 0
          ? { kind: 'closed' }
          : { kind: 'unknown', problem: 'the connection ended before the first message was complete' },
      )
    }
    socket.on('readable', onReadable)
    socket.once('close', onClosed)
    socket.once('end', onClosed)
    onReadable()
  })
}

function look(bytes: Buffer): Recognised | undefined {
  if (bytes[0] === TLS_HANDSHAKE) {
    const hello = readClientHello(bytes)
    if (hello.state === 'complete') return { kind: 'tls', serverName: hello.serverName }
    if (hello.state === 'invalid') return { kind: 'unknown', problem: `the TLS handshake is malformed: ${hello.problem}` }
    return bytes.length > LIMITS.clientHelloBytesMax ? { kind: 'unknown', problem: 'the ClientHello is too long' } : undefined
  }
  const start = bytes.subarray(0, 17).toString('latin1')
  if (!METHOD.test(start)) return { kind: 'unknown', problem: 'the bytes are neither TLS nor HTTP' }
  return start.includes(' ') ? { kind: 'http' } : undefined
}
