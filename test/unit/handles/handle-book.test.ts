import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHandleBook, type Granted } from '../../../src/controller/handles/handle-book.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { standingClock } from '../../support/approvals.ts'

const granted = (scope: Granted['scope'] = 'session'): Granted => ({
  name: 'DB',
  scope,
  source: { kind: 'vault', key: 'DB' },
  by: 'operator',
})

test('a handle has 32 letters of 36, all of them about as often', () => {
  const book = createHandleBook(standingClock())
  const counts = new Map<string, number>()
  for (let i = 0; i < 2_000; i++) {
    const { handle } = book.grant(`s-${i}`, granted())
    assert.match(handle, /^sph_[a-z0-9]{32}$/)
    for (const letter of handle.slice(4)) counts.set(letter, (counts.get(letter) ?? 0) + 1)
  }
  assert.equal(counts.size, 36)
  // 64,000 letters: 1,778 of each, with a standard deviation of 42.
  for (const [letter, count] of counts) assert.ok(Math.abs(count - 1_778) < 6 * 42, `${letter} ${count}`)
})

test('of several handles either all are used or none', () => {
  const book = createHandleBook(standingClock())
  const [one, other] = [book.grant('s', granted('single-command')).handle, book.grant('s', granted('single-command')).handle]
  assert.throws(() => book.take('s', [one, `sph_${'0'.repeat(32)}`]), { code: 'handle_invalid' })
  book.take('s', [one, other, one])
  for (const handle of [one, other]) assert.throws(() => book.look('s', handle), { code: 'handle_invalid' })
})

test('a clock that is set back makes no handle last longer, and one that is set forward ends it', () => {
  const clock = standingClock()
  const outside = { ahead: 0 }
  const book = createHandleBook({ ...clock, now: () => clock.now() + outside.ahead })
  const { handle } = book.grant('s', granted())
  outside.ahead = LIMITS.handleSessionMs
  assert.throws(() => book.look('s', handle), { code: 'handle_invalid' })
  const { handle: another } = book.grant('s', granted())
  outside.ahead = 0
  clock.pass(LIMITS.handleSessionMs)
  assert.throws(() => book.look('s', another), { code: 'handle_invalid' })
})

test('a session has so many handles at most, each one that has ended makes room, and another session has its own', () => {
  const clock = standingClock()
  const book = createHandleBook(clock)
  for (let i = 0; i < LIMITS.handlesOfSessionMax; i++) book.grant('s', granted('single-command'))
  assert.throws(() => book.grant('s', granted()), { code: 'overloaded' })
  book.grant('t', granted())
  clock.pass(LIMITS.handleSingleMs)
  book.grant('s', granted())
})
