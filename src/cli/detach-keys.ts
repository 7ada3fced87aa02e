import { SallyportError } from '../kernel/errors.ts'

export const DEFAULT_DETACH_KEYS = 'ctrl-p,ctrl-q'
const KEYS_MAX = 8
/** One that no keyboard has. */
const NO_KEY = -1
/** A key as terminals write it when a program asked for more than bytes: longer than any. */
const SEQUENCE_CHARS_MAX = 32

/** What a chunk from the keyboard becomes. */
export type Typed = {
  /** For the program. */
  readonly bytes: Buffer
  readonly isDetached: boolean
  /** Cursor positions among the bytes: answers of the terminal. */
  readonly answers: number
}

/**
 * Keys as Docker writes them: `ctrl-p,ctrl-q`, `ctrl-]`, `a`.
 * @throws usage for what is no key
 */
export function parseDetachKeys(text: string): readonly number[] {
  const keys = text.split(',').map((key) => {
    const control = /^ctrl-([a-z@[\\\]^_])$/.exec(key)?.[1]
    if (control !== undefined) return control.toUpperCase().charCodeAt(0) & 0x1f
    if (/^[!-~]$/.test(key)) return key.charCodeAt(0)
    throw new SallyportError('usage', `"${key}" is no key`, {
      hint: 'keys are one character or ctrl- and a letter or one of @[\\]^_, with commas between',
    })
  })
  if (keys.length > KEYS_MAX) throw new SallyportError('usage', `${keys.length} detach keys`, { hint: `at most ${KEYS_MAX}` })
  if (keys.includes(0x1b)) throw new SallyportError('usage', 'ctrl-[ is the Escape key', { hint: 'every other key begins with it' })
  return keys
}

/**
 * Finds the detach keys in what is typed. What could be the beginning of them is held back, and goes on as it was typed
 * when they are not completed. Keys are also known as kitty's protocol (`CSI 112;5u`) and modifyOtherKeys (`CSI 27;5;112~`) write
 * them: a program that asks for these does not keep the operator. The Escape key itself is never held back.
 */
export class DetachKeys {
  readonly #keys: readonly number[]
  /** The keys found so far, each with what it was written as and was not passed. */
  #found: Buffer[] = []
  /** What may become one more, and how many characters of it were passed. */
  #partial = ''
  #partialPassed = 0

  /** Without keys every key is the program's. */
  constructor(keys: readonly number[]) {
    this.#keys = keys.length === 0 ? [NO_KEY] : keys
  }

  push(chunk: Uint8Array): Typed {
    const out: Buffer[] = []
    let answers = 0
    for (const byte of chunk) {
      // What ends a sequence without being of it is a key of its own: Escape, then ctrl-p.
      if (this.#partial !== '' && (byte < 0x20 || (this.#partial === '\x1b' && byte !== 0x5b))) this.#key(undefined, out)
      this.#partial += String.fromCharCode(byte)
      if (isPartial(this.#partial)) continue
      if (/^.\[\d+;\d+R$/s.test(this.#partial)) answers++
      this.#key(keyOf(this.#partial), out)
      if (this.#found.length === this.#keys.length) return { bytes: Buffer.concat(out), isDetached: true, answers }
    }
    if (this.#partial === '\x1b' || this.#partial === '\x1b[') this.#passPartial(out)
    return { bytes: Buffer.concat(out), isDetached: false, answers }
  }

  /** What is held back: nothing more is typed. */
  end(): Buffer {
    const out: Buffer[] = []
    this.#passPartial(out)
    return Buffer.concat(out)
  }

  /** `#partial` is whole: a key, or something else. */
  #key(key: number | undefined, out: Buffer[]): void {
    const bytes = Buffer.from(this.#partial.slice(this.#partialPassed), 'latin1')
    this.#partial = ''
    this.#partialPassed = 0
    const pressed = [...this.#keys.slice(0, this.#found.length), key]
    this.#found.push(bytes)
    // What was found with the key, from as early on as it is a beginning of the keys.
    let first = 0
    while (first < pressed.length && !pressed.slice(first).every((one, i) => one === this.#keys[i])) first++
    out.push(...this.#found.splice(0, first))
  }

  #passPartial(out: Buffer[]): void {
    out.push(...this.#found)
    this.#found = this.#found.map(() => Buffer.alloc(0))
    out.push(Buffer.from(this.#partial.slice(this.#partialPassed), 'latin1'))
    this.#partialPassed = this.#partial.length
  }
}

function isPartial(text: string): boolean {
  return text === '\x1b' || (text.length < SEQUENCE_CHARS_MAX && /^\[[\d:;]*$/.test(text.slice(1)) && text.startsWith('\x1b'))
}

/** The key that bytes of a keyboard stand for: the byte that it would be in the plainest way. */
function keyOf(text: string): number | undefined {
  if (text.length === 1) return text.charCodeAt(0)
  // Kitty: code, with others of the key behind colons; 1 and the modifiers, with the kind of event (1 is a press) behind a colon.
  const [, kitty, kittyModifiers = '1'] = /^.\[(\d+)(?::[\d:]*)?(?:;(\d+)(?::1)?)?u$/.exec(text) ?? []
  const [, otherModifiers = '1', other] = /^.\[27;(\d+);(\d+)~$/.exec(text) ?? []
  const code = Number(kitty ?? other ?? Number.NaN)
  // Caps lock and num lock don't matter.
  const modifiers = (Number(kitty === undefined ? otherModifiers : kittyModifiers) - 1) & ~(64 | 128)
  const isLetter = code >= 0x40 && code < 0x80
  if (modifiers === 4 && isLetter) return code & 0x1f
  return modifiers === 0 && code > 0x20 && code < 0x7f ? code : undefined
}
