import { formatAuthority, isHostname, parseHostname, splitAuthority, type Hostname } from '../../kernel/hostname.ts'
import type { Lane } from '../../audit/audit.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { memo } from '../../kernel/memo.ts'
import { shown } from '../../kernel/shown.ts'
import type { Refusal } from '../../kernel/errors.ts'
import type { Facts } from '../../policy/policy.ts'
import { fieldName, foldName } from '../../wire/credential-fields.ts'
import { valuesOf, type RawHeaders } from './headers.ts'

/**
 * The end that a connection leads to; every request on it must name it. Without `host` it is one that knows no proxy, in
 * plain text: its requests name their own.
 */
export type Tunnel = {
  readonly lane: Lane
  readonly scheme: 'http' | 'https'
  readonly host: Hostname | undefined
  readonly port: number
}

export type RequestHead = {
  readonly method: string
  readonly url: string
  readonly rawHeaders: RawHeaders
  /** As an HTTP/2 request says it. */
  readonly scheme?: string | undefined
  /** For a request that came as an upgrade: its handshake is whole. */
  readonly isUpgrade?: boolean
}

export const DEFAULT_PORT = { http: 80, https: 443 } as const

/** Visible ASCII without "#": what llhttp and every upstream read alike. */
const TARGET = /^[\x21\x22\x24-\x7e]+$/
const FRAMING = new Set(['transfer-encoding', 'content-length'])
const ABSOLUTE = /^(https?):\/\/([^/?#]*)(.*)$/i
/** Query fields of signed URLs: the signature, and what has to stand beside it (AWS, Google, Azure, older S3, CloudFront). */
const SIGNATURES = [
  ['x-amz-signature', 'x-amz-credential'],
  ['x-goog-signature', 'x-goog-credential'],
  ['sig', 'se'],
  ['signature', 'expires'],
  ['signature', 'key-pair-id'],
] as const

/** The canonical facts of a request, or why it is refused. I2 */
export function readFacts(head: RequestHead, tunnel: Tunnel | undefined): Facts | Refusal {
  return refuseHead(head) ?? (tunnel ? readInside(head, tunnel) : readAbsolute(head))
}

/** Reads a CONNECT target: host and port, nothing else. */
export function readAuthority(target: string, rawHeaders: RawHeaders): { host: Hostname; port: number } | Refusal {
  const parsed = parseAuthority(target)
  if ('code' in parsed) return parsed
  if (parsed.port === undefined) {
    return { code: 'target_invalid', message: `CONNECT "${shown(target)}" has no port`, hint: 'write host:port' }
  }
  const end = { host: parsed.host, port: parsed.port }
  for (const value of valuesOf(rawHeaders, 'host')) {
    if (!namesEnd(value, end)) {
      return { code: 'authority_mismatch', message: `CONNECT ${formatAuthority(end.host, end.port)} came with "Host: ${shown(value)}"` }
    }
  }
  return end
}

/** True when the URL carries a signature of its own: a credential on top would break or extend what was signed. */
export function isPresigned(path: string): boolean {
  const at = path.indexOf('?')
  if (at === -1) return false
  const query = new Map([...new URLSearchParams(path.slice(at + 1))].map(([name, value]) => [name.toLowerCase(), value]))
  return SIGNATURES.some((names) => names.every((name) => (query.get(name) ?? '') !== ''))
}

/** What holds for every request, wherever it names its host. */
export function refuseHead(head: RequestHead): Refusal | undefined {
  const { rawHeaders } = head
  if (rawHeaders.length / 2 > LIMITS.headFieldsMax) {
    return { code: 'head_too_large', message: `more than ${LIMITS.headFieldsMax} header fields` }
  }
  if (head.method === 'CONNECT') return { code: 'method_refused', message: 'CONNECT inside a tunnel' }
  if (head.method === 'TRACE') return { code: 'method_refused', message: 'TRACE echoes the request, with its credential' }
  if (!TARGET.test(head.url))
    return { code: 'target_invalid', message: 'the request target has a character outside visible ASCII, or a "#"' }
  let isPlain = true
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const { lower, folded } = fieldName(rawHeaders[i] ?? '')
    if (lower === 'host') hosts += 1
    else if (FRAMING.has(folded) || lower === 'upgrade') isPlain = false
  }
  if (hosts > 1) return { code: 'request_malformed', message: 'more than one Host header' }
  return isPlain ? undefined : (refuseFraming(rawHeaders) ?? refuseUpgrade(head))
}

/** A body whose end is not the same for everybody. I10 */
function refuseFraming(rawHeaders: RawHeaders): Refusal | undefined {
  const codings = valuesOf(rawHeaders, 'transfer-encoding')
  // Only plain "chunked" has one reading. "gzip, chunked" would lose its gzip here, and other spellings are smuggling.
  if (codings.length > 1 || (codings[0] !== undefined && codings[0].toLowerCase() !== 'chunked')) {
    return {
      code: 'transfer_coding_refused',
      message: `Transfer-Encoding: ${shown(codings.join(', '))}`,
      hint: 'send "chunked" or a Content-Length',
    }
  }
  const lengths = valuesOf(rawHeaders, 'content-length')
  if (lengths.length > 1 || (lengths[0] !== undefined && (codings.length > 0 || !/^\d{1,15}$/.test(lengths[0])))) {
    return { code: 'request_malformed', message: 'the length of the body can be read in more than one way' }
  }
  // Servers that fold "_" to "-" would see framing here that nobody else sees.
  const folded = rawHeaders.find((name, i) => i % 2 === 0 && FRAMING.has(foldName(name)) && !FRAMING.has(name.toLowerCase()))
  return folded === undefined
    ? undefined
    : { code: 'request_malformed', message: `the header "${shown(folded)}" can be read as another one` }
}

/** RFC 6455 §4.2.1: a WebSocket handshake that every server reads alike. Nothing else is carried; h2c would hide what comes after it. */
function refuseUpgrade({ method, rawHeaders, isUpgrade }: RequestHead): Refusal | undefined {
  const upgrades = valuesOf(rawHeaders, 'upgrade')
  if (upgrades.length === 0) return undefined
  const isWebSocket = isUpgrade === true && upgrades.length === 1 && upgrades[0]?.toLowerCase() === 'websocket'
  if (!isWebSocket) {
    return {
      code: 'upgrade_refused',
      message: `Upgrade: ${shown(upgrades.join(', '))}`,
      hint: 'WebSocket is carried; HTTP/2 is spoken inside TLS, not after an upgrade: send the request without the field',
    }
  }
  const single = (name: string): string | undefined => {
    const values = valuesOf(rawHeaders, name)
    return values.length === 1 ? values[0] : undefined
  }
  const hasBody = ['content-length', 'transfer-encoding'].some((name) => valuesOf(rawHeaders, name).some((value) => value !== '0'))
  const isWhole =
    method === 'GET' &&
    !hasBody &&
    single('sec-websocket-version') === '13' &&
    /^[A-Za-z0-9+/]{22}==$/.test(single('sec-websocket-key') ?? '')
  return isWhole ? undefined : { code: 'request_malformed', message: 'the WebSocket handshake is not one of RFC 6455' }
}

function readInside(head: RequestHead, tunnel: Tunnel): Facts | Refusal {
  const named = valuesOf(head.rawHeaders, 'host')[0]
  if (named === undefined) return { code: 'request_malformed', message: 'no Host header' }
  const end = endOf(tunnel, named)
  if ('code' in end) return end
  if (!namesEnd(named, end)) return misdirected(`Host "${shown(named)}"`, end)
  if (head.scheme !== undefined && head.scheme !== end.scheme) return misdirected(`the scheme "${shown(head.scheme)}"`, end)
  if (head.url.startsWith('/')) return { ...end, method: head.method, path: head.url }
  const absolute = ABSOLUTE.exec(head.url)
  if (!absolute) return { code: 'target_invalid', message: `the request target "${shown(head.url)}" is neither a path nor a URL` }
  const [, scheme = '', authority = '', rest = ''] = absolute
  if (scheme.toLowerCase() !== end.scheme || !namesEnd(authority, end)) return misdirected(`the target "${shown(head.url)}"`, end)
  return { ...end, method: head.method, path: pathOf(rest) }
}

type End = { readonly scheme: 'http' | 'https'; readonly host: Hostname; readonly port: number }

/** Where the connection leads, or where the request says on one that knows no proxy. */
function endOf({ scheme, host, port }: Tunnel, named: string): End | Refusal {
  if (host !== undefined) return { scheme, host, port }
  const parsed = parseAuthority(named)
  return 'code' in parsed ? parsed : { scheme, host: parsed.host, port }
}

function readAbsolute(head: RequestHead): Facts | Refusal {
  const absolute = ABSOLUTE.exec(head.url)
  if (!absolute) {
    return {
      code: 'not_a_proxy_request',
      message: `the request target "${shown(head.url)}" names no host`,
      hint: 'this is a proxy: set http_proxy and https_proxy to it, and ask for whole URLs',
    }
  }
  const [, schemeText = '', authority = '', rest = ''] = absolute
  const scheme = schemeText.toLowerCase() === 'https' ? 'https' : 'http'
  const parsed = parseAuthority(authority)
  if ('code' in parsed) return parsed
  const end = { host: parsed.host, port: parsed.port ?? DEFAULT_PORT[scheme] }
  const host = valuesOf(head.rawHeaders, 'host')[0]
  if (host !== undefined && !namesEnd(host, { ...end, scheme })) {
    return {
      code: 'authority_mismatch',
      message: `the target names ${formatAuthority(end.host, end.port)}, the Host header "${shown(host)}"`,
    }
  }
  return { scheme, ...end, method: head.method, path: pathOf(rest) }
}

function pathOf(rest: string): string {
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** Most requests name one of a few ends, each of them twice. */
const parseAuthority = memo(
  LIMITS.textsKeptMax,
  LIMITS.textKeptCharsMax,
  (authority): { readonly host: Hostname; readonly port: number | undefined } | Refusal => {
    const split = splitAuthority(authority)
    if (!split) return { code: 'target_invalid', message: `"${shown(authority)}" is not host:port` }
    const host = parseHostname(split.host)
    if (isHostname(host)) return { host, port: split.port }
    return {
      code: 'host_invalid',
      message: `the host "${shown(split.host)}" is refused: ${host.problem}`,
      ...(host.canonical !== undefined && { hint: `write "${host.canonical}"` }),
    }
  },
)

/** Whether `host[:port]` is the same end. Without a port it is the scheme's own, or any where the scheme is unknown. */
function namesEnd(text: string, end: { host: Hostname; port: number; scheme?: 'http' | 'https' }): boolean {
  const parsed = parseAuthority(text)
  if ('code' in parsed || parsed.host !== end.host) return false
  return parsed.port === undefined ? end.scheme === undefined || end.port === DEFAULT_PORT[end.scheme] : parsed.port === end.port
}

function misdirected(what: string, { host, port }: End): Refusal {
  return {
    code: 'misdirected_request',
    message: `${what} on a connection to ${formatAuthority(host, port)}`,
    hint: 'open a connection of its own for each host',
  }
}
