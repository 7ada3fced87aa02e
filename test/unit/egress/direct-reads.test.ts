import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { mock, test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { DirectReads, ReadBuffers } from '../../../src/sidecar/egress/direct-reads.ts'
import { relay } from '../../../src/sidecar/egress/relay.ts'
import { dialTcp } from '../../../src/sidecar/upstream/dial.ts'
import { eventually } from '../../support/eventually.ts'
import { hostname } from '../../support/policy.ts'
import { openSocketPair } from '../../support/socket-pair.ts'
import { openRawUpstream } from '../../support/upstream.ts'

const MIB = 1024 * 1024
Object.assign(LIMITS, { tunnelBuffersMax: 3, tunnelSpareBuffersMax: 2 })

/** agent ↔ gate ↔ upstream; `upstream` is the server's end of a connection that the gate dialled. */
async function openTunnel(buffers: ReadBuffers) {
  const accepted = Promise.withResolvers<Socket>()
  const listener = await openRawUpstream((socket) => accepted.resolve(socket))
  const left = await openSocketPair()
  const reads = new DirectReads(buffers, left.server)
  const dialled = await dialTcp({ host: hostname('127.0.0.1'), port: listener.port, addresses: ['127.0.0.1'] }, reads.onread)
  return {
    agent: left.client,
    upstream: await accepted.promise,
    gate: { agent: left.server, upstream: dialled },
    reads,
    start: () => relay(left.server, dialled, undefined, reads),
    async [Symbol.asyncDispose]() {
      dialled.destroy()
      await left[Symbol.asyncDispose]()
      await listener[Symbol.asyncDispose]()
    },
  }
}

type Tunnel = Awaited<ReturnType<typeof openTunnel>>

/** The agent reads nothing until the gate has bytes that the system does not take. */
async function stall({ agent, upstream, gate }: Tunnel, byte: number): Promise<void> {
  agent.pause()
  const chunk = Buffer.alloc(MIB, byte)
  const feed = (): void => {
    while (upstream.write(chunk));
  }
  upstream.on('drain', feed)
  feed()
  await eventually(() => assert.ok(gate.agent.writableLength > 0))
  upstream.off('drain', feed)
}

/** Reads to the end: how many bytes of each value came. */
async function census(agent: Socket): Promise<Map<number, number>> {
  const counts = new Map<number, number>()
  agent.on('data', (chunk: Buffer) => {
    let rest = chunk
    while (rest.length > 0) {
      const byte = rest[0] as number
      const run = rest.equals(Buffer.alloc(rest.length, byte)) ? rest.length : rest.findIndex((other) => other !== byte)
      counts.set(byte, (counts.get(byte) ?? 0) + run)
      rest = rest.subarray(run)
    }
  })
  agent.resume()
  await once(agent, 'end')
  return counts
}

test('a tunnel in bulk is read in large pieces: fewer than ten of them make a MiB', async () => {
  await using tunnel = await openTunnel(new ReadBuffers())
  const writes = mock.method(tunnel.gate.agent, 'write')
  const done = tunnel.start()
  tunnel.upstream.end(Buffer.alloc(64 * MIB, 'x'))
  assert.deepEqual(await census(tunnel.agent), new Map([['x'.charCodeAt(0), 64 * MIB]]))
  tunnel.agent.end()
  assert.deepEqual(await done, { bytesUp: 0, bytesDown: 64 * MIB })
  const count = writes.mock.callCount()
  assert.ok(count < 640, `${count} writes for 64 MiB`)
})

test('nothing is read before the relay begins, and nothing of what came before is lost', async () => {
  await using tunnel = await openTunnel(new ReadBuffers())
  await new Promise((resolve) => tunnel.upstream.write('greeting', resolve))
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  assert.equal(tunnel.reads.bytes, 0)
  void tunnel.start()
  assert.equal(String((await once(tunnel.agent, 'data'))[0]), 'greeting')
})

test('a tunnel holds no buffer of its own: not before bulk, not after, not when it is closed', async () => {
  const buffers = new ReadBuffers()
  const borrow = mock.method(buffers, 'borrow')
  await using tunnel = await openTunnel(buffers)
  const done = tunnel.start()
  let got = 0
  tunnel.agent.on('data', (chunk: Buffer) => (got += chunk.length))
  tunnel.upstream.write('small')
  await eventually(() => assert.equal(got, 5))
  assert.equal(borrow.mock.callCount(), 0)
  tunnel.upstream.write(Buffer.alloc(8 * MIB))
  await eventually(() => assert.equal(got, 8 * MIB + 5))
  assert.ok(borrow.mock.callCount() > 0)
  assert.equal(buffers.lent, 0)
  tunnel.upstream.end(Buffer.alloc(8 * MIB))
  tunnel.agent.end()
  await done
  assert.equal(buffers.lent, 0)
})

test('an upstream whose last bytes fill the buffer that was lent, and that ends then, leaves it to others', async (t) => {
  const { tunnelSharedReadBytes, tunnelBufferBytes } = LIMITS
  t.after(() => Object.assign(LIMITS, { tunnelSharedReadBytes, tunnelBufferBytes }))
  // So little that the system has all of it before the first read.
  Object.assign(LIMITS, { tunnelSharedReadBytes: 1024, tunnelBufferBytes: 4096 })
  const buffers = new ReadBuffers()
  const borrow = t.mock.method(buffers, 'borrow')
  await using tunnel = await openTunnel(buffers)
  tunnel.upstream.end(Buffer.alloc(1024 + 4096))
  await once(tunnel.upstream, 'finish')
  void tunnel.start()
  assert.deepEqual(await census(tunnel.agent), new Map([[0, 1024 + 4096]]))
  assert.equal(borrow.mock.callCount(), 1)
  assert.equal(tunnel.gate.upstream.destroyed, false)
  assert.equal(buffers.lent, 0)
})

test('agents that read late get the bytes of their own tunnel and no other, however many wait and however few buffers there are', async () => {
  const buffers = new ReadBuffers()
  await using stack = new AsyncDisposableStack()
  const tunnels: Tunnel[] = []
  for (let i = 0; i < 6; i += 1) tunnels.push(stack.use(await openTunnel(buffers)))
  const done = tunnels.map((tunnel) => tunnel.start())
  const stalled = tunnels.slice(0, 5)
  for (const [i, tunnel] of stalled.entries()) await stall(tunnel, i)
  assert.ok(buffers.lent > 0 && buffers.lent <= 3, `${buffers.lent} are lent`)
  // While their writes wait, another tunnel reads as much as it can into what is left.
  const busy = tunnels[5] as Tunnel
  busy.upstream.end(Buffer.alloc(32 * MIB, 5))
  assert.deepEqual(await census(busy.agent), new Map([[5, 32 * MIB]]))
  for (const [i, tunnel] of stalled.entries()) {
    tunnel.upstream.end()
    const counts = await census(tunnel.agent)
    assert.deepEqual([...counts.keys()], [i])
    assert.equal(counts.get(i), tunnel.upstream.bytesWritten)
  }
  for (const { agent } of tunnels) agent.end()
  assert.deepEqual(
    (await Promise.all(done)).map(({ bytesDown }) => bytesDown),
    tunnels.map(({ upstream }) => upstream.bytesWritten),
  )
  assert.equal(buffers.lent, 0)
})

for (const { how, end } of [
  { how: 'is reset by its agent', end: (tunnel: Tunnel) => tunnel.agent.resetAndDestroy() },
  { how: 'is cut', end: (tunnel: Tunnel) => tunnel.gate.agent.destroy() },
]) {
  test(`a buffer that waits to be written when its tunnel ${how} serves others, and they get nothing that was in it`, async () => {
    const buffers = new ReadBuffers()
    for (let i = 0; i < 4; i += 1) {
      await using tunnel = await openTunnel(buffers)
      const done = tunnel.start()
      await stall(tunnel, 1)
      end(tunnel)
      await done
      assert.equal(buffers.lent, 0)
    }
    await using next = await openTunnel(buffers)
    void next.start()
    next.upstream.end(Buffer.alloc(4 * MIB, 2))
    assert.deepEqual(await census(next.agent), new Map([[2, 4 * MIB]]))
  })
}

test('an agent that reads nothing: the upstream is read no further, and what waits is one read', async () => {
  await using tunnel = await openTunnel(new ReadBuffers())
  void tunnel.start()
  await stall(tunnel, 1)
  const { bytes } = tunnel.reads
  assert.ok(tunnel.gate.agent.writableLength <= LIMITS.tunnelBufferBytes)
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  assert.equal(tunnel.reads.bytes, bytes)
})
