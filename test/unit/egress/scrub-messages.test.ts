import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync, gunzipSync } from 'node:zlib'
import { answerWith, CANARY, cut, MARKS, openScrubbing, type Scrubbing } from '../../support/scrubbing.ts'

/** A message of gRPC: flags, length, bytes. */
function message(text: string, flags = 0): Buffer {
  const prefix = Buffer.alloc(5)
  prefix[0] = flags
  prefix.writeUInt32BE(Buffer.byteLength(text), 1)
  return Buffer.concat([prefix, Buffer.from(text)])
}

function started(contentType: string): Scrubbing {
  const run = openScrubbing()
  run.scrubbed.agent.start(200, 'OK', ['content-type', contentType])
  return run
}

const codes = ({ failures }: Scrubbing): string[] => failures.map(({ code }) => code)

for (const type of ['application/grpc', 'application/grpc+proto', 'Application/GRPC; charset=x', 'application/grpc-web+json'])
  test(`${type}: nothing of a message is held back when all of it is there, whatever its end looks like`, () => {
    const run = started(type)
    for (const text of [`a ${CANARY}`, CANARY.slice(0, -1), '', 'c', `${CANARY}${CANARY.slice(0, 3)}`]) {
      run.behind.written.length = 0
      run.scrubbed.agent.write(message(text))
      assert.deepEqual(run.behind.bytes, message(text.replace(CANARY, MARKS)))
    }
    run.scrubbed.agent.abort()
  })

for (const size of [1, 2, 5, 9, 1000])
  test(`messages in pieces of ${size} bytes come out with marks, their lengths unchanged, to the last byte of each`, async () => {
    const run = openScrubbing()
    const texts = [CANARY, `x${CANARY}y`, '', 'z'.repeat(300) + CANARY]
    const bytes = Buffer.concat(texts.map((text) => message(text)))
    await answerWith(run, ['content-type', 'application/grpc'], cut(bytes, size), ['grpc-status', '0'])
    assert.deepEqual(run.behind.bytes, Buffer.concat(texts.map((text) => message(text.replace(CANARY, MARKS)))))
    assert.deepEqual(run.behind.rawTrailers, ['grpc-status', '0'])
  })

for (const { type, flags } of [
  { type: 'application/grpc', flags: 1 },
  { type: 'application/grpc', flags: 2 },
  { type: 'application/grpc-web', flags: 0x81 },
  { type: 'application/connect+json', flags: 1 },
  { type: 'application/connect+proto', flags: 3 },
])
  test(`${type}: a message with the flags ${flags} ends the answer, as it may be compressed, and no byte of it goes on`, () => {
    const run = started(type)
    run.scrubbed.agent.write(Buffer.concat([message('one'), message('two', flags)]))
    assert.deepEqual(codes(run), ['answer_not_scrubbable'])
    assert.equal(run.behind.isAnswered, false)
  })

test('a body that is no messages though its type says so goes nowhere: a border in the middle of a secret would let it through', () => {
  const run = started('application/grpc')
  const cutting = Buffer.from([0, 0, 0, 0, CANARY.length - 1])
  run.scrubbed.agent.write(Buffer.concat([cutting, Buffer.from(CANARY)]))
  assert.deepEqual(codes(run), ['answer_not_scrubbable'])
  assert.equal(run.behind.everything.includes('canary'), false)
})

test('the trailers in the body of gRPC-Web and the end of a Connect stream are scrubbed', async () => {
  for (const { type, flags } of [
    { type: 'application/grpc-web+proto', flags: 0x80 },
    { type: 'application/connect+json', flags: 2 },
  ]) {
    const run = openScrubbing()
    await answerWith(run, ['content-type', type], [message('one'), message(`grpc-message: ${CANARY}\r\n`, flags)])
    assert.deepEqual(run.behind.bytes, Buffer.concat([message('one'), message(`grpc-message: ${MARKS}\r\n`, flags)]))
  }
})

test('messages that break off come out as far as they came, so that a length holds', async () => {
  for (const kept of [3, 8]) {
    const run = openScrubbing()
    await answerWith(run, ['content-type', 'application/grpc'], [message(CANARY.slice(0, 5)).subarray(0, kept)])
    assert.deepEqual(run.behind.bytes, message(CANARY.slice(0, 5)).subarray(0, kept))
  }
})

test('gRPC-Web in base64 is text: the secret in it is found at any offset', async () => {
  for (const before of ['', 'a', 'ab']) {
    const run = openScrubbing()
    const text = message(before + CANARY).toString('base64')
    await answerWith(run, ['content-type', 'application/grpc-web-text'], cut(Buffer.from(text), 3))
    const decoded = Buffer.from(run.behind.bytes.toString(), 'base64').toString('latin1')
    assert.equal(run.behind.bytes.length, text.length)
    assert.doesNotMatch(decoded, /canary|7f3a/)
  }
})

test('messages inside of a content coding are looked into, compressed ones refused', async () => {
  const run = openScrubbing()
  const head = ['content-type', 'application/grpc', 'content-encoding', 'gzip']
  await answerWith(run, head, [gzipSync(message(CANARY))])
  assert.deepEqual(gunzipSync(run.behind.bytes), message(MARKS))
  const refused = openScrubbing()
  await answerWith(refused, head, [gzipSync(message(CANARY, 1))])
  assert.deepEqual(codes(refused), ['answer_not_scrubbable'])
})

for (const [name, blank] of [
  ['LF', '\n\n'],
  ['CRLF', '\r\n\r\n'],
  ['CR', '\r\r'],
] as const)
  test(`server-sent events with ${name}: an event is not held back, also when its blank line comes in pieces`, () => {
    const run = started('text/event-stream; charset=utf-8')
    for (const text of [`data: ${CANARY}`, 'data: can', 'data: Y2FuYXJ5', 'data: canary-7f3a9c5e1']) {
      run.behind.written.length = 0
      for (const piece of [text, ...blank.split('')]) run.scrubbed.agent.write(Buffer.from(piece))
      assert.equal(run.behind.bytes.toString(), text.replace(CANARY, MARKS) + blank)
    }
    run.scrubbed.agent.abort()
  })

test('server-sent events: a secret over any border of chunks does not come out', async () => {
  const text = `data: one\n\ndata: ${CANARY}\r\n\r\nid: ${CANARY}\n\n`
  for (let at = 0; at <= text.length; at++) {
    const run = openScrubbing()
    await answerWith(run, ['content-type', 'text/event-stream'], [Buffer.from(text.slice(0, at)), Buffer.from(text.slice(at))])
    assert.equal(run.behind.bytes.toString(), text.replaceAll(CANARY, MARKS))
  }
})

test('server-sent events: the end of a line alone releases nothing of what may be a secret', () => {
  const run = started('text/event-stream')
  run.scrubbed.agent.write(Buffer.from('data: x\r\n'))
  run.scrubbed.agent.write(Buffer.from('data: cana'))
  assert.equal(run.behind.bytes.toString(), 'data: x\r\ndata: ')
  run.scrubbed.agent.abort()
})
