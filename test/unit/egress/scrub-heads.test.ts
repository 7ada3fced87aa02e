import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { answerWith, CANARY, MARKS, NEVER, openScrubbing } from '../../support/scrubbing.ts'

const body = Buffer.from('a body')

test('a secret in any value of a head becomes marks, and everything else stays as it is', async () => {
  const run = openScrubbing()
  await answerWith(run, ['X-Echo', `<${CANARY}>`, 'Set-Cookie', `a=${CANARY}; Path=/`, 'set-cookie', 'b=c', 'Content-Length', '6'], [body])
  assert.deepEqual(run.behind.answer?.headers, [
    'X-Echo',
    `<${MARKS}>`,
    'Set-Cookie',
    `a=${MARKS}; Path=/`,
    'set-cookie',
    'b=c',
    'Content-Length',
    '6',
  ])
  assert.deepEqual(run.hits, [1, 1])
  assert.equal(run.behind.bytes.toString(), 'a body')
})

test('a secret in base64 in a head becomes marks', async () => {
  const run = openScrubbing()
  await answerWith(run, ['X-Echo', `Basic ${Buffer.from(`user:${CANARY}`).toString('base64')}`], [])
  const value = run.behind.answer?.headers[1]?.slice('Basic '.length) ?? ''
  assert.doesNotMatch(Buffer.from(value, 'base64').toString(), /canary|7f3a/)
  assert.deepEqual(run.hits, [1])
})

for (const name of [`X-${CANARY}`, `X-${CANARY.toUpperCase()}`, CANARY])
  test(`a field of the name ${name} does not go on: on HTTP/2 its name is in lower case`, async () => {
    const run = openScrubbing()
    await answerWith(run, ['a', 'b', name, 'v', 'c', 'd'], [])
    assert.deepEqual(run.behind.answer?.headers, ['a', 'b', 'c', 'd'])
    assert.deepEqual(run.hits, [1])
  })

test('a secret in a reason phrase becomes marks', () => {
  const run = openScrubbing()
  run.scrubbed.agent.start(200, `OK ${CANARY}`, [])
  run.scrubbed.agent.end([])
  assert.equal(run.behind.answer?.reason, `OK ${MARKS}`)
})

test('a secret in 103 becomes marks', () => {
  const run = openScrubbing()
  run.scrubbed.agent.sendInterim(103, ['Link', `</a?k=${CANARY}>`, `x-${CANARY}`, ''])
  assert.deepEqual(run.behind.interim, [{ status: 103, reason: '', headers: ['Link', `</a?k=${MARKS}>`] }])
})

test('a secret in trailers becomes marks; digests in trailers do not go on', async () => {
  const run = openScrubbing()
  const trailers = ['grpc-message', `no ${CANARY}`, CANARY, 'x', 'Repr-Digest', 'sha-256=:AAAA:', 'last', 'one']
  await answerWith(run, [], [body], trailers)
  assert.deepEqual(run.behind.rawTrailers, ['grpc-message', `no ${MARKS}`, 'last', 'one'])
})

test('a field whose name has a secret but for the case goes on neither in 103 nor in trailers', async () => {
  const run = openScrubbing()
  run.scrubbed.agent.sendInterim(103, ['a', 'b', `X-${CANARY.toUpperCase()}`, 'v'])
  await answerWith(run, [], [body], ['c', 'd', CANARY.toUpperCase(), 'v'])
  assert.deepEqual(
    [run.behind.interim[0]?.headers, run.behind.rawTrailers],
    [
      ['a', 'b'],
      ['c', 'd'],
    ],
  )
})

for (const name of ['Digest', 'content-digest', 'Repr-Digest', 'Content-MD5'])
  test(`${name} does not go on with a body that is looked into`, async () => {
    const run = openScrubbing()
    await answerWith(run, [name, 'sha-256=:AAAA:', 'etag', '"a"', 'content-length', '6'], [body])
    assert.deepEqual(run.behind.answer?.headers, ['etag', '"a"', 'content-length', '6'])
  })

const CODED = ['content-encoding', 'gzip', 'Content-Length', '99', 'ETag', '"a"', 'x-goog-hash', 'crc32c=x', 'X-Amz-Checksum-Crc32', 'y']

