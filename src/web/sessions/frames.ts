import { FRAME, type FrameType } from '../../wire/frame-types.ts'

export type Frame = { readonly type: FrameType; readonly payload: Uint8Array }

const HEAD_BYTES = 5
/** Payload of one frame that is sent: the daemon takes no more in one. */
const PAYLOAD_BYTES_MAX = 32 * 1024
/** Payload of one that comes: the daemon sends no more in one. */
const ARRIVING_BYTES_MAX = 64 * 1024
const TYPES: ReadonlySet<number> = new Set(Object.values(FRAME))

/** A message for each piece of a payload. */
export function* framesOf(type: FrameType, payload: Uint8Array): Generator<Uint8Array<ArrayBuffer>, void> {
  for (let at = 0; at === 0 || at < payload.length; at += PAYLOAD_BYTES_MAX) {
    const piece = payload.subarray(at, at + PAYLOAD_BYTES_MAX)
    const frame = new Uint8Array(HEAD_BYTES + piece.length)
    frame[0] = type
    new DataView(frame.buffer).setUint32(1, piece.length)
    frame.set(piece, HEAD_BYTES)
    yield frame
  }
}

/** Reads the frames in messages, which may end anywhere. The answer throws for bytes that are none. */
export function createFrameReader(): (message: Uint8Array) => Frame[] {
  let held = new Uint8Array()
  return (message) => {
    const data = new Uint8Array(held.length + message.length)
    data.set(held)
    data.set(message, held.length)
    const view = new DataView(data.buffer)
    const frames: Frame[] = []
    let at = 0
    while (data.length - at >= HEAD_BYTES) {
      const type = data[at] ?? -1
      const length = view.getUint32(at + 1)
      if (!TYPES.has(type) || length > ARRIVING_BYTES_MAX) throw new RangeError('the daemon sent what is no frame')
      if (data.length - at < HEAD_BYTES + length) break
      frames.push({ type: type as FrameType, payload: data.subarray(at + HEAD_BYTES, at + HEAD_BYTES + length) })
      at += HEAD_BYTES + length
    }
    held = data.slice(at)
    return frames
  }
}
