import { LIMITS } from '../../kernel/limits.ts'
import { ALTERNATE_SCREENS, MODES, SAVE_CURSOR, SCREEN_MODES, type Mode } from './sequences.ts'

/** What a sequence becomes: nothing where it is removed. */
export type Passed = { readonly text: string; readonly isJoining: boolean } | undefined

/** Kitty's flags that are passed: keys told apart, and what they would be in other layouts. Not 2, 8 and 16, which report what is no key press: detach keys would not be found among them. */
const KEYBOARD_FLAGS = 1 | 4

/** What a program has changed of a terminal that had none of it changed before, so that it can be changed back. */
export class ScreenState {
  /** Modes that are not as they were, by `prefix + number`. */
  readonly #changed = new Map<string, Mode>()
  #alternate: number | undefined
  /** Keyboard modes pushed, on the main and on the alternate screen: kitty keeps a stack for each. */
  readonly #pushed = { main: 0, alternate: 0 }
  #hasCursorShape = false
  #hasOtherKeys = false
  #hasRegion = false
  #hasKeypad = false
  #questions = 0
  #hasAsked = false

  /** Whether the terminal may have sent something by itself that nobody has read yet. */
  get hasAsked(): boolean {
    return this.#hasAsked
  }

  /** SM, RM, DECSET, DECRST: one sequence for each mode that is let through. */
  modes(prefix: '' | '?', numbers: readonly number[], final: 'h' | 'l'): Passed[] {
    return numbers.map((number) => {
      if (prefix === '?' && ALTERNATE_SCREENS.includes(number)) return this.#switchScreen(number, final)
      const text = `\x1b[${prefix}${number}${final}`
      if (prefix === '?' && number === SAVE_CURSOR) return { text, isJoining: false }
      const mode = (prefix === '?' ? SCREEN_MODES : MODES).get(number)
      if (mode === undefined) return undefined
      if ((final === 'h') === mode.isSet) this.#changed.delete(`${prefix}${number}`)
      else this.#changed.set(`${prefix}${number}`, mode)
      if (mode.name.startsWith('mouse') || mode.name === 'focus') this.#hasAsked = true
      return { text, isJoining: mode.isJoining }
    })
  }

  /** Leaving a screen that was not entered would move the cursor to where something was saved once. */
  #switchScreen(number: number, final: 'h' | 'l'): Passed {
    const text = `\x1b[?${number}${final}`
    if (final === 'h') {
      this.#alternate = number
      return { text, isJoining: false }
    }
    if (this.#alternate === undefined) return undefined
    const pops = this.#popAll('alternate')
    this.#alternate = undefined
    return { text: pops + text, isJoining: false }
  }

  /** The sequences whose parameters `sequences.ts` calls kept. */
  kept(key: string, numbers: readonly number[]): Passed {
    const [first = 0, second] = numbers
    switch (key) {
      case 'r':
        return this.#region(numbers)
      case ' q':
        if (numbers.length > 1 || first > 6) return undefined
        this.#hasCursorShape = true
        return { text: `\x1b[${first} q`, isJoining: true }
      case '>m':
        // 4: modifyOtherKeys. 0 and nothing put back what was.
        if (first !== 4 || numbers.length > 2 || (second ?? 0) > 2) return undefined
        this.#hasOtherKeys = (second ?? 0) > 0
        return { text: `\x1b[>4;${second ?? 0}m`, isJoining: false }
      case '>u':
      case '<u':
      case '=u':
        return this.#keyboard(key, first, second)
      case 'n':
        return first === 6 && numbers.length === 1 ? this.#ask() : undefined
      default:
        return undefined
    }
  }

  #region(numbers: readonly number[]): Passed {
    if (numbers.length > 2) return undefined
    const isWhole = numbers.every((number) => number === 0)
    this.#hasRegion = !isWhole
    return { text: `\x1b[${isWhole ? '' : numbers.map(atMost).join(';')}r`, isJoining: false }
  }

  #keyboard(key: string, first: number, second: number | undefined): Passed {
    const screen = this.#alternate === undefined ? 'main' : 'alternate'
    if (key === '>u') {
      if (this.#pushed[screen] >= LIMITS.terminalKeyboardsMax) return undefined
      this.#pushed[screen]++
      return { text: `\x1b[>${first & KEYBOARD_FLAGS}u`, isJoining: false }
    }
    // Neither pops nor changes what was there before the program.
    if (this.#pushed[screen] === 0) return undefined
    if (key === '=u') {
      const how = second ?? 1
      return how >= 1 && how <= 3 ? { text: `\x1b[=${first & KEYBOARD_FLAGS};${how}u`, isJoining: false } : undefined
    }
    const count = Math.min(Math.max(first, 1), this.#pushed[screen])
    this.#pushed[screen] -= count
    return { text: `\x1b[<${count}u`, isJoining: false }
  }

  #popAll(screen: 'main' | 'alternate'): string {
    const count = this.#pushed[screen]
    this.#pushed[screen] = 0
    return count === 0 ? '' : `\x1b[<${count}u`
  }

  #ask(): Passed {
    if (this.#questions >= LIMITS.terminalQuestionsMax) return undefined
    this.#questions++
    this.#hasAsked = true
    return { text: '\x1b[6n', isJoining: false }
  }

  /** So many answers of the terminal were read. */
  answered(count: number): void {
    this.#questions = Math.max(0, this.#questions - count)
  }

  /** DECKPAM, DECKPNM. */
  keypad(isApplication: boolean): void {
    this.#hasKeypad = isApplication
  }

  /** The terminal as it was, whatever of this was changed; it then counts as unchanged. What is always sent changes nothing there. */
  restore(): string {
    // CAN ends a sequence of which a part was written (ECMA-48, ctlseqs). The region moves the cursor: it is put back.
    const parts = ['\x18', '\x0f\x1b(B\x1b)B\x1b[0m']
    for (const [key, mode] of this.#changed) parts.push(`\x1b[${key}${mode.isSet ? 'h' : 'l'}`)
    this.#changed.clear()
    if (this.#hasOtherKeys) parts.push('\x1b[>4;0m')
    if (this.#hasKeypad) parts.push('\x1b>')
    if (this.#hasRegion) parts.push('\x1b7\x1b[r\x1b8')
    if (this.#alternate !== undefined) parts.push(this.#popAll('alternate'), `\x1b[?${this.#alternate}l`)
    parts.push(this.#popAll('main'))
    if (this.#hasCursorShape) parts.push('\x1b[0 q')
    this.#alternate = undefined
    this.#hasCursorShape = this.#hasOtherKeys = this.#hasKeypad = this.#hasRegion = false
    return parts.join('')
  }
}

export function atMost(count: number): number {
  return Math.min(count, LIMITS.terminalCountMax)
}
