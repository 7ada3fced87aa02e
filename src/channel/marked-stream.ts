import { Duplex, type Readable, type Writable } from 'node:stream'

/**
 * A container's standard streams outlive who is attached to them: a new controller finds the second half of a frame for its predecessor,
 * and the sidecar the first half of one that was never ended. So whoever attaches writes a mark with a nonce, and the sidecar repeats it;
 * what stands before is read over. No JSON has the mark's line feeds in it, and as a length it would be 170 MB.
 */
const MARK = Buffer.from('\nSALLYPORT-CONTROL ')
const NONCE_CHARS = 32
const MARK_BYTES = MARK.length + NONCE_CHARS + 1
const NOTHING = Buffer.alloc(0)

/** 16 bytes, hex. */
export type Nonce = string

function markOf(nonce: Nonce): Buffer {
  return Buffer.concat([MARK, Buffer.from(`${nonce}\n`)])
}

/** The side that attaches. Gives the stream behind the repeated mark: what is written before that waits for nothing. */
export function offerMarked(stream: Duplex, nonce: Nonce): Duplex {
  const inner = new Inner(stream, stream, () => stream.destroy())
  const scan = createScanner()
  let isMarked = false
  stream.on('data', (chunk: Buffer) => {
    for (const part of scan(chunk)) {
      if (typeof part === 'string') {
        // Behind the mark of another attachment nothing is for this one.
        if (isMarked) return void inner.destroy()
        isMarked = part === nonce
      } else if (isMarked) inner.give(part)
    }
  })
  stream.once('end', () => inner.push(null))
  stream.once('error', (error) => inner.destroy(error))
  stream.once('close', () => inner.destroy())
  stream.write(markOf(nonce))
  return inner
}

/** The side that is attached to: each mark begins a connection, and ends the one before. */
export function acceptMarked(input: Readable, output: Writable, onConnection: (stream: Duplex, nonce: Nonce) => void): Disposable {
  let inner: Inner | undefined
  const scan = createScanner()
  const end = (): void => {
    inner?.destroy()
    inner = undefined
  }
  const onData = (chunk: Buffer): void => {
    for (const part of scan(chunk)) {
      if (typeof part !== 'string') {
        inner?.give(part)
        continue
      }
      end()
      input.resume()
      inner = new Inner(input, output, () => input.resume())
      output.write(markOf(part))
      onConnection(inner, part)
    }
  }
  input.on('data', onData)
  input.once('end', end)
  input.on('error', end)
  // Whoever reads it is gone: the stream's own end says the rest.
  output.on('error', end)
  return {
    [Symbol.dispose]() {
      end()
      input.off('data', onData)
      input.destroy()
    },
  }
}

/** One connection on streams that it does not own. */
class Inner extends Duplex {
  readonly #input: Readable
  readonly #output: Writable
  readonly #onEnd: () => void

  constructor(input: Readable, output: Writable, onEnd: () => void) {
    super({ allowHalfOpen: false })
    this.#input = input
    this.#output = output
    this.#onEnd = onEnd
  }

  give(bytes: Buffer): void {
    if (!this.destroyed && !this.readableEnded && !this.push(bytes)) this.#input.pause()
  }

  override _read(): void {
    this.#input.resume()
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#output.write(chunk, (error) => done(error))
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#onEnd()
    done(error)
  }
}

/** Splits bytes at marks: gives what stands between them, and each mark's nonce as a string. Holds less than a mark back. */
export function createScanner(): (chunk: Buffer) => (Buffer | Nonce)[] {
  let rest = NOTHING
  return (chunk) => {
    const found: (Buffer | Nonce)[] = []
    let bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
    for (;;) {
      const at = startOfMark(bytes)
      if (at > 0) found.push(bytes.subarray(0, at))
      bytes = bytes.subarray(at)
      if (bytes.length < MARK_BYTES) break
      const nonce = bytes.toString('latin1', MARK.length, MARK_BYTES)
      if (/^[0-9a-f]{32}\n$/.test(nonce)) {
        found.push(nonce.slice(0, NONCE_CHARS))
        bytes = bytes.subarray(MARK_BYTES)
      } else {
        // No mark after all: its first byte is like any other.
        found.push(bytes.subarray(0, 1))
        bytes = bytes.subarray(1)
      }
    }
    rest = Buffer.from(bytes)
    return found
  }
}

/** Where a mark begins, or what may become one at the end. */
function startOfMark(bytes: Buffer): number {
  const whole = bytes.indexOf(MARK)
  if (whole !== -1) return whole
  for (let length = Math.min(MARK.length - 1, bytes.length); length > 0; length--) {
    if (bytes.subarray(bytes.length - length).equals(MARK.subarray(0, length))) return bytes.length - length
  }
  return bytes.length
}
