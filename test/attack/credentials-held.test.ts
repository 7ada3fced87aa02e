/** Bodies that wait for their credentials: what they cost, what they may not reach, and what is done with them when they are refused. */
import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { holdBody } from '../../src/sidecar/egress/held-body.ts'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { bufferBytes, MB } from '../support/memory.ts'
import { bodyOf, exchangeRaw, statusOf } from '../support/raw-client.ts'
import { RecordingAgent } from '../support/recording-agent.ts'
import { API, CANARY, policyFor } from '../support/setting.ts'
import { openUpstream } from '../support/upstream.ts'

/** All memory that is still needed. */
function usedBytes(): number {
  const buffers = bufferBytes()
  return process.memoryUsage().heapUsed + buffers
}

test('a body of single bytes takes no more memory while it waits than one of few pieces', async () => {
  const body = new PassThrough()
  const agent = new RecordingAgent()
  Object.defineProperty(agent, 'body', { value: body })
  const held = { bytes: 0 }
  const before = usedBytes()
  const whole = holdBody(agent, held)
  const size = MB / 4
  for (let i = 0; i < size; i += 1) {
    // As Node gives the pieces of a chunked body: each with memory of its own.
    if (!body.write(Buffer.alloc(1, i % 251))) await new Promise((resolve) => body.once('drain', resolve))
  }
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(held.bytes, size)
  const taken = usedBytes() - before
  assert.ok(taken < 4 * MB, `${taken} bytes for a body of ${size}`)
  body.end()
  const got = await whole
  assert.equal(got.length, size)
  assert.ok(got.every((byte, i) => byte === i % 251))
})

const JSON_BODY = `{domains: [${API}], methods: [POST], body: /token}`

test('I25 I23 what a held body is refused for is found before anything is dialled', async () => {
  await using upstream = await openUpstream()
  for (const { inject, more, body, code } of [
    {
      inject: JSON_BODY,
      more: 'budget: {bytes_up: 100}',
      body: JSON.stringify({ token: 'x', fill: 'y'.repeat(200) }),
      code: 'budget_exhausted',
    },
    {
      inject: `{domains: [${API}], methods: [POST], placeholder: TOKEN, in: ["body:/token"]}`,
      more: '',
      body: '{"token":1,"other":"PLACEHOLDER"}',
      code: 'placeholder_misplaced|body_unfit',
    },
  ]) {
    await using gate = await openTestGate({
      policy: policyFor([upstream.port], { rule: 'plaintext: accept', inject: `${inject}${more === '' ? '' : `\n    ${more}`}` }),
      env: { API_TOKEN: CANARY },
      hosts: { [API]: ['127.0.0.1'] },
    })
    const said = body.replace('PLACEHOLDER', gate.sidecar.placeholders['TOKEN'] ?? '')
    const authority = `${API}:${upstream.port}`
    const answer = await exchangeRaw(
      gate.port,
      `POST http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\nContent-Type: application/json\r\nContent-Length: ${said.length}\r\n\r\n${said}`,
    )
    assert.match(bodyOf(answer), new RegExp(`"code":"(${code})"`))
    assert.equal(upstream.connections, 0)
  }
})

for (const { why, encode } of [
  { why: 'as forms encode it', encode: (value: string) => String(new URLSearchParams({ token: value })) },
  { why: 'as it is', encode: (value: string) => `token=${value}` },
  { why: 'encoded letter by letter', encode: (value: string) => `token=${Buffer.from(value).toString('hex').replaceAll(/../g, '%$&')}` },
]) {
  test(`I23 a placeholder with a colon in a field of a form, ${why}, becomes the secret, and the audit names its credential`, async () => {
    await using upstream = await openUpstream()
    await using gate = await openTestGate({
      policy: policyFor([upstream.port], {
        rule: 'plaintext: accept',
        inject: `{domains: [${API}], methods: [POST], placeholder: BOT, shape: "<digits:9>:<base64url:35>", in: ["body:token"]}`,
      }),
      env: { API_TOKEN: `${CANARY}:&=%` },
      hosts: { [API]: ['127.0.0.1'] },
    })
    const body = encode(gate.sidecar.placeholders['BOT'] ?? '')
    const authority = `${API}:${upstream.port}`
    const answer = await exchangeRaw(
      gate.port,
      `POST http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    )
    assert.equal(statusOf(answer), 200, bodyOf(answer))
    assert.deepEqual([...new URLSearchParams(upstream.requests[0]?.body.toString())], [['token', `${CANARY}:&=%`]])
    const decided = (await gate.audit()).find(({ event }) => event === 'decided')
    assert.equal(decided?.['credential'], 'api-token')
  })
}

/** A gate that swaps the placeholder TOKEN in a JSON body, for an upstream in plain text. */
function openGateFor(port: number): Promise<TestGate> {
  return openTestGate({
    policy: policyFor([port], {
      rule: 'plaintext: accept',
      inject: `{domains: [${API}], methods: [POST], placeholder: TOKEN, in: ["body:/token"]}`,
    }),
    env: { API_TOKEN: CANARY },
    hosts: { [API]: ['127.0.0.1'] },
  })
}

test('a JSON body with the placeholder in escapes is read as what it says', async () => {
  await using upstream = await openUpstream()
  await using gate = await openGateFor(upstream.port)
  const value = gate.sidecar.placeholders['TOKEN'] ?? ''
  const authority = `${API}:${upstream.port}`
  for (const escaped of [value, `\\u00${value.charCodeAt(0).toString(16)}${value.slice(1)}`]) {
    const body = `{"token":"${escaped}"}`
    const answer = await exchangeRaw(
      gate.port,
      `POST http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    )
    assert.equal(statusOf(answer), 200, bodyOf(answer))
    assert.deepEqual(JSON.parse(String(upstream.requests.at(-1)?.body)), { token: CANARY })
  }
})

test('a POST of nothing keeps its length of 0 where a body would be held', async () => {
  await using upstream = await openUpstream()
  await using gate = await openGateFor(upstream.port)
  const authority = `${API}:${upstream.port}`
  for (const length of ['Content-Length: 0\r\n', 'Transfer-Encoding: chunked\r\n']) {
    const body = length.startsWith('T') ? '0\r\n\r\n' : ''
    const answer = await exchangeRaw(
      gate.port,
      `POST http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\nContent-Type: application/json\r\n${length}Connection: close\r\n\r\n${body}`,
    )
    assert.equal(statusOf(answer), 200)
    const raw = upstream.requests.at(-1)?.rawHeaders ?? []
    assert.equal(raw[raw.findIndex((name) => name.toLowerCase() === 'content-length') + 1], '0')
  }
})
