import { createHash, createHmac } from 'node:crypto'
import { SallyportError } from '../kernel/errors.ts'
import type { Secret } from '../kernel/secret.ts'
import { shown } from '../kernel/shown.ts'
import { foldName, valuesOf } from '../wire/credential-fields.ts'

/** What a request says about its own signature (AWS Signature Version 4, in the Authorization field). */
export type AwsSignature = {
  readonly accessKeyId: string
  /** `20130524T000000Z`, from X-Amz-Date or else Date. */
  readonly date: string
  readonly region: string
  readonly service: string
  /** Lower case, sorted; `host` is among them. */
  readonly signedHeaders: readonly string[]
}

export type AwsRequest = {
  readonly method: string
  /** The request target as it goes out, byte for byte: path and query. */
  readonly path: string
  /** Name, value, … as they go out, `host` among them, and still with what the agent signed with. */
  readonly headers: readonly string[]
  /** Of the body, by `payloadHashOf`. Counts only where `needsBodyHash` says so. */
  readonly payloadHash: string
}

export type AwsKeys = { readonly accessKeyId: Secret; readonly secretKey: Secret; readonly sessionToken?: Secret }

const ALGORITHM = 'AWS4-HMAC-SHA256'
const TERMINATOR = 'aws4_request'
const TOKEN_FIELD = 'x-amz-security-token'
const PAYLOAD_FIELD = 'x-amz-content-sha256'

/** Services that take the path as it is: no dot segments removed, every segment encoded once. */
const PLAIN_PATH_SERVICES = new Set(['s3', 's3-object-lambda', 's3-outposts', 's3express'])

