import { hash } from 'node:crypto'
import { LIMITS } from './limits.ts'
import { deceptionsOf, RIGHT_TO_LEFT, type Deception } from './deception.ts'
import { visible } from './visible.ts'

/** Text of somebody else, as it may be shown. */
export type ShownText = {
  /** No control, format or odd space in any. `⟦…⟧` is ours: in the text it would be escaped. */
  readonly lines: readonly string[]
  /** What about it could deceive. */
  readonly marks: readonly Mark[]
  /** In ASCII alone, where its letters could be taken for others. */
  readonly spelled?: string
  /** Of the whole text, where a part of it is folded. */
  readonly folded?: { readonly characters: number; readonly sha256: string }
}

export type Mark = Deception | 'unseen' | 'spaces' | 'blank_lines' | 'folded'

/** What each mark means to the operator. */
export const MARKS: Readonly<Record<Mark, string>> = {
  unseen: 'has characters that show as nothing, as something else or out of order: they are written as \\u{…}',
  spaces: 'has many spaces in a row: they are counted instead of shown',
  blank_lines: 'has many blank lines: they are counted instead of shown',
  folded: 'is too long to be shown whole: what is left out is counted, and the digest is over all of it',
  mixed_scripts: 'has a word with letters of more than one script',
  look_alike: 'has letters or signs that look like ASCII and are not',
  right_to_left: 'has letters that are written from right to left',
  combining: 'has letters with many marks on them: they are written as \\u{…}',
  not_ascii: 'is not plain ASCII',
}

/** More combining marks on one letter than any language writes cover the lines above and below. */
const COMBINING = new RegExp(`(?<=\\p{M}{${LIMITS.shownCombiningMax}})\\p{M}`, 'gu')
const SPACES = new RegExp(` {${LIMITS.shownSpacesMax + 1},}`, 'g')
/** Lines between which there are so many blank ones. */
const BLANK = new RegExp(`(?:[ \\t]*\\n){${LIMITS.shownLineBreaksMax + 1},}`, 'g')
const OURS = /[⟦⟧]/g

/**
 * A value whose every character counts, as an argument or a path: one line, in quotes, so that spaces at its ends are seen. A backslash
 * or quote of its own has a backslash before it: nothing in it can look like an escape of ours.
 */
export function showExact(text: string, charsMax: number = LIMITS.shownCharsMax): ShownText {
  const deceptions = deceptionsOf(text, true)
  const { parts, folded } = fold(text, charsMax)
  const shown = parts.map((part) => spaced(unordered(escaped(quoted(part)))))
  const line = `"${shown.join(foldMark(folded, parts))}"`
  const marks = marksOf(text, deceptions, folded)
  const spelled = `"${parts.map((part) => spaced(ascii(quoted(part)), '\\{', '}')).join(asciiFold(folded, parts))}"`
  return { lines: [line], marks, ...(folded && { folded }), ...(/[^ -~⟦⟧]/u.test(line) && { spelled }) }
}

/**
 * Words for people, as a reason: line by line, with a bar before each, so that none can be taken for a line of ours. They are somebody's claim.
 */
export function showProse(text: string): ShownText {
  const clean = text.replace(/\r\n/g, '\n')
  const deceptions = deceptionsOf(clean, false)
  const { parts, folded } = fold(clean, LIMITS.shownCharsMax)
  const lines = parts
    .map((part) => escaped(part.replace(/\\(?=u\{)/g, '\\u{5C}')))
    .join(foldMark(folded, parts))
    .replace(BLANK, (run) => `\n⟦${run.split('\n').length - 2} blank lines⟧\n`)
    .split('\n')
    .map((line) => `| ${spaced(line)}`)
  return { lines, marks: marksOf(clean, deceptions, folded), ...(folded && { folded }) }
}

/** Every character outside of printable ASCII by its number. */
function ascii(text: string): string {
  return text.replace(/[^ -~]/gu, numbered)
}

function marksOf(text: string, deceptions: readonly Deception[], folded: ShownText['folded']): Mark[] {
  return [
    ...(visible(text) === text ? [] : (['unseen'] as const)),
    ...(text.search(SPACES) === -1 ? [] : (['spaces'] as const)),
    ...(text.search(BLANK) === -1 ? [] : (['blank_lines'] as const)),
    ...(folded ? (['folded'] as const) : []),
    ...deceptions,
  ]
}

function quoted(text: string): string {
  return text.replace(/["\\]/g, '\\$&').replace(/\n/g, '\\n').replace(/\r/g, '\\r').replace(/\t/g, '\\t')
}

function escaped(text: string): string {
  return visible(text).replace(COMBINING, numbered).replace(OURS, numbered)
}

/** Terminals and browsers turn what stands around such letters, too. */
function unordered(text: string): string {
  return text.replace(RIGHT_TO_LEFT, numbered)
}

function spaced(text: string, before = '⟦', after = '⟧'): string {
  return text.replace(SPACES, (run) => `${before}${run.length} spaces${after}`)
}

function numbered(char: string): string {
  return `\\u{${(char.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`
}

/** The beginning and the end of what is too long. */
function fold(text: string, charsMax: number): { readonly parts: readonly string[]; readonly folded?: NonNullable<ShownText['folded']> } {
  // A character has two units at most: only a text that is longer than that is worth taking apart.
  const chars = text.length <= charsMax ? [] : Array.from(text)
  if (chars.length <= charsMax) return { parts: [text] }
  const head = chars.slice(0, charsMax - LIMITS.shownTailChars).join('')
  const tail = chars.slice(-LIMITS.shownTailChars).join('')
  return { parts: [head, tail], folded: { characters: chars.length, sha256: hash('sha256', text, 'hex') } }
}

function foldMark(folded: ShownText['folded'], parts: readonly string[]): string {
  return folded ? `⟦${foldWords(folded, parts)}⟧` : ''
}

function asciiFold(folded: ShownText['folded'], parts: readonly string[]): string {
  return folded ? `\\{${foldWords(folded, parts)}}` : ''
}

function foldWords({ characters, sha256 }: NonNullable<ShownText['folded']>, parts: readonly string[]): string {
  const shown = parts.reduce((sum, part) => sum + Array.from(part).length, 0)
  return `${characters - shown} characters left out, ${characters} in all, SHA-256 ${sha256}`
}
