import { nearest } from '../../kernel/nearest.ts'
import { Secret } from '../../kernel/secret.ts'
import { SECRET_KEY } from '../../wire/secret-source.ts'

/** What is wrong at one place of a text; `line` and `column` count from 1. */
export type ReferenceProblem = { readonly line: number; readonly column: number; readonly message: string }

type Reference = { readonly index: number; readonly length: number; readonly key: string; readonly isClosed: boolean }

/** From `${secret:` to the next brace or line end: a reference stands on one line. */
const REFERENCE = /\$\{secret:([^}\r\n]*)(\}?)/g

/** Every `${secret:KEY}` of a text that is not closed, has no key, or a key that is unknown: for the moment a file is saved or checked. */
export function checkReferences(text: string, knownKeys: Iterable<string>): ReferenceProblem[] {
  const known = new Set(knownKeys)
  return find(text).flatMap((reference) => {
    const message = problemOf(reference, known)
    return message === undefined ? [] : [{ ...placeOf(text, reference.index), message }]
  })
}

/**
 * The text with the values in the place of their references, read once, late: what a value itself has of `${secret:…}` stays as
 * it is. The result is a secret as a whole, and is in no file.
 * @throws what `get` throws; TypeError for a text that `checkReferences` finds something in
 */
export async function substituteReferences(text: string, get: (key: string) => Promise<Secret>): Promise<Secret> {
  const references = find(text)
  if (references.some(({ isClosed, key }) => !isClosed || !SECRET_KEY.test(key)))
    throw new TypeError('a text is checked before its references are read')
  const keys = [...new Set(references.map(({ key }) => key))]
  const values = new Map(await Promise.all(keys.map(async (key) => [key, await get(key)] as const)))
  let end = 0
  let filled = ''
  for (const { index, length, key } of references) {
    filled += text.slice(end, index) + (values.get(key)?.reveal() ?? '')
    end = index + length
  }
  return new Secret(`text with ${keys.join(', ') || 'no secret'}`, filled + text.slice(end))
}

function find(text: string): Reference[] {
  return [...text.matchAll(REFERENCE)].map(({ index, 0: whole, 1: key = '', 2: brace }) => ({
    index,
    length: whole.length,
    key,
    isClosed: brace === '}',
  }))
}

function problemOf({ key, isClosed }: Reference, known: ReadonlySet<string>): string | undefined {
  if (!isClosed) return 'a reference "${secret:" is not closed: write "${secret:KEY}"'
  // What stands there may be the value itself: only what could be a key is shown.
  if (!SECRET_KEY.test(key)) return 'a reference "${secret:…}" has no key in it: letters, digits, "_", "." and "-", 128 at most'
  if (known.has(key)) return undefined
  const near = nearest(key, known)
  return `there is no secret "${key}"${near === undefined ? ': store it with "sallyport secret set"' : `: did you mean "${near}"?`}`
}

function placeOf(text: string, index: number): { line: number; column: number } {
  const before = text.slice(0, index).split('\n')
  return { line: before.length, column: (before.at(-1) ?? '').length + 1 }
}
