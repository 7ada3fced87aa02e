import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOwnPorts } from '../../../src/sidecar/own-ports.ts'

test('I4 a listener on all addresses is the gate itself on each of them, one on a single address there alone, and neither when it is gone', () => {
  const ports = createOwnPorts()
  const all = ['0.0.0.0', '::'].map((address, at) => ports.addAt(address, 5_432 + at))
  const one = ports.addAt('10.213.7.2', 6_379)
  for (const address of ['10.213.7.2', '127.0.0.1', '::1', '::ffff:10.213.7.2'])
    for (const port of [5_432, 5_433]) assert.equal(ports.has(address, port), true, `${address} ${port}`)
  assert.deepEqual(
    ['10.213.7.2', '10.213.7.130', '::ffff:10.213.7.2'].map((address) => ports.has(address, 6_379)),
    [true, false, true],
  )
  for (const listener of [...all, one]) listener[Symbol.dispose]()
  assert.deepEqual(
    [5_432, 5_433, 6_379].map((port) => ports.has('10.213.7.2', port)),
    [false, false, false],
  )
})
