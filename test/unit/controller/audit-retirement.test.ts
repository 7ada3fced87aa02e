import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRetirement } from '../../../src/controller/record/retirement.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { recordingLog } from '../../support/audit.ts'

const DAY_MS = 86_400_000

function setting() {
  const clock = { now: 1_000 * DAY_MS, elapsed: 0 }
  const asked: number[] = []
  const parts = {
    audit: {
      async retire({ olderThanMs }: { olderThanMs: number }) {
        asked.push(olderThanMs)
        return 1
      },
    },
    retentionDays: 90,
    isLive: () => false,
    system: { now: () => clock.now, elapsed: () => clock.elapsed },
  }
  const pass = (ms: number): void => {
    clock.now += ms
    clock.elapsed += ms
  }
  return { clock, asked, parts, pass, recorded: recordingLog() }
}

test('what is older than the days that were set is asked for, and nothing younger', async () => {
  const { asked, parts, pass, recorded } = setting()
  const look = createRetirement({ ...parts, log: recorded.log })
  pass(LIMITS.auditRetireMs)
  assert.equal(await look(), 1)
  assert.deepEqual(asked, [1_000 * DAY_MS + LIMITS.auditRetireMs - 90 * DAY_MS])
})

test('a clock that jumps a year ahead makes nothing old, nor does one that jumps back', async () => {
  const { clock, asked, parts, pass, recorded } = setting()
  const look = createRetirement({ ...parts, log: recorded.log })
  pass(LIMITS.auditRetireMs)
  clock.now += 365 * DAY_MS
  assert.equal(await look(), 0)
  pass(LIMITS.auditRetireMs)
  clock.now -= 365 * DAY_MS
  assert.equal(await look(), 0)
  assert.deepEqual(asked, [])
})

test('a deletion that failed is tried the next time', async () => {
  const { parts, pass, recorded } = setting()
  let isFailing = true
  const audit = {
    async retire() {
      if (isFailing) throw new SallyportError('audit_unavailable', 'the disk is full')
      return 2
    },
  }
  const look = createRetirement({ ...parts, audit, log: recorded.log })
  pass(LIMITS.auditRetireMs)
  assert.equal(await look(), 0)
  isFailing = false
  pass(LIMITS.auditRetireMs)
  assert.equal(await look(), 2)
})
