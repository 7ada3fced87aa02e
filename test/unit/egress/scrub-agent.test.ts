import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mock, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gunzipSync, Gzip, gzipSync } from 'node:zlib'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Course } from '../../../src/sidecar/egress/course.ts'
import { RecordingAgent } from '../../support/recording-agent.ts'
import { answerWith, CANARY, cut, MARKS, NEVER, openScrubbing, type Scrubbing } from '../../support/scrubbing.ts'

const codes = ({ failures }: Scrubbing): string[] => failures.map(({ code }) => code)
const PLAIN: readonly string[] = []
const GZIP = ['content-encoding', 'gzip']
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('a secret over any border of chunks does not come out of a plain body, which keeps its length', async () => {
  const text = `{"key": "${CANARY}"}`
  for (let at = 0; at <= text.length; at++) {
    const run = openScrubbing()
    await answerWith(run, ['content-length', String(text.length)], [Buffer.from(text.slice(0, at)), Buffer.from(text.slice(at))])
    assert.equal(run.behind.bytes.toString(), text.replace(CANARY, MARKS))
    assert.deepEqual(run.behind.answer?.headers, ['content-length', String(text.length)])
    assert.deepEqual(run.hits, [1])
  }
})

test('an answer that comes whole goes out in one piece and has settled in the same turn, with nobody watching', () => {
  for (const { body, out } of [
    { body: 'a word that might go on', out: 'a word that might go on' },
    { body: `all but ${CANARY.slice(0, -1)}`, out: `all but ${CANARY.slice(0, -1)}` },
    { body: `k=${CANARY}`, out: `k=${MARKS}` },
  ]) {
    const run = openScrubbing()
    const { agent } = run.scrubbed
    agent.start(200, 'OK', ['Content-Length', String(body.length)])
    agent.write(Buffer.from(body))
    assert.deepEqual(run.behind.written.map(String), [out])
    agent.end([])
    assert.equal(run.behind.isEnded, true)
    assert.equal(run.behind.listeners, 0)
    assert.equal(run.scrubbed.settled(NEVER), undefined)
    assert.equal(run.scrubbed.hits, body === out ? 0 : 1)
  }
})

test('what comes behind the end that a head gave is not the answer’s, and fails it: the border could lie in a secret', () => {
  const run = openScrubbing()
  const { agent } = run.scrubbed
  agent.start(200, 'OK', ['Content-Length', '6'])
  agent.write(Buffer.from(CANARY.slice(0, 6)))
  agent.write(Buffer.from(CANARY.slice(6)))
  agent.end([])
  assert.deepEqual(codes(run), ['upstream_invalid'])
  assert.deepEqual([run.behind.bytes.toString(), run.behind.isEnded], [CANARY.slice(0, 6), false])
})

test('a length that a head gives twice, or not in digits, is no reason to look at a piece by itself', async () => {
  for (const headers of [
    ['content-length', '6', 'content-length', '6'],
    ['content-length', '+6'],
    ['content-length', ''],
  ]) {
    const run = openScrubbing()
    await answerWith(run, headers, [Buffer.from(CANARY.slice(0, 6)), Buffer.from(CANARY.slice(6))])
    assert.equal(run.behind.bytes.toString(), MARKS)
  }
})

test('a body without a secret goes on as the same bytes in the same pieces', async () => {
  const run = openScrubbing()
  const chunks = cut(randomBytes(100_000), 10_000)
  await answerWith(run, PLAIN, chunks)
  assert.deepEqual(run.behind.bytes, Buffer.concat(chunks))
  assert.deepEqual(run.hits, [])
})

