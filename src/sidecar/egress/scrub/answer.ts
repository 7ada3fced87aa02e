import { valuesOf, type RawHeaders } from '../headers.ts'
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
}

/** RFC 9530, RFC 3230, RFC 2616 §14.15: they would no longer be true, and are a way to check guesses of what was replaced. */
const DIGESTS = new Set(['digest', 'content-digest', 'repr-digest', 'content-md5'])
/** What storage services say of the compressed bytes, which are others when compressed again. */
const STORED_DIGESTS = /^(?:x-goog-hash|x-ms-(?:blob-)?content-(?:md5|crc64)|x-amz-checksum-.*)$/

const NO_BODY = new Set([204, 304])
const NOT_MODIFIED = 304

/** @throws secret_echoed; answer_not_scrubbable when the body has a coding that cannot be undone */
export function scrubHead(plan: ScrubPlan, method: string, status: number, reason: string, headers: RawHeaders): ScrubbedHead {
  const hasBody = method !== 'HEAD' && !NO_BODY.has(status)
  const coded = readCodings(valuesOf(headers, 'content-encoding'))
  if (hasBody && 'problem' in coded) throw coded.problem
  const isRecoded = 'problem' in coded || coded.codings.length > 0
  // What a cache holds is known by the weak tag that came with it (RFC 9111 §4.3.4), and a 304 does not say which coding it had.
  const isWeak = isRecoded || status === NOT_MODIFIED
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    const value = headers[i + 1] ?? ''
    const lower = name.toLowerCase()
    if (DIGESTS.has(lower) || (isRecoded && (lower === 'content-length' || STORED_DIGESTS.test(lower)))) continue
    kept.push(name, isWeak && lower === 'etag' ? weakened(value) : value)
  }
  return {
    status,
    reason: scrubText(plan, reason),
    headers: scrubFields(plan, kept),
    codings: hasBody && 'codings' in coded ? coded.codings : undefined,
    contentType: (valuesOf(headers, 'content-type')[0] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '',
  }
}

/** Trailers without secrets and without what is no longer true of the body. @throws secret_echoed */
export function scrubTrailers(plan: ScrubPlan, trailers: RawHeaders): string[] {
  return scrubFields(
    plan,
    trailers.filter((_, i) => !DIGESTS.has((trailers[i - (i % 2)] ?? '').toLowerCase())),
  )
}

/** Fields with marks for secrets in their values, and without those that have one in their name. @throws secret_echoed */
export function scrubFields(plan: ScrubPlan, headers: RawHeaders): string[] {
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
