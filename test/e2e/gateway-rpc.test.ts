/** The routes of the gateway that are made from the method table, over real sockets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { AGENT_METHOD_NAMES, AGENT_METHODS, type AgentMethod, type OutputView } from '../../src/wire/agent-requests.ts'
import { standingClock } from '../support/approvals.ts'
import { GATEWAY_LEASE, gatewayPolicy, openTestGateway, REQUEST_ID as ID } from '../support/gateway.ts'
import { bodyOf, exchangeRaw, statusOf } from '../support/raw-client.ts'

const answered = () => Promise.resolve({ id: ID, method: 'host.run', status: 'pending' })
const pathOf = (method: AgentMethod): string => AGENT_METHODS[method].path.replace('{id}', ID)
const problemOf = async (response: Response) => (await response.json()) as Record<'code' | 'detail' | 'hint' | 'title', string>

test('I56 what is switched off is gone with the policy that says so: no route, no verb, no word of it, and back with the next', async () => {
  await using gateway = await openTestGateway({ callController: answered })
  const look = async (method: AgentMethod): Promise<number> => {
    const { verb } = AGENT_METHODS[method]
    const response = await gateway.ask(pathOf(method), { method: verb, ...(verb === 'POST' && { body: {} }) })
    await response.arrayBuffer()
    return response.status
  }
  for (const method of AGENT_METHOD_NAMES) assert.notEqual(await look(method), 404, method)
  gateway.state.policy = gatewayPolicy({ gateway: { disabled: AGENT_METHOD_NAMES } })
  for (const method of AGENT_METHOD_NAMES) {
    assert.equal(await look(method), 404, method)
    for (const verb of ['GET', 'PUT', 'OPTIONS', 'HEAD']) {
      const response = await gateway.ask(pathOf(method), { method: verb })
      assert.deepEqual([response.status, response.headers.get('allow')], [404, null], `${verb} ${method}`)
      await response.arrayBuffer()
    }
  }
  const { hint } = await problemOf(await gateway.ask('/v1/nothing'))
  for (const method of AGENT_METHOD_NAMES) assert.equal(hint.includes(AGENT_METHODS[method].path.replace('{id}', 'ID')), false, hint)
  assert.match(hint, /GET \/v1\/files\/NAME/)
  gateway.state.policy = gatewayPolicy({ gateway: { disabled: ['request.cancel'] } })
  const cancel = await gateway.ask(pathOf('request.cancel'), { method: 'DELETE' })
  assert.deepEqual([cancel.status, cancel.headers.get('allow')], [405, 'GET'])
  assert.equal((await problemOf(cancel)).code, 'verb_not_allowed')
  gateway.state.policy = gatewayPolicy()
  assert.equal(await look('request.cancel'), 200)
})

for (const { verb, path, allow } of [
  { verb: 'GET', path: '/v1/host/run', allow: 'POST' },
  { verb: 'PUT', path: '/v1/secrets/use', allow: 'POST' },
  { verb: 'POST', path: `/v1/requests/${ID}?wait=1`, allow: 'GET, DELETE' },
  { verb: 'HEAD', path: `/v1/requests/${ID}`, allow: 'GET, DELETE' },
  { verb: 'HEAD', path: `/v1/requests/${ID}/output`, allow: 'GET' },
  { verb: 'DELETE', path: `/v1/requests/${ID}/output`, allow: 'GET' },
  { verb: 'OPTIONS', path: '/v1/policy/explain', allow: 'GET' },
  { verb: 'POST', path: '/v1/placeholders', allow: 'GET, HEAD' },
  { verb: 'POST', path: '/openapi.json', allow: 'GET, HEAD' },
  { verb: 'PATCH', path: '/healthz', allow: 'GET, HEAD' },
])
  test(`${verb} ${path} is 405 and says that there is ${allow}`, async () => {
    await using gateway = await openTestGateway()
    const response = await gateway.ask(path, { method: verb })
    assert.deepEqual([response.status, response.headers.get('allow')], [405, allow])
    assert.equal(response.headers.get('content-type'), 'application/problem+json')
    await response.arrayBuffer()
  })

test('I53 without the lease, with another, or with two there is no document, no verb and no path: all is 401', async () => {
  await using gateway = await openTestGateway()
  const paths = ['/openapi.json', '/v1/host/run', '/v1/nothing', '/v1', `/v1/requests/${ID}/output`, '/v1/secrets/use']
  for (const path of paths)
    for (const fields of [
      '',
      'Authorization: Bearer other\r\n',
      `Authorization: Bearer ${GATEWAY_LEASE}\r\n`.repeat(2),
      `Cookie: lease=${GATEWAY_LEASE}\r\n`,
    ])
      for (const verb of ['GET', 'POST', 'DELETE', 'PUT']) {
        if (path === '/openapi.json' && verb !== 'GET') continue
        const answer = await exchangeRaw(
          gateway.port,
          `${verb} ${path} HTTP/1.1\r\nHost: sallyport:7070\r\nConnection: close\r\nContent-Length: 0\r\n${fields}\r\n`,
        )
        assert.deepEqual([statusOf(answer), JSON.parse(bodyOf(answer)).code], [401, 'unauthenticated'], `${verb} ${path} ${fields}`)
      }
  const { hint } = await problemOf(await fetch(`${gateway.origin}/nothing`))
  assert.doesNotMatch(hint, /host|secret|propose/)
})

for (const { what, path, init = {}, status, code, says } of [
  {
    what: 'a field that is not known',
    path: '/v1/host/run',
    init: { body: { argv: ['id'], froce: true } },
    status: 400,
    code: 'request_invalid',
    says: /unknown field "froce"/,
  },
  {
    what: 'a prototype',
    path: '/v1/host/run',
    init: { body: '{"argv":["id"],"__proto__":{"reason":"x"}}' },
    status: 400,
    code: 'request_invalid',
    says: /unknown field "__proto__"/,
  },
  {
    what: 'a prototype in a map',
    path: '/v1/secrets/use',
    init: { body: '{"argv":["id"],"env":{"__proto__":"x"}}' },
    status: 400,
    code: 'request_invalid',
    says: /"__proto__"/,
  },
  {
    what: 'a constructor',
    path: '/v1/host/run',
    init: { body: '{"argv":["id"],"constructor":{"prototype":{"x":1}}}' },
    status: 400,
    code: 'request_invalid',
    says: /"constructor"/,
  },
  {
    what: 'a list in place of an object',
    path: '/v1/host/run',
    init: { body: [] },
    status: 400,
    code: 'request_invalid',
    says: /expected object/,
  },
  { what: 'null', path: '/v1/host/run', init: { body: 'null' }, status: 400, code: 'request_invalid', says: /expected object/ },
  { what: 'a number', path: '/v1/host/run', init: { body: '7' }, status: 400, code: 'request_invalid', says: /expected object/ },
  { what: 'nothing', path: '/v1/host/run', init: { body: '' }, status: 400, code: 'request_invalid', says: /a JSON object is missing/ },
  {
    what: 'a deep nest',
    path: '/v1/host/run',
    init: { body: `{"argv":${'['.repeat(200_000)}${']'.repeat(200_000)}}` },
    status: 400,
    code: 'request_invalid',
    says: /argv/,
  },
  {
    what: 'a deep nest that has no end',
    path: '/v1/host/run',
    init: { body: '['.repeat(400_000) },
    status: 400,
    code: 'request_invalid',
    says: /no JSON/,
  },
  {
    what: 'a field in the query of a POST',
    path: '/v1/host/run?reason=x',
    init: { body: { argv: ['id'] } },
    status: 400,
    code: 'request_invalid',
    says: /"reason" in the query/,
  },
  {
    what: 'an id twice',
    path: `/v1/requests/${ID}?id=other`,
    status: 400,
    code: 'request_invalid',
    says: /"id" is in the path and in the query/,
  },
  { what: 'a wait that is no number', path: `/v1/requests/${ID}?wait=soon`, status: 400, code: 'request_invalid', says: /wait: / },
  { what: 'a wait in another notation', path: `/v1/requests/${ID}?wait=0x10`, status: 400, code: 'request_invalid', says: /wait: / },
  { what: 'a huge wait', path: `/v1/requests/${ID}?wait=99999999999999999999`, status: 400, code: 'request_invalid', says: /wait: / },
  { what: 'two waits', path: `/v1/requests/${ID}?wait=1&wait=2`, status: 400, code: 'request_invalid', says: /wait: / },
  { what: 'a prototype in the query', path: `/v1/requests/${ID}?__proto__=1`, status: 400, code: 'request_invalid', says: /"__proto__"/ },
  { what: 'an id that is none', path: '/v1/requests/..%2f..%2fetc', status: 400, code: 'request_invalid', says: /id: / },
  {
    what: 'half of a method',
    path: '/v1/policy/explain?method=GET',
    status: 400,
    code: 'request_invalid',
    says: /one of url, command and secret/,
  },
  {
    what: 'a body that a DELETE does not have',
    path: `/v1/requests/${ID}`,
    init: { method: 'DELETE', body: { force: true } },
    status: 400,
    code: 'request_invalid',
    says: /DELETE takes no body/,
  },
  {
    what: 'a form',
    path: '/v1/host/run',
    init: { body: 'argv=id', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    status: 415,
    code: 'media_type_refused',
    says: /application\/json/,
  },
  {
    what: 'more than secret.request takes',
    path: '/v1/secrets/request',
    init: { body: { reason: 'x'.repeat(LIMITS.agentSmallBodyBytesMax) } },
    status: 413,
    code: 'request_too_large',
    says: /65536 bytes at most/,
  },
] satisfies { what: string; path: string; init?: object; status: number; code: string; says: RegExp }[])
  test(`${what} is ${status} ${code}, by name, and the controller is not asked`, async () => {
    await using gateway = await openTestGateway()
    const response = await gateway.ask(path, { ...('body' in init && { method: 'POST' }), ...init })
    const { code: said, detail } = await problemOf(response)
    assert.deepEqual([response.status, said], [status, code], detail)
    assert.match(detail, says)
    assert.equal(response.headers.get('cache-control'), 'no-store')
    assert.ok(detail.length < 1_000)
  })

test('of a field that stands twice the controller gets the one that was checked', async () => {
  const seen: unknown[] = []
  await using gateway = await openTestGateway({ callController: (call) => (seen.push(call.params), answered()) })
  const response = await gateway.ask('/v1/host/run', {
    method: 'POST',
    body: '{"argv":["rm","-rf","/"],"argv":["id"],"reason":"a","reason":"b"}',
  })
  assert.equal(response.status, 202)
  await response.arrayBuffer()
  assert.deepEqual(seen, [{ argv: ['id'], reason: 'b' }])
})

test('what is no ASCII arrives as it was written', async () => {
  const seen: unknown[] = []
  await using gateway = await openTestGateway({ callController: (call) => (seen.push(call.params), answered()) })
  const argv = ['echo', 'ä\u{1f600}\u202e\u0000\ufeff', '\ud800']
  const response = await gateway.ask('/v1/host/run', { method: 'POST', body: { argv, reason: '日本' } })
  await response.arrayBuffer()
  assert.deepEqual(seen, [{ argv, reason: '日本' }])
})

test('a method that is called too often is 429 with the seconds to wait, and no other is', async () => {
  await using gateway = await openTestGateway({ callController: answered, system: standingClock() })
  const propose = () => gateway.ask('/v1/propose/policy', { method: 'POST', body: { content: 'version: 1' } })
  for (let n = 0; n < AGENT_METHODS['propose.policy'].burstCallsMax; n += 1) assert.equal((await propose()).status, 202)
  const refused = await propose()
  assert.equal(refused.status, 429)
  assert.match(refused.headers.get('retry-after') ?? '', /^[1-9][0-9]*$/)
  assert.equal((await problemOf(refused)).code, 'rate_limited')
  assert.equal((await gateway.ask(`/v1/requests/${ID}`)).status, 200)
})

test('a stream begins at the piece that is asked for, waits in between, and bears with a controller that has too much to do', async () => {
  const looks: unknown[] = []
  const views: readonly (OutputView | 'overloaded')[] = [
    { pieces: [], next: 7, lost: false, isEnded: false },
    'overloaded',
    { pieces: [{ stream: 'stdout', text: 'x' }], next: 8, lost: false, isEnded: true },
  ]
  await using gateway = await openTestGateway({
    callController: ({ method, params }) => {
      if (method === 'request.await') return Promise.resolve({ id: ID, status: 'done' })
      const view = views[looks.push(params) - 1]
      return view === 'overloaded' ? Promise.reject(new SallyportError('overloaded', 'busy')) : Promise.resolve(view)
    },
  })
  const text = await (await gateway.ask(`/v1/requests/${ID}/output?after=7&wait=3`)).text()
  assert.equal(
    text,
    `: waiting\n\nevent: output\ndata: {"stream":"stdout","text":"x"}\n\nevent: end\ndata: {"id":"${ID}","status":"done"}\n\n`,
  )
  assert.deepEqual(looks, [
    { id: ID, after: 7, wait: 0 },
    { id: ID, after: 7, wait: 3 },
    { id: ID, after: 7, wait: 3 },
  ])
})
