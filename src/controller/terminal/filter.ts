import { LIMITS } from '../../kernel/limits.ts'
import { memo } from '../../kernel/memo.ts'
import { ControlParser } from './control-parser.ts'
import { atMost, ScreenState, type Passed } from './screen-state.ts'
import { CONTROL_SEQUENCES, DEVICE_ATTRIBUTES, ESCAPE_SEQUENCES, type Profile, type Rule } from './sequences.ts'

/** A piece of what is passed. Text may have BEL, BS, HT, LF, VT, FF and CR in it, and no other control. */
export type Part = { readonly bytes: Buffer; readonly isText: boolean; /** See `Rule.isJoining`. */ readonly isJoining: boolean }

/**
 * Stands between a program that may mean harm and the operator's terminal. Passes what `sequences.ts` lists and text, and
 * nothing else: no byte comes out of it that makes a terminal write files, type anything but where the cursor is, reach its clipboard,
 * or change what cannot be changed back. What it gives does not depend on how the stream is cut into chunks; only whole
 * sequences leave it.
 *
 * Characters that change the direction of text (U+202E and their like) pass: they belong to the text of many languages, and a
 * program that has the screen can draw anything on it. They are shown as such where the operator is asked something.
 */
export type TerminalFilter = {
  /** @param chunk is not kept; parts may share its memory */
  push(chunk: Uint8Array): Part[]
  /** Nothing follows. */
  end(): Part[]
  /** Questions answered in the terminal's place since the last call, for the program's input. */
  answers(): string[]
  /** The terminal has answered so many questions for its cursor. */
  answered(count: number): void
  /** Whether the terminal may have sent something that nobody has read yet. */
  readonly hasAsked: boolean
  /** What puts the terminal back as it was before the first push. */
  restore(): Buffer
}

/** I26
 * @param options.isUtf8 what the terminal reads (default true): for another one, characters beyond ASCII become `?` */
export function createTerminalFilter(profile: Profile, options: { isUtf8?: boolean } = {}): TerminalFilter {
  return new Filter(profile, options.isUtf8 ?? true)
}

class Filter implements TerminalFilter {
  readonly #profile: Profile
  readonly #state = new ScreenState()
  readonly #parser: ControlParser
  #parts: Part[] = []
  #answers: string[] = []
  /** Text that ends with the last character, if nothing came after it: REP repeats that. */
  #last: Buffer | undefined

