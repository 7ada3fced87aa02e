import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { compile } from '../../../src/redactor/automaton.ts'
import { patternsOf } from '../../../src/redactor/patterns.ts'
import { MATCH, ROOT, StateCache } from '../../../src/redactor/state-cache.ts'
import { secretsOf } from '../../support/redaction.ts'

const VALUES = Array.from({ length: 20 }, () => randomBytes(15).toString('base64'))
const TEXT = Buffer.from(
  Array.from({ length: 400 }, (_, i) => `${randomBytes(30).toString('base64')} ${i % 9 === 0 ? VALUES[i % 20] : ''}`).join('%'),
)
const automaton = compile(patternsOf(secretsOf(VALUES)))

/** Where matches end. */
function endsIn(cache: StateCache, text: Buffer): number[] {
  const ends: number[] = []
  for (let at = 0, state = ROOT; at < text.length;) {
    ;({ at, state } = cache.run(text, at, state))
    if (state >= MATCH) ends.push(at)
    state &= ~MATCH
  }
  return ends
}

test('a cache that has room for a few states only, and forgets them all the time, finds the same matches', () => {
  const roomy = new StateCache(automaton)
  const ends = endsIn(roomy, TEXT)
  assert.equal(ends.length, 45)
  assert.ok(roomy.stateCount > 50)
  for (const [statesMax, positionsMax] of [
    [4, 1_000_000],
    [50, 1_000_000],
    [4_096, 60],
  ] as const) {
    const cache = new StateCache(automaton, statesMax, positionsMax)
    assert.deepEqual(endsIn(cache, TEXT), ends)
    assert.ok(cache.stateCount <= statesMax)
    assert.ok(cache.stateCount < roomy.stateCount)
  }
})
