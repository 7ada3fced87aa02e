/** What an agent asks of the host at the gateway, as far as the gateway goes. */
import assert from 'node:assert/strict'
import { request as requestOf } from 'node:http'
import { test } from 'node:test'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { CallController } from '../../src/sidecar/gateway/gateway.ts'
import type { OutputView } from '../../src/wire/agent-requests.ts'
import { GATEWAY_LEASE as LEASE, openTestGateway, REQUEST_ID as ID } from '../support/gateway.ts'

type Call = Parameters<CallController>[0]

const openGateway = (callController: CallController) => openTestGateway({ callController })

const ROUTES: readonly { method: string; path: string; body?: unknown; calls: Omit<Call, 'lease'>; status: number }[] = [
  {
    method: 'POST',
    path: '/v1/host/run',
    body: { argv: ['id'], reason: 'to see' },
    calls: { method: 'host.run', params: { argv: ['id'], reason: 'to see' } },
    status: 202,
  },
  {
    method: 'POST',
    path: '/v1/secrets/request',
    body: { name: 'DB', scope: 'session', reason: 'to see' },
    calls: { method: 'secret.request', params: { name: 'DB', scope: 'session', reason: 'to see' } },
    status: 202,
  },
  {
    method: 'POST',
    path: '/v1/secrets/use',
    body: { argv: ['psql'], env: { PGPASSWORD: '${sph_x}' }, stdin: 'select 1' },
    calls: {
      method: 'secret.use_in',
      params: { argv: ['psql'], env: { PGPASSWORD: '${sph_x}' }, stdin: 'select 1', reason: '', workspace: 'none' },
    },
    status: 202,
  },
  {
    method: 'POST',
    path: '/v1/host/run_capability',
    body: { command: 'git log' },
    calls: { method: 'host.run_capability', params: { command: 'git log' } },
    status: 200,
  },
  { method: 'GET', path: `/v1/requests/${ID}?wait=3`, calls: { method: 'request.await', params: { id: ID, wait: 3 } }, status: 200 },
  { method: 'DELETE', path: `/v1/requests/${ID}`, calls: { method: 'request.cancel', params: { id: ID } }, status: 200 },
  {
    method: 'GET',
    path: '/v1/policy/explain?url=https%3A%2F%2Fa.test%2F&method=GET',
    calls: { method: 'policy.explain', params: { url: 'https://a.test/', method: 'GET' } },
    status: 200,
  },
  ...(['policy', 'tool', 'skill', 'config_change'] as const).map((kind) => ({
    method: 'POST',
    path: `/v1/propose/${kind}`,
    body: { ...(kind !== 'policy' && { name: 'n' }), content: 'x' },
    calls: { method: `propose.${kind}` as const, params: { ...(kind !== 'policy' && { name: 'n' }), content: 'x', reason: '' } },
    status: 202,
  })),
]

for (const { method, path, body, calls, status } of ROUTES)
  test(`${method} ${path} is ${calls.method}, with the lease that was shown, and its answer is passed on`, async () => {
    const seen: Call[] = []
    await using gateway = await openGateway((call) => {
      seen.push(JSON.parse(JSON.stringify(call)))
      return Promise.resolve({ id: 'answer' })
    })
    const response = await gateway.ask(path, { method, ...(body !== undefined && { body }) })
    assert.deepEqual([response.status, await response.json()], [status, { id: 'answer' }])
    assert.equal(response.headers.get('cache-control'), 'no-store')
    assert.deepEqual(seen, [{ ...calls, lease: LEASE }])
  })

test('I53 without the lease, with another, or with two nothing is asked of the controller', async () => {
  await using gateway = await openGateway(() => assert.fail('the controller is asked'))
  for (const { method, path, body } of ROUTES)
    for (const authorization of ['', 'Bearer other', `Basic ${LEASE}`, `Bearer ${LEASE}x`]) {
      const response = await gateway.ask(path, {
        method,
        headers: { authorization },
        ...(body !== undefined && { body }),
      })
      assert.equal(response.status, 401, `${path} ${authorization}`)
      await response.arrayBuffer()
    }
})

test('what the controller refuses is told with its code, message and hint', async () => {
  await using gateway = await openGateway(() =>
    Promise.reject(new SallyportError('request_not_found', 'there is no request "abc"', { hint: 'look again' })),
  )
  const response = await gateway.ask(`/v1/requests/${ID}`)
  const { code, detail, hint } = (await response.json()) as Record<string, string>
  assert.deepEqual([response.status, code, hint], [404, 'request_not_found', 'look again'])
  assert.match(detail ?? '', /there is no request "abc"/)
})

test('a fault of ours tells the agent nothing of itself', async () => {
  await using gateway = await openGateway(() => Promise.reject(new Error('/home/operator/private broke')))
  const response = await gateway.ask(`/v1/requests/${ID}`)
  assert.equal(response.status, 500)
  assert.doesNotMatch(await response.text(), /private/)
})

