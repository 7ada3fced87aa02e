import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Frame } from '../wire/control.ts'

const PREFIX_BYTES = 4
/** Of the first buffer: most frames fit. */
const FIRST_BYTES = 4 * 1024
const NOTHING = Buffer.alloc(0)
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** What a peer did against the rules. No byte of the frame is in the message: it may hold a secret. */
export function broken(problem: string): SallyportError {
  return new SallyportError('control_broken', `the control channel was closed: ${problem}`)
}

/** Length in four bytes, big-endian, then JSON. @throws control_broken for one that the peer would not take */
export function encodeFrame(frame: Frame, bytesMax: number): Buffer {
  const json = JSON.stringify(frame)
  const bytes = Buffer.byteLength(json)
  if (bytes > bytesMax) throw broken(`a frame of ${bytes} bytes, ${bytesMax} at most are taken`)
  const framed = Buffer.allocUnsafe(PREFIX_BYTES + bytes)
  framed.writeUInt32BE(bytes)
  framed.write(json, PREFIX_BYTES)
  return framed
}

export type FrameDecoder = {
  push(chunk: Buffer): void
  /** The next whole frame and its size in bytes. @throws control_broken as soon as the bytes cannot be a frame */
  next(): { readonly frame: Frame; readonly bytes: number } | undefined
  /** A frame has begun and is not whole. */
  readonly isWithin: boolean
}

/**
 * Holds what arrived, and nothing for what a length prefix merely promises. Bytes are copied into a buffer of its own: who sends them one by
 * one would else leave a buffer of the socket behind for each. `bytesMax` is asked for with each prefix.
 */
export function createFrameDecoder(bytesMax: () => number): FrameDecoder {
  let buffer = NOTHING
  let start = 0
  let end = 0
  /** Of the frame that has begun. */
  let length: number | undefined

  function reserve(bytes: number): void {
    if (end + bytes <= buffer.length) return
    const held = buffer.subarray(start, end)
    // Twice what is there: copying stays in proportion to what arrived.
    const larger =
      held.length + bytes <= buffer.length / 2 ? buffer : Buffer.allocUnsafeSlow(Math.max((held.length + bytes) * 2, FIRST_BYTES))
    held.copy(larger)
    buffer = larger
    end = held.length
    start = 0
  }

  function take(bytes: number): Buffer {
    const taken = buffer.subarray(start, start + bytes)
    start += bytes
    return taken
  }

  return {
    get isWithin() {
      return end > start || length !== undefined
    },
    push(chunk) {
      reserve(chunk.length)
      chunk.copy(buffer, end)
      end += chunk.length
    },
    next() {
      if (length === undefined) {
        if (end - start < PREFIX_BYTES) return undefined
        const announced = take(PREFIX_BYTES).readUInt32BE()
        if (announced === 0) throw broken('an empty frame')
        if (announced > bytesMax()) throw broken(`a frame of ${announced} bytes, ${bytesMax()} at most are taken`)
        length = announced
      }
      if (end - start < length) return undefined
      const bytes = length
      length = undefined
      const frame = parseFrame(take(bytes))
      // What was in it may be secret: nothing of it is left behind.
      buffer.fill(0, start - bytes, start)
      if (start === end) [buffer, start, end] = [NOTHING, 0, 0]
      return { frame, bytes: PREFIX_BYTES + bytes }
    },
  }
}

function parseFrame(bytes: Buffer): Frame {
  if (depthOf(bytes) > LIMITS.controlDepthMax) throw broken(`a frame nested deeper than ${LIMITS.controlDepthMax}`)
  let value: unknown
  try {
    value = JSON.parse(utf8.decode(bytes))
  } catch {
    // Without the cause: the message of the parser quotes what it read.
    throw broken('a frame that is not JSON in UTF-8')
  }
  const { data } = Frame.safeParse(value)
  if (data === undefined) throw broken('a frame of no known kind')
  return data
}

const [QUOTE, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = Buffer.from('"\\[]{}')

/** How deep lists and objects are nested, found before anything is built of them. */
function depthOf(bytes: Buffer): number {
  let depth = 0
  let deepest = 0
  let isText = false
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (isText) {
      if (byte === BACKSLASH) i += 1
      else if (byte === QUOTE) isText = false
    } else if (byte === QUOTE) isText = true
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) deepest = Math.max(deepest, ++depth)
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1
  }
  return deepest
}
