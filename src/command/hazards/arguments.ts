import type { ProgramTable } from './table.ts'

/** An argument as the program may read it. A cluster `-xvf` is three options. */
export type Argument =
  | { readonly kind: 'option'; readonly name: string; readonly value: string | undefined; readonly at: number; readonly raw: string }
  | { readonly kind: 'operand'; readonly text: string; readonly at: number; readonly mayBeValue: boolean }

/** Reads the arguments of a program as its manual says it does. Where two readings are possible both are given. */
export function readArguments(given: readonly string[], table: Pick<ProgramTable, 'style' | 'valued' | 'valuedLong'>): readonly Argument[] {
  const found: Argument[] = []
  let hasEnded = false
  let mayBeValue = false
  for (const [at, raw] of given.entries()) {
    const next = given[at + 1]
    if (!hasEnded && raw === '--' && table.style !== 'exact') {
      hasEnded = true
      mayBeValue = false
    } else if (hasEnded || raw === '-' || !raw.startsWith('-')) {
      if (table.style === 'bundle' && at === 0 && !hasEnded) found.push(...cluster(raw, raw, at, table, next))
      found.push({ kind: 'operand', text: raw, at, mayBeValue })
      mayBeValue = false
    } else if (table.style === 'exact') {
      const [name, value] = split(raw.replace(/^--/, '-'))
      found.push({ kind: 'option', name, value: value ?? next, at, raw })
      mayBeValue = value === undefined
    } else if (raw.startsWith('--')) {
      const [name, value] = split(raw)
      found.push({ kind: 'option', name, value: value ?? next, at, raw })
      mayBeValue = value === undefined
    } else {
      const letters = cluster(raw.slice(1), raw, at, table, next)
      found.push(...letters)
      // `-n 5`: the last letter takes what comes next, if it takes anything and has nothing of its own.
      mayBeValue = true
      // Some programs read `-exec` as one word, whatever the tables say of the others.
      if (raw.length > 2) found.push({ kind: 'option', name: split(raw)[0] ?? raw, value: split(raw)[1] ?? next, at, raw })
    }
  }
  return found
}

/** Words of a line of options up to the first letter that takes a value. */
function cluster(
  letters: string,
  raw: string,
  at: number,
  { valued = '' }: Pick<ProgramTable, 'valued'>,
  next: string | undefined,
): Argument[] {
  const found: Argument[] = []
  for (let index = 0; index < letters.length; index += 1) {
    const letter = letters.charAt(index)
    const rest = letters.slice(index + 1).replace(/^=/, '')
    const takes = valued.includes(letter)
    found.push({ kind: 'option', name: `-${letter}`, value: rest === '' ? next : rest, at, raw })
    if (takes && rest !== '') break
  }
  return found
}

function split(text: string): [string, string | undefined] {
  const at = text.indexOf('=')
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}
