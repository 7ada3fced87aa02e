/** Allows a burst of so many, and then so many a second. */
export class TokenBucket {
  readonly #burst: number
  readonly #perSecond: number
  #left: number
  #at = performance.now()

  constructor(burst: number, perSecond: number) {
    this.#burst = burst
    this.#perSecond = perSecond
    this.#left = burst
  }

  /** False when it is one too many. */
  take(): boolean {
    if (this.#left < 1) {
      const now = performance.now()
      this.#left = Math.min(this.#burst, this.#left + ((now - this.#at) / 1000) * this.#perSecond)
      this.#at = now
      if (this.#left < 1) return false
    }
    this.#left -= 1
    return true
  }
}
