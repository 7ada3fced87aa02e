import { isIP } from 'node:net'
import { isHostname, parseHostname, splitAuthority, type Hostname } from '../kernel/hostname.ts'
import { parseAddressRange } from './addresses.ts'
import { parseHostPattern } from './hosts.ts'
import type { EffectiveRoute, Route } from './model.ts'
import { canonicalPath, pathProblem } from './paths.ts'
import { parsed } from './ranking.ts'

/** Where a route leads. */
export type Upstream = {
  readonly scheme: 'http' | 'https'
  readonly host: Hostname
  readonly port: number
  /** `""` or `"/v1"`: never a trailing slash. */
  readonly basePath: string
}

/** The name that agents know the gateway by, and its port. */
const GATEWAY = /^http:\/\/sallyport:7070\/route\/([^/?#]*)([^#]*)/

/** Reads the upstream of a route. A string is why it is refused, with the right spelling. Never holds a password or a query. */
export function parseUpstream(text: string): Upstream | string {
  // I1: what stands before an "@" may be a password, and what stands behind a "?" a key.
  if (text.includes('@')) return 'upstream has an "@": leave out the user name and password, a credential of the policy writes them'
  const bare = text.replace(/[?#][^]*$/, '')
  if (bare !== text) return `upstream "${bare}" has a query or fragment behind it: leave it out`
  const [, scheme = '', authority = '', path = ''] = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/\\]*)([^]*)$/.exec(text) ?? []
  if (scheme === '') return `upstream "${text}" is not an absolute URL: write it whole, as in "https://api.example.com/v1"`
  const lower = scheme.toLowerCase()
  if (lower !== 'http' && lower !== 'https') return `upstream "${text}" must begin with https:// or http://`
  if (lower !== scheme) return `upstream "${text}" is not canonical; write "${lower}${text.slice(scheme.length)}"`
  const end = parseEnd(authority)
  if (typeof end === 'string') return `upstream "${text}": ${end}`
  const problem = pathComplaint(path)
  if (problem !== undefined)
    return `upstream "${text}" ${problem.why}${problem.path === undefined ? '' : `; write "${scheme}://${authority}${problem.path}"`}`
  return { scheme: lower, host: end.host, port: end.port ?? (lower === 'http' ? 80 : 443), basePath: path }
}

/** Compiles a route. The schema has checked all of it before. */
export function toRoute({ name, upstream, credential, plaintext, addresses, plane, ofServer }: EffectiveRoute): Route {
  return {
    name,
    ...parsed<Upstream>(parseUpstream(upstream)),
    credential,
    ...(ofServer !== undefined && { ofServer }),
    rule: {
      id: `route:${name}`,
      tls: 'intercept',
      upgrade: false,
      plaintext: plaintext === 'accept',
      addresses: addresses.map((text) => parsed(parseAddressRange(text))),
      plane,
      scrub: 'replace',
      ownCredentials: undefined,
    },
  }
}

/** The route that a URL of the gateway names, and what follows its name; `undefined` for every other URL. */
export function readRouteUrl(url: string): { readonly name: string; readonly rest: string } | undefined {
  const [, name, rest = ''] = GATEWAY.exec(url) ?? []
  return name === undefined ? undefined : { name, rest }
}

/** Host and port of a URL. A string is why they are refused, with the right spelling. */
export function parseEnd(authority: string): { host: Hostname; port: number | undefined } | string {
  const split = splitAuthority(authority)
  if (split === undefined) return `"${authority}" is not a host or host:port`
  const isBracketed = split.host.startsWith('[')
  const text = isBracketed ? split.host.slice(1, -1) : split.host
  if (isBracketed && isIP(text) !== 6) return `"${split.host}" is not an IPv6 address`
  const pattern = parseHostPattern(text)
  if (typeof pattern === 'string') return pattern
  if (pattern.kind === 'below') return `a route leads to one host, not to all below "${pattern.parent}"`
  const host = parseHostname(text)
  if (!isHostname(host)) return host.problem
  const digits = authority.slice(split.host.length + 1)
  if (split.port !== undefined && String(split.port) !== digits) return `the port is not canonical; write ":${split.port}"`
  return { host, port: split.port }
}

/** What is wrong with a base path, and the one that was probably meant. */
function pathComplaint(path: string): { why: string; path?: string } | undefined {
  if (path === '') return undefined
  if (path.includes('*')) return { why: 'has a "*": it is one URL, not a pattern' }
  const problem = pathProblem(path) ?? (path.endsWith('/') ? 'it ends with a slash' : undefined)
  if (problem === undefined) return undefined
  const right = canonicalPath(path)?.replace(/\/$/, '')
  return { why: `is not canonical: ${problem}`, ...(right !== undefined && { path: right }) }
}
