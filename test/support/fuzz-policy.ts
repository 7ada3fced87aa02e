import { isDeepStrictEqual } from 'node:util'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import { formatBodyPlace, formatSwapPlace, parseBodyPlace, parsePlace } from '../../src/policy/places.ts'
import { parseSize } from '../../src/policy/sizes.ts'
import { parseTokenUrl } from '../../src/policy/token-urls.ts'
import type { FuzzTarget } from './fuzz.ts'

const TEXTS = [
  'header',
  'header:X-Api-Key',
  'basic',
  'query:key',
  'path',
  'body:/auth/a~1b/~01/0',
  'body:user[token]',
  '/auth/token',
  'token',
  '100MB',
  '2GiB',
  'https://auth.example.com/oauth2/token',
  'https://auth.example.com:8443/token?tenant=a',
  'https://[2606:4700::1]/token',
]

/** The texts of a policy that say where a credential goes. */
export const PLACES_TARGET: FuzzTarget = {
  name: 'places',
  corpus: TEXTS.map((text) => Buffer.from(text)),
  check: (bytes) => checkPlaces(bytes.toString('utf8')) ?? checkOthers(bytes.toString('utf8')),
}

function checkPlaces(text: string): string | undefined {
  const place = parsePlace(text)
  // One text for one place: else two entries of a list, or a policy and what shows it, could say the same in two ways.
  if (typeof place !== 'string') {
    if (formatSwapPlace(place) !== text) return `a place is shown as ${formatSwapPlace(place)}`
    if (/[^\x20-\x7e\u00a0-\u{10ffff}]/u.test(text)) return 'a place has a control character'
  }
  const at = parseBodyPlace(text)
  if (typeof at === 'string') return undefined
  if (formatBodyPlace(at) !== text) return `a place in a body is shown as ${formatBodyPlace(at)}`
  if (at.kind === 'json' && at.pointer.length !== text.split('/').length - 1) return 'a pointer has another number of segments'
  return isDeepStrictEqual(parsePlace(`body:${text}`), { kind: 'body', at }) ? undefined : 'behind "body:" it is another place'
}

function checkOthers(text: string): string | undefined {
  const size = parseSize(text)
  if (typeof size === 'number' && !(Number.isSafeInteger(size) && size > 0)) return `it has a size of ${size}`
  const url = parseTokenUrl(text)
  if (typeof url === 'string') return undefined
  if (/[@#\s\\]/.test(text)) return 'a token URL has what readers of URLs disagree about'
  const host = parseHostname(new URL(text).hostname)
  if (!isHostname(host) || host !== url.host) return `its host is ${url.host}, and ${new URL(text).hostname} to a client`
  return Number(new URL(text).port || 443) === url.port ? undefined : `its port is ${url.port}`
}
