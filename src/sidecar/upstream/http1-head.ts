import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { memo } from '../../kernel/memo.ts'
import type { UpstreamRequest } from './upstream.ts'

/** A request as it is written in front of its body. */
export type Http1Head = {
  /** Latin1, with the empty line at its end. */
  readonly text: string
  /** Of the body; without one the body goes in chunks. */
  readonly length: number | undefined
  /** The connection carries nothing behind it. */
  readonly isLast: boolean
}

type FieldKind = 'host' | 'length' | 'of the connection' | 'other'

/** Methods whose requests have a body by their meaning: an empty one is said to be so (RFC 9110 §8.6). */
const WITH_BODY = new Set(['POST', 'PUT', 'PATCH', 'QUERY', 'PROPFIND', 'PROPPATCH'])
/** What frames a message or says what becomes of the connection is written here and nowhere else. I10 */
const OF_THE_CONNECTION = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'expect'])
const TOKEN = /^[!#$%&'*+\-.^_`|~\dA-Za-z]+$/
const NOT_IN_VALUES = /[^\t\x20-\x7e\x80-\xff]/
const NOT_IN_PATHS = /[^\x21-\x7e\x80-\xff]/
const LENGTH = /^\d{1,15}$/

/**
 * The head of a request, `where` being its Host if it names none. Nothing in it can end a line or the head, and its framing has one
 * reading. @throws internal when there is something that cannot be written: it was let in by mistake
 */
export function http1Head({ method, path, headers, body, upgrade }: UpstreamRequest, where: string): Http1Head {
  if (!TOKEN.test(method) || method === 'CONNECT' || path === '' || NOT_IN_PATHS.test(path)) throw unwritable('its first line')
  let host = ''
  let length: number | undefined
  let fields = ''
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    const value = headers[i + 1] ?? ''
    if (NOT_IN_VALUES.test(value)) throw unwritable('the value of a field')
    switch (kindOf(name)) {
      case 'other':
        break
      case 'host':
        if (host !== '') throw unwritable('a second Host')
        host = value
        continue
      case 'length':
        if (length !== undefined || !LENGTH.test(value)) throw unwritable('its Content-Length')
        length = Number(value)
        break
      case 'of the connection':
        throw unwritable('a field that belongs to the connection')
    }
    fields += `${name}: ${value}\r\n`
  }
  const whole = body === undefined || body === null ? 0 : Buffer.isBuffer(body) ? body.length : undefined
  if (whole !== undefined && length !== undefined && length !== whole) throw unwritable('its Content-Length')
  const hasBody = (whole ?? length) !== 0
  if (length === undefined && whole === undefined) fields += 'transfer-encoding: chunked\r\n'
  else if (length === undefined && (hasBody || WITH_BODY.has(method))) fields += `content-length: ${whole}\r\n`
  // Servers that send a body with the answer to HEAD, or leave one unread that they did not expect, would have it taken for the next
  // message.
  const isLast = upgrade !== undefined || method === 'HEAD' || (hasBody && !WITH_BODY.has(method))
  const connection = upgrade === undefined ? (isLast ? 'close' : 'keep-alive') : `upgrade\r\nupgrade: ${upgrade}`
  return {
    text: `${method} ${path} HTTP/1.1\r\nhost: ${host || where}\r\nconnection: ${connection}\r\n${fields}\r\n`,
    length: length ?? whole,
    isLast,
  }
}

const kindOf = memo(LIMITS.textsKeptMax, LIMITS.textKeptCharsMax, (name): FieldKind => {
  if (!TOKEN.test(name)) throw unwritable('the name of a field')
  const lower = name.toLowerCase()
  if (OF_THE_CONNECTION.has(lower)) return 'of the connection'
  if (lower === 'host') return 'host'
  return lower === 'content-length' ? 'length' : 'other'
})

function unwritable(what: string): SallyportError {
  return new SallyportError('internal', `the request cannot be written: ${what}`)
}

/** What the fields of an answer say of its connection and its body. */
export type Http1Hints = {
  /** How long the upstream keeps the connection, where it says so (`Keep-Alive: timeout=5`). */
  readonly keepAliveMs: number | undefined
  /** A Transfer-Encoding, or a Content-Length that is not 0. */
  readonly saysBody: boolean
}

export function http1Hints(headers: readonly string[]): Http1Hints {
  let keepAliveMs: number | undefined
  let saysBody = false
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    // Few names are as long as these, so few are looked at.
    if (name.length === 10 && name.toLowerCase() === 'keep-alive') {
      const seconds = /(?:^|[,;\s])timeout\s*=\s*"?(\d{1,9})/i.exec(headers[i + 1] ?? '')?.[1]
      if (seconds !== undefined) keepAliveMs = Number(seconds) * 1_000
    } else if (name.length === 14 && name.toLowerCase() === 'content-length') saysBody ||= Number(headers[i + 1]) !== 0
    else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') saysBody = true
  }
  return { keepAliveMs, saysBody }
}
