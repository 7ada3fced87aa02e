import { isDeepStrictEqual } from 'node:util'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { readClientHello } from '../../src/sidecar/inbound/client-hello.ts'
import { readGreeting, readPassword, readRequest } from '../../src/sidecar/inbound/socks-messages.ts'
import { answerQuery, placeOf } from '../../src/sidecar/resolver/answer.ts'
import { clientHello, helloExtension, serverNameExtension } from './client-hello.ts'
import { optRecord, queryFor, readAnswer, TYPE } from './dns.ts'
import { createChance, type FuzzTarget } from './fuzz.ts'
import { PLACES_TARGET } from './fuzz-policy.ts'

/** What a reader makes of the first bytes of a stream. */
type ReadSoFar = { readonly state: 'incomplete' | 'invalid' | 'complete' }

/** The readers of bytes that agents send, before anything is decided, and of texts of a policy. */
export const FUZZ_TARGETS: readonly FuzzTarget[] = [
  { name: 'dns', corpus: dnsCorpus(), check: checkDns },
  { name: 'hello', corpus: helloCorpus(), check: (bytes) => checkStream(readClientHello, bytes) ?? checkHello(bytes) },
  { name: 'socks', corpus: socksCorpus(), check: checkSocks },
  PLACES_TARGET,
]

/**
 * A stream is read alike however it is cut: once there is an answer, more bytes don't change it, and before it there is none.
 * The cuts follow from the bytes, so that an input fails again when it is tried again.
 */
export function checkStream(read: (bytes: Buffer) => ReadSoFar, bytes: Buffer): string | undefined {
  const whole = meaning(read(bytes))
  if (
    !isDeepStrictEqual(
      meaning(read(Buffer.concat([Buffer.alloc(3, 255), bytes, Buffer.alloc(9, 255)]).subarray(3, 3 + bytes.length))),
      whole,
    )
  )
    return 'it looks at bytes around the ones it was given'
  const chance = createChance(bytes.reduce((sum, byte) => Math.imul(sum ^ byte, 0x01000193), bytes.length))
  for (const cut of Array.from({ length: 4 }, () => chance(bytes.length + 1)).toSorted((a, b) => a - b)) {
    const part = read(bytes.subarray(0, cut))
    if (part.state === 'incomplete') continue
    if (!isDeepStrictEqual(meaning(part), whole)) return `after ${cut} bytes it is ${part.state}, after all it is not the same`
    break
  }
  return undefined
}

/** What it says; of an invalid one not why: that may depend on how much is there. */
function meaning(read: ReadSoFar): unknown {
  return read.state === 'invalid' ? 'invalid' : read
}

function checkHello(bytes: Buffer): string | undefined {
  const read = readClientHello(bytes)
  return read.state === 'complete' && read.serverName === '' ? 'it names the empty host' : undefined
}

function checkSocks(bytes: Buffer): string | undefined {
  for (const read of [readGreeting, readPassword, readRequest]) {
    const problem = checkStream(read, bytes)
    if (problem !== undefined) return `${read.name}: ${problem}`
    const parsed = read(bytes)
    if (parsed.state !== 'complete') continue
    if (parsed.length < 2 || parsed.length > bytes.length) return `${read.name}: it ends at ${parsed.length} of ${bytes.length}`
    if (read(bytes.subarray(0, parsed.length - 1)).state !== 'incomplete') return `${read.name}: it is complete before its end`
  }
  const request = readRequest(bytes)
  if (request.state === 'complete' && request.value.address.kind !== 'domain') {
    const host = parseHostname(request.value.address.text)
    if (!isHostname(host) && host.canonical === undefined) return `readRequest: its address is none: ${request.value.address.text}`
  }
  return undefined
}

function dnsCorpus(): Buffer[] {
  const names = [
    'api.example.com',
    'evil.example',
    'sallyport',
    '1.0.0.127.in-addr.arpa',
    `${'a'.repeat(63)}.${'b'.repeat(63)}.example.com`,
  ]
  const tails = [Buffer.alloc(0), optRecord(), optRecord({ flags: 0x8000, data: Buffer.from('000a00080102030405060708', 'hex') })]
  return names.flatMap((name) =>
    tails.flatMap((tail) => [TYPE.A, TYPE.AAAA, TYPE.HTTPS, TYPE.ANY, TYPE.PTR].map((type) => queryFor(name, { type, tail }))),
  )
}