for (const [name, headers, body] of [
  ['plain', PLAIN, Buffer.from(`x ${CANARY} y`)],
  ['compressed', GZIP, gzipSync(`x ${CANARY} y`)],
] as const) {
  test(`with block a ${name} body that begins with a secret in it makes no answer but a failure`, async () => {
    const run = openScrubbing({ mode: 'block' })
    await answerWith(run, headers, [body])
    assert.deepEqual(codes(run), ['secret_echoed'])
    assert.deepEqual(run.hits, [1])
    assert.equal(run.behind.isAnswered, false)
    run.scrubbed.agent.refuse(502, {}, 'refused')
    assert.deepEqual(run.behind.refused, { status: 502, body: 'refused' })
  })

  test(`a ${name} body with more secrets than are borne fails like with block, and not a byte of it goes on`, async () => {
    const run = openScrubbing({ onHits: () => false })
    await answerWith(run, headers, [body])
    assert.deepEqual(codes(run), ['secret_echoed'])
    assert.equal(run.behind.isAnswered, false)
  })
}

test('with block an answer that is under way ends where the secret begins, and is told once', async () => {
  const run = openScrubbing({ mode: 'block' })
  const { agent } = run.scrubbed
  agent.start(200, 'OK', [])
  assert.equal(agent.write(Buffer.from('first ')), true)
  assert.equal(agent.isAnswered, true)
  assert.equal(agent.write(Buffer.from(`second ${CANARY.slice(0, 6)}`)), true)
  assert.equal(agent.write(Buffer.from(CANARY.slice(6))), true)
  assert.equal(agent.write(Buffer.from(CANARY)), true)
  agent.end(['t', CANARY])
  await run.scrubbed.settled(NEVER)
  assert.deepEqual(codes(run), ['secret_echoed'])
  assert.equal(run.behind.bytes.toString(), 'first second ')
  assert.equal(run.behind.isEnded, false)
})

test('with block a secret in the trailers breaks the answer off, and one in the trailers alone makes a refusal', async () => {
  const run = openScrubbing({ mode: 'block' })
  await answerWith(run, PLAIN, [Buffer.from('body')], ['x', CANARY])
  assert.deepEqual([codes(run), run.behind.isEnded, run.behind.isAnswered], [['secret_echoed'], false, true])
  const alone = openScrubbing({ mode: 'block' })
  await answerWith(alone, PLAIN, [], ['x', CANARY])
  assert.deepEqual([codes(alone), alone.behind.isAnswered], [['secret_echoed'], false])
})

test('the head waits for the first bytes, or for a flush', () => {
  const run = openScrubbing()
  run.scrubbed.agent.start(200, 'OK', [])
  assert.equal(run.behind.isAnswered, false)
  run.scrubbed.agent.flush()
  assert.deepEqual([run.behind.isAnswered, run.behind.isFlushed], [true, true])
  const held = openScrubbing()
  held.scrubbed.agent.start(200, 'OK', [])
  held.scrubbed.agent.write(Buffer.from(CANARY.slice(0, 4)))
  assert.deepEqual([held.behind.isFlushed, held.behind.bytes.length], [true, 0])
})

test('an answer of trailers alone starts and ends in one', async () => {
  const run = openScrubbing()
  await answerWith(run, ['content-type', 'application/grpc'], [], ['grpc-status', '5'])
  assert.deepEqual([run.behind.isFlushed, run.behind.written.length, run.behind.rawTrailers], [false, 0, ['grpc-status', '5']])
})

for (const [name, headers, body] of [
  ['plain', PLAIN, Buffer.from('x')],
  ['compressed', GZIP, gzipSync('x')],
] as const)
  test(`what Node objects to in a ${name} answer fails it, also when nobody is there to catch it`, async () => {
    const behind = new RecordingAgent()
    behind.objection = Object.assign(new Error('no'), { code: 'ERR_INVALID_CHAR' })
    const run = openScrubbing({ behind })
    await answerWith(run, headers, [body])
    assert.deepEqual(codes(run), ['upstream_invalid'])
  })

