import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { ProbeTask } from '../../../src/controller/selftest/task.ts'
import { runCommand } from '../../support/command.ts'

test('a probe that is to be told tries nothing when it is never told', async () => {
  let arrived = 0
  const server = createServer((socket) => {
    arrived += 1
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const task: ProbeTask = {
    host: { addresses: ['127.0.0.1'], port: (server.address() as AddressInfo).port },
    linkLocal: [],
    subnet: '10.213.7.0/24',
    sidecar: '127.0.0.1',
    neighbours: [],
    writable: [],
    namespaces: [],
    isRootAllowed: false,
  }
  try {
    const { code, stdout, stderr } = await runCommand(['probe', JSON.stringify(task), '--when-told'])
    assert.equal(code, 2)
    assert.equal(stdout, '')
    assert.match(stderr, /^usage: the probe was never told to begin/)
    assert.equal(arrived, 0)
  } finally {
    server.close()
  }
})
