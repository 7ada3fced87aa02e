import { Readable } from 'node:stream'
import { LIMITS } from '../../kernel/limits.ts'
import type { Agent } from '../egress/agent.ts'
import type { RequestHead } from '../egress/facts.ts'
import { valuesOf } from '../egress/headers.ts'

/** An answer as it comes. */
export type RelayAnswer = {
  readonly status: number
  /** Of a field, the first; lower case. */
  header(name: string): string | undefined
  /** Ends with the body; rejects where it broke off. */
  readonly body: AsyncIterable<Buffer>
  /** A refusal of this gate's own. */
  readonly isRefusal: boolean
}

/**
 * A request that this gate makes itself, by the story that requests of agents go through: what is decided, written in, searched for and
 * recorded is the same.
 */
export class RelayAgent implements Agent {
  readonly head: RequestHead
  readonly isModern = true
  readonly body: Readable | undefined
  readonly isUploaded = true
  readonly upgrade = undefined
  readonly #answer = Promise.withResolvers<RelayAnswer>()
  readonly #gone = new Set<() => void>()
  readonly #chunks: Buffer[] = []
  #waiting = 0
  #wake = Promise.withResolvers<void>()
  #drained: (() => void) | undefined
  #end: 'whole' | 'broken' | undefined
  #isGone = false
  #isAnswered = false

  constructor(method: string, url: string, headers: readonly string[], body?: Buffer) {
    const length = body === undefined ? [] : ['content-length', String(body.length)]
    this.head = { method, url, rawHeaders: [...headers, ...length], isUpgrade: false }
    this.body = body === undefined ? undefined : Readable.from([body], { objectMode: false })
    this.#answer.promise.catch(() => undefined)
  }

  /** The head of the answer. Rejects where there is none. */
  get answer(): Promise<RelayAnswer> {
    return this.#answer.promise
  }

  /** Nobody waits for it any more. */
  leave(): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#finish('broken')
    for (const listener of this.#gone) listener()
    this.#drain()
  }

  get isGone(): boolean {
    return this.#isGone
  }

  get isAnswered(): boolean {
    return this.#isAnswered
  }

  trailers(): readonly string[] {
    return []
  }

  sendInterim(): void {}

  start(status: number, _reason: string, headers: readonly string[]): void {
    this.#begin(status, headers, false)
  }

  flush(): void {}

  write(chunk: Buffer): boolean {
    if (this.#isGone) return true
    // What is given may be a buffer that is lent.
    this.#chunks.push(Buffer.from(chunk))
    this.#waiting += chunk.length
    this.#stir()
    return this.#waiting < LIMITS.scrubBacklogBytes
  }

  onceDrained(listener: () => void): void {
    this.#drained = listener
    if (this.#waiting < LIMITS.scrubBacklogBytes) setImmediate(() => this.#drain())
  }

  end(): void {
    this.#finish('whole')
  }

  refuse(status: number, headers: Readonly<Record<string, string>>, body: string): void {
    this.#begin(status, Object.entries(headers).flat(), true)
    this.#chunks.push(Buffer.from(body))
    this.#finish('whole')
  }

  abort(): void {
    this.#finish('broken')
  }

  onGone(listener: () => void): () => void {
    this.#gone.add(listener)
    if (this.#isGone) setImmediate(listener)
    return () => this.#gone.delete(listener)
  }

  #begin(status: number, headers: readonly string[], isRefusal: boolean): void {
    this.#isAnswered = true
    this.#answer.resolve({ status, isRefusal, header: (name) => valuesOf(headers, name)[0], body: this.#read() })
  }

  async *#read(): AsyncGenerator<Buffer, void> {
    while (true) {
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) {
        this.#waiting -= chunk.length
        yield chunk
        if (this.#waiting < LIMITS.scrubBacklogBytes) this.#drain()
        continue
      }
      if (this.#end === 'broken') throw new Error('the answer broke off')
      if (this.#end === 'whole') return
      await this.#wake.promise
    }
  }

  #drain(): void {
    const listener = this.#drained
    this.#drained = undefined
    listener?.()
  }

  #finish(how: 'whole' | 'broken'): void {
    this.#end ??= how
    this.#answer.reject(new Error('there was no answer'))
    this.#stir()
  }

  #stir(): void {
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }
}
