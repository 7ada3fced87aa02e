import type { RawHeaders } from '../headers.ts'
import { readCodings, type Coding } from './codings.ts'
import { judgeHits, scrubText, type ScrubPlan } from './plan.ts'

/** The head of an answer without secrets, and how its body is to be read. */
export type ScrubbedHead = {
  readonly status: number
  readonly reason: string
  readonly headers: readonly string[]
  /** Codings of the body, the last applied one last; undefined where the answer has no body. */
  readonly codings: readonly Coding[] | undefined
  /** Content-Type without parameters, in lower case. */
  readonly contentType: string
  /** What Content-Length says of the body; Infinity where it says nothing. */
  readonly bodyBytes: number
}

/** RFC 9530, RFC 3230, RFC 2616 §14.15: they would no longer be true, and are a way to check guesses of what was replaced. */
const DIGESTS = new Set(['digest', 'content-digest', 'repr-digest', 'content-md5'])
/** What storage services say of the compressed bytes, which are others when compressed again. */
const STORED_DIGESTS = /^(?:x-goog-hash|x-ms-(?:blob-)?content-(?:md5|crc64)|x-amz-checksum-.*)$/

const NO_BODY = new Set([204, 304])
const NOT_MODIFIED = 304

/** @throws secret_echoed; answer_not_scrubbable when the body has a coding that cannot be undone */
export function scrubHead(plan: ScrubPlan, method: string, status: number, reason: string, headers: RawHeaders): ScrubbedHead {
  const names = namesOf(headers)
  const hasBody = method !== 'HEAD' && !NO_BODY.has(status)
  const coded = readCodings(fieldOf('content-encoding', names, headers))
  if (hasBody && 'problem' in coded) throw coded.problem
  const isRecoded = 'problem' in coded || coded.codings.length > 0
  // What a cache holds is known by the weak tag that came with it (RFC 9111 §4.3.4), and a 304 does not say which coding it had.
  const isWeak = isRecoded || status === NOT_MODIFIED
  const kept: string[] = []
  const keptNames: string[] = []
  for (const [i, lower] of names.entries()) {
    const value = headers[2 * i + 1] ?? ''
    if (DIGESTS.has(lower) || (isRecoded && (lower === 'content-length' || STORED_DIGESTS.test(lower)))) continue
    kept.push(headers[2 * i] ?? '', isWeak && lower === 'etag' ? weakened(value) : value)
    keptNames.push(lower)
  }
  const clean = plan.redactor.areClean([reason, ...kept, ...keptNames])
  return {
    status,
    reason: clean ? reason : scrubText(plan, reason),
    headers: clean ? kept : scrubEach(plan, kept),
    codings: hasBody && 'codings' in coded ? coded.codings : undefined,
    contentType: (fieldOf('content-type', names, headers)[0] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '',
    bodyBytes: isRecoded ? Infinity : lengthIn(fieldOf('content-length', names, headers)),
  }
}

function namesOf(headers: RawHeaders): string[] {
  const names: string[] = []
  for (let i = 0; i < headers.length; i += 2) names.push((headers[i] ?? '').toLowerCase())
  return names
}

/** The values of all fields of the name. */
function fieldOf(name: string, names: readonly string[], headers: RawHeaders): readonly string[] {
  let at = names.indexOf(name)
  if (at < 0) return NONE
  const values: string[] = []
  for (; at >= 0; at = names.indexOf(name, at + 1)) values.push(headers[2 * at + 1] ?? '')
  return values
}

const NONE: readonly never[] = []

function lengthIn(values: readonly string[]): number {
  return values.length === 1 && /^\d{1,15}$/.test(values[0] ?? '') ? Number(values[0]) : Infinity
}

/** Trailers without secrets and without what is no longer true of the body. @throws secret_echoed */
export function scrubTrailers(plan: ScrubPlan, trailers: RawHeaders): RawHeaders {
  if (trailers.length === 0) return trailers
  return scrubFields(
    plan,
    trailers.filter((_, i) => !DIGESTS.has((trailers[i - (i % 2)] ?? '').toLowerCase())),
  )
}

/** Fields with marks for secrets in their values, and without those that have one in their name. @throws secret_echoed */
export function scrubFields(plan: ScrubPlan, headers: RawHeaders): RawHeaders {
  return plan.redactor.areClean([...headers, ...namesOf(headers)]) ? headers : scrubEach(plan, headers)
}

function scrubEach(plan: ScrubPlan, headers: RawHeaders): string[] {
  const scrubbed: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    // HTTP/2 would make the secret of a name that has it but for the case (RFC 9113 §8.2.1).
    const hits = plan.redactor.text(name).hits || plan.redactor.text(name.toLowerCase()).hits
    judgeHits(plan, hits)
    if (hits === 0) scrubbed.push(name, scrubText(plan, headers[i + 1] ?? ''))
  }
  return scrubbed
}

function weakened(tag: string): string {
  return tag.startsWith('"') ? `W/${tag}` : tag
}
