import { LIMITS } from '../../kernel/limits.ts'

/** A question that can be answered, read byte by byte. */
export type Query = {
  readonly id: number
  /** The flags that an answer copies: recursion desired and checking disabled (RFC 1035 §4.1.1, RFC 4035 §3.2.2). */
  readonly flags: number
  /** Name, type and class as they came: case and odd bytes are echoed unchanged (RFC 5452 §9.1, the "0x20" habit). */
  readonly question: Buffer
  /** The name as text, `.` for the root. A dot inside a label is `\.`, so that no two names read alike. */
  readonly name: string
  readonly type: number
  readonly class: number
  /** Present when the query has an OPT record (RFC 6891). */
  readonly edns: { readonly version: number; readonly wantsDnssec: boolean } | undefined
}

export const RCODE = { noError: 0, formErr: 1, servFail: 2, nxDomain: 3, notImp: 4, refused: 5, badVers: 16 } as const
export type Rcode = (typeof RCODE)[keyof typeof RCODE]

const HEADER_BYTES = 12
const NAME_BYTES_MAX = 255
const LABEL_BYTES_MAX = 63
const OPT_BYTES = 11
const TYPE = { opt: 41, ixfr: 251, axfr: 252 } as const
const RECURSION_DESIRED = 1 << 8
const CHECKING_DISABLED = 1 << 4

/**
 * Reads a query. What can't be answered in full is the response code to say so with; nothing at all (`undefined`) is due to
 * less than a header, and to responses: two answerers that answer each other would never stop.
 *
 * Everything is checked here, before a library sees it: dns-packet's reader follows pointers, joins labels with dots in them
 * and replaces bytes that are not UTF-8, so that the name it reads may not be the name that was asked.
 */
export function readQuery(bytes: Buffer): Query | Rcode | undefined {
  if (!isQuery(bytes)) return undefined
  if (bytes.length > LIMITS.dnsMessageBytesMax) return RCODE.formErr
  const flags = bytes.readUInt16BE(2)
  if (((flags >> 11) & 15) !== 0) return RCODE.notImp
  if (bytes.readUInt16BE(4) !== 1) return RCODE.formErr
  const name = readName(bytes)
  if (name === undefined || name.end + 4 > bytes.length) return RCODE.formErr
  const type = bytes.readUInt16BE(name.end)
  // Before the sections behind it: IXFR has a record of its own there.
  if (type === TYPE.axfr || type === TYPE.ixfr) return RCODE.refused
  const edns = readEdns(bytes, name.end + 4)
  if (edns === 'malformed' || type === TYPE.opt) return RCODE.formErr
  return {
    id: bytes.readUInt16BE(0),
    flags: flags & (RECURSION_DESIRED | CHECKING_DISABLED),
    question: bytes.subarray(HEADER_BYTES, name.end + 4),
    name: name.text,
    type,
    class: bytes.readUInt16BE(name.end + 2),
    edns,
  }
}

/** At least a header, and not a response. */
export function isQuery(bytes: Buffer): boolean {
  return bytes.length >= HEADER_BYTES && bytes.readUInt8(2) < 0x80
}

/** A header alone that answers a query (one that `isQuery` holds for) which was not read. */
export function bareAnswer(query: Buffer, rcode: Rcode): Buffer {
  const answer = Buffer.alloc(HEADER_BYTES)
  query.copy(answer, 0, 0, 2)
  const opcode = query.readUInt16BE(2) & (15 << 11)
  answer.writeUInt16BE(0x8000 | opcode | (query.readUInt16BE(2) & RECURSION_DESIRED) | (rcode & 15), 2)
  return answer
}

/** The name of the first question and where it ends. */
function readName(bytes: Buffer): { text: string; end: number } | undefined {
  const labels: string[] = []
  let at = HEADER_BYTES
  for (;;) {
    const length = bytes[at++]
    if (length === 0) break
    // Above 63 it is a pointer or of a reserved kind; nothing precedes a question that a pointer could mean (RFC 1035 §4.1.4).
    if (length === undefined || length > LABEL_BYTES_MAX) return undefined
    labels.push(bytes.toString('latin1', at, at + length).replaceAll('.', String.raw`\.`))
    at += length
    if (at >= bytes.length || at + 1 - HEADER_BYTES > NAME_BYTES_MAX) return undefined
  }
  return { text: labels.length === 0 ? '.' : labels.join('.'), end: at }
}

/** What follows the question: nothing, or one OPT record that ends the message. */
function readEdns(bytes: Buffer, at: number): Query['edns'] | 'malformed' {
  const [answers, authorities, additionals] = [bytes.readUInt16BE(6), bytes.readUInt16BE(8), bytes.readUInt16BE(10)]
  if (answers !== 0 || authorities !== 0) return 'malformed'
  if (additionals === 0) return at === bytes.length ? undefined : 'malformed'
  if (additionals !== 1 || at + OPT_BYTES > bytes.length) return 'malformed'
  if (bytes[at] !== 0 || bytes.readUInt16BE(at + 1) !== TYPE.opt) return 'malformed'
  const optionsAt = at + OPT_BYTES
  if (optionsAt + bytes.readUInt16BE(at + 9) !== bytes.length || !addUp(bytes, optionsAt)) return 'malformed'
  return { version: bytes.readUInt8(at + 6), wantsDnssec: (bytes.readUInt16BE(at + 7) & 0x8000) !== 0 }
}

/** Options up to the end of the message, each a code, a length and so many bytes (RFC 6891 §6.1.2). */
function addUp(bytes: Buffer, from: number): boolean {
  let at = from
  while (at + 4 <= bytes.length) at += 4 + bytes.readUInt16BE(at + 2)
  return at === bytes.length
}
