import { showExact } from '../../kernel/shown-text.ts'
import { visible } from '../../kernel/visible.ts'
import type { Section } from '../../wire/section.ts'
import { diffOf } from '../proposals/diff.ts'

/**
 * A change of a policy as the operator is shown it: every line whole, with what could not be seen written out. Spaces stay: by them a policy
 * says what belongs to what.
 */
export function presentedDiff(file: string, before: string | undefined, after: string): Section {
  const diff = diffOf(file, before, after)
  const lines = diff
    .slice(Math.max(0, diff.indexOf('--- ')))
    .replace(/\n$/, '')
    .split('\n')
  const marks = [...new Set(lines.flatMap((line) => showExact(line, Infinity).marks))].filter((mark) => mark !== 'spaces')
  return { name: 'diff', label: 'the change', lines: lines.map(visible), ...(marks.length > 0 && { marks }) }
}
