import assert from 'node:assert/strict'
import { PassThrough, type Readable } from 'node:stream'
import { mock, test } from 'node:test'
import { codeOf } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { holdBody, type Held } from '../../../src/sidecar/egress/held-body.ts'
import { RecordingAgent } from '../../support/recording-agent.ts'

type Uploading = { readonly agent: RecordingAgent; readonly body: PassThrough; readonly held: Held }

/** An agent with a body that is written by hand, paused as that of an HTTP/2 stream is. */
function upload(rawHeaders: readonly string[] = []): Uploading {
  const body = new PassThrough()
  body.pause()
  const agent = new RecordingAgent()
  Object.defineProperty(agent, 'body', { value: body })
  Object.defineProperty(agent, 'head', { value: { method: 'POST', url: '/', rawHeaders } })
  return { agent, body, held: { bytes: 0 } }
}

const hold = ({ agent, held }: Uploading): Promise<Buffer> => holdBody(agent, held)

/** Nobody of it listens any more, and what is still to come is read away. */
function assertLeft({ agent, body }: Uploading): void {
  assert.equal(agent.listeners, 0)
  assert.deepEqual([body.listenerCount('data'), body.readableFlowing], [0, true])
}

async function failsWith(promise: Promise<unknown>, code: string): Promise<void> {
  await assert.rejects(promise, (error) => codeOf(error) === code)
}

test('a body that comes in pieces is whole, and counts as held until somebody says that it is not', async () => {
  const uploading = upload()
  const whole = hold(uploading)
  for (const piece of ['a', 'bc', 'def']) uploading.body.write(piece)
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(uploading.held.bytes, 6)
  uploading.body.end('g')
  assert.equal(String(await whole), 'abcdefg')
  assert.equal(uploading.held.bytes, 7)
  assertLeft(uploading)
})

test('an empty body that has ended before anybody asked for it is whole', async () => {
  const uploading = upload()
  uploading.body.end()
  uploading.body.resume()
  await new Promise((resolve) => uploading.body.once('end', resolve))
  assert.equal((await hold(uploading)).length, 0)
})

test('an agent that has gone before anybody asked for its body is not waited for', async () => {
  const uploading = upload()
  uploading.agent.leave()
  await failsWith(hold(uploading), 'agent_gone')
  assert.equal(uploading.held.bytes, 0)
  assertLeft(uploading)
})

for (const { what, code, stop } of [
  { what: 'an agent that goes in the middle', code: 'agent_gone', stop: ({ agent }: Uploading) => agent.leave() },
  { what: 'a body that breaks', code: 'ECONNRESET', stop: ({ body }: Uploading) => breakOff(body) },
  {
    what: 'a body of one byte too many',
    code: 'body_too_large',
    stop: ({ body }: Uploading) => void body.write(Buffer.alloc(LIMITS.heldBodyBytesMax)),
  },
  {
    what: 'a body for which there is no room',
    code: 'overloaded',
    stop({ body, held }: Uploading) {
      held.bytes += LIMITS.heldBodiesBytesMax - 1
      body.write('xy')
    },
  },
]) {
  test(`${what} gives back what was held of it, and its rest is read away`, async () => {
    const uploading = upload()
    const whole = hold(uploading)
    uploading.body.write('x')
    await new Promise((resolve) => setImmediate(resolve))
    const before = uploading.held.bytes
    assert.equal(before, 1)
    stop(uploading)
    await failsWith(whole, code)
    assert.equal(uploading.held.bytes % (LIMITS.heldBodiesBytesMax - 1), 0)
    if (code !== 'ECONNRESET') assertLeft(uploading)
  })
}

function breakOff(body: Readable): void {
  body.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }))
}

test('a length that is too large is refused before a byte is asked for', async () => {
  const uploading = upload(['Content-Length', String(LIMITS.heldBodyBytesMax + 1), 'Expect', '100-continue'])
  await failsWith(hold(uploading), 'body_too_large')
  assert.deepEqual(uploading.agent.interim, [])
  const fitting = upload(['Content-Length', String(LIMITS.heldBodyBytesMax), 'Expect', '100-continue'])
  const whole = hold(fitting)
  assert.deepEqual(
    fitting.agent.interim.map(({ status }) => status),
    [100],
  )
  fitting.body.end()
  assert.equal((await whole).length, 0)
})

test('a body that stalls is given up, and what had come of it is no longer held', async () => {
  mock.timers.enable({ apis: ['setTimeout'] })
  try {
    const uploading = upload()
    const whole = hold(uploading)
    uploading.body.write('x')
    await new Promise((resolve) => setImmediate(resolve))
    mock.timers.tick(LIMITS.bodyIdleMs - 1)
    assert.equal(uploading.held.bytes, 1)
    mock.timers.tick(1)
    await failsWith(whole, 'head_timeout')
    assert.equal(uploading.held.bytes, 0)
    assertLeft(uploading)
  } finally {
    mock.timers.reset()
  }
})
