import { inspect } from 'node:util'

/**
 * A secret value that prints as its name in templates, JSON and `inspect`. `reveal()` is the only way to the value, so
 * `grep -rn 'reveal()' src` lists every use.
 */
export class Secret {
  readonly name: string
  readonly #value: string

  constructor(name: string, value: string) {
    this.name = name
    this.#value = value
  }

  reveal(): string {
    return this.#value
  }

  /** Whether the other one has the same value. */
  equals(other: Secret): boolean {
    return this.#value === other.#value
  }

  toString(): string {
    return `[secret ${this.name}]`
  }

  toJSON(): string {
    return this.toString()
  }

  [inspect.custom](): string {
    return this.toString()
  }
}
