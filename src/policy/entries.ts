import type { PolicyDocument } from './document.ts'
import type { Place } from './model.ts'

/** The entries of a list of a file, each with its place; none where there is no list. */
export function entriesOf({ document }: { readonly document: PolicyDocument }, path: readonly string[]): { raw: unknown; from: Place }[] {
  const list = valueAt(document.data, path)
  if (!Array.isArray(list)) return []
  return list.map((raw: unknown, index) => ({ raw, from: document.placeOf([...path, index]) }))
}

/** What stands at a path of keys, or `undefined`. */
export function valueAt(data: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined,
    data,
  )
}

/** False for what should be a list and is none: its entries are unknown. */
export function isListOrNone(value: unknown): boolean {
  return value === undefined || Array.isArray(value)
}
