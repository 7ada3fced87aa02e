import { SallyportError } from '../../../kernel/errors.ts'
import { LIMITS } from '../../../kernel/limits.ts'
import type { RawHeaders } from '../headers.ts'
import type { Body, Content } from './body.ts'
import type { Coding } from './codings.ts'
import type { Outlet } from './outlet.ts'
import { openCoding, through, type Input, type Stage } from './stages.ts'

/** A compressed body: decompressed, looked into, compressed again the same way. At most one chunk and what waits is held. */
export class CodedBody implements Body {
  readonly #outlet: Outlet
  readonly #stages: readonly Stage[]
  readonly #waiting: Buffer[] = []
  #waitingBytes = 0
  #came = 0
  #trailers: RawHeaders | undefined
  #onceDrained: (() => void)[] = []
  #wake = (): void => {}
  #taken = (): void => {}

  constructor(codings: readonly Coding[], content: Content, outlet: Outlet) {
    this.#outlet = outlet
    const opened = codings.map((coding) => openCoding(coding, () => this.#came))
    this.#stages = [...opened.map(({ undo }) => undo).toReversed(), stageOf(content), ...opened.map(({ redo }) => redo)]
    // What compressors hold is given back when the agent goes, not when the exchange comes to know of it.
    outlet.watchAgent()
    outlet.onClose(() => {
      for (const stage of this.#stages) stage.destroy()
      this.#wake()
      this.#taken()
    })
    void this.#run()
  }

  write(chunk: Buffer): boolean {
    this.#came += chunk.length
    this.#waiting.push(chunk)
    this.#waitingBytes += chunk.length
    this.#wake()
    return this.#waitingBytes < LIMITS.scrubBacklogBytes
  }

  onceDrained(listener: () => void): void {
    this.#onceDrained.push(listener)
  }

  end(trailers: RawHeaders): void {
    this.#trailers = trailers
    this.#wake()
  }

  async #run(): Promise<void> {
    try {
      while (!this.#outlet.isClosed) {
        const chunk = this.#waiting[0]
        if (chunk !== undefined) {
          await this.#pass(chunk)
          this.#waiting.shift()
          this.#waitingBytes -= chunk.length
        } else if (this.#trailers !== undefined) {
          // Some servers say a coding of no body at all.
          if (this.#came > 0) await this.#pass('end')
          this.#outlet.end(this.#trailers)
        } else {
          // Nothing more has come: what is there must not wait for it (server-sent events).
          if (this.#came > 0) {
            await this.#pass('flush')
            this.#outlet.flush()
          }
          await this.#more()
        }
      }
    } catch (error) {
      this.#outlet.fail(error)
    }
  }

  async #more(): Promise<void> {
    if (this.#waiting.length > 0 || this.#trailers !== undefined || this.#outlet.isClosed) return
    const listeners = this.#onceDrained
    this.#onceDrained = []
    const woken = new Promise<void>((resolve) => (this.#wake = resolve))
    for (const listener of listeners) listener()
    await woken
  }

  async #pass(input: Input): Promise<void> {
    for await (const piece of through(this.#stages, input)) {
      if (this.#outlet.isClosed) return
      if (!this.#outlet.write(piece)) await this.#untilTaken()
    }
  }

  /** Resolves when the agent has read on, or is no longer there. */
  async #untilTaken(): Promise<void> {
    const stalled = (): void => this.#outlet.fail(new SallyportError('upstream_timeout', 'the agent, reading the answer, stalled'))
    // Whoever sends is watched by the exchange, but that may be over with all that it sent.
    const timer = setTimeout(stalled, LIMITS.bodyIdleMs)
    const taken = new Promise<void>((resolve) => (this.#taken = resolve))
    this.#outlet.onceDrained(this.#taken)
    await taken
    clearTimeout(timer)
  }
}

function stageOf(content: Content): Stage {
  return {
    *run(input) {
      const released = input === 'flush' ? NOTHING : input === 'end' ? content.end() : content.push(input)
      if (released.length > 0) yield released
    },
    destroy: () => {},
  }
}

const NOTHING = Buffer.alloc(0)
