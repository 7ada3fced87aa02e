import type { Budget, CredentialFile, CredentialPlace, TokenExchange } from '../wire/credential.ts'
import type { AlsoPlace } from './model.ts'
import { formatBodyPlace, formatSwapPlace } from './places.ts'

/** Kind and place of a credential in words, as "header Authorization" or "placeholder GH_TOKEN in header, basic". No secret. */
export function describePlace(place: CredentialPlace): string {
  switch (place.kind) {
    case 'header':
      return `header ${place.header}${place.prefix === '' ? '' : `: ${place.prefix}…`}`
    case 'basic':
      return `basic as ${place.username}`
    case 'query':
      return `query ${place.name}`
    case 'body':
      return `body ${formatBodyPlace(place.at)}`
    case 'placeholder':
      return `placeholder ${place.name} in ${place.places.map(formatSwapPlace).join(', ')}`
    case 'aws':
      return `aws ${place.region}/${place.service}`
  }
}

/** `header DD-APPLICATION-KEY of secret DD_APP`. */
export function describeAlso({ secret, place }: AlsoPlace): string {
  return `${describePlace(place)} of secret ${secret}`
}

/** The limits of a budget, as "600 requests a minute, 100000000 bytes up". */
export function describeBudget(budget: Budget): string {
  const limits = [
    [budget.requests, 'requests'],
    [budget.requestsPerMinute, 'requests a minute'],
    [budget.bytesUp, 'bytes up'],
    [budget.bytesUpPerMinute, 'bytes up a minute'],
    [budget.bytesDown, 'bytes down'],
    [budget.bytesDownPerMinute, 'bytes down a minute'],
  ] as const
  return limits.flatMap(([limit, what]) => (limit === undefined ? [] : [`${limit} ${what}`])).join(', ')
}

/** Where the access token comes from. Without the query of the URL, which may hold a key. */
export function describeExchange({ grant, tokenUrl }: TokenExchange): string {
  return `oauth2 ${grant} at ${tokenUrl.replace(/\?.*$/s, '')}`
}

/** `.npmrc for registry.example.com`. */
export function describeFile({ kind, server }: CredentialFile): string {
  return `${kind} for ${server}`
}
