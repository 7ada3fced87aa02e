import { EventEmitter } from 'node:events'
import type { Duplex } from 'node:stream'
import type { Agent } from '../../src/sidecar/egress/agent.ts'

export type Answer = { status: number; reason: string; headers: readonly string[] }

/** An agent without a connection: what it is answered stays here. Like a response of Node's it objects to what is out of order. */
export class RecordingAgent implements Agent {
  readonly head = { method: 'GET', url: '/', rawHeaders: [], isUpgrade: false }
  readonly isModern = true
  readonly body = undefined
  readonly isUploaded = true
  isGone = false
  upgrade: Agent['upgrade']
  /** What `write` gives; the listeners of `onceDrained` wait for `drain()`. */
  takesMore = true
  /** What `start` throws, if it is to object. */
  objection: Error | undefined
  readonly interim: Answer[] = []
  answer: Answer | undefined
  /** Bytes as they were written, one by one. */
  readonly written: Buffer[] = []
  rawTrailers: readonly string[] | undefined
  refused: { status: number; body: string } | undefined
  isAborted = false
  isFlushed = false
  readonly #events = new EventEmitter()

  constructor(upgrade?: (headers: readonly string[]) => Duplex) {
    this.upgrade = upgrade
  }

  get isAnswered(): boolean {
    return this.answer !== undefined || this.refused !== undefined
  }

  get isEnded(): boolean {
    return this.rawTrailers !== undefined
  }

  get bytes(): Buffer {
    return Buffer.concat(this.written)
  }

  /** Everything that it was ever told, for a look through. */
  get everything(): string {
    return JSON.stringify([this.interim, this.answer, this.rawTrailers, this.refused]) + this.bytes.toString('latin1')
  }

  trailers(): readonly string[] {
    return []
  }

  sendInterim(status: number, headers: readonly string[]): void {
    this.interim.push({ status, reason: '', headers })
  }

  start(status: number, reason: string, headers: readonly string[]): void {
    if (this.objection) throw this.objection
    if (this.isAnswered) throw new Error('answered twice')
    this.answer = { status, reason, headers }
    this.#events.emit('told')
  }

  flush(): void {
    if (!this.isAnswered) throw new Error('flushed before its head')
    this.isFlushed = true
    this.#events.emit('told')
  }

  write(chunk: Buffer): boolean {
    if (!this.answer || this.isEnded) throw new Error('written out of order')
    this.written.push(chunk)
    this.#events.emit('told')
    return this.takesMore
  }

  onceDrained(listener: () => void): void {
    this.#events.once('drain', listener)
  }

  drain(): void {
    this.#events.emit('drain')
  }

  end(trailers: readonly string[]): void {
    if (!this.answer || this.isEnded) throw new Error('ended out of order')
    this.rawTrailers = trailers
    this.#events.emit('told')
  }

  refuse(status: number, _headers: Readonly<Record<string, string>>, body: string): void {
    this.refused = { status, body }
  }

  abort(): void {
    this.isAborted = true
    this.leave()
  }

  onGone(listener: () => void): () => void {
    this.#events.on('gone', listener)
    return () => this.#events.off('gone', listener)
  }

  /** The agent goes. */
  leave(): void {
    this.isGone = true
    this.#events.emit('gone')
  }

  /** Resolves when what it was told makes it true. */
  async until(isTrue: () => boolean): Promise<void> {
    while (!isTrue()) await new Promise((resolve) => this.#events.once('told', resolve))
  }

  /** Who waits for it to drain or to go. */
  get listeners(): number {
    return this.#events.listenerCount('gone')
  }
}
