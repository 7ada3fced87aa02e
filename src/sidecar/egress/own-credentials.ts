import type { CredentialBinding } from '../../policy/policy.ts'
import { foldName, isCredentialField } from '../../wire/credential-fields.ts'

export type Head = { readonly path: string; readonly headers: readonly string[] }

/** What an agent sent of credentials of its own: names of fields, no values. */
export type Own = {
  readonly names: readonly string[]
  /** Whether there is more than cookies. */
  readonly isAuthorizing: boolean
}

/** Fields of a query that services take credentials in. Short ones that mean something else elsewhere are not among them. */
const QUERY_FIELDS = new Set(['access_token', 'private_token', 'job_token', 'api_key', 'apikey'])

/** What of a request is a credential that is not ours. `swapped` are fields with a placeholder in them, by their folded names. */
export function findOwn(head: Head, bound: CredentialBinding | undefined, swapped: ReadonlySet<string>): Own {
  const fields = ourFields(bound)
  const names: string[] = []
  let isAuthorizing = false
  for (let i = 0; i < head.headers.length; i += 2) {
    const name = head.headers[i] ?? ''
    if (!isOwn(name, fields) || swapped.has(foldName(name))) continue
    names.push(name.toLowerCase())
    isAuthorizing ||= !isCookie(name)
  }
  for (const name of queryNames(head.path)) {
    if (!isQueryField(name, bound)) continue
    names.push(`?${name}`)
    isAuthorizing = true
  }
  return { names, isAuthorizing }
}

/**
 * The head without what the agent sent of credentials of its own, in any case and any number. I5: where a credential is bound,
 * neither its place nor its siblings are the agent's. `swapped` stays.
 */
export function withoutOwn(head: Head, bound: CredentialBinding | undefined, swapped: ReadonlySet<string>): Head {
  const fields = ourFields(bound)
  const headers: string[] = []
  for (let i = 0; i < head.headers.length; i += 2) {
    const name = head.headers[i] ?? ''
    if (!isOwn(name, fields) || swapped.has(foldName(name))) headers.push(name, head.headers[i + 1] ?? '')
  }
  const at = head.path.indexOf('?')
  if (at === -1 || !queryNames(head.path).some((name) => isQueryField(name, bound))) return { path: head.path, headers }
  const kept = head.path
    .slice(at + 1)
    .split('&')
    .filter((pair) => !isQueryField(nameOf(pair), bound))
  return { path: `${head.path.slice(0, at)}${kept.length > 0 ? `?${kept.join('&')}` : ''}`, headers }
}

function isOwn(name: string, fields: readonly string[]): boolean {
  return isCredentialField(name) || isCookie(name) || (fields.length > 0 && fields.includes(foldName(name)))
}

function isCookie(name: string): boolean {
  return name.length === 6 && foldName(name) === 'cookie'
}

/** The folded names of the fields that a credential is written into. */
function ourFields(bound: CredentialBinding | undefined): string[] {
  if (bound === undefined) return []
  const places = [bound.place, ...bound.also.map(({ place }) => place)]
  return places.flatMap((place) => (place.kind === 'header' ? [foldName(place.header)] : []))
}

/** Google takes its key in `?key=` as well, which means something else to others. */
function isQueryField(name: string, bound: CredentialBinding | undefined): boolean {
  const lower = name.toLowerCase()
  if (QUERY_FIELDS.has(lower)) return true
  if (bound?.place.kind === 'query') return name === bound.place.name
  return lower === 'key' && ourFields(bound).includes('x-goog-api-key')
}

function queryNames(path: string): string[] {
  const at = path.indexOf('?')
  return at === -1
    ? []
    : path
        .slice(at + 1)
        .split('&')
        .map(nameOf)
}

/** The name of a pair of a query as servers read it; as it stands where it cannot be decoded. */
function nameOf(pair: string): string {
  const text = (pair.split('=', 1)[0] ?? '').replaceAll('+', ' ')
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
