/** Sees a piece of a body before it goes on. What it throws ends the exchange. */
export type Look = (way: 'up' | 'down', chunk: Buffer) => void

/** One exchange while it runs: what looks on, and what may end it. */
export class Course {
  readonly #look: Look | undefined
  readonly #listeners = new Set<() => void>()
  #isCut = false
  #reason: unknown

  constructor(look?: Look) {
    this.#look = look
  }

  get isCut(): boolean {
    return this.#isCut
  }

  /** Why it was ended. */
  get reason(): unknown {
    return this.#reason
  }

  /** Ends it, once. */
  cut(reason: unknown): void {
    if (this.#isCut) return
    this.#isCut = true
    this.#reason = reason
    for (const listener of this.#listeners) listener()
    this.#listeners.clear()
  }

  /** Told when it happens, not when it has happened before. Gives back what stops it. */
  onCut(listener: () => void): () => void {
    if (!this.#isCut) this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  throwIfCut(): void {
    if (this.#isCut) throw this.#reason
  }

  /** False keeps the piece back: the exchange was ended. */
  passes(way: 'up' | 'down', chunk: Buffer): boolean {
    if (this.#isCut) return false
    if (this.#look === undefined) return true
    try {
      this.#look(way, chunk)
    } catch (error) {
      this.cut(error)
    }
    return !this.#isCut
  }
}
