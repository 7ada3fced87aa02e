import type { ZlibStream } from './codings.ts'

/** One of Node's compressors or decompressors: what comes out is pulled, and it works no further than is pulled. */
export class ZlibPump {
  readonly #stream: ZlibStream
  #given = 0
  #last: Buffer = Buffer.alloc(0)
  #isEnded = false
  #wake = (): void => {}
  #failure: Error | undefined

  constructor(stream: ZlibStream) {
    this.#stream = stream
    stream.on('error', (error) => {
      this.#failure = error
      this.#wake()
    })
    stream.on('end', () => {
      this.#isEnded = true
      this.#wake()
    })
    stream.on('readable', () => this.#wake())
    stream.on('close', () => this.#wake())
  }

  /** Why it failed, if it did: what its generators throw. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** What of the last chunk stands behind the end of what was compressed. */
  get rest(): Buffer {
    return this.#last.subarray(this.#last.length - (this.#given - this.#stream.bytesWritten))
  }

  /** All that comes of a chunk. */
  write(chunk: Buffer): AsyncGenerator<Buffer> {
    this.#given += chunk.length
    this.#last = chunk
    return this.#pull((done) => this.#stream.write(chunk, done))
  }

  flush(kind: number): AsyncGenerator<Buffer> {
    return this.#pull((done) => this.#stream.flush(kind, done))
  }

  end(): AsyncGenerator<Buffer> {
    return this.#pull(() => this.#stream.end())
  }

  /** Its memory is given back at once, also while it works. Whoever pulls is told. */
  destroy(): void {
    this.#stream.destroy()
  }

  async *#pull(begin: (done: () => void) => void): AsyncGenerator<Buffer> {
    let isDone = false
    begin(() => {
      isDone = true
      this.#wake()
    })
    for (;;) {
      if (this.#failure) throw this.#failure
      const piece: unknown = this.#stream.read()
      if (Buffer.isBuffer(piece)) yield piece
      else if (isDone || this.#isEnded) return
      else if (this.#stream.destroyed) throw (this.#failure ??= new Error('destroyed'))
      else await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }
}
