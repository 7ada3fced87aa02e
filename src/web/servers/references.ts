const REFERENCE = /\$\{secret:([A-Za-z0-9_.-]{1,128})\}/g
/** What the beginning of a reference may be, up to where the caret is. */
const BEGUN = /\$\{(?:s(?:e(?:c(?:r(?:e(?:t(?::([A-Za-z0-9_.-]{0,128}))?)?)?)?)?)?)?$/

/** Names of the secrets that a text refers to, each once. */
export function referencesIn(text: string): readonly string[] {
  return [...new Set([...text.matchAll(REFERENCE)].map(([, key = '']) => key))]
}

/** The reference that is being written at the caret: where it begins, and what of its key is there. */
export function begunAt(text: string, caret: number): { readonly start: number; readonly key: string } | undefined {
  const found = BEGUN.exec(text.slice(0, caret))
  return found === null ? undefined : { start: found.index, key: found[1] ?? '' }
}

/** The text with that reference whole, and where the caret is behind it. */
export function completed(text: string, start: number, caret: number, key: string): { readonly text: string; readonly caret: number } {
  const whole = `\${secret:${key}}`
  // What of the old reference still stands behind the caret goes with it.
  const [rest = ''] = /^[A-Za-z0-9_.:-]*\}/.exec(text.slice(caret)) ?? []
  return { text: `${text.slice(0, start)}${whole}${text.slice(caret + rest.length)}`, caret: start + whole.length }
}
