import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ProbeTask } from '../../../src/controller/selftest/task.ts'
import { runCommand } from '../../support/command.ts'

test('I38 a probe that is never told that the gate answers has found nothing, whatever it tried alone', async () => {
  const task: ProbeTask = {
    host: { addresses: [], port: 9 },
    linkLocal: [],
    subnet: '10.213.7.0/24',
    sidecar: '127.0.0.1',
    neighbours: [],
    writable: [],
    namespaces: [],
    isRootAllowed: false,
  }
  const { code, stdout, stderr } = await runCommand(['probe', JSON.stringify(task), '--when-told'])
  assert.deepEqual([code, stdout], [2, ''])
  assert.match(stderr, /^usage: the probe was never told to begin/)
})
