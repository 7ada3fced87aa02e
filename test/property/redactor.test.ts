import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isReadable } from '../support/readable.ts'
import { redact, matchedBytes, SPELLINGS, WRAPPINGS } from '../support/redaction.ts'

const ASCII = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i))
/** No three letters alike in a row: a secret of nothing else would look like what is put in its place. */
const value = fc
  .oneof(
    { weight: 3, arbitrary: fc.string({ unit: fc.constantFrom(...ASCII), minLength: 6, maxLength: 40 }) },
    { weight: 1, arbitrary: fc.string({ unit: fc.constantFrom(...Array.from('aZ09/+é€😀"\\&% \n')), minLength: 6, maxLength: 20 }) },
  )
  .filter((text) => !/(.)\1\1/s.test(text))
const token = fc.string({
  unit: fc.constantFrom(...ASCII.filter((letter) => /[\w-]/.test(letter))),
  minLength: 20,
  maxLength: 20,
})
const surroundings = fc.oneof(fc.string({ maxLength: 90 }), fc.lorem(), fc.json(), fc.base64String({ maxLength: 90 }))
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 })
const spelling = fc.constantFrom(...Object.keys(SPELLINGS))
const wrapping = fc.constantFrom(...Object.keys(WRAPPINGS))

const spelled = fc
  .tuple(surroundings, value, surroundings, spelling)
  .map(([before, secret, after, name]) => ({ secret, name, bytes: Buffer.from(`${before} ${SPELLINGS[name]?.(secret)} ${after}`) }))
const wrapped = fc.tuple(surroundings, value, surroundings, wrapping, surroundings).map(([before, secret, after, name, outside]) => ({
  secret,
  name,
  bytes: Buffer.from(`${outside} ${WRAPPINGS[name]?.(before + secret + after)} ${outside}`),
}))

test('I1 however a secret is encoded and however the stream is cut, nothing that comes out can be decoded to it', () => {
  fc.assert(
    fc.property(fc.oneof(spelled, wrapped), sizes, ({ secret, bytes }, cuts) => {
      // The decoder can read it where it was not taken out.
      assert.ok(isReadable(bytes, secret))
      const { out, hits } = redact([secret], bytes, cuts)
      assert.ok(!isReadable(out, secret))
      assert.equal(out.length, bytes.length)
      assert.ok(hits > 0)
    }),
    { numRuns: 600 },
  )
})

test('I1 what comes out is the same for every secret of the same length: no bit of it is left in any encoding of fixed width', () => {
  const fixed = [
    'as it is',
    'hex',
    'URL, every byte',
    'URL, every byte twice',
    'JSON, every letter by number',
    'bytes escaped',
    'HTML, hex',
  ]
  const filler = fc.constantFrom('', ' ', '. ', '\n\n', '"')
  fc.assert(
    fc.property(token, token, fc.constantFrom(...fixed), filler, (one, other, name, around) => {
      const write = (secret: string): Buffer => Buffer.from(`${around}${SPELLINGS[name]?.(secret)}${around}`)
      assert.deepEqual(redact([one], write(one)).out, redact([other], write(other)).out)
    }),
  )
  const lines = [
    'base64',
    'base64 in lines of 76 (CR LF)',
    'base64 in lines of 64',
    'base64 in lines of one',
    'base64 in lines of 76 in JSON',
  ]
  fc.assert(
    fc.property(token, token, fc.constantFrom(...lines), fc.nat(80), fc.nat(80), (one, other, name, before, after) => {
      // "+" and "/" would be escaped in some; "~" has neither at any offset.
      const write = (secret: string): Buffer => Buffer.from(WRAPPINGS[name]?.('~'.repeat(before) + secret + '~'.repeat(after)) ?? '')
      assert.deepEqual(redact([one], write(one)).out, redact([other], write(other)).out)
    }),
  )
})

test('what comes out does not depend on how the stream is cut, nor does the number of matches', () => {
  fc.assert(
    fc.property(
      fc.array(value, { minLength: 1, maxLength: 3 }),
      fc.array(fc.oneof(spelled, wrapped), { maxLength: 4 }),
      sizes,
      (more, parts, cuts) => {
        const secrets = [...more, ...parts.map((part) => part.secret)]
        const bytes = Buffer.concat(parts.map((part) => part.bytes))
        const whole = redact(secrets, bytes)
        const cut = redact(secrets, bytes, cuts)
        assert.deepEqual(cut.out, whole.out)
        assert.equal(cut.hits, whole.hits)
      },
    ),
    { numRuns: 200 },
  )
})

