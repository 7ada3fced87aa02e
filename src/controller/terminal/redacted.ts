import { setTimeout as delay } from 'node:timers/promises'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import { createRedactor, type Redactor, type RedactorStream } from '../../redactor/redactor.ts'
import { createTerminalFilter, type Part } from './filter.ts'
import { PlainParts } from './plain-parts.ts'
import type { Profile } from './sequences.ts'

/** What the output of a session is redacted of: one for all its streams. */
export type Redaction = {
  /** A redactor of what the secrets are by now, and of what they were. The same object as long as nothing changed. */
  current(): Redactor
}

/**
 * I27
 * @param secrets what the session's secrets are at the moment: asked at every chunk, so that a pushed bundle is in force at once.
 *   Values shorter than `LIMITS.secretCharsMin` are not looked for: they could not be told from ordinary text.
 */
export function createRedaction(secrets: () => readonly Secret[]): Redaction {
  let seen: readonly Secret[] | undefined
  let values: readonly Secret[] = []
  let redactor = createRedactor([])
  return {
    current() {
      const now = secrets()
      if (now === seen) return redactor
      const current = now.filter((secret) => secret.reveal().length >= LIMITS.secretCharsMin)
      if (current.some((secret) => !isAmong(values, secret))) {
        const former = values.filter((known) => !isAmong(current, known)).slice(0, LIMITS.terminalFormerSecretsMax)
        redactor = createRedactor([...current, ...former])
        values = [...current, ...former]
      }
      seen = now
      return redactor
    },
  }
}

function isAmong(values: readonly Secret[], secret: Secret): boolean {
  return values.some((value) => value.equals(secret))
}

/**
 * One stream of what a program prints, on its way to the operator: redacted, and filtered where a terminal shows it.
 *
 * A secret is found in the text as the terminal shows it: also when colours change within it, and however the stream is cut. It
 * is not found where the program lays it out in pieces itself: over lines it breaks, by moves of the cursor, in columns, or a
 * part on each of stdout and stderr, which are two streams.
 *
 * What cannot be the beginning of a secret goes on at once. What can be is held back until more comes; the first few bytes of it
 * (`LIMITS.terminalPrefixBytesMax`, at most a third of the shortest secret) until `release`. So a secret is never shown whole, and
 * what a person types appears at once or nearly. What is late tells how far a text agrees with a secret: the operator may know
 * that, and the program doesn't learn it, since no question that a terminal answers waits behind text (`Rule.isJoining`).
 */
export type OutputStream = {
  /** @param chunk may be written over afterwards */
  push(chunk: Uint8Array): Buffer
  /** `LIMITS.terminalHoldMs` after the last push: what may go on now. */
  release(): Buffer
  /** What is left. Nothing follows. */
  end(): Buffer
  /** Whether text is held back, of which `release` may give some. */
  readonly isHolding: boolean
  /** Questions answered in the terminal's place since the last call. Only of a `screen`. */
  answers(): string[]
}

/** @param shownOn what the operator's side is: a terminal, by what it may do, or a file or pipe that gets all but the secrets as it came */
export function openOutput(redaction: Redaction, shownOn: Profile | 'pipe'): OutputStream {
  return new Output(redaction, shownOn)
}

/** A whole text as lines of a terminal show it. */
export function shownText(redaction: Redaction, text: string): string {
  const output = openOutput(redaction, 'lines')
  return Buffer.concat([output.push(Buffer.from(text)), output.end()]).toString('utf8')
}

type Source = { push(chunk: Uint8Array): Part[]; end(): Part[]; answers?: () => string[] }

class Output implements OutputStream {
  readonly #redaction: Redaction
  readonly #source: Source
  #redactor: Redactor
  #stream: RedactorStream
  /** Bytes of text that went into the stream and that came out of it. */
  #in = 0
  #out = 0
  /** Sequences that stand behind so many bytes of text. */
  #waiting: { readonly at: number; readonly bytes: Buffer }[] = []
  #waitingBytes = 0
  #ready: Buffer[] = []

  constructor(redaction: Redaction, shownOn: Profile | 'pipe') {
    this.#redaction = redaction
    this.#source = shownOn === 'pipe' ? new PlainParts() : createTerminalFilter(shownOn)
    this.#redactor = redaction.current()
    this.#stream = this.#redactor.open()
  }