for (const { what, init, status, code: expected } of [
  { what: 'no JSON', init: { body: '{"argv": [' }, status: 400, code: 'request_invalid' },
  {
    what: 'no JSON by its type, as a page could send it from elsewhere',
    init: { body: '{}', headers: { 'content-type': 'text/plain' } },
    status: 415,
    code: 'media_type_refused',
  },
  { what: 'of no type', init: { body: '{}', headers: { 'content-type': '' } }, status: 415, code: 'media_type_refused' },
  {
    what: 'more than it may have',
    init: { body: JSON.stringify({ reason: 'x'.repeat(LIMITS.agentBodyBytesMax) }) },
    status: 413,
    code: 'request_too_large',
  },
])
  test(`a body that is ${what} is ${expected}, and nothing is asked`, async () => {
    await using gateway = await openGateway(() => assert.fail('the controller is asked'))
    const response = await gateway.ask('/v1/host/run', { method: 'POST', ...init })
    const { code } = (await response.json()) as { code: string }
    assert.deepEqual([response.status, code], [status, expected])
  })

/** A controller that gives what a request printed in these steps. */
function printing(views: readonly OutputView[]): CallController {
  const left = [...views]
  return ({ method }) => Promise.resolve(method === 'request.output' ? left.shift() : { id: 'abc', status: 'done', exit_code: 0 })
}

test('output is a stream of events in order, and ends with the request as it ended', async () => {
  await using gateway = await openGateway(
    printing([
      { pieces: [{ stream: 'stdout', text: 'a\nb' }], next: 1, lost: false, isEnded: false },
      { pieces: [], next: 1, lost: false, isEnded: false },
      { pieces: [{ stream: 'stderr', text: 'c' }], next: 2, lost: true, isEnded: true },
    ]),
  )
  const response = await gateway.ask(`/v1/requests/${ID}/output`)
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  assert.deepEqual(
    (await response.text()).split('\n\n').filter((block) => block !== '' && !block.startsWith(':')),
    [
      'event: output\ndata: {"stream":"stdout","text":"a\\nb"}',
      'event: lost\ndata: {}',
      'event: output\ndata: {"stream":"stderr","text":"c"}',
      'event: end\ndata: {"id":"abc","status":"done","exit_code":0}',
    ],
  )
})

test('a stream whose controller goes away ends with the error in it', async () => {
  let calls = 0
  await using gateway = await openGateway(() =>
    (calls += 1) === 1
      ? Promise.resolve({ pieces: [], next: 0, lost: false, isEnded: false })
      : Promise.reject(new SallyportError('controller_unavailable', 'it is gone')),
  )
  const response = await gateway.ask(`/v1/requests/${ID}/output`)
  assert.match(await response.text(), /event: error\ndata: {"code":"controller_unavailable","message":"it is gone"}/)
})

test('a reader that has gone is asked for no further', async () => {
  const { promise: asked, resolve } = Promise.withResolvers<void>()
  let calls = 0
  const stop = Promise.withResolvers<OutputView>()
  await using gateway = await openGateway(() => {
    calls += 1
    if (calls === 2) {
      resolve()
      return stop.promise
    }
    return Promise.resolve({ pieces: [], next: 0, lost: false, isEnded: false })
  })
  const client = requestOf(`${gateway.origin}/v1/requests/${ID}/output`, { headers: { authorization: `Bearer ${LEASE}` } })
  client.on('error', () => undefined).end()
  await asked
  const closed = new Promise((settled) => client.on('close', settled))
  client.destroy()
  await closed
  // The gateway hears of it before its own wait ends.
  await new Promise((settled) => setImmediate(settled))
  await (await fetch(`${gateway.origin}/healthz`)).arrayBuffer()
  stop.resolve({ pieces: [], next: 0, lost: false, isEnded: false })
  await (await fetch(`${gateway.origin}/healthz`)).arrayBuffer()
  assert.equal(calls, 2)
})

test('I53 calls that wait at the controller are bounded: a further one is refused, and the gateway goes on', async () => {
  const { promise, resolve } = Promise.withResolvers<unknown>()
  let calls = 0
  const full = Promise.withResolvers<void>()
  await using gateway = await openGateway(() => {
    calls += 1
    if (calls === LIMITS.agentCallsMax) full.resolve()
    return promise
  })
  const waiting = Array.from({ length: LIMITS.agentCallsMax }, () => gateway.ask(`/v1/requests/${ID}`))
  await full.promise
  const further = await gateway.ask(`/v1/requests/${ID}`)
  assert.equal(further.status, 503)
  await further.arrayBuffer()
  assert.equal((await fetch(`${gateway.origin}/healthz`)).status, 200)
  resolve({ id: 'abc' })
  for (const answer of await Promise.all(waiting)) assert.equal(((await answer.json()) as { id: string }).id, 'abc')
  assert.equal(calls, LIMITS.agentCallsMax)
})