test('a stream without a secret comes out as it went in, also when it has all but one letter of one', () => {
  // Without the signs and digits of escapes: an escape of the next letter could complete a secret that has them.
  const plain = fc.string({ unit: fc.constantFrom(...'ghkmqzGHKMQZ +/=-_"\'<>é€'.split('')), minLength: 6, maxLength: 30 })
  const nearly = fc.tuple(plain, spelling, fc.nat(), fc.boolean()).map(([secret, name, nth, isAtEnd]) => {
    const letters = Array.from(secret)
    const missing = isAtEnd ? letters.length - 1 : nth % letters.length
    const write = (part: readonly string[]): string => SPELLINGS[name]?.(part.join('')) ?? ''
    // U+0001 is in no secret, nor in what an encoding is written with.
    return { secret, text: `${write(letters.slice(0, missing))}\u0001${write(letters.slice(missing + 1))}` }
  })
  fc.assert(
    fc.property(fc.array(nearly, { minLength: 1, maxLength: 4 }), surroundings, sizes, (parts, around, cuts) => {
      const secrets = parts.map((part) => part.secret)
      const bytes = Buffer.from(parts.map((part) => part.text).join(`\u0001${around}\u0001`))
      fc.pre(!secrets.some((secret) => isReadable(bytes, secret)))
      const { out, hits } = redact(secrets, bytes, cuts)
      assert.deepEqual(out, bytes)
      assert.equal(hits, 0)
    }),
    { numRuns: 250 },
  )
  fc.assert(
    fc.property(token, fc.uint8Array({ maxLength: 2_000 }), sizes, (secret, bytes, cuts) => {
      assert.deepEqual(redact([secret], Buffer.from(bytes), cuts).out, Buffer.from(bytes))
    }),
  )
})

for (const { minLength, maxLength, kind } of [
  { minLength: 1, maxLength: 4, kind: 'short' },
  // Of these the beginnings are looked for first.
  { minLength: 5, maxLength: 20, kind: 'long' },
])
  test(`matches that overlap, of ${kind} secrets that repeat themselves and each other, are all found: the same as by trying everywhere`, () => {
    const few = fc.string({ unit: fc.constantFrom('a', 'b', '%', '\\'), minLength, maxLength })
    const pieces = fc.oneof(
      fc.string({ unit: fc.constantFrom('a', 'b', '%', '\\', '2', '5', '6', '1', 'Y', 'W', 'F', 'h', 'n', '\n', '\r'), maxLength: 12 }),
      fc.tuple(few, spelling).map(([text, name]) => SPELLINGS[name]?.(text) ?? ''),
      fc.tuple(few, wrapping).map(([text, name]) => WRAPPINGS[name]?.(`aab${text}ba`) ?? ''),
    )
    fc.assert(
      fc.property(fc.array(few, { minLength: 1, maxLength: 3 }), fc.array(pieces, { maxLength: 8 }), sizes, (secrets, texts, cuts) => {
        const bytes = Buffer.from(texts.join(''))
        const { out } = redact(secrets, bytes, cuts)
        const matched = matchedBytes(secrets, bytes)
        for (const [i, byte] of out.entries()) {
          if (matched[i] === true) assert.match(String.fromCharCode(byte), /[*A0]/)
          else assert.equal(byte, bytes[i])
        }
      }),
      { numRuns: 800 },
    )
  })

test('how many bytes are held back does not depend on the secret: a text of the agent’s own learns nothing from the sizes of what it gets', () => {
  const guess = fc.tuple(fc.nat(20), spelling, surroundings)
  fc.assert(
    fc.property(token, token, fc.array(guess, { minLength: 1, maxLength: 6 }), sizes, (secret, other, guesses, cuts) => {
      const bytes = Buffer.from(guesses.map(([length, name, around]) => around + SPELLINGS[name]?.(secret.slice(0, length))).join(''))
      assert.deepEqual(redact([secret], bytes, cuts).sizes, redact([other], bytes, cuts).sizes)
    }),
    { numRuns: 250 },
  )
})