  get isHolding(): boolean {
    return this.#stream.held > 0
  }

  answers(): string[] {
    return this.#source.answers?.() ?? []
  }

  push(chunk: Uint8Array): Buffer {
    this.#renew()
    this.#take(this.#source.push(chunk))
    this.#give(this.#stream.release(0))
    return this.#taken()
  }

  release(): Buffer {
    this.#give(this.#stream.release(LIMITS.terminalPrefixBytesMax))
    return this.#taken()
  }

  end(): Buffer {
    this.#renew()
    this.#take(this.#source.end())
    this.#flush()
    return this.#taken()
  }

  #renew(): void {
    const redactor = this.#redaction.current()
    if (redactor === this.#redactor) return
    this.#redactor = redactor
    this.#stream = redactor.open(this.#stream)
  }

  #take(parts: readonly Part[]): void {
    for (const [i, { bytes, isText, isJoining }] of parts.entries()) {
      if (isText) {
        this.#in += bytes.length
        this.#give(parts[i + 1]?.isJoining === false ? this.#stream.last(bytes) : this.#stream.push(bytes))
      } else {
        if (!isJoining) this.#flush()
        this.#wait(bytes)
      }
    }
  }

  #wait(bytes: Buffer): void {
    if (this.#in === this.#out) {
      this.#ready.push(bytes)
      return
    }
    this.#waiting.push({ at: this.#in, bytes })
    this.#waitingBytes += bytes.length
    // Rather a colour in the wrong place than a secret in two pieces.
    while (this.#waitingBytes > LIMITS.terminalWaitingBytesMax) this.#giveFirst()
  }

  /** Text that the stream gave, and the sequences that stand in it, in their places. */
  #give(text: Buffer): void {
    let from = 0
    const end = this.#out + text.length
    for (let first = this.#waiting[0]; first !== undefined && first.at <= end; first = this.#waiting[0]) {
      const until = first.at - this.#out
      if (until > from) this.#ready.push(text.subarray(from, until))
      from = until
      this.#giveFirst()
    }
    if (from < text.length) this.#ready.push(text.subarray(from))
    this.#out = end
  }

  #giveFirst(): void {
    const { bytes } = this.#waiting.shift() as { bytes: Buffer }
    this.#waitingBytes -= bytes.length
    this.#ready.push(bytes)
  }

  #flush(): void {
    this.#give(this.#stream.flush())
  }

  #taken(): Buffer {
    const ready = this.#ready
    this.#ready = []
    // A copy: what is given may be written later than the chunk is.
    return Buffer.concat(ready)
  }
}

const LATE = Symbol('late')
type Next = IteratorResult<Uint8Array, unknown>

/**
 * The chunks of a source through an output, with what is released when the source is quiet, and the end.
 * @param onAnswers gets what is answered in the terminal's place
 */
export async function* redactedChunks(
  source: AsyncIterable<Uint8Array>,
  output: OutputStream,
  onAnswers?: (answers: readonly string[]) => void,
): AsyncGenerator<Buffer, void, undefined> {
  const iterator = source[Symbol.asyncIterator]()
  try {
    let next = iterator.next()
    let isQuiet = false
    for (;;) {
      const arrived: Next | typeof LATE = output.isHolding && !isQuiet ? await firstOf(next) : await next
      isQuiet = arrived === LATE
      if (arrived !== LATE && arrived.done === true) break
      const bytes = arrived === LATE ? output.release() : output.push(arrived.value)
      if (bytes.length > 0) yield bytes
      if (arrived === LATE) continue
      onAnswers?.(output.answers())
      next = iterator.next()
    }
    const rest = output.end()
    if (rest.length > 0) yield rest
  } finally {
    await iterator.return?.()
  }
}

/** What comes next, or `LATE` when nothing does in time. */
async function firstOf(next: Promise<Next>): Promise<Next | typeof LATE> {
  const timer = new AbortController()
  const late: Promise<typeof LATE> = delay(LIMITS.terminalHoldMs, LATE, { signal: timer.signal }).catch(() => LATE)
  try {
    return await Promise.race([next, late])
  } finally {
    timer.abort()
  }
}
