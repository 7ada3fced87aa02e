import { codeOf } from '../../../kernel/errors.ts'
import { LIMITS } from '../../../kernel/limits.ts'
import { CODEC_BYTES, codecFor, notScrubbable, type Codec, type Coding } from './codings.ts'
import { ZlibPump } from './zlib-pump.ts'

/** What a stage is given: bytes, the wish for all that it holds and may give, or the end. */
export type Input = Buffer | 'flush' | 'end'

/** One step of a body's way. What comes out is taken before more goes in: nothing piles up. */
export type Stage = {
  run(input: Input): AsyncIterable<Buffer> | Iterable<Buffer>
  destroy(): void
}

/** What comes out at the end when something is given to the stage `from`. */
export async function* through(stages: readonly Stage[], input: Input, from = 0): AsyncGenerator<Buffer> {
  const stage = stages[from]
  if (stage === undefined) {
    if (typeof input !== 'string') yield input
    return
  }
  for await (const piece of stage.run(input)) yield* through(stages, piece, from + 1)
  if (typeof input === 'string') yield* through(stages, input, from + 1)
}

/** The stages that undo a coding and do it again the same way. `came()` is how many bytes came from the upstream so far. */
export function openCoding(coding: Coding, came: () => number): { readonly undo: Stage; readonly redo: Stage } {
  const undo = new Decompression(coding, came)
  return { undo, redo: new Compression(() => undo.codec) }
}

class Decompression implements Stage {
  readonly #coding: Coding
  readonly #came: () => number
  /** The first bytes, until there are enough to tell the codec. */
  #first: Buffer = Buffer.alloc(0)
  #codec: Codec | undefined
  #pump: ZlibPump | undefined
  #expanded = 0
  #members = 0

  constructor(coding: Coding, came: () => number) {
    this.#coding = coding
    this.#came = came
  }

  /** Known when something has come out. */
  get codec(): Codec {
    return (this.#codec ??= codecFor(this.#coding, this.#first))
  }

  async *run(input: Input): AsyncGenerator<Buffer> {
    if (input === 'flush') return
    try {
      yield* input === 'end' ? this.#end() : this.#take(input)
    } catch (error) {
      throw this.#pump?.failure === error ? notScrubbable(`the answer is not ${this.#coding}: ${codeOf(error)}`, error) : error
    }
  }

  destroy(): void {
    this.#pump?.destroy()
  }

  async *#take(chunk: Buffer): AsyncGenerator<Buffer> {
    let rest = chunk
    if (this.#codec === undefined) {
      rest = this.#first.length === 0 ? chunk : Buffer.concat([this.#first, chunk])
      this.#first = rest.subarray(0, CODEC_BYTES[this.#coding])
      if (rest.length < CODEC_BYTES[this.#coding]) return
    }
    this.#members = 0
    for (;;) {
      this.#pump ??= new ZlibPump(this.codec.decompress())
      for await (const piece of this.#pump.write(rest)) yield this.#counted(piece)
      rest = this.#pump.rest
      if (rest.length === 0) return
      this.#next()
    }
  }

  async *#end(): AsyncGenerator<Buffer> {
    // So few bytes came that they do not tell the codec, which make no body in any.
    if (this.#codec === undefined && this.#first.length > 0) throw notScrubbable(`the answer is not ${this.#coding}: it is cut short`)
    for await (const piece of this.#pump?.end() ?? []) yield this.#counted(piece)
  }

  /** Behind the end of what was compressed stands more: another frame (RFC 8878 §3), or what nobody should show to nobody. */
  #next(): void {
    this.#members += 1
    if (this.#coding !== 'zstd') throw notScrubbable(`the answer goes on behind the end of its ${this.#coding}`)
    if (this.#members > LIMITS.compressedMembersMax) throw notScrubbable(`the answer has too many frames of ${this.#coding}`)
    this.#pump?.destroy()
    this.#pump = undefined
  }

  #counted(piece: Buffer): Buffer {
    this.#expanded += piece.length
    if (this.#expanded > LIMITS.expandedBytesMax && this.#expanded > LIMITS.expansionMax * this.#came())
      throw notScrubbable(`the answer expands to more than ${LIMITS.expansionMax} times what came`)
    return piece
  }
}

class Compression implements Stage {
  readonly #codec: () => Codec
  #pump: ZlibPump | undefined

  constructor(codec: () => Codec) {
    this.#codec = codec
  }

  async *run(input: Input): AsyncGenerator<Buffer> {
    // Which codec it is shows in the first bytes that are undone, and before those there is nothing to give.
    if (input === 'flush' && this.#pump === undefined) return
    const codec = this.#codec()
    const pump = (this.#pump ??= new ZlibPump(codec.compress()))
    yield* input === 'flush' ? pump.flush(codec.flush) : input === 'end' ? pump.end() : pump.write(input)
  }

  destroy(): void {
    this.#pump?.destroy()
  }
}