/** Payloads that have no hash, and no signatures inside that only the key's owner can make. */
const UNSIGNED_PAYLOADS = new Set(['UNSIGNED-PAYLOAD', 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'])

/** Reads the one signature of a request, or says what is wrong with it. Nothing is verified: the key is worthless. */
export function readAwsSignature(headers: readonly string[]): AwsSignature | { readonly problem: string } {
  const [authorization, ...others] = valuesOf(headers, 'authorization')
  if (authorization === undefined) return { problem: 'it has no Authorization field' }
  if (others.length > 0) return { problem: 'it has more than one Authorization field' }
  if (authorization.startsWith('AWS4-ECDSA')) return { problem: 'it is signed by Signature Version 4A, which is not signed anew' }
  if (!authorization.startsWith(`${ALGORITHM} `)) return { problem: `its Authorization field is not ${ALGORITHM}` }
  const parts = readParts(authorization.slice(ALGORITHM.length + 1))
  if (typeof parts === 'string') return { problem: parts }
  const [accessKeyId = '', day = '', region = '', service = '', terminator, ...more] = parts.credential.split('/')
  if (accessKeyId === '' || region === '' || service === '' || terminator !== TERMINATOR || more.length > 0)
    return { problem: `its Credential is not KEY/DATE/REGION/SERVICE/${TERMINATOR}` }
  const signedHeaders = parts.signedHeaders.split(';')
  const problem = problemOfNames(signedHeaders)
  if (problem !== undefined) return { problem }
  const date = readDate(headers)
  if (date === undefined) return { problem: 'it has no one X-Amz-Date like 20130524T000000Z, nor one Date instead' }
  if (day !== date.slice(0, 8)) return { problem: `its Credential is for the day ${shown(day)}, its date is ${date}` }
  return { accessKeyId, date, region, service, signedHeaders }
}

/** Whether the hash of the body has to be known before the request can be signed: it does not say one itself. */
export function needsBodyHash(headers: readonly string[]): boolean {
  return valuesOf(headers, PAYLOAD_FIELD).length === 0
}

/** SHA-256 in hex; of nothing for a request without a body. */
export function payloadHashOf(body: Uint8Array = new Uint8Array()): string {
  return createHash('sha256').update(body).digest('hex')
}

/**
 * The fields of the request, signed anew with the true key, by the agent's own date and list of signed fields. What the
 * agent sent as Authorization and X-Amz-Security-Token is gone. `sensitive` are names of the fields that are ours.
 * The path is not changed. Sources: "Create a signed AWS API request" (IAM User Guide), "Signature Calculations for the
 * Authorization Header" (Amazon S3 API Reference).
 * @throws aws_signature_refused when it is not signed for this region and service, or cannot be signed anew
 */
export function signAws(
  request: AwsRequest,
  keys: AwsKeys,
  scope: { readonly region: string; readonly service: string },
): { readonly headers: string[]; readonly sensitive: readonly string[] } {
  const signature = readAwsSignature(request.headers)
  if ('problem' in signature) throw refused(signature.problem)
  if (signature.region !== scope.region || signature.service !== scope.service) {
    throw refused(
      `it is signed for ${shown(signature.service)} in ${shown(signature.region)}`,
      `the policy has this credential for ${scope.service} in ${scope.region}: set that region`,
    )
  }
  const headers = withoutOwn(request.headers)
  const sensitive = ['authorization']
  let names = signature.signedHeaders.filter((name) => name !== TOKEN_FIELD)
  if (keys.sessionToken) {
    headers.push(TOKEN_FIELD, keys.sessionToken.reveal())
    sensitive.push(TOKEN_FIELD)
    names = [...names, TOKEN_FIELD].toSorted()
  }
  const credentialScope = [signature.date.slice(0, 8), scope.region, scope.service, TERMINATOR]
  const canonical = [
    request.method,
    canonicalPath(pathOf(request.path), scope.service),
    canonicalQuery(queryOf(request.path)),
    ...names.map((name) => `${name}:${canonicalValue(headers, name)}`),
    '',
    names.join(';'),
    payloadOf(request),
  ].join('\n')
  const toSign = [ALGORITHM, signature.date, credentialScope.join('/'), payloadHashOf(Buffer.from(canonical, 'latin1'))].join('\n')
  let key: string | Buffer = `AWS4${keys.secretKey.reveal()}`
  for (const part of credentialScope) key = createHmac('sha256', key).update(part).digest()
  const value = createHmac('sha256', key).update(toSign).digest('hex')
  headers.push(
    'authorization',
    `${ALGORITHM} Credential=${[keys.accessKeyId.reveal(), ...credentialScope].join('/')}, SignedHeaders=${names.join(';')}, Signature=${value}`,
  )
  return { headers, sensitive }
}

function refused(problem: string, hint?: string): SallyportError {
  return new SallyportError('aws_signature_refused', `the request cannot be signed anew: ${problem}`, {
    hint: hint ?? 'sign it with the placeholder keys of the environment by AWS Signature Version 4, in the Authorization field',
  })
}

/** Without what the agent signed with, in any name that lenient servers take for it. */
function withoutOwn(headers: readonly string[]): string[] {
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = foldName(headers[i] ?? '')
    if (name !== 'authorization' && name !== TOKEN_FIELD) kept.push(headers[i] ?? '', headers[i + 1] ?? '')
  }
  return kept
}

type Parts = { readonly credential: string; readonly signedHeaders: string }

/** Credential, SignedHeaders and Signature, each once. A text is why it is not that. */
function readParts(text: string): Parts | string {
  const found = new Map<string, string>()
  for (const part of text.split(',')) {
    const [name, value] = splitOnce(part.trim(), '=')
    if (found.has(name)) return `its Authorization field has "${shown(name)}" twice`
    found.set(name, value ?? '')
  }
  const [credential, signedHeaders, signature] = ['Credential', 'SignedHeaders', 'Signature'].map((name) => found.get(name))
  if (credential === undefined || signedHeaders === undefined || signature === undefined || found.size !== 3)
    return 'its Authorization field is not Credential, SignedHeaders and Signature'
  if (!/^[0-9a-f]{64}$/.test(signature)) return 'its Signature is not 64 hexadecimal digits in lower case'
  return { credential, signedHeaders }
}

/** A list that a verifier would sort, fold or thin out before it uses it could be read as two different ones. */
function problemOfNames(names: readonly string[]): string | undefined {
  const bad = names.find((name) => !/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name))
  if (bad !== undefined) return `"${shown(bad)}" in its SignedHeaders is not a field name in lower case`
  const unsorted = names.find((name, i) => i > 0 && name <= (names[i - 1] ?? ''))
  if (unsorted !== undefined) return `its SignedHeaders are not sorted, or name one twice, at "${shown(unsorted)}"`
  if (names.includes('authorization')) return 'its SignedHeaders name the Authorization field itself'
  return names.includes('host') ? undefined : 'its SignedHeaders lack host'
}

