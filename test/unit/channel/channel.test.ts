import assert from 'node:assert/strict'
import { Duplex, duplexPair } from 'node:stream'
import { test, mock } from 'node:test'
import {
  acceptMarked,
  createAllowance,
  isProof,
  offerMarked,
  openChannel,
  proofOf,
  type Channel,
  type ChannelOptions,
  openUnderLease,
  sealUnderLease,
} from '../../../src/channel/channel.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { system } from '../../../src/kernel/system.ts'

const MAX = { received: () => 64 * 1024, sent: 64 * 1024 }
const NOBODY: ChannelOptions = { bytesMax: MAX, onRequest: () => Promise.resolve({}), system }

function pair(a: Partial<ChannelOptions> = {}, b: Partial<ChannelOptions> = {}): { a: Channel; b: Channel } & AsyncDisposable {
  const [left, right] = duplexPair()
  const both = { a: openChannel(left, { ...NOBODY, ...a }), b: openChannel(right, { ...NOBODY, ...b }) }
  return {
    ...both,
    async [Symbol.asyncDispose]() {
      both.a.close()
      both.b.close()
      await Promise.all([both.a.closed, both.b.closed])
    },
  }
}

test('each of many requests at once gets its own answer, in both directions, whatever the order of the answers', async () => {
  const waiting: (() => void)[] = []
  await using channels = pair(
    { onRequest: (method, params) => Promise.resolve({ from: 'a', method, params }) },
    {
      onRequest: (_method, params) =>
        new Promise((resolve) => {
          waiting.push(() => resolve(params))
          if (waiting.length === 10) for (const answer of waiting.toReversed()) answer()
        }),
    },
  )
  const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => channels.a.request('echo', { n })))
  assert.deepEqual(
    answers,
    Array.from({ length: 10 }, (_, n) => ({ n })),
  )
  assert.deepEqual(await channels.b.request('who', [1]), { from: 'a', method: 'who', params: [1] })
})

test('a refusal arrives with its code and hint, a fault without a code as internal and without its text', async () => {
  await using channels = pair(
    {},
    {
      onRequest: (method) =>
        Promise.reject(
          method === 'coded'
            ? new SallyportError('secret_missing', 'secret A is missing', { hint: 'set it' })
            : new Error('canary in a stack'),
        ),
    },
  )
  await assert.rejects(channels.a.request('coded', {}), { code: 'secret_missing', message: 'secret A is missing', hint: 'set it' })
  await assert.rejects(
    channels.a.request('other', {}),
    (error: SallyportError) => error.code === 'internal' && !error.message.includes('canary'),
  )
})

