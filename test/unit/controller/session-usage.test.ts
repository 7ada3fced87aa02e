import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ContainerUsage } from '../../../src/controller/sessions/engine.ts'
import { createUsage } from '../../../src/controller/sessions/usage.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'

const AT_FIRST: ContainerUsage = { atMs: 1_000, processorMs: 500, memoryBytes: 10, memoryBytesMax: 100, pids: 3, pidsMax: 50 }

function setting(counts: readonly (ContainerUsage | Error | undefined)[]) {
  let now = 0
  let asked = 0
  const engine = {
    async usage() {
      const count = counts[asked]
      asked += 1
      if (count instanceof Error) throw count
      return count
    },
  }
  const read = createUsage(engine, () => [{ id: 'one', container: 'c' }], { elapsed: () => now })
  return { read, asked: () => asked, pass: (ms: number) => (now += ms) }
}

test('the share of a processor is what was used between two readings, by the engine’s clock; of one reading there is none', async () => {
  const { read, pass } = setting([AT_FIRST, { ...AT_FIRST, atMs: 3_000, processorMs: 2_000 }])
  assert.equal((await read())['one']?.cpuPercent, null)
  pass(LIMITS.usageEveryMs)
  assert.deepEqual(await read(), { one: { cpuPercent: 75, memoryBytes: 10, memoryBytesMax: 100, pids: 3, pidsMax: 50 } })
})

test('a container that was started anew has no share below zero, and one that cannot be read is left out', async () => {
  const { read, pass } = setting([AT_FIRST, { ...AT_FIRST, atMs: 3_000, processorMs: 20 }, new Error('gone'), undefined])
  await read()
  pass(LIMITS.usageEveryMs)
  assert.equal((await read())['one']?.cpuPercent, null)
  for (const _ of ['fails', 'does not run']) {
    pass(LIMITS.usageEveryMs)
    assert.deepEqual(await read(), {})
  }
})

test('however many ask within a moment, the engine is asked once', async () => {
  const { read, pass, asked } = setting([AT_FIRST, AT_FIRST, AT_FIRST])
  await Promise.all(Array.from({ length: 50 }, () => read()))
  pass(LIMITS.usageEveryMs - 1)
  await read()
  assert.equal(asked(), 1)
  pass(1)
  await read()
  assert.equal(asked(), 2)
})
