import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { relay } from '../../../src/sidecar/egress/relay.ts'
import { hostname } from '../../support/policy.ts'
import { openSocketPair } from '../../support/socket-pair.ts'
import { dialTcp } from '../../../src/sidecar/upstream/dial.ts'
import { openRawUpstream } from '../../support/upstream.ts'

Object.assign(LIMITS, { tunnelHalfIdleMs: 1_000 })

const all = async (socket: Socket): Promise<string> => Buffer.concat((await socket.toArray()) as Buffer[]).toString('latin1')

/** agent ↔ gate ↔ upstream, with the relay in the middle. */
async function openRelay() {
  const left = await openSocketPair()
  const right = await openSocketPair()
  return {
    agent: left.client,
    upstream: right.server,
    gate: { left: left.server, right: right.client },
    done: relay(left.server, right.client),
    async [Symbol.asyncDispose]() {
      await left[Symbol.asyncDispose]()
      await right[Symbol.asyncDispose]()
    },
  }
}

test('bytes go both ways unchanged and are counted for each', async () => {
  await using sockets = await openRelay()
  const up = randomBytes(300_000)
  const down = randomBytes(500_000)
  sockets.agent.end(up)
  sockets.upstream.end(down)
  assert.equal(await all(sockets.upstream), up.toString('latin1'))
  assert.equal(await all(sockets.agent), down.toString('latin1'))
  assert.deepEqual(await sockets.done, { bytesUp: up.length, bytesDown: down.length })
})

test('an agent that has sent all still gets the answer', async () => {
  await using sockets = await openRelay()
  sockets.agent.end('question')
  assert.equal(await all(sockets.upstream), 'question')
  sockets.upstream.end('answer')
  assert.equal(await all(sockets.agent), 'answer')
  assert.deepEqual(await sockets.done, { bytesUp: 8, bytesDown: 6 })
})

test('an upstream that has sent all still gets the rest of what the agent sends', async () => {
  await using sockets = await openRelay()
  sockets.upstream.end('greeting')
  assert.equal(await all(sockets.agent), 'greeting')
  sockets.agent.end('the rest')
  assert.equal(await all(sockets.upstream), 'the rest')
  assert.deepEqual(await sockets.done, { bytesUp: 8, bytesDown: 8 })
})

test('the same through a socket that the gate dialled itself', async () => {
  let rest: Promise<string> = Promise.resolve('')
  await using upstream = await openRawUpstream((socket) => {
    rest = all(socket)
    socket.end('greeting')
  })
  await using left = await openSocketPair()
  const dialled = await dialTcp({ host: hostname('127.0.0.1'), port: upstream.port, addresses: ['127.0.0.1'] })
  const done = relay(left.server, dialled)
  assert.equal(await all(left.client), 'greeting')
  left.client.end('the rest')
  assert.deepEqual(await done, { bytesUp: 8, bytesDown: 8 })
  assert.equal(await rest, 'the rest')
})

for (const { side, from, to } of [
  { side: 'agent', from: 'upstream', to: 'agent' },
  { side: 'upstream', from: 'agent', to: 'upstream' },
] as const) {
  test(`the ${side} reads nothing: the gate stops reading the other side, and goes on when it reads again`, async () => {
    await using sockets = await openRelay()
    const source = side === 'agent' ? sockets.gate.right : sockets.gate.left
    const sink = side === 'agent' ? sockets.gate.left : sockets.gate.right
    const paused = once(source, 'pause')
    const chunk = Buffer.alloc(256 * 1024, 'x')
    let sent = 0
    const sentAll = new Promise<void>((resolve) => sockets[from].once('finish', resolve))
    const feed = (): void => {
      while (sent < 64 * 1024 * 1024 && sockets[from].write(chunk)) sent += chunk.length
      if (sent >= 64 * 1024 * 1024) sockets[from].end()
    }
    sockets[from].on('drain', feed)
    feed()
    await Promise.race([paused, sentAll])
    assert.equal(source.isPaused(), true)
    assert.ok(sink.writableLength < 2 * 1024 * 1024, `${sink.writableLength} bytes wait in the gate`)
    let got = 0
    sockets[to].on('data', (bytes: Buffer) => (got += bytes.length))
    await once(source, 'resume')
    sockets[from].off('drain', feed)
    sockets[from].end()
    await once(sockets[to], 'end')
    assert.ok(got > chunk.length)
    sockets[to].end()
    const { bytesUp, bytesDown } = await sockets.done
    assert.deepEqual([bytesUp, bytesDown], side === 'agent' ? [0, got] : [got, 0])
  })
}

for (const side of ['agent', 'upstream'] as const) {
  test(`a ${side} that resets ends the other side, and the relay`, async () => {
    await using sockets = await openRelay()
    const other = side === 'agent' ? sockets.upstream : sockets.agent
    sockets[side].write('before')
    await once(other, 'data')
    sockets[side].resetAndDestroy()
    await sockets.done
    assert.equal(sockets.gate.left.destroyed, true)
    assert.equal(sockets.gate.right.destroyed, true)
  })

  test(`a ${side} that was gone before the relay began: it ends at once, and so does the other side`, async () => {
    await using left = await openSocketPair()
    await using right = await openSocketPair()
    const gone = side === 'agent' ? left.server : right.client
    gone.destroy()
    await once(gone, 'close')
    assert.deepEqual(await relay(left.server, right.client), { bytesUp: 0, bytesDown: 0 })
    assert.equal(left.server.destroyed, true)
    assert.equal(right.client.destroyed, true)
  })
}

test('what the upstream sent before it reset is not lost for an agent that reads late', async () => {
  await using sockets = await openRelay()
  const arrived = once(sockets.gate.right, 'data')
  sockets.upstream.write('last words')
  await arrived
  sockets.upstream.resetAndDestroy()
  assert.equal(await all(sockets.agent), 'last words')
  sockets.agent.destroy()
  await sockets.done
})

for (const { side, other } of [
  { side: 'agent', other: 'upstream' },
  { side: 'upstream', other: 'agent' },
] as const) {
  test(`the ${side} has ended its side and the other never does, nor sends: both are closed long before an idle tunnel would be`, async () => {
    await using sockets = await openRelay()
    const closed = once(sockets[other], 'close')
    sockets[side].end('last')
    assert.equal(await all(sockets[other]), 'last')
    await sockets.done
    sockets[other].end()
    await closed
    assert.equal(sockets.gate.left.destroyed, true)
    assert.equal(sockets.gate.right.destroyed, true)
  })

  test(`the ${side} is gone and the other reads nothing of what is left: it is given up too`, async () => {
    await using sockets = await openRelay()
    const sink = side === 'agent' ? sockets.gate.right : sockets.gate.left
    const source = side === 'agent' ? sockets.gate.left : sockets.gate.right
    sockets[other].pause()
    const paused = once(source, 'pause')
    const chunk = Buffer.alloc(1024 * 1024)
    const feed = (): void => {
      while (sockets[side].write(chunk));
    }
    sockets[side].on('drain', feed)
    feed()
    await paused
    source.destroy()
    await sockets.done
    assert.equal(sink.destroyed, true)
  })
}
