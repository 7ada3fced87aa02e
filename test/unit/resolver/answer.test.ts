import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isHostname, parseHostname, type Hostname } from '../../../src/kernel/hostname.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { answerQuery, placeOf } from '../../../src/sidecar/resolver/answer.ts'
import { optRecord, queryFor, RCODE, readAnswer, TYPE, wireName, type QueryOptions, type Read } from '../../support/dns.ts'

const HERE = placeOf(host('10.1.2.3'))
const HERE_V6 = placeOf(host('2001:db8::17'))
const KNOWN = new Set(['api.example.com', 'a_b.example.com'])

function host(text: string): Hostname {
  const parsed = parseHostname(text)
  assert.ok(isHostname(parsed), text)
  return parsed
}

function ask(query: Buffer, place = HERE): Read & { denied: { name: string; type: string } | undefined; bytes: Buffer } {
  const answer = answerQuery(query, place, (name) => KNOWN.has(name))
  assert.ok(answer, 'there is an answer')
  return { ...readAnswer(answer.bytes), denied: answer.denied, bytes: answer.bytes }
}

test('a name that the policy knows is the address that was asked, for 5 seconds', () => {
  const { rcode, packet } = ask(queryFor('api.example.com'))
  assert.equal(rcode, RCODE.noError)
  const [record, ...others] = packet.answers ?? []
  assert.deepEqual(others, [])
  assert.deepEqual(record, { name: 'api.example.com', type: 'A', ttl: 5, class: 'IN', flush: false, data: '10.1.2.3' })
  assert.equal(packet.additionals?.length, 0)
  assert.deepEqual([packet.flag_qr, packet.flag_rd, packet.flag_ra, packet.flag_tc, packet.flag_ad], [true, true, true, false, false])
})

for (const [name, type] of Object.entries(TYPE).filter(([key]) => !['A', 'OPT', 'IXFR', 'AXFR', 'ANY'].includes(key))) {
  test(`a known name has no ${name} record, and the name exists`, () => {
    const { rcode, data } = ask(queryFor('api.example.com', { type }))
    assert.equal(rcode, RCODE.noError)
    assert.deepEqual(data, [])
  })
}

test('a type that nobody has heard of is empty too', () => {
  for (const type of [0, 3, 61_000, 65_535]) assert.deepEqual(ask(queryFor('api.example.com', { type })).data, [])
})

test('ANY gets the address alone', () => {
  assert.deepEqual(ask(queryFor('api.example.com', { type: TYPE.ANY })).data, ['10.1.2.3'])
})

test('a listener on IPv6 answers AAAA with its address, and A empty', () => {
  assert.deepEqual(ask(queryFor('api.example.com', { type: TYPE.AAAA }), HERE_V6).data, ['2001:db8::17'])
  const a = ask(queryFor('api.example.com'), HERE_V6)
  assert.equal(a.rcode, RCODE.noError)
  assert.deepEqual(a.data, [])
})

for (const name of ['evil.example', 'example.com', 'x.api.example.com', 'com', '.', 'x.sallyport', 'sallyport.lan']) {
  test(`${name} is not known: it does not exist, and that is reported`, () => {
    const { rcode, data, denied } = ask(queryFor(name === '.' ? [] : name))
    assert.equal(rcode, RCODE.nxDomain)
    assert.deepEqual(data, [])
    assert.deepEqual(denied, { name, type: 'A' })
  })
}

test('sallyport names itself, in any case, whatever the policy knows', () => {
  for (const name of ['sallyport', 'SallyPort']) assert.deepEqual(ask(queryFor(name)).data, ['10.1.2.3'])
  assert.deepEqual(ask(queryFor('sallyport', { type: TYPE.AAAA })).data, [])
})

for (const [name, labels] of Object.entries({
  'a NUL': ['api\0', 'example', 'com'],
  'a NUL behind a whole name': ['api.example.com\0', 'evil', 'test'],
  'a space': ['api example', 'com'],
  'a dot inside a label': ['api.example', 'com'],
  'a whole name in one label': ['api.example.com'],
  'a backslash': ['api\\', 'example', 'com'],
  'a full-width dot': [Buffer.from('api．example'), 'com'],
  'bytes above 127': [Buffer.from([0xff, 0xfe]), 'com'],
  'a newline': ['api\n', 'example', 'com'],
  'a label that begins with a hyphen': ['-api', 'example', 'com'],
})) {
  test(`a name with ${name} does not exist, and the policy is not asked`, () => {
    const asked: string[] = []
    const answer = answerQuery(queryFor(labels), HERE, (known) => asked.push(known) > 0)
    assert.equal(readAnswer(answer?.bytes ?? Buffer.alloc(0)).rcode, RCODE.nxDomain)
    assert.deepEqual(asked, [])
  })
}

