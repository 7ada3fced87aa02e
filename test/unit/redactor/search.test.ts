import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compile } from '../../../src/redactor/automaton.ts'
import { patternsOf } from '../../../src/redactor/patterns.ts'
import { Search } from '../../../src/redactor/search.ts'
import { StateCache } from '../../../src/redactor/state-cache.ts'
import { secretsOf } from '../../support/redaction.ts'

const BYTES = 8_000

/** How many bytes are traced until all of the text has come in chunks of the size, and how many a match can have. */
function traceOf(value: string, text: Buffer, size: number): { traced: number; longest: number } {
  const automaton = compile(patternsOf(secretsOf([value])))
  let traced = 0
  const beginnings = new Proxy(automaton.beginnings, { get: (list, byte) => (traced++, Reflect.get(list, byte) as unknown) })
  const cache = new StateCache({ ...automaton, beginnings })
  const run = (): void => {
    const search = new Search(cache)
    for (let at = 0; at < text.length; at += size) search.push(text.subarray(at, at + size))
    search.flush()
  }
  // Once to fill the cache, which reads bytes in the same way.
  run()
  traced = 0
  run()
  return { traced, longest: automaton.longest }
}

for (const { value, text, why } of [
  { value: 'a'.repeat(400), text: 'a', why: 'a secret of one letter in a text of that letter' },
  { value: `${'a'.repeat(400)}b`, text: 'a', why: 'a secret that a text seems to be all the time and never is' },
  { value: 'ab'.repeat(200), text: 'ab', why: 'a secret that begins anew within itself' },
  { value: 'abcdefghijklmnop', text: 'abcdefghijklmnop', why: 'a secret again and again' },
  { value: 'abcdefghijklmnop', text: 'abcdefghijklmno', why: 'nearly a secret again and again' },
  { value: `${'%\\&'.repeat(100)}x`, text: '%25%5c&amp;', why: 'escapes of signs of escapes' },
]) {
  for (const size of [1, 2, 7, 64, 1_000, BYTES]) {
    test(`${why}, in chunks of ${size}: a byte is traced twice on average, but for one longest match`, () => {
      const { traced, longest } = traceOf(value, Buffer.alloc(BYTES, text), size)
      assert.ok(traced > 0)
      assert.ok(traced <= 2 * BYTES + longest, `${traced} bytes were traced`)
    })
  }
}
