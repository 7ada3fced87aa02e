import type { IncomingMessage } from 'node:http'
import { SallyportError } from '../../kernel/errors.ts'
import { TERMINAL_PATH } from '../../wire/terminal-protocol.ts'

/**
 * Answers with each response of the page's listener: nobody frames it, reads it from another origin, guesses its types or keeps it. What
 * a page of ours may load it says itself, by a policy that is stricter than none.
 */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy':
    'publickey-credentials-get=(self), publickey-credentials-create=(self), camera=(), microphone=(), geolocation=(), usb=(), serial=(), hid=(), payment=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** What the page itself may load: its own files and the daemon's answers. No inline script or style, and no text that becomes markup. */
export const DOCUMENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

/** The headers of which a second one could be the one that somebody else reads. */
const SINGLE = [
  'host',
  'origin',
  'authorization',
  'content-type',
  'content-length',
  'sec-fetch-site',
  'sec-fetch-mode',
  'sec-fetch-dest',
  'upgrade',
  'sec-websocket-key',
  'sec-websocket-version',
  'sec-websocket-protocol',
]

/**
 * Refuses what the operator's own page, or a program that means this listener, would not send. A browser sends requests here for any page
 * that it shows: by a name that was pointed to this address (Host), from another origin or port (Origin, Sec-Fetch-Site), as a form
 * (Content-Type), in a frame (Sec-Fetch-Dest).
 *
 * @param isFile the page itself and its parts, which hold nothing: a link elsewhere may lead to it
 * @throws origin_refused
 */
export function refuseForeign(request: IncomingMessage, port: number, isFile: boolean): void {
  const { headers } = request
  refuseDoubled(request)
  const own = `localhost:${port}`
  if (headers.host !== own) throw refused(`the Host is not ${own}`, `use http://${own}`)
  if (headers.upgrade !== undefined) throw refused('it asks for another protocol')
  if (headers.origin !== undefined && headers.origin !== `http://${own}`) throw refused('its Origin is not that of the page')
  refuseFetch(headers, isFile)
  const hasBody = headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'
  // A form can send text/plain that reads as JSON, and no other JSON than that.
  if (hasBody && !/^application\/json(?:; ?charset=utf-8)?$/i.test(headers['content-type'] ?? ''))
    throw refused('its body is not application/json')
  if (hasBody && (request.method === 'GET' || request.method === 'HEAD')) throw refused(`a ${request.method} has no body`)
}

/**
 * The same for the one path that becomes a WebSocket. No rule of browsers keeps a page of somebody else from opening one here and reading
 * it (RFC 6455 §10.2): the Origin must be there, and ours.
 * @throws origin_refused
 */
export function refuseForeignSocket(request: IncomingMessage, port: number): void {
  const { headers } = request
  refuseDoubled(request)
  const own = `localhost:${port}`
  if (headers.host !== own) throw refused(`the Host is not ${own}`, `use http://${own}`)
  if (request.method !== 'GET' || request.url !== TERMINAL_PATH || headers.upgrade?.toLowerCase() !== 'websocket')
    throw refused('it asks for another protocol')
  if (headers.origin !== `http://${own}`) throw refused('its Origin is not that of the page')
  const { 'sec-fetch-site': site = 'same-origin', 'sec-fetch-mode': mode = 'websocket', 'sec-fetch-dest': dest = 'websocket' } = headers
  if (site !== 'same-origin') throw refused('it comes from another origin (Sec-Fetch-Site)')
  if (mode !== 'websocket') throw refused('it is no WebSocket of a script (Sec-Fetch-Mode)')
  if (dest !== 'websocket' && dest !== 'empty') throw refused('it is no WebSocket of a script (Sec-Fetch-Dest)')
  if (headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0') throw refused('a GET has no body')
}

function refuseDoubled({ rawHeaders }: IncomingMessage): void {
  const names = rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase())
  for (const name of SINGLE) if (names.filter((one) => one === name).length > 1) throw refused(`the header ${name} comes twice`)
}

/** Fetch Metadata (W3C): what browsers say of where a request comes from. Programs send none of it. */
function refuseFetch(headers: IncomingMessage['headers'], isFile: boolean): void {
  const site = headers['sec-fetch-site']
  const mode = headers['sec-fetch-mode']
  const dest = headers['sec-fetch-dest']
  if (isFile && mode === 'navigate') {
    if (dest !== undefined && dest !== 'document') throw refused('the page is not shown inside of another')
    return
  }
  if (site !== undefined && site !== 'same-origin') throw refused('it comes from another origin (Sec-Fetch-Site)')
  if (isFile) return
  if (mode !== undefined && mode !== 'cors' && mode !== 'same-origin') throw refused('it is no call of a script (Sec-Fetch-Mode)')
  if (dest !== undefined && dest !== 'empty') throw refused('it is no call of a script (Sec-Fetch-Dest)')
}

/** Nothing of the request is repeated: who sent it is a stranger. */
function refused(why: string, hint?: string): SallyportError {
  return new SallyportError('origin_refused', `the request is refused: ${why}`, hint === undefined ? {} : { hint })
}
