import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Enforced } from '../../../src/sidecar/egress/enforced.ts'
import { createLive } from '../../../src/sidecar/egress/live.ts'

const at = (generation: number): Enforced => ({ generation }) as Enforced

function entryFrom(generation: number): { isAllowed: (enforced: Enforced) => boolean; cut: () => void; cuts: number } {
  const entry = { cuts: 0, isAllowed: (enforced: Enforced) => enforced.generation < generation, cut: () => void (entry.cuts += 1) }
  return entry
}

test('I18 what a policy does not allow is cut once, the rest not at all', () => {
  let now = at(0)
  const live = createLive(() => now)
  const [ends, stays] = [entryFrom(1), entryFrom(9)]
  live.add(ends, now)
  live.add(stays, now)
  now = at(1)
  assert.equal(live.review(now), 1)
  assert.equal(live.review(now), 0)
  assert.deepEqual([ends.cuts, stays.cuts], [1, 0])
})

test('I18 what was decided before the policy changed and begins after is cut as it begins', () => {
  let now = at(0)
  const live = createLive(() => now)
  const begun = now
  now = at(1)
  live.review(now)
  const entry = entryFrom(1)
  live.add(entry, begun)
  assert.equal(entry.cuts, 1)
  assert.equal(live.review(now), 0, 'and it is no longer there')
})

test('I18 what an entry learns of itself after the policy changed is looked at again', () => {
  let now = at(0)
  const live = createLive(() => now)
  let isKnown = false
  let cuts = 0
  const place = live.add({ isAllowed: ({ generation }) => generation === 0 || !isKnown, cut: () => void (cuts += 1) }, now)
  now = at(1)
  live.review(now)
  place.check()
  assert.equal(cuts, 0)
  isKnown = true
  place.check()
  assert.equal(cuts, 1)
  place.check()
  assert.equal(cuts, 1)
})

test('an entry that has left is not cut', () => {
  let now = at(0)
  const live = createLive(() => now)
  const entry = entryFrom(1)
  const place = live.add(entry, now)
  place.leave()
  now = at(1)
  place.check()
  assert.equal(live.review(now), 0)
  assert.equal(entry.cuts, 0)
})
