import type { CredentialPlace } from '../wire/credential.ts'
import type { CredentialPart } from './credentials.ts'
import { hostsOverlap, parseHostPattern } from './hosts.ts'
import { isWide, lintMethod, lintOpened, refusedHost, sayOf } from './lints.ts'
import type { Diagnostic, EffectiveCredential } from './model.ts'
import { suffixBelow } from './public-suffixes.ts'
import type { ParsedRule } from './ranking.ts'
import { parseTokenUrl } from './token-urls.ts'

/** Stores and delivery networks that have their customers' hosts at any depth. */
const SHARED_PARENTS = [
  'amazonaws.com',
  'amazonaws.com.cn',
  'githubusercontent.com',
  'googleusercontent.com',
  'core.windows.net',
  'cloudfront.net',
  'cloudflarestorage.com',
  'digitaloceanspaces.com',
  'backblazeb2.com',
  'wasabisys.com',
  'aliyuncs.com',
  'azureedge.net',
  'akamaized.net',
  'akamaihd.net',
  'fastly.net',
  'b-cdn.net',
]

/** What is allowed but unwise in a credential. */
export function lintCredential(credential: EffectiveCredential): Diagnostic[] {
  const { place, methods = [], paths } = credential
  const found = [...methods.flatMap(lintMethod), ...lintPlace(place, paths !== undefined), ...lintExchange(credential)]
  for (const path of paths ?? []) if (isWide(path)) found.push(`path "${path}" matches nearly every path`)
  for (const field of [place, ...credential.also.map((also) => also.place)]) found.push(...lintPrefix(field))
  // What is signed is good for its own host and region only, and the key stays here.
  if (place.kind !== 'aws') found.push(...credential.domains.flatMap(lintDomain))
  return found.map((message) => sayOf('credential', credential, message))
}

/** A rule that lets answers through unread where they may have a secret in them. */
export function lintScrub({ rule, host }: ParsedRule, parts: readonly CredentialPart[]): Diagnostic[] {
  if (rule.scrub !== 'off' || rule.action === 'deny') return []
  const bound = parts.find((part) => hostsOverlap(part.host, host))
  if (bound === undefined) return []
  const { id } = bound.credential
  return [sayOf('rule', rule, `scrub: off where credential "${id}" is bound: a secret that the server echoes reaches the agent`)]
}

function lintPrefix(place: CredentialPlace): string[] {
  // "Token token=" is whole as it stands, "Bearer" is not.
  return place.kind === 'header' && place.header.toLowerCase() === 'authorization' && /[^ ="]$/.test(place.prefix)
    ? [`prefix "${place.prefix}" would send "${place.prefix}<secret>": write "${place.prefix} " with a space at its end`]
    : []
}

function lintPlace(place: CredentialPlace, hasPaths: boolean): string[] {
  if (place.kind !== 'placeholder' || hasPaths) return []
  const logged = place.places.find(({ kind }) => kind === 'path' || kind === 'query')
  return logged === undefined
    ? []
    : [
        `placeholder ${place.name} may stand in any ${logged.kind === 'path' ? 'path' : 'URL'} there, and servers log URLs: narrow it by paths`,
      ]
}

function lintDomain(domain: string): string[] {
  const pattern = parseHostPattern(domain)
  if (typeof pattern === 'string' || pattern.kind === 'exact') return []
  const { parent } = pattern
  const shared = SHARED_PARENTS.find((name) => parent === name || parent.endsWith(`.${name}`)) ?? suffixBelow(parent)
  return shared === undefined
    ? []
    : [`domain "${domain}" covers hosts of every customer of ${shared}: name the hosts that the secret is for`]
}

function lintExchange({ exchange }: EffectiveCredential): string[] {
  if (exchange === undefined) return []
  const url = parseTokenUrl(exchange.tokenUrl)
  if (typeof url === 'string') return []
  const { addresses } = exchange
  return [
    ...lintOpened({ plaintext: 'refuse', addresses }),
    ...refusedHost({ kind: 'exact', host: url.host }, addresses).map((message) => `token_url: ${message('oauth2')}`),
  ]
}
