import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { createBudgets, type Budgets, type Meter } from '../../../src/credential/credential.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import type { Budget } from '../../../src/wire/credential.ts'

function setUp(startMs = 0): { clock: { ms: number }; budgets: Budgets } {
  const clock = { ms: startMs }
  return { clock, budgets: createBudgets({ elapsed: () => clock.ms }) }
}

function opened(budgets: Budgets, budget: Budget, id = 'c'): Meter {
  const meter = budgets.open([{ id, budget }])
  assert.ok(meter && 'up' in meter, JSON.stringify(meter))
  return meter
}

function refused(budgets: Budgets, budget: Budget, id = 'c') {
  const refusal = budgets.open([{ id, budget }])
  assert.ok(refusal && 'code' in refusal)
  assert.equal(refusal.code, 'budget_exhausted')
  return refusal
}

function overrun(run: () => void): void {
  assert.throws(run, (error) => error instanceof SallyportError && error.code === 'budget_exhausted' && error.hint !== undefined)
}

describe('a budget', () => {
  test('of requests is used up by as many, and stays so (I25)', () => {
    const { clock, budgets } = setUp()
    opened(budgets, { requests: 2 })
    opened(budgets, { requests: 2 })
    clock.ms = 1e9
    const refusal = refused(budgets, { requests: 2 })
    assert.match(refusal.hint ?? '', /requests: 2/)
    assert.equal(refusal.retryAfterMs, undefined)
  })

  test('of one credential is not that of another, and what has none has no end', () => {
    const { budgets } = setUp()
    opened(budgets, { requests: 1 }, 'a')
    opened(budgets, { requests: 1 }, 'b')
    for (let i = 0; i < 100; i += 1) assert.equal(budgets.open([{ id: 'a' }]), undefined)
    refused(budgets, { requests: 1 }, 'a')
  })

  test('that is lowered counts what was used before, one that is raised has more', () => {
    const { budgets } = setUp()
    for (let i = 0; i < 3; i += 1) opened(budgets, { requests: 3 })
    refused(budgets, { requests: 2 })
    opened(budgets, { requests: 4 })
  })

  test('is not charged with a request that is refused', () => {
    const { budgets } = setUp()
    opened(budgets, { requests: 9, bytesUp: 1 }).up(1)
    for (let i = 0; i < 20; i += 1) refused(budgets, { requests: 9, bytesUp: 1 })
    for (let i = 0; i < 8; i += 1) opened(budgets, { requests: 9 })
    refused(budgets, { requests: 9 })
  })

  test('is charged with a request only when those of all its credentials are', () => {
    const { budgets } = setUp()
    const used = (requests: number) => [
      { id: 'a', budget: { requests: 1, bytesUp: 10 } },
      { id: 'b', budget: { requests, bytesUp: 3 } },
    ]
    assert.ok('code' in (budgets.open(used(0)) ?? {}))
    const meter = budgets.open(used(1))
    assert.ok(meter && 'up' in meter)
    overrun(() => meter.up(4))
    meter.up(3)
    refused(budgets, { requests: 1 }, 'a')
    opened(budgets, { requests: 2, bytesUp: 10 }, 'a').up(7)
  })

  for (const way of ['up', 'down'] as const) {
    const [kind, perMinute, name] =
      way === 'up' ? (['bytesUp', 'bytesUpPerMinute', 'bytes_up'] as const) : (['bytesDown', 'bytesDownPerMinute', 'bytes_down'] as const)

    test(`of bytes ${way} is reached by the last of them, and the one after ends the request (I25)`, () => {
      const { budgets } = setUp()
      const meter = opened(budgets, { [kind]: 10 })
      meter[way](4)
      meter[way](6)
      overrun(() => meter[way](1))
      assert.match(refused(budgets, { [kind]: 10 }).hint ?? '', new RegExp(`${name}: 10`))
    })

    test(`of bytes ${way} counts all requests that run, and no byte of the other way`, () => {
      const { budgets } = setUp()
      const meters = [opened(budgets, { [kind]: 10 }), opened(budgets, { [kind]: 10 })]
      meters[0]?.[way](6)
      meters[0]?.[way === 'up' ? 'down' : 'up'](1e9)
      overrun(() => meters[1]?.[way](6))
    })

    test(`of bytes ${way} a minute has room again when they are a minute old`, () => {
      const { clock, budgets } = setUp(5_000)
      opened(budgets, { [perMinute]: 10 })[way](10)
      const { retryAfterMs, hint } = refused(budgets, { [perMinute]: 10 })
      assert.match(hint ?? '', new RegExp(`${name}_per_minute: 10`))
      assert.ok(retryAfterMs !== undefined && retryAfterMs >= 60_000 && retryAfterMs <= 61_000)
      clock.ms += retryAfterMs - 1
      refused(budgets, { [perMinute]: 10 })
      clock.ms += 1
      opened(budgets, { [perMinute]: 10 })[way](10)
    })
  }

  test('of nothing a minute never has room, and says no time', () => {
    assert.equal(refused(setUp().budgets, { requestsPerMinute: 0 }).retryAfterMs, undefined)
  })

  test('a minute is kept to in every minute, wherever it begins, and lets through what it says as soon as it may', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.array(fc.integer({ min: 0, max: 30_000 }), { maxLength: 60 }), (limit, steps) => {
        const { clock, budgets } = setUp(steps.length * 37)
        const passed: number[] = []
        for (const step of steps) {
          clock.ms += step
          const answer = budgets.open([{ id: 'c', budget: { requestsPerMinute: limit } }]) ?? assert.fail('no budget')
          const recent = passed.filter((at) => clock.ms - at < 60_000).length
          if ('up' in answer) {
            passed.push(clock.ms)
            assert.ok(recent < limit)
          } else {
            // A second is the finest that is counted.
            assert.ok(passed.filter((at) => clock.ms - at < 61_000).length >= limit)
            assert.ok(answer.retryAfterMs !== undefined && answer.retryAfterMs > 0 && answer.retryAfterMs <= 61_000)
          }
        }
      }),
    )
  })

  test('says after which time it has room again, and it has', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.integer({ min: 0, max: 9_999 }), { minLength: 5, maxLength: 30 }),
        (limit, steps) => {
          const { clock, budgets } = setUp()
          for (const step of steps) {
            clock.ms += step
            const answer = budgets.open([{ id: 'c', budget: { requestsPerMinute: limit } }]) ?? assert.fail('no budget')
            if ('up' in answer) continue
            clock.ms += (answer.retryAfterMs ?? 0) - 1
            refused(budgets, { requestsPerMinute: limit })
            clock.ms += 1
            opened(budgets, { requestsPerMinute: limit })
          }
        },
      ),
    )
  })
})