test('a name with an underscore is one, and an address is none even where the policy allows it', () => {
  assert.deepEqual(ask(queryFor('a_b.example.com')).data, ['10.1.2.3'])
  const address = answerQuery(queryFor('127.0.0.1'), HERE, () => true)
  assert.equal(readAnswer(address?.bytes ?? Buffer.alloc(0)).rcode, RCODE.nxDomain)
  const v6 = answerQuery(queryFor(['::1']), HERE, () => true)
  assert.equal(readAnswer(v6?.bytes ?? Buffer.alloc(0)).rcode, RCODE.nxDomain)
})

test('the longest name that the policy knows is answered within 512 bytes, with a pointer to the question', () => {
  const long = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(61)}`
  const answer = answerQuery(queryFor(long, { tail: optRecord() }), HERE, (name) => name === long)
  const { data, packet } = readAnswer(answer?.bytes ?? Buffer.alloc(0))
  assert.deepEqual(data, ['10.1.2.3'])
  assert.equal(packet.answers?.[0]?.name, long)
  assert.ok((answer?.bytes.length ?? Infinity) <= LIMITS.dnsMessageBytesMax)
})

test('the question is echoed byte by byte: case, odd bytes, type and class', () => {
  for (const [labels, options] of [
    [['aPi', 'eXamPle', 'COM'], {}],
    [[Buffer.from([0, 255, 46, 92]), 'x'], { type: 4711 }],
    [['api', 'example', 'com'], { class: 3 }],
  ] satisfies [(string | Buffer)[], QueryOptions][]) {
    const query = queryFor(labels, options)
    assert.deepEqual(ask(query).bytes.subarray(12, query.length), query.subarray(12))
  }
})

test('a PTR question for the own address is answered with sallyport, and for any other does not exist, unreported', () => {
  assert.deepEqual(ask(queryFor('3.2.1.10.in-addr.arpa', { type: TYPE.PTR })).data, ['sallyport'])
  assert.deepEqual(ask(queryFor('3.2.1.10.IN-ADDR.arpa', { type: TYPE.ANY })).data, ['sallyport'])
  assert.deepEqual(ask(queryFor('3.2.1.10.in-addr.arpa')).data, [])
  const nibbles = `7.1.${'0.'.repeat(22)}8.b.d.0.1.0.0.2.ip6.arpa`
  assert.deepEqual(ask(queryFor(nibbles, { type: TYPE.PTR }), HERE_V6).data, ['sallyport'])
  for (const name of ['4.2.1.10.in-addr.arpa', nibbles, 'data.in-addr.arpa']) {
    const asked: string[] = []
    const answer = answerQuery(queryFor(name, { type: TYPE.PTR }), HERE, (known) => asked.push(known) > 0)
    assert.equal(readAnswer(answer?.bytes ?? Buffer.alloc(0)).rcode, RCODE.nxDomain)
    assert.equal(answer?.denied, undefined)
    assert.deepEqual(asked, [])
  }
})

for (const [address, reverse] of [
  ['::1', `1.${'0.'.repeat(31)}ip6.arpa`],
  ['2001:db8:1:2:3:4:5:6', '6.0.0.0.5.0.0.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa'],
  ['fd00::', `${'0.'.repeat(30)}d.f.ip6.arpa`],
  ['127.0.0.1', '1.0.0.127.in-addr.arpa'],
] as const) {
  test(`${address} is ${reverse}`, () => assert.equal(placeOf(host(address)).reverseName, reverse))
}

test('a name that is not allowed says why to who asks with EDNS: Extended DNS Error 15, Blocked', () => {
  const { rcode, opt } = ask(queryFor('evil.example', { tail: optRecord() }))
  assert.equal(rcode, RCODE.nxDomain)
  const [option] = opt?.options ?? []
  assert.equal(Number(option?.code), 15)
  assert.equal(option?.data?.readUInt16BE(0), 15)
  assert.equal(option?.data?.toString('utf8', 2), 'no rule of the policy allows this name')
})

test('OPT is sent to who sent one and to nobody else', () => {
  assert.equal(ask(queryFor('evil.example')).opt, undefined)
  assert.equal(ask(queryFor('api.example.com')).opt, undefined)
  const { opt } = ask(queryFor('api.example.com', { tail: optRecord({ data: Buffer.from('000c00020000', 'hex') }) }))
  assert.deepEqual([opt?.ednsVersion, opt?.udpPayloadSize, opt?.options.length, opt?.flag_do], [0, 512, 0, false])
})

test('the DO bit is copied, and nothing is said to be authentic', () => {
  const { opt, packet } = ask(queryFor('api.example.com', { flags: 0x0130, tail: optRecord({ flags: 0x8000 }) }))
  assert.deepEqual([opt?.flag_do, packet.flag_ad, packet.flag_cd], [true, false, true])
})

test('an EDNS version above 0 is answered with BADVERS and no record', () => {
  const { rcode, data, opt, denied } = ask(queryFor('api.example.com', { tail: optRecord({ version: 1 }) }))
  assert.deepEqual([rcode, data, opt?.ednsVersion, denied], [16, [], 0, undefined])
})

test('another class than IN is refused, as is a zone transfer', () => {
  for (const klass of [0, 3, 4, 254, 255, 65_535]) {
    const { rcode, data } = ask(queryFor('api.example.com', { class: klass }))
    assert.deepEqual([rcode, data], [RCODE.refused, []])
  }
  assert.equal(ask(queryFor('api.example.com', { type: TYPE.AXFR })).rcode, RCODE.refused)
  // An IXFR query has a SOA record behind its question (RFC 1995 §3).
  const soa = Buffer.concat([wireName('api.example.com'), Buffer.alloc(32)])
  assert.equal(ask(queryFor('api.example.com', { type: TYPE.IXFR, counts: [1, 0, 1, 0], tail: soa })).rcode, RCODE.refused)
})

test('another opcode than QUERY is not implemented, and is echoed', () => {
  for (let opcode = 1; opcode < 16; opcode++) {
    const { bytes, rcode } = ask(queryFor('api.example.com', { flags: opcode << 11 }))
    assert.deepEqual([rcode, bytes.length, bytes.readUInt16BE(2) & 0xf800], [RCODE.notImp, 12, 0x8000 | (opcode << 11)])
  }
})

for (const [what, query] of Object.entries({
  'no question': queryFor('api.example.com', { counts: [0, 0, 0, 0] }),
  'no question and no bytes of one': queryFor('x', { counts: [0, 0, 0, 0] }).subarray(0, 12),
  'two questions': Buffer.concat([
    queryFor('api.example.com', { counts: [2, 0, 0, 0] }),
    wireName('api.example.com'),
    Buffer.from('00010001', 'hex'),
  ]),
  '65535 questions': queryFor('api.example.com', { counts: [65_535, 65_535, 65_535, 65_535] }),
  'an answer': queryFor('api.example.com', { counts: [1, 1, 0, 0] }),
  'an authority': queryFor('api.example.com', { counts: [1, 0, 1, 0] }),
  'a byte too many': Buffer.concat([queryFor('api.example.com'), Buffer.from([0])]),
  'a byte too few': queryFor('api.example.com').subarray(0, -1),
  'no end of the name': queryFor('api.example.com').subarray(0, 20),
  'a pointer to itself': queryFor(Buffer.from([0xc0, 12])),
  'a pointer to the header': queryFor(Buffer.from([0xc0, 0])),
  'a pointer past the end': queryFor(Buffer.from([0xff, 0xff])),
  'two pointers that meet': queryFor(Buffer.from([0xc0, 14, 0xc0, 12])),
  'a pointer behind a label': queryFor(Buffer.from([1, 97, 0xc0, 12])),
  'a label of a reserved kind': queryFor(Buffer.from([0x40, 97, 0])),
  'a label of 64 bytes': queryFor(['x'.repeat(64)]),
  'a name of 256 bytes': queryFor(['a'.repeat(63), 'b'.repeat(63), 'c'.repeat(63), 'd'.repeat(62)]),
  'a name of single letters without end': queryFor(Buffer.concat(Array.from({ length: 200 }, () => Buffer.from([1, 97])))),
  'more than 512 bytes': queryFor('api.example.com', { tail: optRecord({ data: Buffer.alloc(600) }) }),
  'a claimed OPT that is not there': queryFor('api.example.com', { counts: [1, 0, 0, 1] }),
  'an OPT that is not claimed': queryFor('api.example.com', { counts: [1, 0, 0, 0], tail: optRecord() }),
  'two OPTs': queryFor('api.example.com', { counts: [1, 0, 0, 2], tail: Buffer.concat([optRecord(), optRecord()]) }),
  'an OPT with a name': queryFor('api.example.com', { tail: Buffer.concat([Buffer.from([1, 97]), optRecord()]) }),
  'an OPT with a length that is too long': queryFor('api.example.com', { tail: optRecord({ data: Buffer.alloc(4) }).subarray(0, -1) }),
  'an OPT with options that do not add up': queryFor('api.example.com', { tail: optRecord({ data: Buffer.from('000a0002ff', 'hex') }) }),
  'an additional record that is no OPT': queryFor('api.example.com', { tail: Buffer.concat([wireName('x'), Buffer.alloc(10)]) }),
  'OPT as the question': queryFor('api.example.com', { type: TYPE.OPT }),
})) {
  test(`a query with ${what} is answered with FORMERR in a header alone`, () => {
    const { bytes, rcode, id, denied } = ask(query)
    assert.deepEqual([bytes.length, rcode, id, denied], [12, RCODE.formErr, 0x1234, undefined])
    assert.equal(bytes.subarray(4).equals(Buffer.alloc(8)), true, 'it has no records')
  })
}

test('nothing is said to less than a header, and nothing to a response', () => {
  const query = queryFor('api.example.com')
  for (let length = 0; length < 12; length++)
    assert.equal(
      answerQuery(query.subarray(0, length), HERE, () => true),
      undefined,
    )
  for (const flags of [0x8000, 0x8180, 0xffff]) {
    assert.equal(
      answerQuery(queryFor('api.example.com', { flags }), HERE, () => true),
      undefined,
    )
  }
})