test('trailers and end of a compressed answer come behind its last byte, and then it has settled', async () => {
  const run = openScrubbing()
  const { agent } = run.scrubbed
  agent.start(200, 'OK', GZIP)
  agent.write(gzipSync(randomBytes(500_000)))
  agent.end(['t', 'v'])
  assert.equal(run.behind.isEnded, false)
  await run.scrubbed.settled(NEVER)
  assert.deepEqual(run.behind.rawTrailers, ['t', 'v'])
  assert.equal(gunzipSync(run.behind.bytes).length, 500_000)
  assert.equal(run.behind.listeners, 0)
})

test('an agent that does not read holds up a compressed answer: little is held, and the upstream is read no further', async () => {
  const behind = new RecordingAgent()
  const run = openScrubbing({ behind })
  const { agent } = run.scrubbed
  const body = randomBytes(3_000_000)
  const chunks = cut(gzipSync(body), 16_000)
  behind.takesMore = false
  agent.start(200, 'OK', GZIP)
  while (agent.write(chunks.shift() ?? assert.fail('all was taken')));
  let drained = 0
  agent.onceDrained(() => (drained += 1))
  await behind.until(() => behind.written.length === 1)
  for (let i = 0; i < 100; i++) await turn()
  assert.deepEqual([behind.written.length, drained], [1, 0])
  assert.ok(cut(body, 16_000).length - chunks.length <= LIMITS.scrubBacklogBytes / 16_000 + 1)
  behind.takesMore = true
  const reading = new Promise<void>((resolve) => agent.onceDrained(resolve))
  behind.drain()
  await reading
  assert.equal(drained, 1)
  for (const chunk of chunks) if (!agent.write(chunk)) await new Promise<void>((resolve) => agent.onceDrained(resolve))
  agent.end([])
  await run.scrubbed.settled(NEVER)
  assert.deepEqual(gunzipSync(behind.bytes), body)
})

/** Bytes of buffers that somebody still holds. */
function heldBytes(): number {
  setFlagsFromString('--expose_gc')
  runInNewContext('gc')()
  return process.memoryUsage().arrayBuffers
}

test('one chunk that expands a thousandfold is expanded only as far as the agent reads', async () => {
  const behind = new RecordingAgent()
  const run = openScrubbing({ behind })
  behind.takesMore = false
  run.scrubbed.agent.start(200, 'OK', GZIP)
  const before = heldBytes()
  run.scrubbed.agent.write(gzipSync(Buffer.alloc(LIMITS.expandedBytesMax / 2)))
  run.scrubbed.agent.end([])
  await behind.until(() => behind.written.length === 1)
  for (let i = 0; i < 200; i++) await turn()
  const grown = heldBytes() - before
  assert.ok(grown < 4_000_000, `${grown} bytes are held`)
  assert.equal(behind.isEnded, false)
  behind.takesMore = true
  behind.drain()
  await run.scrubbed.settled(NEVER)
  assert.equal(gunzipSync(behind.bytes).length, LIMITS.expandedBytesMax / 2)
})

test('a plain body is read only as fast as the agent reads', () => {
  const behind = new RecordingAgent()
  const run = openScrubbing({ behind })
  behind.takesMore = false
  run.scrubbed.agent.start(200, 'OK', [])
  assert.equal(run.scrubbed.agent.write(Buffer.from('!')), false)
  let drained = 0
  run.scrubbed.agent.onceDrained(() => (drained += 1))
  behind.drain()
  assert.equal(drained, 1)
})

for (const { name, act } of [
  { name: 'the agent goes', act: ({ behind }: Scrubbing) => behind.leave() },
  { name: 'the answer is aborted', act: ({ scrubbed }: Scrubbing) => scrubbed.agent.abort() },
  { name: 'the answer is refused', act: ({ scrubbed }: Scrubbing) => scrubbed.agent.refuse(502, {}, '') },
])
  test(`when ${name}, a compressed answer on its way settles, gives back what it held and says nothing more`, async () => {
    const behind = new RecordingAgent()
    const run = openScrubbing({ behind })
    const { agent } = run.scrubbed
    behind.takesMore = false
    agent.start(200, 'OK', GZIP)
    agent.write(gzipSync(randomBytes(500_000)))
    await behind.until(() => behind.written.length === 1)
    agent.end([])
    const settled = run.scrubbed.settled(NEVER)
    act(run)
    await settled
    await turn()
    assert.deepEqual([behind.written.length, behind.isEnded, codes(run)], [1, false, []])
    assert.equal(agent.write(Buffer.from('more')), true)
  })

