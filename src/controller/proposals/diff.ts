import { createTwoFilesPatch } from 'diff'
import { LIMITS } from '../../kernel/limits.ts'

/** The change of a file as a unified diff: of texts that share next to nothing, all of one away and all of the other there. */
export function diffOf(target: string, before: string | undefined, after: string): string {
  const from = before === undefined ? '/dev/null' : target
  // Without a bound the search for what they share takes the product of their lines, and nothing else of ours runs meanwhile.
  const found = createTwoFilesPatch(from, target, before ?? '', after, undefined, undefined, { maxEditLength: LIMITS.proposalEditsMax })
  if (found !== undefined) return found
  const [away, there] = [linesOf(before ?? '', '-'), linesOf(after, '+')]
  return `--- ${from}\n+++ ${target}\n@@ -${rangeOf(away)} +${rangeOf(there)} @@\n${[...away, ...there].join('')}`
}

function linesOf(text: string, sign: '-' | '+'): string[] {
  const lines = text.split('\n')
  const last = lines.pop() ?? ''
  const whole = lines.map((line) => `${sign}${line}\n`)
  return last === '' ? whole : [...whole, `${sign}${last}\n\\ No newline at end of file\n`]
}

function rangeOf({ length }: readonly string[]): string {
  return `${length === 0 ? 0 : 1},${length}`
}
