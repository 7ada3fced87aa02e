import { nearest } from '../kernel/nearest.ts'
import { entriesOf, formatPlace, isListOrNone, valueAt } from './assemble.ts'
import type { Layer, Section } from './layers.ts'
import type { Diagnostic, Place } from './model.ts'
import { Credential } from './schema-credentials.ts'

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
        ? undeclared(
            { what: 'credential', by: 'id', entries: credentials, uses: secretsOf },
            { what: 'secret', by: 'name', entries: secrets, declare: declareSecret },
          )
        : []),
      ...(isKnown('credentials', credentials, 'id')
        ? undeclared(
            { what: 'route', by: 'name', entries: routes, uses: (raw) => textsAt(raw, [['credential']]) },
            { what: 'credential', by: 'id', entries: credentials },
          )
        : []),
    ],
    warnings:
      isKnown('credentials', credentials, 'secret') && credentials.every(({ raw }) => tellsSecrets(raw))
        ? unused(credentials, secrets)
        : [],
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

/** Where a credential names secrets. */
const SECRETS = [['secret'], ['inject', 'aws', 'access_key_id'], ['inject', 'aws', 'session_token'], ['oauth2', 'client_secret']] as const

/** Every secret that an entry of `credentials` names, each once. */
function secretsOf(raw: unknown): string[] {
  const also = valueAt(raw, ['inject', 'also'])
  const own = Array.isArray(also) ? also.flatMap((entry: unknown) => textsAt(entry, [['secret']])) : []
  return [...new Set([...textsAt(raw, SECRETS), ...own])]
}

/** False where an error of the entry may hide the name of a secret. */
function tellsSecrets(raw: unknown): boolean {
  const { error } = Credential.safeParse(raw)
  return (
    error === undefined ||
    error.issues.every(
      ({ code, path: [first, second] }) =>
        first !== 'oauth2' && second !== 'aws' && second !== 'also' && (code !== 'unrecognized_keys' || second !== undefined),
    )
  )
}

function declareSecret(name: string): string {
  return `say in your policy where it comes from, as {name: ${name}, source: "file:/run/secrets/${name}"} in containers, or source: "env:${name.replace(/[^A-Za-z0-9_]/g, '_')}" without`
}

/** Entries that name others, and how. */
type Users = { readonly what: string; readonly by: string; readonly entries: readonly Entry[]; readonly uses: (raw: unknown) => string[] }
/** Entries that are named, and how one is added. */
type Used = {
  readonly what: 'secret' | 'credential'
  readonly by: string
  readonly entries: readonly Entry[]
  readonly declare?: (name: string) => string
}

function undeclared(users: Users, used: Used): Diagnostic[] {
  const names = new Set(used.entries.flatMap(({ raw }) => textOf(raw, used.by) ?? []))
  return users.entries.flatMap(({ raw, from }) =>
    users
      .uses(raw)
      .filter((name) => !names.has(name))
      .map((name) => {
        const near = nearest(name, names)
        const message = `${users.what} "${shorten(textOf(raw, users.by) ?? '')}": ${used.what} "${shorten(name)}" is not declared under ${used.what}s`
        const hint = near === undefined ? used.declare?.(shorten(name)) : `did you mean "${near}"?`
        return { ...from, message: hint === undefined ? message : `${message}: ${hint}` }
      }),
  )
}

function unused(credentials: readonly Entry[], secrets: readonly Entry[]): Diagnostic[] {
  const used = new Set(credentials.flatMap(({ raw }) => secretsOf(raw)))
  return secrets.flatMap(({ raw, from }) => {
    const name = textOf(raw, 'name')
    if (name === undefined || used.has(name) || hasOtherUse(raw)) return []
    return [{ ...from, message: `secret "${shorten(name)}" is used by no credential` }]
  })
}

/** Methods and tools name a secret when they are called. */
function hasOtherUse(raw: unknown): boolean {
  const resources = valueAt(raw, ['resources'])
  return Array.isArray(resources) && resources.some((text) => typeof text === 'string' && /^(?:method|tool):/.test(text))
}

function textsAt(raw: unknown, paths: readonly (readonly string[])[]): string[] {
  return paths.map((path) => valueAt(raw, path)).filter((value): value is string => typeof value === 'string' && value !== '')
}

function textOf(raw: unknown, field: string): string | undefined {
  const value = valueAt(raw, [field])
  return typeof value === 'string' && value !== '' ? value : undefined
}

function shorten(text: string): string {
  return text.slice(0, 128)
}
