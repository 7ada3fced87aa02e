import type { Content } from './body.ts'
import { notScrubbable } from './codings.ts'
import type { ScrubbedBytes } from './plan.ts'

/** Flags of a message that can be looked into. With bit 0 it is compressed, by a coding that the head need not tell. */
export const GRPC_FLAGS: ReadonlySet<number> = new Set([0x00, 0x80])
export const CONNECT_FLAGS: ReadonlySet<number> = new Set([0x00, 0x02])

const PREFIX_BYTES = 5

/**
 * Messages of gRPC, gRPC-Web (whose last one, 0x80, are the trailers) and Connect: a flag, four bytes of length and so many
 * bytes. Nothing of a message is held back once all of it is there: the other side may wait for it before it says more.
 */
export class Messages implements Content {
  readonly #bytes: ScrubbedBytes
  readonly #flags: ReadonlySet<number>
  #prefix: Buffer = Buffer.alloc(0)
  #left = 0

  constructor(bytes: ScrubbedBytes, flags: ReadonlySet<number>) {
    this.#bytes = bytes
    this.#flags = flags
  }

  /** Gives nothing of a chunk that turns out not to be messages: a border that is none could lie in a secret. */
  push(chunk: Buffer): Buffer {
    const released: Buffer[] = []
    for (let rest = chunk; rest.length > 0;) {
      if (this.#left === 0) {
        const taken = rest.subarray(0, PREFIX_BYTES - this.#prefix.length)
        this.#prefix = Buffer.concat([this.#prefix, taken])
        rest = rest.subarray(taken.length)
        if (!this.#flags.has(this.#prefix[0] ?? 0)) throw notScrubbable(`the answer has a message with the flags ${this.#prefix[0]}`)
        if (this.#prefix.length === PREFIX_BYTES) {
          released.push(this.#prefix)
          this.#left = this.#prefix.readUInt32BE(1)
          this.#prefix = Buffer.alloc(0)
        }
      } else {
        const part = rest.subarray(0, this.#left)
        rest = rest.subarray(part.length)
        this.#left -= part.length
        released.push(this.#left === 0 ? this.#bytes.last(part) : this.#bytes.push(part))
      }
    }
    return Buffer.concat(released)
  }

  last(chunk: Buffer): Buffer {
    return Buffer.concat([this.push(chunk), this.end()])
  }

  end(): Buffer {
    return Buffer.concat([this.#bytes.end(), this.#prefix])
  }
}
