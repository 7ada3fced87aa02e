import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import {
  allowedCpus,
  cpuSecondsOf,
  parseCpuList,
  parseKib,
  parseStat,
  peakMbOf,
  pssMbOf,
  rssMbOf,
  sessionOf,
  treeOf,
} from '../../../bench/proc.ts'

const STAT = (name: string): string => `42 (${name}) S 7 42 41 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 11 0 999 1 2 3`

for (const name of ['node', 'a b', 'a) R 1 (b', '(', '']) {
  test(`the fields of a process called ${JSON.stringify(name)} are found behind its name`, () => {
    assert.deepEqual(parseStat(STAT(name)), { parent: 7, session: 41, cpuS: 2, childrenCpuS: 0.5 })
  })
}

test('a text that is no line of stat is refused, not taken for a process without cost', () => {
  assert.throws(() => parseStat('42 (node) S 7'), /not a line/)
  assert.throws(() => parseStat(''), /not a line/)
})

test('a field of status is found by its whole name', () => {
  const status = 'VmRSSX:\t  1 kB\nVmRSS:\t  5120 kB\nThreads:\t11\n'
  assert.equal(parseKib(status, 'VmRSS'), 5120)
  assert.equal(parseKib(status, 'VmHWM'), undefined)
  assert.equal(parseKib(status, 'Threads'), undefined)
})

for (const { list, cpus } of [
  { list: '0\n', cpus: [0] },
  { list: '0-3', cpus: [0, 1, 2, 3] },
  { list: '1,4-5,9', cpus: [1, 4, 5, 9] },
]) {
  test(`the processors of ${JSON.stringify(list)} are ${cpus.join(' ')}`, () => assert.deepEqual(parseCpuList(list), cpus))
}

test('this process has memory, processors, and its children in its tree', async () => {
  const child = spawn(process.execPath, ['-e', 'process.stdout.write("up"); setInterval(() => {}, 1000)'], { detached: true })
  try {
    await once(child.stdout, 'data')
    const pid = child.pid ?? 0
    assert.ok(treeOf(process.pid).includes(pid))
    assert.ok(sessionOf(pid).includes(pid))
    assert.equal(sessionOf(pid).includes(process.pid), false)
    assert.ok(rssMbOf(pid) > 10)
    assert.ok(peakMbOf(pid) >= rssMbOf(pid) - 1)
    assert.ok(pssMbOf([pid]) > 1)
    assert.ok(cpuSecondsOf(process.pid) > 0)
    assert.ok(allowedCpus().length > 0)
  } finally {
    child.kill('SIGKILL')
  }
})

test('a process that has gone costs nothing and breaks nothing', async () => {
  const child = spawn(process.execPath, ['-e', '0'])
  await once(child, 'close')
  assert.equal(rssMbOf(child.pid ?? 0), 0)
  assert.equal(cpuSecondsOf(child.pid ?? 0), 0)
})
