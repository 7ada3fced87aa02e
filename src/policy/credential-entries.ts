import type { Budget, CredentialFile, CredentialPlace, TokenExchange } from '../wire/credential.ts'
import { DEFAULT_SHAPE } from '../wire/placeholder-shape.ts'
import type { AlsoPlace, EffectiveCredential, Place } from './model.ts'
import { DEFAULT_PLACES, parseBodyPlace, parsePlace } from './places.ts'
import { parsed } from './ranking.ts'
import type { CredentialEntry } from './schema-credentials.ts'
import { FILE_KINDS } from './schema-files.ts'
import { parseSize } from './sizes.ts'

type Inject = CredentialEntry['inject']

/** A credential as the schema has let it through, with everything that is left out. */
export function toCredential(entry: CredentialEntry, from: Place): EffectiveCredential {
  const { id, secret, inject, oauth2, budget } = entry
  const file = toFile(inject.file)
  return {
    id,
    secret,
    place: placeOf(inject),
    also: alsoOf(inject, secret),
    ...(oauth2 && { exchange: exchangeOf(oauth2) }),
    ...(budget && { budget: budgetOf(budget) }),
    ...(file && { file }),
    domains: inject.domains,
    ...(inject.methods && { methods: inject.methods }),
    ...(inject.paths && { paths: inject.paths }),
    from,
  }
}

function placeOf(inject: Inject): CredentialPlace {
  const { header, prefix = '', basic, query, body, placeholder, shape = DEFAULT_SHAPE, aws } = inject
  if (header !== undefined) return { kind: 'header', header, prefix }
  if (basic !== undefined) return { kind: 'basic', username: basic.username }
  if (query !== undefined) return { kind: 'query', name: query }
  if (body !== undefined) return { kind: 'body', at: parsed(parseBodyPlace(body)) }
  if (placeholder !== undefined) {
    const places = inject.in?.map((text) => parsed(parsePlace(text))) ?? DEFAULT_PLACES
    return { kind: 'placeholder', name: placeholder, shape, places }
  }
  if (aws === undefined) throw new Error('a credential of no kind') // the schema has refused it before
  const { region, service, access_key_id: accessKeyId, session_token: sessionToken } = aws
  return { kind: 'aws', region, service, accessKeyId, ...(sessionToken !== undefined && { sessionToken }) }
}

function alsoOf({ also = [] }: Inject, own: string): AlsoPlace[] {
  return also.map(({ header, prefix = '', secret = own }) => ({ secret, place: { kind: 'header', header, prefix } }))
}

function exchangeOf(oauth2: NonNullable<CredentialEntry['oauth2']>): TokenExchange {
  const { grant, token_url: tokenUrl, client_id: clientId, client_secret: clientSecret, scope, parameters = {}, addresses = [] } = oauth2
  // RFC 6749 §3.2.1: a client without a password names itself in the form.
  const isPublic = grant === 'refresh_token' && clientSecret === undefined
  return {
    grant,
    tokenUrl,
    clientId,
    ...(clientSecret !== undefined && { clientSecret }),
    ...(scope !== undefined && { scope }),
    parameters,
    authentication: oauth2.authentication ?? (isPublic ? 'body' : 'basic'),
    addresses,
  }
}

function budgetOf(written: NonNullable<CredentialEntry['budget']>): Budget {
  const budget = {
    requests: written.requests,
    requestsPerMinute: written.requests_per_minute,
    bytesUp: bytes(written.bytes_up),
    bytesUpPerMinute: bytes(written.bytes_up_per_minute),
    bytesDown: bytes(written.bytes_down),
    bytesDownPerMinute: bytes(written.bytes_down_per_minute),
  }
  return Object.fromEntries(Object.entries(budget).filter(([, limit]) => limit !== undefined))
}

function bytes(size: number | string | undefined): number | undefined {
  return typeof size === 'string' ? parsed<number>(parseSize(size)) : size
}

function toFile(written: Inject['file']): CredentialFile | undefined {
  const kind = FILE_KINDS.find((known) => written?.[known] !== undefined)
  const entry: { readonly server: string; readonly login?: string | undefined } | undefined = kind && written?.[kind]
  if (kind === undefined || entry === undefined) return undefined
  return { kind, server: entry.server, ...(entry.login !== undefined && { login: entry.login }) }
}