  constructor(profile: Profile, isUtf8: boolean) {
    this.#profile = profile
    this.#parser = new ControlParser(
      {
        text: (bytes) => this.#text(bytes),
        shift: (byte) => this.#pass(profile === 'screen' ? { text: String.fromCharCode(byte), isJoining: true } : undefined),
        escape: (sequence) => this.#escape(sequence),
        control: (sequence) => this.#control(sequence),
      },
      isUtf8,
    )
  }

  get hasAsked(): boolean {
    return this.#state.hasAsked
  }

  push(chunk: Uint8Array): Part[] {
    this.#parser.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
    // The chunk is the caller's.
    this.#last &&= lastCharacter(this.#last)
    return this.#taken()
  }

  end(): Part[] {
    this.#parser.end()
    return this.#taken()
  }

  answers(): string[] {
    const answers = this.#answers
    this.#answers = []
    return answers
  }

  answered(count: number): void {
    this.#state.answered(count)
  }

  restore(): Buffer {
    return Buffer.from(this.#state.restore())
  }

  #taken(): Part[] {
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  #text(bytes: Buffer): void {
    this.#parts.push({ bytes, isText: true, isJoining: true })
    this.#last = bytes
  }

  #pass(passed: Passed): void {
    this.#passPart(passed === undefined ? undefined : partOf(passed))
  }

  #passPart(part: Part | undefined): void {
    this.#last = undefined
    if (part !== undefined) this.#parts.push(part)
  }

  #escape(sequence: string): void {
    const rule = ESCAPE_SEQUENCES.get(sequence)
    if (!rule?.profiles.includes(this.#profile)) return this.#pass(undefined)
    if (sequence === '=' || sequence === '>') this.#state.keypad(sequence === '=')
    this.#pass({ text: `\x1b${sequence}`, isJoining: rule.isJoining })
  }

  #control(sequence: string): void {
    const known = readControl(sequence)
    if (!known?.rule.profiles.includes(this.#profile)) return this.#pass(undefined)
    const { rule, key, numbers, part } = known
    if (part !== undefined) return this.#passPart(part)
    if (key === 'b') return this.#repeat(numbers)
    if (key === 'c') return this.#answerAttributes(numbers)
    if (rule.parameters === 'kept') return this.#pass(this.#state.kept(key, numbers))
    for (const passed of this.#state.modes(key.startsWith('?') ? '?' : '', numbers, key.endsWith('h') ? 'h' : 'l')) this.#pass(passed)
  }

  #repeat(numbers: readonly number[]): void {
    const character = this.#last && lastCharacter(this.#last)
    this.#last = undefined
    if (character === undefined || numbers.length > 1) return
    const times = Math.min(Math.max(numbers[0] ?? 1, 1), LIMITS.terminalRepeatsMax)
    this.#parts.push({ bytes: Buffer.concat(Array.from({ length: times }, () => character)), isText: true, isJoining: true })
  }

  #answerAttributes(numbers: readonly number[]): void {
    this.#pass(undefined)
    if (numbers.some((number) => number !== 0) || this.#answers.length >= LIMITS.terminalAnswersMax) return
    this.#answers.push(DEVICE_ATTRIBUTES)
  }
}

type Known = {
  readonly rule: Rule
  /** As in `CONTROL_SEQUENCES`. */
  readonly key: string
  readonly numbers: readonly number[]
  /** What it becomes, where that is always the same. */
  readonly part?: Part | undefined
}

/** What the tables say of a sequence: null where it is removed. Programs write a few hundred different ones, over and over. */
const readControl = memo(LIMITS.textsKeptMax, LIMITS.textKeptCharsMax, (sequence: string): Known | null => {
  const [, prefix = '', parameters = '', intermediates = '', final = ''] = /^([<=>?]?)([\d;:]*)([ -/]*)([@-~])$/.exec(sequence) ?? []
  const key = `${prefix}${intermediates}${final}`
  const rule = CONTROL_SEQUENCES.get(key)
  if (rule === undefined) return null
  if (rule.parameters === 'attributes') {
    const isFit = /^(?:\d{0,5}[;:])*\d{0,5}$/.test(parameters)
    return isFit ? { rule, key, numbers: [], part: partOf({ text: `\x1b[${parameters}m`, isJoining: rule.isJoining }) } : null
  }
  // Up to five digits; left out they are 0. Sub-parameters belong to SGR alone.
  if (!/^(?:\d{0,5};)*\d{0,5}$/.test(parameters)) return null
  const numbers = parameters === '' ? [] : parameters.split(';').map(Number)
  if (rule.parameters === 'kept' || rule.parameters === 'modes') return { rule, key, numbers }
  const passed = simple(rule, numbers, final)
  return passed === undefined ? null : { rule, key, numbers, part: partOf(passed) }
})

function partOf({ text, isJoining }: NonNullable<Passed>): Part {
  return { bytes: Buffer.from(text), isText: false, isJoining }
}

/** Numbers written anew, so that nothing is left of how the program wrote them. */
function simple(rule: Rule, numbers: readonly number[], final: string): Passed {
  if (typeof rule.parameters !== 'object') return undefined
  if ('oneOf' in rule.parameters) {
    const isFit = numbers.length <= 1 && rule.parameters.oneOf.includes(numbers[0] ?? 0)
    // Text goes on beside what is erased to the right of it, and not beside what is erased around it.
    return isFit ? { text: `\x1b[${numbers.join('')}${final}`, isJoining: rule.isJoining && (numbers[0] ?? 0) === 0 } : undefined
  }
  if (numbers.length > rule.parameters.counts) return undefined
  return { text: `\x1b[${numbers.map(atMost).join(';')}${final}`, isJoining: rule.isJoining }
}

/** The last character of the text, if it is none of the controls. */
function lastCharacter(text: Buffer): Buffer | undefined {
  let at = text.length - 1
  while (at > 0 && ((text[at] as number) & 0xc0) === 0x80) at--
  return (text[at] ?? 0) < 0x20 ? undefined : Buffer.from(text.subarray(at))
}
