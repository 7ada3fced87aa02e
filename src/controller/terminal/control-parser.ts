import { LIMITS } from '../../kernel/limits.ts'
import { SHIFTS, STRING_INTRODUCERS, STRINGS_TO_BELL, TEXT_CONTROLS } from './sequences.ts'

/** What the bytes of a program are to a terminal. Whole sequences only; control strings are left out, whatever is in them. */
export type ControlSink = {
  /** Valid UTF-8 without C1, and controls of `TEXT_CONTROLS`. The buffer is the chunk's own. */
  text(bytes: Buffer): void
  /** SO or SI. */
  shift(byte: number): void
  /** Behind ESC: intermediate bytes and the final one. */
  escape(sequence: string): void
  /** Behind CSI: parameter bytes, intermediate bytes and the final one, in whatever order they came. */
  control(sequence: string): void
}

type State = 'ground' | 'escape' | 'control' | 'string'

const ESC = 0x1b
const BEL = 0x07
const [CAN, SUB] = [0x18, 0x1a]
/** U+FFFD, for what is not UTF-8 and for C1. */
const REPLACEMENT = Buffer.from('\ufffd')
const QUESTION_MARK = Buffer.from('?')

/**
 * Reads a stream of bytes as a terminal in UTF-8 does (ECMA-48; the states are those of a VT500). What it gives does not depend on
 * the chunks, and it keeps no more than one sequence of `LIMITS.terminalSequenceBytesMax` or the beginning of a character.
 */
export class ControlParser {
  readonly #sink: ControlSink
  readonly #isUtf8: boolean
  #state: State = 'ground'
  /** Of the sequence: without its introducer. */
  #sequence = ''
  #string = { toBell: false, bytes: 0 }
  /** The bytes of a character that is not whole. */
  #partial: number[] = []

  /** @param isUtf8 the terminal reads UTF-8; else characters beyond ASCII could be C1 controls to it, and become `?` */
  constructor(sink: ControlSink, isUtf8: boolean) {
    this.#sink = sink
    this.#isUtf8 = isUtf8
  }

  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#state === 'ground') at = this.#ground(chunk, at)
      else {
        const byte = chunk[at] as number
        if (this.#state === 'string') this.#inString(byte)
        else if (!this.#inSequence(byte)) continue
        at++
      }
    }
  }

  /** Nothing follows: what is not whole is dropped. */
  end(): void {
    if (this.#partial.length > 0) this.#sink.text(this.#unreadable())
    this.#partial = []
    this.#sequence = ''
    this.#state = 'ground'
  }

  /** Text up to what is none. Gives the index of the next byte to read. */
  #ground(chunk: Buffer, from: number): number {
    let at = from
    if (this.#partial.length > 0) return this.#finishCharacter(chunk, at)
    for (;;) {
      const byte = chunk[at]
      if (byte === undefined) break
      if ((byte >= 0x20 && byte < 0x7f) || TEXT_CONTROLS.includes(byte)) at++
      else if (byte >= 0x80 && this.#isUtf8) {
        const length = characterLength(chunk, at)
        if (length <= 0) break
        at += length
      } else break
    }
    if (at > from) this.#sink.text(chunk.subarray(from, at))
    return at < chunk.length ? this.#other(chunk, at) : at
  }

  /** What ended a run of text. */
  #other(chunk: Buffer, at: number): number {
    const byte = chunk[at] as number
    if (byte === ESC) this.#begin('escape')
    else if (SHIFTS.includes(byte)) this.#sink.shift(byte)
    else if (byte >= 0x80) return this.#finishCharacter(chunk, at)
    return byte < 0x80 ? at + 1 : at
  }

  /** A character that is split, or none. */
  #finishCharacter(chunk: Buffer, from: number): number {
    let at = from
    while (at < chunk.length) {
      const bytes = Buffer.from([...this.#partial, chunk[at] as number])
      const length = characterLength(bytes, 0)
      if (length === INCOMPLETE) {
        this.#partial = [...bytes]
        at++
        continue
      }
      // A byte that ends what cannot be a character may begin another one.
      if (length > 0 || this.#partial.length === 0 || length === CONTROL) at++
      this.#partial = []
      this.#sink.text(length > 0 && this.#isUtf8 ? bytes : this.#unreadable())
      break
    }
    return at
  }

  #unreadable(): Buffer {
    return this.#isUtf8 ? REPLACEMENT : QUESTION_MARK
  }

  #begin(state: State): void {
    this.#state = state
    this.#sequence = ''
  }

  /** A byte behind ESC. Gives whether it was read: else it ended the sequence, and is to be read again. */
  #inSequence(byte: number): boolean {
    if (byte === ESC) this.#begin('escape')
    else if (byte === CAN || byte === SUB) this.#begin('ground')
    else if (byte < 0x20) this.#execute(byte)
    else if (byte >= 0x80) {
      this.#begin('ground')
      return false
    } else if (byte !== 0x7f) this.#read(String.fromCharCode(byte))
    return true
  }

  /** Controls are obeyed in the middle of a sequence (ECMA-48 leaves it open, all terminals do). */
  #execute(byte: number): void {
    if (TEXT_CONTROLS.includes(byte)) this.#sink.text(Buffer.from([byte]))
    else if (SHIFTS.includes(byte)) this.#sink.shift(byte)
  }

  #read(character: string): void {
    // One that is too long is read to its end, as '', which no table has.
    if (this.#sequence.length < LIMITS.terminalSequenceBytesMax) this.#sequence += character
    if (this.#state === 'escape') this.#readEscape(character)
    else if (character >= '@') {
      const sequence = this.#sequence
      this.#begin('ground')
      if (sequence.length < LIMITS.terminalSequenceBytesMax) this.#sink.control(sequence)
    }
  }

  #readEscape(character: string): void {
    const isFirst = this.#sequence.length === 1
    if (isFirst && character === '[') this.#begin('control')
    else if (isFirst && STRING_INTRODUCERS.has(character)) {
      this.#begin('string')
      this.#string = { toBell: STRINGS_TO_BELL.has(character), bytes: 0 }
    } else if (character >= '0') {
      const sequence = this.#sequence
      this.#begin('ground')
      this.#sink.escape(sequence)
    }
  }

  /** Any ESC ends the string: with `\` it was its end, else it begins another sequence. */
  #inString(byte: number): void {
    if (byte === ESC) this.#begin('escape')
    else if (byte === CAN || byte === SUB || (byte === BEL && this.#string.toBell)) this.#begin('ground')
    else if (++this.#string.bytes >= LIMITS.terminalStringBytesMax) this.#begin('ground')
  }
}

const INCOMPLETE = 0
const INVALID = -1
/** A C1 control, whole. */
const CONTROL = -2

/** Bytes of the character at the index (RFC 3629 §4), or why there is none. */
function characterLength(bytes: Buffer, at: number): number {
  const first = bytes[at] as number
  const length = first < 0xc2 ? INVALID : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : INVALID
  if (length === INVALID) return INVALID
  for (let i = 1; i < length; i++) {
    const byte = bytes[at + i]
    if (byte === undefined) return INCOMPLETE
    // No surrogates, nothing that has a shorter form, nothing beyond U+10FFFF.
    const least = i > 1 ? 0x80 : first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80
    const most = i > 1 ? 0xbf : first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf
    if (byte < least || byte > most) return INVALID
  }
  return first === 0xc2 && (bytes[at + 1] as number) < 0xa0 ? CONTROL : length
}