/** The one date of the request in basic ISO 8601, as the signature has it. */
function readDate(headers: readonly string[]): string | undefined {
  const own = valuesOf(headers, 'x-amz-date')
  const values = own.length > 0 ? own : valuesOf(headers, 'date')
  const [value = ''] = values
  if (values.length !== 1) return undefined
  const basic = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(value)
  // RFC 9110 §5.6.7: the one form that a sender may use.
  const isHttpDate = own.length === 0 && /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/.test(value)
  const ms = basic ? Date.parse(`${basic.slice(1, 4).join('-')}T${basic.slice(4).join(':')}Z`) : isHttpDate ? Date.parse(value) : Number.NaN
  if (Number.isNaN(ms)) return undefined
  return new Date(ms).toISOString().replaceAll(/[-:]|\.000/g, '')
}

/** What the request says of its payload, or the hash that was worked out. */
function payloadOf({ headers, payloadHash }: AwsRequest): string {
  const [said, ...others] = valuesOf(headers, PAYLOAD_FIELD)
  if (said === undefined) return payloadHash
  if (others.length > 0) throw refused(`it has more than one ${PAYLOAD_FIELD} field`)
  if (/^[0-9a-f]{64}$/.test(said) || UNSIGNED_PAYLOADS.has(said)) return said
  if (said.startsWith('STREAMING-')) {
    throw refused(
      `each piece of its body is signed (${shown(said)})`,
      'have the body signed as a whole or not at all: payload_signing_enabled=false, or checksums in an unsigned trailer',
    )
  }
  throw refused(`its ${PAYLOAD_FIELD} is "${shown(said)}"`)
}

function pathOf(target: string): string {
  return splitOnce(target, '?')[0]
}

function queryOf(target: string): string {
  return splitOnce(target, '?')[1] ?? ''
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator)
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

function canonicalPath(path: string, service: string): string {
  if (path === '') return '/'
  // The services with plain paths decode the path before they encode it; the others encode what stands on the wire.
  if (PLAIN_PATH_SERVICES.has(service))
    return path
      .split('/')
      .map((segment) => encoded(decoded(segment)))
      .join('/')
  return withoutDots(path).split('/').map(encoded).join('/')
}

/** RFC 3986 §5.2.4, and without empty segments. */
function withoutDots(path: string): string {
  const segments: string[] = []
  const all = path.split('/')
  for (const segment of all) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(segment)
  }
  const isFolder = ['', '.', '..'].includes(all.at(-1) ?? '')
  return `/${segments.join('/')}${isFolder && segments.length > 0 ? '/' : ''}`
}

/** Sorted by encoded name, then by encoded value: not by both in one text, where "=" would sort before letters. */
function canonicalQuery(query: string): string {
  return query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => splitOnce(pair.replaceAll('+', ' '), '=').map((part) => encoded(decoded(part ?? ''))))
    .toSorted(([nameA = '', valueA = ''], [nameB = '', valueB = '']) => compare(nameA, nameB) || compare(valueA, valueB))
    .map((pair) => pair.join('='))
    .join('&')
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** Of all fields of the name together. One that was signed and does not go out would make any signature a wrong one. */
function canonicalValue(headers: readonly string[], name: string): string {
  const values = valuesOf(headers, name)
  if (values.length === 0) {
    throw refused(
      `it signs the field ${shown(name)}, which ${name === 'host' ? 'is missing' : 'it does not have or which does not pass the gate'}`,
      `leave ${shown(name)} out of SignedHeaders`,
    )
  }
  return values.map((value) => value.replaceAll(/[ \t]+/g, ' ').replaceAll(/^ | $/g, '')).join(',')
}

/** RFC 3986 §2.1, on texts with one character a byte, as heads are read. Only unreserved characters stay. */
function encoded(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9\-._~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
}

function decoded(text: string): string {
  return text.replaceAll(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}
