import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { openUpstream, type Place, type Recorded, type Upstream } from './upstream.ts'

/** Whose requests a verifier takes, for which region and service. */
export type AwsAccount = {
  readonly accessKeyId: string
  readonly secretKey: string
  readonly sessionToken?: string
  readonly region: string
  readonly service: string
}

export type ArrivedRequest = Pick<Recorded, 'method' | 'url' | 'rawHeaders' | 'body'>

/**
 * Why a service would refuse the request, or `undefined` when it is signed rightly. Written from the published description of
 * Signature Version 4 alone, and shares nothing with the code that signs: what one of them reads wrongly the other finds.
 */
export function faultOfSignature(request: ArrivedRequest, account: AwsAccount): string | undefined {
  const fields = fieldsOf(request.rawHeaders)
  const authorizations = fields.get('authorization') ?? []
  if (authorizations.length !== 1) return `${authorizations.length} Authorization fields`
  const grammar = /^AWS4-HMAC-SHA256 Credential=([^,\s]+), ?SignedHeaders=([^,\s]+), ?Signature=([0-9a-f]{64})$/
  const match = grammar.exec(authorizations[0] ?? '')
  if (!match) return 'IncompleteSignature'
  const [, credential = '', signedList = '', signature = ''] = match
  const time = (fields.get('x-amz-date') ?? fields.get('date'))?.join() ?? ''
  const stamp = /^\d{8}T\d{6}Z$/.test(time) ? time : new Date(time).toISOString().replace(/[-:]/g, '').replace('.000', '')
  const scope = `${stamp.slice(0, 8)}/${account.region}/${account.service}/aws4_request`
  if (credential !== `${account.accessKeyId}/${scope}`) return 'InvalidClientTokenId'
  if ((fields.get('x-amz-security-token') ?? []).join() !== (account.sessionToken ?? '')) return 'InvalidToken'

  const signed = signedList.split(';')
  if (signed.join() !== [...new Set(signed)].toSorted().join() || signedList !== signedList.toLowerCase())
    return 'SignedHeaders out of order'
  const unsigned = [...fields.keys()].filter((name) => (name === 'host' || name === 'x-amz-security-token') && !signed.includes(name))
  if (unsigned.length > 0) return `not signed: ${unsigned.join()}`
  const payload = payloadOf(request, fields)
  if (payload === undefined) return 'XAmzContentSHA256Mismatch'

  const missing = signed.find((name) => !fields.has(name))
  if (missing !== undefined) return `${missing} is signed and not there`
  const right = signatureFor(request, account, stamp, signed, payload)
  return timingSafeEqual(Buffer.from(right, 'hex'), Buffer.from(signature, 'hex')) ? undefined : 'SignatureDoesNotMatch'
}

