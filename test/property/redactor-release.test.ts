import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Secret } from '../../src/kernel/secret.ts'
import { createRedactor } from '../../src/redactor/redactor.ts'
import { matchedBytes, redact, secretsOf, SPELLINGS } from '../support/redaction.ts'

const ASCII = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i))
const value = fc.string({ unit: fc.constantFrom(...ASCII), minLength: 6, maxLength: 30 }).filter((text) => !/(.)\1\1/s.test(text))
const near = (secret: string) =>
  fc.oneof(
    fc.string({ maxLength: 20 }),
    fc.constantFrom(...Object.keys(SPELLINGS)).map((name) => SPELLINGS[name]?.(secret) ?? ''),
    fc.integer({ min: 1, max: secret.length - 1 }).map((length) => secret.slice(0, length)),
  )
const given = value.chain((secret) => fc.tuple(fc.constant(secret), fc.array(near(secret), { maxLength: 6 })))
/** How many bytes a push has, and whether a release follows it. */
const cuts = fc.array(fc.tuple(fc.integer({ min: 1, max: 12 }), fc.boolean()), { minLength: 1, maxLength: 20 })

/** As `redact`, with releases of up to four bytes. */
function released(secret: string, bytes: Buffer, steps: readonly (readonly [size: number, isReleased: boolean])[]): Buffer {
  const stream = createRedactor(secretsOf([secret])).open()
  const parts: Buffer[] = []
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const [size, isReleased] = steps[i % steps.length] as readonly [number, boolean]
    const chunk = Buffer.from(bytes.subarray(at, at + size))
    parts.push(Buffer.from(stream.push(chunk)))
    if (isReleased) parts.push(Buffer.from(stream.release(4)))
    chunk.fill(0x5a)
    at += size
  }
  parts.push(stream.flush())
  return Buffer.concat(parts)
}

test('however often held bytes are asked for early, as many come out as go in, and of each match no more than its first four show', () => {
  fc.assert(
    fc.property(given, cuts, ([secret, texts], steps) => {
      const bytes = Buffer.from(texts.join(' '))
      const out = released(secret, bytes, steps)
      assert.equal(out.length, bytes.length)
      const isMatched = matchedBytes([secret], bytes)
      let shown = 0
      for (let at = 0; at < bytes.length; at++) {
        shown = isMatched[at] === true && out[at] === bytes[at] && !'*A0'.includes(String.fromCharCode(out[at] as number)) ? shown + 1 : 0
        assert.ok(shown <= 4, `${shown} bytes of a match show in ${JSON.stringify(out.toString())}`)
        if (isMatched[at] !== true) assert.equal(out[at], bytes[at], `byte ${at}`)
      }
    }),
    { numRuns: 1_000 },
  )
})

test('after a release of nothing but what cannot be the beginning of a match, all comes out as it would have', () => {
  fc.assert(
    fc.property(given, cuts, ([secret, texts], steps) => {
      const bytes = Buffer.from(texts.join(' '))
      const stream = createRedactor(secretsOf([secret])).open()
      const parts: Buffer[] = []
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const size = steps[i % steps.length]?.[0] ?? 1
        parts.push(stream.push(bytes.subarray(at, at + size)), stream.release(0))
        at += size
      }
      parts.push(stream.flush())
      assert.deepEqual(Buffer.concat(parts), redact([secret], bytes).out)
    }),
    { numRuns: 1_000 },
  )
})

test('a stream that goes on with more secrets in the middle of one loses none', () => {
  fc.assert(
    fc.property(given, value, cuts, ([secret, texts], other, steps) => {
      const bytes = Buffer.from(texts.join(' '))
      let secrets = [new Secret('a', secret)]
      let stream = createRedactor(secrets).open()
      const parts: Buffer[] = []
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const [size, isChanged] = steps[i % steps.length] as readonly [number, boolean]
        parts.push(stream.push(bytes.subarray(at, at + size)), stream.release(0))
        if (isChanged && secrets.length === 1) {
          secrets = [...secrets, new Secret('b', `${other}\u0001`)]
          stream = createRedactor(secrets).open(stream)
        }
        at += size
      }
      parts.push(stream.flush())
      assert.deepEqual(Buffer.concat(parts), redact([secret], bytes).out)
    }),
    { numRuns: 1_000 },
  )
})
