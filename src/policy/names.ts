import { nearest } from '../kernel/nearest.ts'
import { entriesOf, formatPlace, isListOrNone, valueAt } from './assemble.ts'
import type { Layer, Section } from './layers.ts'
import type { Diagnostic, Place } from './model.ts'

type Entry = { readonly raw: unknown; readonly from: Place }

/**
 * What the names in the files contradict: the same one twice, secrets that are used and not declared, or declared and not
 * used. Looks at what is written, so that an entry with another error still counts.
 * @param doubts sections of which something could not be read: what seems to be missing may be there
 */
export function findNames(layers: readonly Layer[], doubts: ReadonlySet<Section>): { errors: Diagnostic[]; warnings: Diagnostic[] } {
  const of = (...path: string[]): Entry[] => layers.flatMap((layer) => entriesOf(layer, path))
  const credentials = of('credentials')
  const secrets = of('secrets')
  const routes = of('routes')
  const isKnown = (key: Section, entries: readonly Entry[], field: string): boolean =>
    !doubts.has(key) &&
    layers.every((layer) => isListOrNone(valueAt(layer.document.data, [key]))) &&
    entries.every(({ raw }) => textOf(raw, field) !== undefined)
  return {
    errors: [
      ...twice('rule', of('network', 'rules'), 'id'),
      ...twice('route', routes, 'name'),
      ...twice('credential', credentials, 'id'),
      ...twice('secret', secrets, 'name'),
      ...(isKnown('secrets', secrets, 'name')
        ? undeclared({ what: 'credential', by: 'id', entries: credentials }, { what: 'secret', by: 'name', entries: secrets })
        : []),
      ...(isKnown('credentials', credentials, 'id')
        ? undeclared({ what: 'route', by: 'name', entries: routes }, { what: 'credential', by: 'id', entries: credentials })
        : []),
    ],
    warnings: isKnown('credentials', credentials, 'secret') ? unused(credentials, secrets) : [],
  }
}

function twice(what: string, entries: readonly Entry[], field: string): Diagnostic[] {
  const first = new Map<string, Place>()
  return entries.flatMap(({ raw, from }) => {
    const name = textOf(raw, field)
    if (name === undefined) return []
    const before = first.get(name)
    if (before !== undefined)
      return [{ ...from, message: `${what} "${shorten(name)}" stands at ${formatPlace(before)} already: give one of them another name` }]
    first.set(name, from)
    return []
  })
}

/** One kind of entry, and the field that holds its own name. */
type Kind<W> = { readonly what: W; readonly by: string; readonly entries: readonly Entry[] }

/** Which uses a secret's `resources` may name is the schema's to say: there is only `inject` so far. */
function undeclared(users: Kind<string>, used: Kind<'secret' | 'credential'>): Diagnostic[] {
  const names = new Set(used.entries.flatMap(({ raw }) => textOf(raw, used.by) ?? []))
  return users.entries.flatMap(({ raw, from }) => {
    const name = textOf(raw, used.what)
    if (name === undefined || names.has(name)) return []
    const near = nearest(name, names)
    const message = `${users.what} "${shorten(textOf(raw, users.by) ?? '')}": ${used.what} "${shorten(name)}" is not declared under ${used.what}s`
    return [{ ...from, message: near === undefined ? message : `${message}: did you mean "${near}"?` }]
  })
}

function unused(credentials: readonly Entry[], secrets: readonly Entry[]): Diagnostic[] {
  const used = new Set(credentials.map(({ raw }) => textOf(raw, 'secret')))
  return secrets.flatMap(({ raw, from }) => {
    const name = textOf(raw, 'name')
    return name === undefined || used.has(name) ? [] : [{ ...from, message: `secret "${shorten(name)}" is used by no credential` }]
  })
}

function textOf(raw: unknown, field: string): string | undefined {
  const value = valueAt(raw, [field])
  return typeof value === 'string' && value !== '' ? value : undefined
}

function shorten(text: string): string {
  return text.slice(0, 128)
}
