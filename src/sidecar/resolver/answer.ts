import { DNSSEC_OK, encode, RECURSION_AVAILABLE, type Answer, type PacketOpt } from 'dns-packet'
import { isAddress, isHostname, parseHostname, type Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { bareAnswer, RCODE, readQuery, type Query, type Rcode } from './query.ts'

/** The address that a listener is asked at. It is the only one that is ever answered. I19 */
export type Place = {
  readonly address: Hostname
  readonly type: 'A' | 'AAAA'
  /** Its name for PTR questions. */
  readonly reverseName: string
}

export type DnsAnswer = {
  /** At most `LIMITS.dnsMessageBytesMax`, and never much more than the query: nothing is amplified. */
  readonly bytes: Buffer
  /** The name that was asked for in vain, as the asker wrote it, and the type of record. */
  readonly denied?: { readonly name: string; readonly type: string }
}

/** The gate's own name. */
const OWN_NAME = 'sallyport'
const IN = 1
const TYPES: Readonly<Record<number, string>> = {
  1: 'A',
  2: 'NS',
  5: 'CNAME',
  6: 'SOA',
  12: 'PTR',
  15: 'MX',
  16: 'TXT',
  28: 'AAAA',
  33: 'SRV',
  64: 'SVCB',
  65: 'HTTPS',
  255: 'ANY',
}
/** RFC 8914 §4.16: the server was told by its operator not to answer. */
const BLOCKED = 15
const BLOCKED_TEXT = 'no rule of the policy allows this name'
/** A pointer to the first byte behind the header: the name of the question. */
const QUESTION_NAME = Buffer.from([0xc0, 12])

/** The place of a listener that is bound to `address`. */
export function placeOf(address: Hostname): Place {
  if (!address.includes(':')) {
    return { address, type: 'A', reverseName: `${address.split('.').toReversed().join('.')}.in-addr.arpa` }
  }
  const [head = '', tail = ''] = address.split('::').map((part) =>
    part
      .split(':')
      .map((group) => (group === '' ? '' : group.padStart(4, '0')))
      .join(''),
  )
  const digits = head.padEnd(32 - tail.length, '0') + tail
  return { address, type: 'AAAA', reverseName: `${digits.split('').toReversed().join('.')}.ip6.arpa` }
}

/**
 * The answer to the bytes of one query: the address itself for a name that the policy knows, nothing for its other records
 * (no HTTPS record, hence neither ECH nor QUIC), NXDOMAIN for all else. Nobody else is asked (I3).
 *
 * There is no SOA in it, so that no cache keeps a NXDOMAIN (RFC 2308 §5): the policy may change. `undefined`: say nothing.
 */
export function answerQuery(bytes: Buffer, place: Place, knowsName: (host: Hostname) => boolean): DnsAnswer | undefined {
  const query = readQuery(bytes)
  if (query === undefined) return undefined
  if (typeof query === 'number') return { bytes: bareAnswer(bytes, query) }
  if (query.edns !== undefined && query.edns.version > 0) return { bytes: write(query, RCODE.badVers) }
  if (query.class !== IN) return { bytes: write(query, RCODE.refused) }

  const type = TYPES[query.type] ?? `TYPE${query.type}`
  const name = query.name.toLowerCase()
  if (name === place.reverseName) {
    const isAsked = type === 'PTR' || type === 'ANY'
    return { bytes: write(query, RCODE.noError, isAsked ? { type: 'PTR', data: OWN_NAME } : undefined) }
  }
  // Programs ask for the names of addresses all the time: neither the policy nor the log is bothered with those.
  if (/\.(?:in-addr|ip6)\.arpa$/.test(name)) return { bytes: write(query, RCODE.nxDomain) }

  const host = parseHostname(query.name)
  const isKnown = isHostname(host) && !isAddress(host) && (host === OWN_NAME || knowsName(host))
  if (!isKnown) return { bytes: write(query, RCODE.nxDomain), denied: { name: query.name, type } }
  // ANY gets one record and not all that there are (RFC 8482 §4.1).
  const isAsked = type === place.type || type === 'ANY'
  return { bytes: write(query, RCODE.noError, isAsked ? { type: place.type, data: place.address } : undefined) }
}

type AnswerRecord = { readonly type: 'A' | 'AAAA' | 'PTR'; readonly data: string }

/** Header, question as it came, at most one record of that name, and OPT where the query has one (RFC 6891 §7). */
function write(query: Query, rcode: Rcode, record?: AnswerRecord): Buffer {
  const answers: Answer[] = record ? [{ ...record, name: '.', ttl: LIMITS.dnsAnswerTtlMs / 1_000, class: 'IN' }] : []
  const message = encode({
    type: 'response',
    id: query.id,
    flags: RECURSION_AVAILABLE | query.flags | (rcode & 15),
    answers,
    additionals: query.edns ? [optOf(query.edns.wantsDnssec, rcode)] : [],
  })
  // The question is set in as it came, which a library that reads names as text can't do, and the record points to it.
  message.writeUInt16BE(1, 4)
  const [head, rest] = [message.subarray(0, 12), message.subarray(12)]
  return Buffer.concat(record ? [head, query.question, QUESTION_NAME, rest.subarray(1)] : [head, query.question, rest])
}

function optOf(wantsDnssec: boolean, rcode: Rcode): Answer {
  const why = Buffer.concat([Buffer.from([0, BLOCKED]), Buffer.from(BLOCKED_TEXT)])
  return {
    type: 'OPT',
    name: '.',
    udpPayloadSize: LIMITS.dnsMessageBytesMax,
    extendedRcode: rcode >> 4,
    ednsVersion: 0,
    flags: wantsDnssec ? DNSSEC_OK : 0, // RFC 3225 §3: it is copied
    flag_do: wantsDnssec,
    // The types of dns-packet don't know this option yet (EDE, RFC 8914 §2: 15).
    options: rcode === RCODE.nxDomain ? [{ code: 15, data: why } as unknown as PacketOpt] : [],
  }
}
