import { LIMITS } from '../../../kernel/limits.ts'
import { notScrubbable } from './codings.ts'
import { scrubText, ScrubbedBytes, type ScrubPlan } from './plan.ts'

const CONTINUATION = 0
const DATA = new Set([1, 2])
const CONTROL = new Set([8, 9, 10])
const FIN = 0x80
const RESERVED = 0x70
const OPCODE = 0x0f
const MASK = 0x80
const CONTROL_BYTES_MAX = 125
const LENGTH_16 = 126
const LENGTH_64 = 127

/** The frame that is being read. */
type Frame = { readonly isFinal: boolean; readonly opcode: number; left: number }

/**
 * The frames of a WebSocket server (RFC 6455 §5.2) without secrets. A secret may lie across fragments, so messages are cut
 * anew (§5.4, where no extension is negotiated): what may go on by the end of a frame, or by `LIMITS.webSocketFragmentBytes`,
 * is a fragment. Control frames pass in between. Whatever the frames' size, no more than a fragment is held.
 */
export class WebSocketFrames {
  readonly #plan: ScrubPlan
  readonly #bytes: ScrubbedBytes
  #head: Buffer = Buffer.alloc(0)
  #frame: Frame | undefined
  #control: Buffer[] = []
  /** What the next fragment says it is: the type of its message, or a continuation; undefined between messages. */
  #opcode: number | undefined
  #fragment: Buffer[] = []
  #fragmentBytes = 0

  constructor(plan: ScrubPlan) {
    this.#plan = plan
    this.#bytes = new ScrubbedBytes(plan)
  }

  /** The frames that may go on by now. @throws secret_echoed; answer_not_scrubbable for what breaks the protocol */
  push(chunk: Buffer): Buffer {
    const out: Buffer[] = []
    for (let rest = chunk; rest.length > 0;) {
      if (this.#frame === undefined) {
        rest = this.#readHead(rest)
        // A frame without payload is whole with its head.
        if (this.#frame !== undefined && (this.#frame as Frame).left === 0) this.#take(this.#frame, rest.subarray(0, 0), out)
      } else {
        const part = rest.subarray(0, this.#frame.left)
        rest = rest.subarray(part.length)
        this.#take(this.#frame, part, out)
      }
    }
    return Buffer.concat(out)
  }

  /** Gives back what stands behind the head, or behind as much of it as there is. */
  #readHead(rest: Buffer): Buffer {
    let taken = 0
    while (this.#head.length < headBytes(this.#head) && taken < rest.length) {
      const missing = headBytes(this.#head) - this.#head.length
      const part = rest.subarray(taken, taken + missing)
      this.#head = Buffer.concat([this.#head, part])
      taken += part.length
    }
    if (this.#head.length === headBytes(this.#head)) {
      this.#frame = this.#judged(this.#head)
      this.#head = Buffer.alloc(0)
    }
    return rest.subarray(taken)
  }

  #judged(head: Buffer): Frame {
    const first = head[0] ?? 0
    const opcode = first & OPCODE
    const isFinal = (first & FIN) !== 0
    const left = payloadBytes(head)
    if ((first & RESERVED) !== 0) throw broken('a frame has reserved bits')
    if (((head[1] ?? 0) & MASK) !== 0) throw broken('a frame from a server is masked')
    if (!Number.isSafeInteger(left)) throw broken('a frame is longer than any')
    if (CONTROL.has(opcode)) {
      if (!isFinal || left > CONTROL_BYTES_MAX) throw broken('a control frame is too long or in fragments')
    } else if (DATA.has(opcode)) {
      if (this.#opcode !== undefined) throw broken('a message begins inside of another')
      this.#opcode = opcode
    } else if (opcode !== CONTINUATION) throw broken(`a frame has the opcode ${opcode}`)
    else if (this.#opcode === undefined) throw broken('a fragment belongs to no message')
    return { isFinal, opcode, left }
  }

  #take(frame: Frame, part: Buffer, out: Buffer[]): void {
    frame.left -= part.length
    if (frame.left === 0) this.#frame = undefined
    if (CONTROL.has(frame.opcode)) {
      this.#control.push(part)
      if (frame.left > 0) return
      const payload = Buffer.from(scrubText(this.#plan, Buffer.concat(this.#control).toString('latin1')), 'latin1')
      this.#control = []
      out.push(framed(FIN | frame.opcode, payload))
      return
    }
    const isLast = frame.left === 0 && frame.isFinal
    this.#collect(isLast ? this.#bytes.last(part) : this.#bytes.push(part))
    if (isLast) {
      this.#cut(FIN, out)
      this.#opcode = undefined
    } else if (this.#fragmentBytes >= LIMITS.webSocketFragmentBytes || (frame.left === 0 && this.#fragmentBytes > 0)) this.#cut(0, out)
  }

  #collect(released: Buffer): void {
    if (released.length === 0) return
    this.#fragment.push(released)
    this.#fragmentBytes += released.length
  }

  #cut(fin: number, out: Buffer[]): void {
    out.push(framed(fin | (this.#opcode ?? CONTINUATION), ...this.#fragment))
    this.#opcode = CONTINUATION
    this.#fragment = []
    this.#fragmentBytes = 0
  }
}

/** How long a head is that begins so. */
function headBytes(head: Buffer): number {
  if (head.length < 2) return 2
  const length = (head[1] ?? 0) & ~MASK
  return 2 + (length === LENGTH_16 ? 2 : length === LENGTH_64 ? 8 : 0)
}

function payloadBytes(head: Buffer): number {
  const length = (head[1] ?? 0) & ~MASK
  if (length === LENGTH_16) return head.readUInt16BE(2)
  return length === LENGTH_64 ? Number(head.readBigUInt64BE(2)) : length
}

function framed(first: number, ...payload: Buffer[]): Buffer {
  const length = payload.reduce((sum, part) => sum + part.length, 0)
  const short = length <= CONTROL_BYTES_MAX
  const head = Buffer.alloc(short ? 2 : length <= 0xffff ? 4 : 10)
  head[0] = first
  head[1] = short ? length : length <= 0xffff ? LENGTH_16 : LENGTH_64
  if (head.length === 4) head.writeUInt16BE(length, 2)
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, ...payload])
}

function broken(what: string): Error {
  return notScrubbable(`the WebSocket of the upstream breaks RFC 6455: ${what}`)
}
