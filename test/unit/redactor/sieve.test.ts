import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { compile, type Automaton } from '../../../src/redactor/automaton.ts'
import { patternsOf } from '../../../src/redactor/patterns.ts'
import { createSieve } from '../../../src/redactor/sieve.ts'
import { secretsOf, SPELLINGS, WRAPPINGS } from '../../support/redaction.ts'

const automatonOf = (...values: string[]): Automaton => compile(patternsOf(secretsOf(values)))
const TOKEN = 'k7Fq/2mZ+x9"Wc4R t8%Yp'

/** How many bytes of the data are looked at, a byte that is looked at twice counted twice. */
function looks(data: Buffer, read: (data: Buffer) => void): number {
  let count = 0
  read(
    new Proxy(data, {
      get: (bytes, key) => {
        if (typeof key === 'string' && /^\d+$/.test(key)) count++
        return Reflect.get(bytes, key) as unknown
      },
    }),
  )
  return count
}

for (const value of ['short', TOKEN, `${TOKEN}${TOKEN}${TOKEN}`]) {
  const sieve = createSieve(automatonOf(value))
  for (const [name, write] of Object.entries(SPELLINGS)) {
    test(`no beginning of ${value} is skipped, wherever it stands (${name})`, () => {
      for (let before = 0; before < 40; before++) {
        const data = Buffer.from(`${'~'.repeat(before)}${write(value)}~~~`)
        for (const from of [0, before >> 1, before]) {
          const at = sieve?.next(data, from) ?? -1
          assert.ok(at >= from && at <= before, `${at} for a match at ${before}`)
        }
      }
    })
  }
  for (const [name, write] of Object.entries(WRAPPINGS)) {
    test(`no beginning of ${value} is skipped behind what it is encoded with (${name})`, () => {
      for (let before = 0; before < 40; before++) {
        // What is the same whatever the secret is stands before it.
        const [one, other] = [write('~'.repeat(before) + value), write(`${'~'.repeat(before)}\u0001`)]
        const begins = Array.from(one).findIndex((letter, i) => letter !== other[i])
        const at = sieve?.next(Buffer.from(one), 0) ?? -1
        assert.ok(at >= 0 && at <= begins, `${at} for a match at ${begins}`)
      }
    })
  }
}

for (const value of [TOKEN, 'abcaXYZW0123456789'])
  test(`behind beginnings of ${value} that break off, of any length, no beginning is skipped`, () => {
    const sieve = createSieve(automatonOf(value))
    for (const between of ['', '~']) {
      for (let broken = 0; broken < value.length; broken++) {
        for (let before = 0; before < 40; before++) {
          const head = `${'~'.repeat(before)}${value.slice(0, broken)}${between}`
          const data = Buffer.from(`${head}${value}~`)
          let at = -1
          while (at < head.length - 1) at = sieve?.next(data, at + 1) ?? assert.fail('no sieve')
          if (at < head.length) at = sieve?.next(data, head.length) ?? -1
          assert.equal(at, head.length)
        }
      }
    }
  })

test('in a text without a secret one byte in three is looked at, and nowhere may a match begin', () => {
  // The same in every run: of some secrets a run of letters looks like a beginning.
  const secrets = Array.from({ length: 5 }, (_, i) => createHash('sha256').update(`secret ${i}`).digest('base64url'))
  const sieve = createSieve(automatonOf(...secrets))
  const data = Buffer.from('It was a bright cold day in April, and the clocks were striking thirteen. '.repeat(500))
  let at = -1
  const count = looks(data, (watched) => (at = sieve?.next(watched, 0) ?? -1))
  assert.ok(at > data.length - 16)
  assert.ok(count < data.length / 3, `${count} of ${data.length}`)
})

test('whatever the text is, a byte is looked at nine times at most', () => {
  const value = 'abcdefghijklmnopqrstuvwxyz'
  const sieve = createSieve(automatonOf(value))
  for (const text of [`${value.slice(0, 15)}!`, `${value.slice(0, 12)}!!`, value.slice(3, 9), 'ab!', 'abc!']) {
    const data = Buffer.alloc(10_000, text)
    const count = looks(data, (watched) => {
      for (let at = 0; (at = sieve?.next(watched, at) ?? 0) + 16 < data.length; at++);
    })
    assert.ok(count <= 9 * data.length, `${count} of ${data.length} for ${text}`)
  }
})

test('what cannot be told by its first bytes has no sieve: matches of four letters, and more secrets than the table has room for', () => {
  assert.equal(createSieve(automatonOf('four', TOKEN)), undefined)
  assert.notEqual(createSieve(automatonOf('fiver', TOKEN)), undefined)
  const many = Array.from({ length: 4_000 }, () => String.fromCharCode(...randomBytes(16).map((byte) => 32 + (byte % 95))))
  assert.equal(createSieve(automatonOf(...many)), undefined)
})
