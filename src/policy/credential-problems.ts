import { foldName, isCredentialField } from '../wire/credential-fields.ts'

/** What a credential can be: each is a key of `inject`, and one of them stands there. */
export const KINDS = ['header', 'basic', 'query', 'body', 'placeholder', 'aws'] as const

/** The keys of `inject` that go with some kinds only. */
export const KIND_EXTRAS: Readonly<Record<(typeof KINDS)[number], readonly string[]>> = {
  header: ['prefix', 'also'],
  basic: ['also'],
  query: [],
  body: [],
  placeholder: ['shape', 'in', 'file'],
  aws: [],
}

/** `inject` as it is written, each field right by itself. */
type Written = {
  readonly [key in (typeof KINDS)[number] | 'prefix' | 'shape' | 'in' | 'file']?: unknown
} & {
  readonly header?: string | undefined
  readonly in?: readonly string[] | undefined
  readonly also?: readonly { readonly header: string }[] | undefined
}

/** What contradicts itself within one `inject`, or `undefined`. */
export function injectProblem(inject: Written): string | undefined {
  const kinds = KINDS.filter((kind) => inject[kind] !== undefined)
  const [kind] = kinds
  if (kind === undefined) return 'inject needs a header, basic, query, body, placeholder or aws'
  if (kinds.length > 1) return `inject has ${kinds.length === 2 ? 'both ' : ''}${kinds.join(' and ')}: write ${kinds.length} credentials`
  if (inject.prefix !== undefined && kind !== 'header') return `prefix goes with header, not with ${kind}`
  if (inject.also !== undefined && kind !== 'header' && kind !== 'basic') return `also goes with header or basic, not with ${kind}`
  for (const key of ['shape', 'in', 'file'] as const)
    if (inject[key] !== undefined && kind !== 'placeholder') return `${key} goes with placeholder, not with ${kind}`
  return alsoProblem(inject) ?? placesProblem(inject.in ?? [])
}

/** The same field twice would go out with two values, of which servers take either. */
function alsoProblem({ header, also = [] }: Written): string | undefined {
  const seen = new Set([foldName(header ?? 'Authorization')])
  for (const field of also) {
    const key = foldName(field.header)
    if (seen.has(key)) return `also writes header "${field.header}" a second time: remove it`
    seen.add(key)
  }
  return undefined
}

function placesProblem(places: readonly string[]): string | undefined {
  const named = places.find((place) => place.startsWith('header:') && isCredentialField(place.slice('header:'.length)))
  return named !== undefined && places.includes('header')
    ? `in has both "header" and "${named}": "header" is every field that services take credentials in, this one too; to narrow it leave "header" out`
    : undefined
}

/** What contradicts itself within one `oauth2`, or `undefined`. */
export function oauth2Problem(oauth2: {
  readonly grant: string
  readonly client_secret?: string | undefined
  readonly authentication?: string | undefined
}): string | undefined {
  if (oauth2.grant === 'client_credentials')
    return oauth2.client_secret === undefined
      ? undefined
      : "client_secret goes with grant refresh_token: with client_credentials the credential's own secret is the client's password"
  return oauth2.authentication !== undefined && oauth2.client_secret === undefined
    ? `authentication: ${oauth2.authentication} needs client_secret: add it, or remove authentication for a client without a password`
    : undefined
}
