import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decode, encode } from 'dns-packet'
import { isHostname, parseHostname, type Hostname } from '../../src/kernel/hostname.ts'
import { answerQuery, placeOf } from '../../src/sidecar/resolver/answer.ts'
import { optRecord, queryFor, RCODE, readAnswer, TYPE, wireName } from '../support/dns.ts'
import { checkDnsAnswer } from '../support/fuzz-targets.ts'

const HERE = placeOf(parseHostname('127.0.0.1') as Hostname)
const isUnderExample = (name: string): boolean => name.endsWith('.example.com')

const label = fc.uint8Array({ minLength: 1, maxLength: 63 }).map((bytes) => Buffer.from(bytes))
const hostLabel = fc.stringMatching(/^[a-zA-Z0-9]([a-zA-Z0-9_-]{0,20}[a-zA-Z0-9])?$/)
const header = fc.tuple(fc.nat(65_535), fc.nat(65_535), fc.constantFrom(0, 1, 2, 65_535), fc.nat(1), fc.nat(1), fc.nat(2))

function headerBytes(fields: readonly number[]): Buffer {
  const bytes = Buffer.alloc(12)
  for (const [i, field] of fields.entries()) bytes.writeUInt16BE(field, 2 * i)
  return bytes
}

test('arbitrary bytes never throw, and an answer is bounded, decodes, and has the id and the question of the query', () => {
  fc.assert(
    fc.property(header, fc.uint8Array({ maxLength: 600 }), (fields, rest) => {
      const query = Buffer.concat([headerBytes(fields), rest])
      const answer = answerQuery(query, HERE, () => true)
      if (answer) assert.equal(checkDnsAnswer(query, answer.bytes), undefined)
      assert.equal(answer === undefined, fields[1] >= 0x8000, 'silence is for responses alone')
    }),
    { numRuns: 5_000 },
  )
})

test('a whole query of any labels, type and class gets an answer with its exact question', () => {
  fc.assert(
    fc.property(fc.array(label, { maxLength: 3 }), fc.nat(65_535), fc.nat(300), fc.boolean(), (labels, type, klass, hasOpt) => {
      const query = queryFor(labels, { type, class: klass, tail: hasOpt ? optRecord() : Buffer.alloc(0) })
      const answer = answerQuery(query, HERE, isUnderExample)?.bytes ?? Buffer.alloc(0)
      assert.equal(checkDnsAnswer(query, answer), undefined)
      const { rcode, opt } = readAnswer(answer)
      if (rcode === RCODE.formErr || (rcode === RCODE.refused && answer.length === 12)) {
        assert.ok([TYPE.OPT, TYPE.IXFR, TYPE.AXFR].includes(type as 41), `it is well-formed, of type ${type}`)
        return
      }
      const end = 12 + wireName(labels).length + 4
      assert.deepEqual(answer.subarray(12, end), query.subarray(12, end))
      assert.equal(opt !== undefined, hasOpt)
      if (klass !== 1) assert.equal(rcode, RCODE.refused)
    }),
    { numRuns: 3_000 },
  )
})

test('an address is answered for exactly the names that are canonical and known, in whatever case they are asked', () => {
  fc.assert(
    fc.property(
      fc.array(hostLabel, { minLength: 1, maxLength: 4 }),
      fc.constantFrom('example.com', 'Example.COM', 'test'),
      (labels, parent) => {
        const name = [...labels, parent].join('.')
        const host = parseHostname(name)
        const isKnown = isHostname(host) && isUnderExample(host)
        const { rcode, data } = readAnswer(answerQuery(queryFor(name), HERE, isUnderExample)?.bytes ?? Buffer.alloc(0))
        assert.deepEqual([rcode, data], isKnown ? [RCODE.noError, ['127.0.0.1']] : [RCODE.nxDomain, []])
      },
    ),
    { numRuns: 2_000 },
  )
})

test('the policy is asked for no name that another reader of DNS would read differently', () => {
  fc.assert(
    fc.property(fc.array(label, { minLength: 1, maxLength: 3 }), (labels) => {
      const query = queryFor(labels)
      const asked: string[] = []
      answerQuery(query, HERE, (name) => asked.push(name) > 0)
      for (const name of asked) assert.equal(decode(query).questions?.[0]?.name.toLowerCase(), name)
    }),
    { numRuns: 3_000 },
  )
})

test('what dns-packet writes as a query is read as that query', () => {
  fc.assert(
    fc.property(fc.array(hostLabel, { minLength: 1, maxLength: 5 }), fc.nat(65_535), (labels, id) => {
      const name = labels.join('.')
      const query = encode({ type: 'query', id, flags: 0x0100, questions: [{ name, type: 'A', class: 'IN' }] })
      const asked: string[] = []
      const answer = answerQuery(query, HERE, (host) => asked.push(host) > 0)
      const host = parseHostname(name)
      assert.deepEqual(asked, isHostname(host) && host !== 'sallyport' && !/^[\d.]+$/.test(host) ? [host] : [])
      assert.equal(answer?.bytes.readUInt16BE(0), id)
    }),
    { numRuns: 2_000 },
  )
})