test('notes arrive in order', async () => {
  const got: unknown[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  await using channels = pair({}, { onNote: (_method, params) => void (got.push(params) === 3 && resolve()) })
  for (const n of [1, 2, 3]) channels.a.note('n', n)
  await promise
  assert.deepEqual(got, [1, 2, 3])
})

test('a request that is not answered in time is control_unreachable, and its late answer is no fault', async () => {
  const { promise, resolve } = Promise.withResolvers<unknown>()
  await using channels = pair({}, { onRequest: (method) => (method === 'late' ? promise : Promise.resolve('now')) })
  await assert.rejects(channels.a.request('late', {}, 1), { code: 'control_unreachable' })
  resolve('late')
  assert.equal(await channels.a.request('next', {}), 'now')
})

test('closing ends all that waits at both sides, cleanly, and nothing can be asked afterwards', async () => {
  await using channels = pair({}, { onRequest: () => new Promise(() => undefined) })
  const asked = assert.rejects(channels.a.request('never', {}), { code: 'control_broken' })
  channels.b.close()
  await asked
  assert.deepEqual(await Promise.all([channels.a.closed, channels.b.closed]), [undefined, undefined])
  await assert.rejects(channels.a.request('more', {}), { code: 'control_broken' })
  assert.throws(() => channels.a.note('more', {}), { code: 'control_broken' })
})

test('a frame that the other side would not take is not sent, and the channel goes on', async () => {
  await using channels = pair({}, { onRequest: (method) => Promise.resolve(method === 'large' ? 'x'.repeat(70_000) : 'small') })
  await assert.rejects(channels.a.request('x', 'y'.repeat(70_000)), { code: 'control_broken' })
  await assert.rejects(channels.a.request('large', {}), { code: 'control_broken' })
  assert.equal(await channels.a.request('x', {}), 'small')
})

test('more requests than may wait are refused here, and cut off there', async () => {
  await using channels = pair({}, { onRequest: () => new Promise(() => undefined) })
  const waiting = Array.from({ length: LIMITS.controlRequestsMax }, () => channels.a.request('x', {}).catch(() => undefined))
  await assert.rejects(channels.a.request('x', {}), { code: 'control_broken' })
  channels.a.close()
  await Promise.all(waiting)
})

test('a side that is silent for longer than the bound is gone; heartbeats alone keep both', () => {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  try {
    let nowMs = 0
    const clock = { elapsed: () => nowMs }
    const sent: Buffer[] = []
    const stream = new Duplex({ read: () => undefined, write: (chunk: Buffer, _encoding, done) => (sent.push(chunk), done()) })
    const channel = openChannel(stream, { ...NOBODY, system: clock })
    const passed = (ms: number): void => {
      for (let at = 0; at < ms; at += 500) {
        nowMs += 500
        mock.timers.tick(500)
      }
    }
    passed(LIMITS.controlSilenceMs - LIMITS.controlBeatMs)
    assert.ok(sent.length >= 2 && sent.every((chunk) => chunk.includes('"beat"')))
    assert.equal(stream.writableEnded, false)
    stream.emit('data', Buffer.from('\0\0\0\x0f{"kind":"beat"}', 'latin1'))
    passed(LIMITS.controlSilenceMs - LIMITS.controlBeatMs)
    assert.equal(stream.writableEnded, false)
    passed(LIMITS.controlBeatMs * 2)
    assert.equal(stream.writableEnded, true)
    channel.close()
  } finally {
    mock.timers.reset()
  }
})

test('an allowance gives what it has, then says how long to wait, and never more than its burst', () => {
  let nowMs = 0
  const allowance = createAllowance(10, 5, { elapsed: () => nowMs })
  for (let i = 0; i < 5; i++) assert.equal(allowance.take(1), 0)
  assert.equal(allowance.take(1), 1)
  nowMs += 100
  assert.equal(allowance.take(50), 0)
  assert.equal(allowance.take(1), 4_900)
  nowMs += 4_899
  assert.ok(allowance.take(1) > 0)
  nowMs += 1_000_000
  assert.equal(allowance.take(6), 0)
  assert.ok(allowance.take(1) > 0)
})

test('a proof is of one lease and one nonce', () => {
  const proof = proofOf('lease', 'nonce')
  assert.ok(isProof(proof, 'lease', 'nonce'))
  for (const [lease, nonce] of [
    ['lease2', 'nonce'],
    ['lease', 'nonce2'],
    ['', ''],
  ] as const)
    assert.equal(isProof(proof, lease, nonce), false)
  assert.equal(isProof('', 'lease', 'nonce'), false)
})

test('a controller that attaches finds the streams in the middle of frames of the one before, and both begin anew', async () => {
  const [outside, inside] = duplexPair()
  const connections: { stream: Duplex; nonce: string }[] = []
  using accepting = acceptMarked(inside, inside, (stream, nonce) => void connections.push({ stream, nonce }))
  outside.write(Buffer.from([0, 0, 16, 0, 0x7b, 0x22]))
  inside.write(Buffer.from('half a frame of before\n'))
  for (const nonce of ['a'.repeat(32), 'b'.repeat(32)]) {
    const stream = offerMarked(outside, nonce)
    const controller = openChannel(stream, NOBODY)
    while (connections.at(-1)?.nonce !== nonce) await new Promise((resolve) => setImmediate(resolve))
    const accepted = connections.at(-1)?.stream
    assert.ok(accepted)
    const sidecar = openChannel(accepted, { ...NOBODY, onRequest: () => Promise.resolve(nonce) })
    assert.equal(await controller.request('x', {}), nonce)
    assert.deepEqual(await sidecar.request('y', {}), {})
    outside.removeAllListeners('data')
  }
  assert.equal(connections[0]?.stream.destroyed, true)
  accepting[Symbol.dispose]()
  assert.equal(connections[1]?.stream.destroyed, true)
})

test('of two that are attached at once the first is over when the mark of the second is repeated, and hears nothing behind it', async () => {
  const [outside, inside] = duplexPair()
  inside.resume()
  const first = offerMarked(outside, 'a'.repeat(32))
  const heard: Buffer[] = []
  first.on('data', (chunk: Buffer) => heard.push(chunk))
  const closed = new Promise((resolve) => first.once('close', resolve))
  const markOf = (letter: string): string => `\nSALLYPORT-CONTROL ${letter.repeat(32)}\n`
  inside.write(`${markOf('a')}for the first${markOf('b')}for the second`)
  await closed
  assert.equal(Buffer.concat(heard).toString(), 'for the first')
})

test('what is sealed under a lease is read with that lease alone, and not when a bit of it was altered', () => {
  const sealed = sealUnderLease('lease-one', 'a key', system)
  assert.equal(openUnderLease('lease-one', sealed), 'a key')
  assert.ok(!Buffer.from(sealed, 'base64').includes('a key'))
  assert.notEqual(sealUnderLease('lease-one', 'a key', system), sealed)
  assert.equal(openUnderLease('lease-two', sealed), undefined)
  const bytes = Buffer.from(sealed, 'base64')
  for (let at = 0; at < bytes.length; at += 1) {
    const altered = Buffer.from(bytes)
    altered[at] = (altered[at] ?? 0) ^ 1
    assert.equal(openUnderLease('lease-one', altered.toString('base64')), undefined)
  }
  for (const text of ['', 'AAAA', bytes.subarray(0, 44).toString('base64')]) assert.equal(openUnderLease('lease-one', text), undefined)
})
