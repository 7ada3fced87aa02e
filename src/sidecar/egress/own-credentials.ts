import type { Head } from '../../credential/credential.ts'
import type { CredentialBinding } from '../../policy/policy.ts'
import { foldName, isCredentialField } from '../../wire/credential-fields.ts'

/** What an agent sent of credentials of its own: names of fields, no values. */
export type Own = {
  readonly names: readonly string[]
  /** Whether there is more than cookies. */
  readonly isAuthorizing: boolean
}

/** Fields of a query that services take credentials in. Short ones that mean something else elsewhere are not among them. */
const QUERY_FIELDS = new Set(['access_token', 'private_token', 'job_token', 'api_key', 'apikey'])

/** Parts of a head with a placeholder that becomes its secret, as `fieldPart` and `pairPart` write them. */
export type Ours = ReadonlySet<string>

/** One field, as lenient servers read its name. A second one of the same name is another part. */
export function fieldPart(name: string, value: string): string {
  return `${foldName(name)}: ${value}`
}

/** One pair of the query, as it stands. */
export function pairPart(pair: string): string {
  return `?${pair}`
}

/** What of a request is a credential that is not ours. */
export function findOwn(head: Head, bound: CredentialBinding | undefined, ours: Ours): Own {
  const fields = ourFields(bound)
  const names: string[] = []
  let isAuthorizing = false
  for (let i = 0; i < head.headers.length; i += 2) {
    const name = head.headers[i] ?? ''
    if (!isOwn(name, fields) || (ours.size > 0 && ours.has(fieldPart(name, head.headers[i + 1] ?? '')))) continue
    names.push(name.toLowerCase())
    isAuthorizing ||= !isCookie(name)
  }
  for (const pair of pairsOf(head.path)) {
    if (!isOwnPair(pair, bound, ours)) continue
    names.push(`?${nameOf(pair)}`)
    isAuthorizing = true
  }
  return { names, isAuthorizing }
}

/**
 * The head without what the agent sent of credentials of its own, in any case and any number. I5: where a credential is bound,
 * neither its place nor its siblings are the agent's.
 */
export function withoutOwn(head: Head, bound: CredentialBinding | undefined, ours: Ours): Head {
  const fields = ourFields(bound)
  const headers: string[] = []
  for (let i = 0; i < head.headers.length; i += 2) {
    const name = head.headers[i] ?? ''
    const value = head.headers[i + 1] ?? ''
    if (!isOwn(name, fields) || ours.has(fieldPart(name, value))) headers.push(name, value)
  }
  const pairs = pairsOf(head.path)
  const kept = pairs.filter((pair) => !isOwnPair(pair, bound, ours))
  if (kept.length === pairs.length) return { path: head.path, headers }
  return { path: `${head.path.slice(0, head.path.indexOf('?'))}${kept.length > 0 ? `?${kept.join('&')}` : ''}`, headers }
}

function isOwn(name: string, fields: readonly string[]): boolean {
  return isCredentialField(name) || isCookie(name) || (fields.length > 0 && fields.includes(foldName(name)))
}

function isCookie(name: string): boolean {
  return name.length === 6 && foldName(name) === 'cookie'
}

/** The folded names of the fields that a credential is written into. */
function ourFields(bound: CredentialBinding | undefined): readonly string[] {
  if (bound === undefined) return NONE
  let fields = fieldsOf.get(bound)
  if (!fields) {
    const places = [bound.place, ...bound.also.map(({ place }) => place)]
    fields = places.flatMap((place) => (place.kind === 'header' ? [foldName(place.header)] : []))
    fieldsOf.set(bound, fields)
  }
  return fields
}

const fieldsOf = new WeakMap<CredentialBinding, readonly string[]>()

/** Google takes its key in `?key=` as well, which means something else to others. */
function isQueryField(name: string, bound: CredentialBinding | undefined): boolean {
  const lower = name.toLowerCase()
  if (QUERY_FIELDS.has(lower)) return true
  if (bound?.place.kind === 'query') return name === bound.place.name
  return lower === 'key' && ourFields(bound).includes('x-goog-api-key')
}

function isOwnPair(pair: string, bound: CredentialBinding | undefined, ours: Ours): boolean {
  return isQueryField(nameOf(pair), bound) && !ours.has(pairPart(pair))
}

const NONE: readonly string[] = []

/** The pairs of a path's query. */
export function pairsOf(path: string): readonly string[] {
  const at = path.indexOf('?')
  return at === -1 ? NONE : path.slice(at + 1).split('&')
}

/** The name of a pair of a query as servers read it; as it stands where it cannot be decoded. */
export function nameOf(pair: string): string {
  const text = (pair.split('=', 1)[0] ?? '').replaceAll('+', ' ')
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
