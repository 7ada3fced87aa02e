import wasm from 'undici/lib/llhttp/llhttp_simd-wasm.js'

/** What the parser behind `pointer` came upon. Offsets are into what `execute` was given; what they give back is llhttp's. */
export type Callbacks = {
  onBegin(): number
  onUrl(start: number, length: number): number
  onStatus(start: number, length: number): number
  onField(start: number, length: number): number
  onValue(start: number, length: number): number
  onHead(status: number, isUpgrade: boolean, keepsAlive: boolean): number
  onBody(start: number, length: number): number
  onEnd(): number
}

type Pointer = number

type Exports = {
  readonly memory: { readonly buffer: ArrayBuffer }
  malloc(bytes: number): Pointer
  llhttp_alloc(type: number): Pointer
  llhttp_free(parser: Pointer): void
  llhttp_execute(parser: Pointer, bytes: Pointer, length: number): number
  llhttp_finish(parser: Pointer): number
  llhttp_resume(parser: Pointer): void
  llhttp_get_error_pos(parser: Pointer): Pointer
  llhttp_errno_name(errno: number): Pointer
  llhttp_get_method(parser: Pointer): number
  llhttp_method_name(method: number): Pointer
  llhttp_get_http_major(parser: Pointer): number
  llhttp_get_http_minor(parser: Pointer): number
}

/** llhttp's numbers. */
export const LLHTTP = { ok: 0, paused: 21, pausedUpgrade: 22, request: 1, response: 2, noBody: 1, upgrade: 2, failed: -1 } as const

/** One piece of input at a time; a longer chunk goes in pieces. */
const INPUT_BYTES = 64 * 1024

/**
 * llhttp as undici carries it: the parser of Node itself, compiled to WebAssembly, with no leniency switched on. Loaded when the
 * first connection needs it. One instance serves all parsers; a call of `execute` may come from inside a callback of another parser.
 */
class Llhttp {
  readonly exports: Exports
  /** Where pieces of input are put, one for each depth of nesting. */
  readonly #inputs: { readonly pointer: Pointer; bytes: Uint8Array }[] = []
  readonly #methods: string[] = []
  #depth = 0
  #current: Callbacks | undefined
  #base: Pointer = 0

  constructor() {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(wasm), {
      env: {
        wasm_on_message_begin: () => this.#current?.onBegin(),
        wasm_on_url: (_parser: Pointer, at: Pointer, length: number) => this.#current?.onUrl(at - this.#base, length),
        wasm_on_status: (_parser: Pointer, at: Pointer, length: number) => this.#current?.onStatus(at - this.#base, length),
        wasm_on_header_field: (_parser: Pointer, at: Pointer, length: number) => this.#current?.onField(at - this.#base, length),
        wasm_on_header_value: (_parser: Pointer, at: Pointer, length: number) => this.#current?.onValue(at - this.#base, length),
        wasm_on_headers_complete: (_parser: Pointer, status: number, isUpgrade: number, keepsAlive: number) =>
          this.#current?.onHead(status, isUpgrade === 1, keepsAlive === 1),
        wasm_on_body: (_parser: Pointer, at: Pointer, length: number) => this.#current?.onBody(at - this.#base, length),
        wasm_on_message_complete: () => this.#current?.onEnd(),
      },
    })
    this.exports = exports as Exports
  }

  /** Feeds one piece of at most `INPUT_BYTES`. Gives back how many bytes were read, and llhttp's error. */
  execute(parser: Pointer, callbacks: Callbacks, piece: Uint8Array): { readonly read: number; readonly errno: number } {
    const outer = this.#current
    const outerBase = this.#base
    const input = this.#input(this.#depth)
    this.#depth += 1
    this.#current = callbacks
    this.#base = input.pointer
    try {
      input.bytes.set(piece)
      const errno = this.exports.llhttp_execute(parser, input.pointer, piece.length)
      if (errno === LLHTTP.ok) return { read: piece.length, errno }
      return { read: this.exports.llhttp_get_error_pos(parser) - input.pointer, errno }
    } finally {
      this.#depth -= 1
      this.#current = outer
      this.#base = outerBase
    }
  }

  finish(parser: Pointer, callbacks: Callbacks): number {
    const outer = this.#current
    this.#current = callbacks
    try {
      return this.exports.llhttp_finish(parser)
    } finally {
      this.#current = outer
    }
  }

  methodOf(parser: Pointer): string {
    const method = this.exports.llhttp_get_method(parser)
    return (this.#methods[method] ??= this.#text(this.exports.llhttp_method_name(method)))
  }

  /** As Node names it: HPE_… */
  errorName(errno: number): string {
    return this.#text(this.exports.llhttp_errno_name(errno))
  }

  #input(depth: number): { readonly pointer: Pointer; readonly bytes: Uint8Array } {
    const input = (this.#inputs[depth] ??= { pointer: this.exports.malloc(INPUT_BYTES), bytes: new Uint8Array() })
    // Memory that has grown is another buffer.
    if (input.bytes.buffer !== this.exports.memory.buffer)
      input.bytes = new Uint8Array(this.exports.memory.buffer, input.pointer, INPUT_BYTES)
    return input
  }

  #text(pointer: Pointer): string {
    const bytes = new Uint8Array(this.exports.memory.buffer, pointer)
    return pointer === 0 ? '' : Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString('latin1')
  }
}

export type { Llhttp }
export { INPUT_BYTES }

let shared: Llhttp | undefined

/** The one instance. */
export function llhttp(): Llhttp {
  return (shared ??= new Llhttp())
}
