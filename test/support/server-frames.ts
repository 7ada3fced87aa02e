/** A frame of RFC 6455 as a server sends it. `first` is the opcode, with 0x80 for the last fragment of a message. */
export function frame(first: number, payload: Buffer | string): Buffer {
  const bytes = Buffer.from(payload)
  const short = bytes.length < 126
  const head = Buffer.alloc(short ? 2 : bytes.length <= 0xffff ? 4 : 10)
  head[0] = first
  head[1] = short ? bytes.length : head.length === 4 ? 126 : 127
  if (head.length === 4) head.writeUInt16BE(bytes.length, 2)
  if (head.length === 10) head.writeBigUInt64BE(BigInt(bytes.length), 2)
  return Buffer.concat([head, bytes])
}

export type Frame = { readonly first: number; readonly payload: Buffer }

/** The frames of a server, the last one maybe cut short. */
export function framesOf(bytes: Buffer): Frame[] {
  const frames: Frame[] = []
  for (let at = 0; at < bytes.length;) {
    const first = bytes.readUInt8(at)
    let length = bytes.readUInt8(at + 1)
    at += 2
    if (length === 126) length = bytes.readUInt16BE(at)
    else if (length === 127) length = Number(bytes.readBigUInt64BE(at))
    at += length < 126 ? 0 : length <= 0xffff ? 2 : 8
    frames.push({ first, payload: bytes.subarray(at, at + length) })
    at += length
  }
  return frames
}

/** The data messages of frames, whole. */
export function messagesOf(frames: readonly Frame[]): Buffer[] {
  const messages: Buffer[] = []
  let parts: Buffer[] = []
  for (const { first, payload } of frames) {
    if ((first & 0x0f) > 2) continue
    parts.push(payload)
    if ((first & 0x80) === 0) continue
    messages.push(Buffer.concat(parts))
    parts = []
  }
  return messages
}
