import { Duplex, type Readable } from 'node:stream'

/** Writes to a process's stdin and reads its stdout: two streams as one, each side ending by itself. */
export class ProcessStream extends Duplex {
  readonly #stdin: Duplex
  readonly #stdout: Readable

  constructor(stdin: Duplex, stdout: Readable) {
    super({ allowHalfOpen: true })
    this.#stdin = stdin
    this.#stdout = stdout
    stdout.on('data', (piece: Buffer) => {
      if (!this.push(piece)) stdout.pause()
    })
    stdout.on('end', () => this.push(null))
    stdout.on('error', (error) => this.destroy(error))
    stdin.on('error', (error) => this.destroy(error))
    // Whatever ended it, nobody waits for more.
    stdout.on('close', () => {
      if (!stdout.readableEnded) this.push(null)
    })
  }

  override _read(): void {
    this.#stdout.resume()
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    if (this.#stdin.destroyed || this.#stdin.writableEnded) return done()
    this.#stdin.write(chunk, (error) => done(error ?? null))
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#stdin.destroyed || this.#stdin.writableEnded) return done()
    this.#stdin.end(() => done())
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#stdin.destroy()
    this.#stdout.destroy()
    done(error)
  }
}