test('what compressors hold is given back when an answer ends or the agent goes, not when somebody collects it', async () => {
  const ofZlib = Object.getPrototypeOf(Object.getPrototypeOf(Gzip.prototype)) as { _destroy: (...args: unknown[]) => void }
  const destroy = mock.method(ofZlib, '_destroy')
  try {
    for (const isEnded of [true, false]) {
      const run = openScrubbing()
      run.scrubbed.agent.start(200, 'OK', GZIP)
      run.scrubbed.agent.write(gzipSync('!'))
      if (isEnded) run.scrubbed.agent.end([])
      await run.behind.until(() => run.behind.written.length > 0)
      if (isEnded) await run.scrubbed.settled(NEVER)
      else run.behind.leave()
      await turn()
      assert.equal(new Set(destroy.mock.calls.map((call) => call.this)).size, 2)
      destroy.mock.resetCalls()
    }
  } finally {
    destroy.mock.restore()
  }
})

test('an exchange that broke off settles at once, and nothing of it goes out afterwards', async () => {
  const run = openScrubbing()
  run.scrubbed.agent.start(200, 'OK', GZIP)
  run.scrubbed.agent.write(gzipSync('half').subarray(0, -4))
  await run.scrubbed.settled(NEVER)
  for (let i = 0; i < 20; i++) await turn()
  assert.deepEqual([run.behind.isAnswered, codes(run)], [false, []])
})

test('an exchange that is cut while the agent reads its end settles at once', async () => {
  const behind = new RecordingAgent()
  const run = openScrubbing({ behind })
  const course = new Course()
  behind.takesMore = false
  run.scrubbed.agent.start(200, 'OK', GZIP)
  run.scrubbed.agent.write(gzipSync(randomBytes(100_000)))
  run.scrubbed.agent.end([])
  await behind.until(() => behind.written.length === 1)
  const settled = run.scrubbed.settled(course)
  course.cut(new Error('cut'))
  await settled
  behind.drain()
  await turn()
  assert.deepEqual([behind.written.length, behind.isEnded], [1, false])
})

test('an agent that reads nothing for so long as a body may be idle fails the answer', async () => {
  const behind = new RecordingAgent()
  const run = openScrubbing({ behind })
  behind.takesMore = false
  mock.timers.enable({ apis: ['setTimeout'] })
  try {
    run.scrubbed.agent.start(200, 'OK', GZIP)
    run.scrubbed.agent.write(gzipSync('x'))
    run.scrubbed.agent.end([])
    await behind.until(() => behind.written.length === 1)
    await turn()
    mock.timers.tick(LIMITS.bodyIdleMs - 1)
    assert.deepEqual(codes(run), [])
    mock.timers.tick(1)
    assert.deepEqual(codes(run), ['upstream_timeout'])
    await run.scrubbed.settled(NEVER)
  } finally {
    mock.timers.reset()
  }
})

test('what is not about the answer is the agent’s own', () => {
  const run = openScrubbing()
  const { agent } = run.scrubbed
  assert.equal(agent.head, run.behind.head)
  assert.deepEqual([agent.isModern, agent.isUploaded, agent.body, agent.upgrade], [true, true, undefined, undefined])
  let gone = 0
  const stop = agent.onGone(() => (gone += 1))
  run.behind.leave()
  stop()
  run.behind.leave()
  assert.deepEqual([gone, agent.isGone], [1, true])
  agent.sendInterim(100, [])
  assert.deepEqual(run.behind.interim, [{ status: 100, reason: '', headers: [] }])
})
