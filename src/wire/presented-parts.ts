import { hash } from 'node:crypto'
import { LIMITS } from '../kernel/limits.ts'
import { showExact, type ShownText } from '../kernel/shown-text.ts'
import type { FileChange } from './question.ts'
import { plain, shown, type Section } from './section.ts'

/** A text of somebody else, with words of ours before it. */
export type Labelled = readonly [before: string, text: ShownText]

/** What becomes of a file. */
export function changeSections({ target, diff, before, after }: FileChange): Section[] {
  return [
    shown('target', 'file', [['', showExact(target)]]),
    diffSection(diff),
    plain('before', 'SHA-256 of it now', [before ?? 'there is none yet']),
    plain('after', 'SHA-256 of it then', [after]),
  ]
}

/** Every line whole, however long it is: what is approved is all of it. */
function diffSection(diff: string): Section {
  const lines = diff.split('\n').map((line): Labelled => {
    const text = showExact(line, Infinity)
    return ['', { ...text, lines: text.lines.map((one) => one.slice(1, -1)) }]
  })
  return shown('diff', 'the change', lines)
}

/** One element a line, by its number. */
export function elements(name: string, label: string, values: readonly string[]): Section {
  const listed = values.slice(0, LIMITS.shownElementsMax)
  const width = String(listed.length - 1).length
  const section = shown(
    name,
    `${label} (${values.length})`,
    listed.map((value, index) => [`${String(index).padStart(width)} `, showExact(value)]),
  )
  const more = values.length - listed.length
  if (more === 0) return section
  const digest = hash('sha256', JSON.stringify(values), 'hex')
  const line = `⟦${more} elements left out, ${values.length} in all, SHA-256 of all as JSON ${digest}⟧`
  return { ...section, lines: [...section.lines, line], marks: [...new Set([...(section.marks ?? []), 'folded' as const])] }
}

export function ours(text: string): ShownText {
  return { lines: [text], marks: [] }
}