test('what is compressed again loses its length and what storage says of its bytes, and its ETag becomes a weak one', async () => {
  const run = openScrubbing()
  await answerWith(run, [...CODED, 'etag', 'W/"b"'], [gzipSync(body)])
  assert.deepEqual(run.behind.answer?.headers, ['content-encoding', 'gzip', 'ETag', 'W/"a"', 'etag', 'W/"b"'])
})

test('what is not compressed keeps its length, its ETag and what storage says of its bytes', async () => {
  const run = openScrubbing()
  const headers = ['content-encoding', 'identity', ...CODED.slice(2)]
  await answerWith(run, headers, [body])
  assert.deepEqual(run.behind.answer?.headers, headers)
})

test('an answer to HEAD with a content coding has no length, as the answer to GET would have another', async () => {
  const run = openScrubbing({ method: 'HEAD' })
  await answerWith(run, ['content-encoding', 'br', 'content-length', '99', 'etag', '"a"'], [])
  assert.deepEqual(run.behind.answer?.headers, ['content-encoding', 'br', 'etag', 'W/"a"'])
  assert.equal(run.behind.isEnded, true)
  assert.deepEqual(run.failures, [])
})

test('an answer to HEAD without a content coding keeps its length', async () => {
  const run = openScrubbing({ method: 'HEAD' })
  await answerWith(run, ['content-length', '99'], [])
  assert.deepEqual(run.behind.answer?.headers, ['content-length', '99'])
})

for (const { status, etag } of [
  { status: 304, etag: 'W/"a"' },
  { status: 204, etag: '"a"' },
])
  test(`${status} has no body: nothing that comes in its place goes on, and its ETag is ${etag}`, async () => {
    const run = openScrubbing()
    run.scrubbed.agent.start(status, '', ['etag', '"a"', 'x', CANARY])
    run.scrubbed.agent.write(Buffer.from('stray'))
    run.scrubbed.agent.end([])
    await run.scrubbed.settled(NEVER)
    assert.deepEqual(run.behind.answer, { status, reason: '', headers: ['etag', etag, 'x', MARKS] })
    assert.equal(run.behind.bytes.length, 0)
  })

for (const coding of ['compress', 'aws-chunked, gzip', 'dcb', 'gzip, gzip, gzip, gzip', 'gzip;q=1', 'constructor', 'gzip br'])
  test(`an answer with Content-Encoding "${coding}" does not begin, and one without a body does`, async () => {
    const run = openScrubbing()
    assert.throws(() => run.scrubbed.agent.start(200, 'OK', ['content-encoding', coding]), { code: 'answer_not_scrubbable' })
    await run.scrubbed.settled(NEVER)
    assert.equal(run.behind.isAnswered, false)
    const bare = openScrubbing({ method: 'HEAD' })
    await answerWith(bare, ['content-encoding', coding], [])
    assert.equal(bare.behind.isEnded, true)
  })

test('with block a secret in a head makes no head at all', async () => {
  for (const start of [
    { reason: 'OK', headers: ['x', CANARY] },
    { reason: CANARY, headers: [] },
    { reason: 'OK', headers: [CANARY, 'x'] },
  ]) {
    const run = openScrubbing({ mode: 'block' })
    assert.throws(() => run.scrubbed.agent.start(200, start.reason, start.headers), { code: 'secret_echoed' })
    await run.scrubbed.settled(NEVER)
    assert.equal(run.behind.isAnswered, false)
    assert.deepEqual(run.hits, [1])
  }
})

test('with block a secret in 103 ends the answer before it begins', async () => {
  const run = openScrubbing({ mode: 'block' })
  run.scrubbed.agent.sendInterim(103, ['link', CANARY])
  assert.deepEqual(
    run.failures.map(({ code }) => code),
    ['secret_echoed'],
  )
  run.scrubbed.agent.start(200, 'OK', [])
  run.scrubbed.agent.end([])
  await run.scrubbed.settled(NEVER)
  assert.deepEqual([run.behind.interim, run.behind.isAnswered], [[], false])
})
