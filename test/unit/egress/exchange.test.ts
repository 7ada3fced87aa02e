import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import type { Audit } from '../../../src/audit/audit.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createExchanges, type Exchanges } from '../../../src/sidecar/egress/exchange.ts'

/** A disk that takes a line when the test says so, or not at all. */
function openSlow(): { exchanges: Exchanges; written: string[]; take: () => Promise<void>; fail: () => Promise<void> } {
  const waiting: { event: string; resolve: () => void; reject: (error: Error) => void }[] = []
  const written: string[] = []
  const audit: Audit = {
    append: ({ event }) => new Promise((resolve, reject) => void waiting.push({ event, resolve, reject })),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  return {
    exchanges: createExchanges({ audit, log: pino({ level: 'silent' }), system: { elapsed: () => 0 } }),
    written,
    async take() {
      const next = waiting.shift()
      assert.ok(next)
      written.push(next.event)
      next.resolve()
      await turn()
    },
    async fail() {
      waiting.shift()?.reject(new Error('ENOSPC'))
      await turn()
    },
  }
}

const REFUSAL = { code: 'overloaded', message: 'x' } as const
const BYTES = { bytesUp: 0, bytesDown: 0 }

test('I3 the audit stays open until the ends of all that ran are in it, however slow the disk', async () => {
  const { exchanges, written, take } = openSlow()
  const story = (): Promise<void> =>
    exchanges.run('http', async (exchange) => {
      await exchange.deny({}, REFUSAL)
      await exchange.finish({}, BYTES)
    })
  const stories = [story(), story()]
  let isSettled = false
  const settled = exchanges.settled().then(() => (isSettled = true))
  for (let line = 0; line < 4; line++) {
    assert.equal(isSettled, false, `after ${line} lines`)
    await take()
  }
  await settled
  await Promise.all(stories)
  assert.deepEqual(written, ['decided', 'decided', 'finished', 'finished'])
})

test('I3 what begins while it is waited for is waited for too', async () => {
  const { exchanges, take } = openSlow()
  const late: Promise<void>[] = []
  const first = exchanges.run('http', async (exchange) => {
    await exchange.finish({}, BYTES)
    late.push(exchanges.run('http', (other) => other.finish({}, BYTES)))
  })
  let isSettled = false
  const settled = exchanges.settled().then(() => (isSettled = true))
  await take()
  await first
  assert.equal(exchanges.running, 1)
  assert.equal(isSettled, false)
  await take()
  await settled
  await Promise.all(late)
  assert.equal(exchanges.running, 0)
})

test('a story that never ends is not waited for longer than the limit', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { exchanges } = openSlow()
  void exchanges.run('http', () => new Promise(() => {}))
  const settled = exchanges.settled()
  t.mock.timers.tick(LIMITS.settleMs)
  await settled
  assert.equal(exchanges.running, 1)
})

test('an end that the disk does not take is no fault of the exchange; a decision is', async () => {
  const { exchanges, fail } = openSlow()
  const ended = exchanges.run('http', (exchange) => exchange.finish({}, BYTES))
  await fail()
  await ended
  const decided = exchanges.run('http', (exchange) => exchange.deny({}, REFUSAL))
  const refused = assert.rejects(decided, /ENOSPC/)
  await fail()
  await refused
})
