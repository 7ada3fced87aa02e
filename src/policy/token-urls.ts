import type { Hostname } from '../kernel/hostname.ts'
import { pathProblem } from './paths.ts'
import { parseEnd } from './routes.ts'

/** Where access tokens come from (RFC 6749 §3.2). */
export type TokenUrl = { readonly host: Hostname; readonly port: number }

/** Reads the URL of a token server. A string is why it is refused. Never holds a password or a query. */
export function parseTokenUrl(text: string): TokenUrl | string {
  // I1: what stands before an "@" may be a password, and what stands behind a "?" a key.
  if (text.includes('@')) return 'token_url has an "@": leave out the user name and password, client_id and the secret are sent by oauth2'
  const bare = text.replace(/[?#][^]*$/, '')
  // RFC 6749 §3.2: the endpoint has no fragment.
  if (text.includes('#')) return `token_url "${bare}" has a "#" behind it: leave it out`
  const [, scheme = '', authority = '', path = ''] = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/\\]*)([^]*)$/.exec(bare) ?? []
  if (scheme === '') return `token_url "${bare}" is not an absolute URL: write it whole, as in "https://auth.example.com/token"`
  if (scheme !== 'https')
    return scheme.toLowerCase() === 'https'
      ? `token_url "${bare}" is not canonical; write "https${bare.slice(scheme.length)}"`
      : `token_url "${bare}" must begin with https://: the secret is sent there`
  if (authority.includes('*')) return `token_url "${bare}" has a "*": it is one URL, not a pattern`
  const end = parseEnd(authority)
  if (typeof end === 'string') return `token_url "${bare}": ${end}`
  const problem = path === '' ? undefined : pathProblem(path)
  if (problem !== undefined) return `token_url "${bare}" is not canonical: ${problem}`
  if (!/^(?:\?[A-Za-z0-9._~!$&'()*+,;=:/?%-]*)?$/.test(text.slice(bare.length)))
    return `token_url "${bare}" has a query with a character that must be percent-encoded`
  return { host: end.host, port: end.port ?? 443 }
}