/** The signature of the request by who holds the account's key. `payload` is the last line of the canonical request. */
export function signatureFor(
  request: ArrivedRequest,
  account: Pick<AwsAccount, 'secretKey' | 'region' | 'service'>,
  stamp: string,
  signed: readonly string[],
  payload: string,
): string {
  const fields = fieldsOf(request.rawHeaders)
  const cut = request.url.indexOf('?')
  let canonical = `${request.method}\n`
  canonical += `${uriOf(cut < 0 ? request.url : request.url.slice(0, cut), account.service)}\n`
  canonical += `${queryOf(cut < 0 ? '' : request.url.slice(cut + 1))}\n`
  for (const name of signed) {
    const values = fields.get(name) ?? []
    canonical += `${name}:${values.map((value) => value.trim().split(/\s+/).join(' ')).join(',')}\n`
  }
  canonical += `\n${signed.join(';')}\n${payload}`
  const scope = `${stamp.slice(0, 8)}/${account.region}/${account.service}/aws4_request`
  const text = `AWS4-HMAC-SHA256\n${stamp}\n${scope}\n${createHash('sha256').update(canonical, 'latin1').digest('hex')}`
  const mac = (key: string | Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest()
  const dayKey = mac(`AWS4${account.secretKey}`, stamp.slice(0, 8))
  return mac(mac(mac(mac(dayKey, account.region), account.service), 'aws4_request'), text).toString('hex')
}

export type AwsService = Upstream & {
  /** One entry a request: why it was refused, or `undefined`. */
  readonly faults: (string | undefined)[]
}

export type AwsServiceOptions = {
  readonly tls?: { cert: string; key: string }
  readonly place?: Place
  /** What a request gets that is signed rightly. */
  readonly answer?: (request: Recorded, response: ServerResponse) => void
}

/** A service on loopback that takes only what is signed rightly: 200 "ok", else 403 with the reason. */
export async function openAwsService(account: AwsAccount, { tls, place, answer }: AwsServiceOptions = {}): Promise<AwsService> {
  const faults: (string | undefined)[] = []
  const upstream = await openUpstream(
    (request, response) => {
      const fault = faultOfSignature(request, account)
      faults.push(fault)
      if (fault === undefined && answer) answer(request, response)
      else response.writeHead(fault === undefined ? 200 : 403, { 'content-type': 'text/plain' }).end(fault ?? 'ok')
    },
    tls,
    place,
  )
  return Object.defineProperty(upstream, 'faults', { value: faults }) as AwsService
}

function fieldsOf(rawHeaders: readonly string[]): Map<string, string[]> {
  const fields = new Map<string, string[]>()
  rawHeaders.forEach((name, at) => {
    if (at % 2 === 1) return
    const key = name.toLowerCase()
    fields.set(key, [...(fields.get(key) ?? []), rawHeaders[at + 1] ?? ''])
  })
  return fields
}

/** The last line of the canonical request; `undefined` where the body is not what the request says it is. */
function payloadOf(request: ArrivedRequest, fields: Map<string, string[]>): string | undefined {
  const body = createHash('sha256').update(request.body).digest('hex')
  const said = fields.get('x-amz-content-sha256')?.join()
  if (said === undefined) return body
  if (said === 'UNSIGNED-PAYLOAD' || said === 'STREAMING-UNSIGNED-PAYLOAD-TRAILER') return said
  return said === body ? said : undefined
}

function uriOf(path: string, service: string): string {
  // A client signs for S3 the text that it sends, as it escapes just what has to be escaped; for others it escapes that again.
  if (service.startsWith('s3')) return path.split('/').map(escapeOnce).join('/')
  const kept = path.split('/').reduce<string[]>((stack, part) => {
    if (part === '..') return stack.slice(0, -1)
    return part === '.' || part === '' ? stack : [...stack, part]
  }, [])
  const tail = /(?:^|\/)\.{0,2}$/.test(path) && kept.length > 0 ? '/' : ''
  return `/${kept.map((part) => escapeBytes(Buffer.from(part, 'latin1'))).join('/')}${tail}`
}

function queryOf(query: string): string {
  const lines = query.split('&').filter(Boolean)
  const pairs = lines.map((line) => {
    const at = line.includes('=') ? line.indexOf('=') : line.length
    return [line.slice(0, at), line.slice(at + 1)].map((part) => escapeOnce(part.split('+').join('%20')))
  })
  // NUL sorts before every character that an escaped name can have, so that a name sorts before a longer one that begins with it.
  const keys = pairs.map(([name, value]) => `${name}\0${value}`)
  return keys
    .toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    .join('&')
    .split('\0')
    .join('=')
}

/** Escapes what is not escaped yet, and writes what is in the one published form. */
function escapeOnce(text: string): string {
  const bytes: number[] = []
  for (let at = 0; at < text.length; at += 1) {
    const hex = text[at] === '%' ? text.slice(at + 1, at + 3) : ''
    const isEscape = hex.length === 2 && hex.split('').every((digit) => '0123456789abcdefABCDEF'.includes(digit))
    bytes.push(isEscape ? parseInt(hex, 16) : text.charCodeAt(at))
    if (isEscape) at += 2
  }
  return escapeBytes(Uint8Array.from(bytes))
}

function escapeBytes(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) {
    const char = String.fromCharCode(byte)
    const isLetterOrDigit = (byte >= 48 && byte <= 57) || (byte >= 65 && byte <= 90) || (byte >= 97 && byte <= 122)
    text += isLetterOrDigit || '-._~'.includes(char) ? char : `%${(byte < 16 ? '0' : '') + byte.toString(16).toUpperCase()}`
  }
  return text
}