function checkDns(bytes: Buffer): string | undefined {
  const host = parseHostname('127.0.0.1')
  if (!isHostname(host)) return 'the setting is wrong'
  const answerTo = (query: Buffer): Buffer | undefined => answerQuery(query, placeOf(host), (name) => name.endsWith('example.com'))?.bytes
  const before = Buffer.from(bytes)
  const answer = answerTo(bytes)
  if (!bytes.equals(before)) return 'it changes the query'
  const around = answerTo(Buffer.concat([Buffer.alloc(3, 255), bytes, Buffer.alloc(9, 255)]).subarray(3, 3 + bytes.length))
  if (!isDeepStrictEqual(answer, around)) return 'it looks at bytes around the ones it was given'
  return answer === undefined ? undefined : checkDnsAnswer(bytes, answer)
}

/** What holds for any answer to any query. */
export function checkDnsAnswer(query: Buffer, answer: Buffer): string | undefined {
  if (query.length < 12 || query.readUInt8(2) >= 0x80) return 'it answers what is no query'
  if (answer.length > Math.min(LIMITS.dnsMessageBytesMax, query.length + 64)) return `its answer has ${answer.length} bytes`
  if (answer.readUInt16BE(0) !== query.readUInt16BE(0)) return 'its answer has another id'
  if (answer.readUInt8(2) < 0x80) return 'its answer is a query'
  const { packet, data, rcode } = readAnswer(answer)
  const questions = packet.questions?.length ?? 0
  if (questions === 0) return answer.length === 12 && rcode !== 0 ? undefined : 'it answers without the question'
  const end = query.indexOf(0, 12) // not the end of every name, yet at most that
  if (questions !== 1 || !answer.subarray(12, end).equals(query.subarray(12, end))) return 'its answer has another question'
  if (data.some((value) => value !== '127.0.0.1' && value !== 'sallyport')) return `it answers with ${data.join(' ')}`
  if (data.length > 1 || (data.length === 1 && rcode !== 0)) return 'it has too many records'
  return undefined
}

function helloCorpus(): Buffer[] {
  const name = serverNameExtension('api.example.com')
  const grease = helloExtension(0x0a0a, Buffer.alloc(0))
  const alpn = helloExtension(16, Buffer.from('000c02683208687474702f312e31', 'hex'))
  const keyShare = helloExtension(51, Buffer.alloc(1_200, 7))
  return [
    clientHello([name]),
    clientHello([]),
    clientHello([grease, name, alpn, keyShare]),
    clientHello([grease, helloExtension(0xfe0d, Buffer.alloc(180, 1)), name]),
    clientHello([name, alpn], { recordBytes: 50 }),
    clientHello([name, keyShare, helloExtension(21, Buffer.alloc(14_000))], { recordBytes: 4_000 }),
    // What a client may send at once behind its hello: a change of cipher and early data (RFC 8446 §4.2.10, appendix D.4).
    Buffer.concat([clientHello([name]), Buffer.from('140303000101', 'hex'), Buffer.from('1703030005aabbccddee', 'hex')]),
    Buffer.concat([clientHello([name, alpn], { recordBytes: 100 }), Buffer.from('140303000101', 'hex')]),
  ]
}

function socksCorpus(): Buffer[] {
  const name = Buffer.from('api.example.com')
  return [
    Buffer.from([5, 1, 0]),
    Buffer.from([5, 3, 0, 1, 2]),
    Buffer.from([1, 4, ...Buffer.from('user'), 5, ...Buffer.from('lease')]),
    Buffer.from([1, 0, 255, ...Buffer.alloc(255, 97)]),
    Buffer.from([5, 1, 0, 3, name.length, ...name, 1, 187]),
    Buffer.from([5, 1, 0, 1, 127, 0, 0, 1, 0, 80]),
    Buffer.from([5, 1, 0, 4, ...Buffer.alloc(10), 255, 255, 127, 0, 0, 1, 0, 80]),
    Buffer.from([5, 2, 0, 1, 0, 0, 0, 0, 0, 0]),
    Buffer.from([5, 3, 0, 3, 255, ...Buffer.alloc(255, 98), 255, 255]),
    Buffer.from([5, 1, 0, 5, 1, 0, 3, name.length, ...name, 1, 187, 22, 3, 1]),
  ]
}
