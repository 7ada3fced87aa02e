/** The first byte of frames (RFC 6455 §5.2): the last one of a message has FIN. */
export const FIN = 0x80
export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

/** A frame as servers send it: without a mask. */
export function serverFrame(first: number, payload: Buffer | string): Buffer {
  const bytes = Buffer.from(payload)
  const length = bytes.length < 126 ? Buffer.of(bytes.length) : Buffer.of(126, bytes.length >> 8, bytes.length & 255)
  return Buffer.concat([Buffer.of(first), length, bytes])
}

export type ServerMessage = { readonly opcode: number; readonly payload: Buffer }

/** Messages and control frames that a server sent, in the order of their ends; fragments put together. Without what is cut off. */
export function messagesIn(bytes: Buffer): ServerMessage[] {
  const messages: ServerMessage[] = []
  let opcode = 0
  let fragments: Buffer[] = []
  for (let at = 0; at + 2 <= bytes.length;) {
    const [first = 0, second = 0] = bytes.subarray(at)
    const [length, head] =
      second < 126 ? [second, 2] : second === 126 ? [bytes.readUInt16BE(at + 2), 4] : [Number(bytes.readBigUInt64BE(at + 2)), 10]
    const payload = bytes.subarray(at + head, at + head + length)
    if (payload.length < length) break
    at += head + length
    if ((first & 8) !== 0) messages.push({ opcode: first & 15, payload })
    else {
      if ((first & 15) !== OPCODE.continuation) opcode = first & 15
      fragments.push(payload)
      if ((first & FIN) === 0) continue
      messages.push({ opcode, payload: Buffer.concat(fragments) })
      fragments = []
    }
  }
  return messages
}
