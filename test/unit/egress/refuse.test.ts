import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { validateHeaderValue } from 'node:http'
import { test } from 'node:test'
import { NodeHttp1Agent } from '../../../src/sidecar/inbound/node-http1-agent.ts'
import { createTurns } from '../../../src/sidecar/inbound/turns.ts'
import fc from 'fast-check'
import { ERRORS, SallyportError, type ErrorCode, type Refusal, type RefusalCode } from '../../../src/kernel/errors.ts'
import { answerRefusal, refusalOf, statusOf, writeRefusal } from '../../../src/sidecar/egress/refuse.ts'
import { openServer } from '../../support/upstream.ts'

const CODES = (Object.keys(ERRORS) as ErrorCode[]).filter((code): code is RefusalCode => ERRORS[code].to === 'agent')

/** The whole answer as bytes, taken apart. */
async function written(refusal: Refusal, request: Parameters<typeof writeRefusal>[2]) {
  const socket = new PassThrough()
  writeRefusal(socket, refusal, request)
  const answer = await text(socket)
  const end = answer.indexOf('\r\n\r\n')
  const [statusLine = '', ...lines] = answer.slice(0, end).split('\r\n')
  const fields = new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]))
  const body = answer.slice(end + 4)
  return { statusLine, lines, fields, body, problem: JSON.parse(body) as Record<string, unknown> }
}

/** In seconds; where a limit is reached it is one. */
const RETRY_AFTER: Partial<Record<RefusalCode, string>> = { approval_pending: '2' }

/** What is used up for good says no time to wait for. */
const isPassing = (code: RefusalCode): boolean => [429, 503].includes(statusOf(code)) && code !== 'budget_exhausted'

for (const code of CODES) {
  test(`${code} is answered ${ERRORS[code].to === 'agent' ? statusOf(code) : ''} with problem+json, Proxy-Status and the end of the connection`, async () => {
    const refusal = { code, message: 'why', hint: 'what to do', rule: 'r1' }
    const { statusLine, fields, problem, body } = await written(refusal, { requestId: 'q1', host: 'api.example.com', port: 443 })
    assert.equal(statusLine, `HTTP/1.1 ${statusOf(code)} Refused by Sallyport: ${code}`)
    assert.deepEqual(problem, {
      type: `urn:sallyport:error:${code}`,
      title: ERRORS[code].means,
      status: statusOf(code),
      detail: 'why',
      code,
      host: 'api.example.com',
      port: 443,
      rule: 'r1',
      hint: 'what to do',
      request_id: 'q1',
    })
    assert.equal(fields.get('content-type'), 'application/problem+json')
    assert.equal(fields.get('content-length'), String(Buffer.byteLength(body)))
    assert.equal(fields.get('connection'), 'close')
    assert.equal(fields.get('cache-control'), 'no-store')
    assert.match(fields.get('proxy-status') ?? '', /^sallyport; error=[a-z_]+; details="[^"\\]*"$/)
    assert.equal(fields.get('retry-after'), RETRY_AFTER[code] ?? (isPassing(code) ? '1' : undefined))
  })
}

test('what is not known of a request is absent, not null', async () => {
  const { problem } = await written({ code: 'request_malformed', message: 'm' }, { requestId: 'q1' })
  assert.deepEqual(Object.keys(problem), ['type', 'title', 'status', 'detail', 'code', 'request_id'])
})

const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 400 }),
  fc.string({ unit: 'grapheme', maxLength: 400 }),
  fc.string({ unit: fc.constantFrom('\r', '\n', '\0', '"', '\\', ';', '\x1b', '\u202e', '\ud800', 'a', ' '), maxLength: 400 }),
)

test('no message, hint or rule can add a header, break one or change where the body ends', async () => {
  await fc.assert(
    fc.asyncProperty(anyText, anyText, fc.constantFrom(...CODES), async (message, hint, code) => {
      const { statusLine, lines, fields, body, problem } = await written({ code, message, hint, rule: hint }, { requestId: 'q1' })
      assert.equal(statusLine, `HTTP/1.1 ${statusOf(code)} Refused by Sallyport: ${code}`)
      assert.equal(lines.length, [401, 407].includes(statusOf(code)) || isPassing(code) || code in RETRY_AFTER ? 6 : 5)
      for (const line of lines) assert.match(line, /^[a-z-]+: [\x20-\x7e]*$/)
      assert.match(fields.get('proxy-status') ?? '', /^sallyport; error=[a-z_]+; details="[^"\\]{0,123}"$/)
      assert.equal(fields.get('content-length'), String(Buffer.byteLength(body)))
      assert.equal(problem['detail'], message.isWellFormed() ? message : problem['detail'])
      assert.equal(body.indexOf('\n'), body.length - 1, 'one line')
    }),
  )
})

test('the same holds where Node writes the head', async () => {
  await fc.assert(
    fc.asyncProperty(anyText, async (message) => {
      let head: Record<string, string> = {}
      const agent = { refuse: (_status: number, headers: Record<string, string>) => void (head = headers) }
      answerRefusal(agent as never, { code: 'denied_by_rule', message, hint: message }, { requestId: 'q1' })
      for (const [name, value] of Object.entries(head)) validateHeaderValue(name, value)
    }),
  )
})

test('a client reads the refusal as an HTTP answer', async () => {
  await using server = await openServer((request, response) =>
    answerRefusal(
      new NodeHttp1Agent(request, response, createTurns(), 1),
      { code: 'host_not_allowed', message: 'h\u00e9llo "x"\r\nX-Evil: 1' },
      { requestId: 'q1', host: 'a.test', port: 80 },
    ),
  )
  const answer = await fetch(`http://127.0.0.1:${server.port}/`)
  assert.equal(answer.status, 403)
  assert.equal(answer.headers.get('x-evil'), null)
  assert.equal(((await answer.json()) as { detail: string }).detail, 'h\u00e9llo "x"\r\nX-Evil: 1')
})

for (const { why, error, code } of [
  { why: 'a coded error for agents', error: new SallyportError('upstream_timeout', 'm', { hint: 'h' }), code: 'upstream_timeout' },
  { why: 'a coded error for operators', error: new SallyportError('ca_invalid', '/home/operator/ca.key'), code: 'internal' },
  { why: 'an error of Node', error: Object.assign(new Error('connect 10.0.0.1'), { code: 'ECONNREFUSED' }), code: 'internal' },
  { why: 'a thrown string', error: '/home/operator', code: 'internal' },
  { why: 'nothing', error: undefined, code: 'internal' },
]) {
  test(`${why} becomes ${code}, and text that is not for the agent stays here`, () => {
    const refusal = refusalOf(error)
    assert.equal(refusal.code, code)
    if (code === 'internal') assert.equal(refusal.message, 'the request could not be handled')
  })
}
