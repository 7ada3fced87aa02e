/** Allows a burst of so many, and then so many a second. */
export class TokenBucket {
  readonly #burst: number
  readonly #perSecond: number
  #left: number
  #isFilling = false

  constructor(burst: number, perSecond: number) {
    this.#burst = burst
    this.#perSecond = perSecond
    this.#left = burst
  }

  /** False when it is one too many. */
  take(): boolean {
    if (this.#left < 1) return false
    this.#left -= 1
    if (!this.#isFilling) this.#fillLater()
    return true
  }

  #fillLater(): void {
    this.#isFilling = true
    setTimeout(() => {
      this.#left = Math.min(this.#burst, this.#left + this.#perSecond)
      this.#isFilling = false
      if (this.#left < this.#burst) this.#fillLater()
    }, 1_000).unref()
  }
}
