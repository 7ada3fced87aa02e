/** I20: nothing sent to a reverse route leaves its host and base path. Sources: CVE-2019-9901, CVE-2021-29492, CVE-2021-41773. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { WebSocket } from 'ws'
import { dialPort, openEveryWay, type EveryWay } from '../support/every-way.ts'
import { headerOf } from '../support/http2-upstream.ts'
import { bodyOf, exchangeRaw, readToEnd, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { openServer, openUpstream, type Upstream } from '../support/upstream.ts'
import { openWebSocketUpstream } from '../support/websocket-upstream.ts'

const API = 'api.example.com'
const TOOLS = 'tools.example.com'
const CHAT = 'chat.example.com'

const POLICY = `version: 1
network:
  rules:
    - {id: closed, host: ${API}, paths: ["/v1/closed/**", "/top/closed"], action: deny}
    - {id: no-delete, host: ${API}, methods: [DELETE], action: deny}
    - {id: careful, host: ${API}, paths: ["/v1/careful"], action: ask, addresses: ["127.0.0.0/8"]}
    - {id: chat, host: ${CHAT}, action: allow, addresses: ["127.0.0.0/8"]}
routes:
  - {name: api, upstream: "https://${API}/v1", credential: api-token, addresses: ["127.0.0.0/8"]}
  - {name: open, upstream: "http://${API}", addresses: ["127.0.0.0/8"]}
  - {name: plain, upstream: "http://${API}/v1", credential: plain-token, plaintext: accept, addresses: ["127.0.0.0/8"]}
  - {name: tools, upstream: "http://${TOOLS}/mcp", addresses: ["127.0.0.0/8"]}
  - {name: chat, upstream: "https://${CHAT}/socket", credential: chat-token, addresses: ["127.0.0.0/8"]}
credentials:
  - {id: api-token, secret: API_TOKEN, inject: {domains: [${API}], paths: ["/v1/**"], header: Authorization, prefix: "Bearer "}}
  - {id: plain-token, secret: API_TOKEN, inject: {domains: [${API}], paths: ["/v1/me"], header: X-Api-Key}}
  - {id: chat-token, secret: API_TOKEN, inject: {domains: [${CHAT}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let secure: Upstream
let plain: Upstream
let tools: Upstream
let chat: Upstream
/** The open answer of the tools server to a GET. */
let stream: ServerResponse | undefined

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [API, TOOLS, CHAT]))
  secure = parts.use(
    await openUpstream(
      (request, response) => {
        if (request.url === '/v1/moved') response.writeHead(307, { location: `https://${CHAT}/elsewhere` })
        response.end('ok')
      },
      setting.tls(API),
      setting.at(API, 443),
    ),
  )
  plain = parts.use(await openUpstream(undefined, undefined, setting.at(API, 80)))
  chat = parts.use(await openWebSocketUpstream(setting.tls(CHAT), setting.at(CHAT, 443)))
  tools = parts.use(await openServer(serveTools, undefined, setting.at(TOOLS, 80)))
})
after(() => parts.disposeAsync())

/** As an MCP server speaks streamable HTTP: a session by its header, POST for messages, GET for a stream, DELETE at the end. */
const serveTools: Parameters<typeof openServer>[0] = (request, response) => {
  const id = request.headers['mcp-session-id']
  if (request.method === 'POST') {
    response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': id ?? 'session-1' })
    request.on('end', () => response.end('{"jsonrpc":"2.0","id":1,"result":{}}'))
  } else if (request.method === 'DELETE') response.writeHead(id === undefined ? 400 : 204).end()
  else {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('id: 1\ndata: {"n":1}\n\n')
    stream = response
  }
}

function ask(target: string, more = '', method = 'GET', host = 'sallyport:7070'): Promise<string> {
  return exchangeRaw(
    setting.gate.ports.gateway,
    `${method} ${target} HTTP/1.1\r\n${host === '' ? '' : `Host: ${host}\r\n`}Connection: close\r\n${more}\r\n`,
  )
}

const codeOf = (answer: string): string => (JSON.parse(bodyOf(answer)) as { code: string }).code
const connections = (): number => secure.connections + plain.connections + tools.connections + chat.connections

for (const target of [
  '/route/api/..',
  '/route/api/../admin',
  '/route/api/./me',
  '/route/api/x/../../admin',
  '/route/api/%2e%2e/admin',
  '/route/api/%2E./admin',
  '/route/api/.%2e/admin',
  '/route/api/%252e%252e/admin',
  '/route/api/..%2fadmin',
  '/route/api/%2f..%2fadmin',
  '/route/api/x%2f..%2f..%2fadmin',
  '/route/api/x%252f..%252f..%252fadmin',
  '/route/api/..;/admin',
  '/route/api/..;x=1/admin',
  '/route/api/..%3b/admin',
  '/route/api/x/..;/..;/admin',
  '/route/api/%2e%2e;/admin',
  '/route/api/..\\admin',
  '/route/api/x%5c..%5c..%5cadmin',
  '/route/api/..%5cadmin',
  '/route/api//admin',
  '/route/api//other.example.com/admin',
  '/route/api/%00/../admin',
  '/route/api/%c0%ae%c0%ae/admin',
  '/route/api/..%c0%afadmin',
  '/route/api/%u002e%u002e/admin',
  '/route/api/%',
  '/route/api/%zz',
]) {
  test(`I20 GET ${target} is refused as a path that could leave the base path, and nothing leaves`, async () => {
    const count = connections()
    const answer = await ask(target)
    assert.equal(statusOf(answer), 400)
    assert.match(codeOf(answer), /^(path_not_canonical|target_invalid)$/)
    assert.equal(connections(), count)
  })
}

for (const { target, status, code } of [
  { target: '/route/api..', status: 404, code: 'route_unknown' },
  { target: '/route/api;x/me', status: 404, code: 'route_unknown' },
  { target: '/route/api%2fme', status: 404, code: 'route_unknown' },
  { target: '/route/api%2f..%2fadmin', status: 404, code: 'route_unknown' },
  { target: '/route/api\\..\\admin', status: 404, code: 'route_unknown' },
  { target: '/route/../route/api/me', status: 404, code: 'route_unknown' },
  { target: '/route/API/me', status: 404, code: 'route_unknown' },
  { target: '/route/', status: 404, code: 'route_unknown' },
  { target: '/route//api/me', status: 404, code: 'route_unknown' },
  { target: '/route/%61pi/me', status: 404, code: 'route_unknown' },
  { target: '/route/__proto__/me', status: 404, code: 'route_unknown' },
  { target: '/route/api/me#x', status: 400, code: 'target_invalid' },
  { target: '/route/api/closed/door', status: 403, code: 'denied_by_rule' },
  { target: '/route/api/closed;x/door', status: 403, code: 'denied_by_rule' },
  { target: '/route/open/v1/closed/door', status: 403, code: 'denied_by_rule' },
  { target: '/route/open/root/%63losed', status: 400, code: 'path_not_canonical' },
  { target: '/route/api/careful', status: 403, code: 'controller_unavailable' },
]) {
  test(`I20 GET ${target} is answered ${code}, and nothing leaves`, async () => {
    const count = connections()
    const answer = await ask(target)
    assert.equal(statusOf(answer), status)
    assert.equal(codeOf(answer), code)
    assert.equal(connections(), count)
  })
}

for (const target of [
  `http://${API}/v1/me`,
  `https://${API}/route/api/me`,
  `http://sallyport:7070/route/api/me`,
  `http://sallyport:7070/route/api/../../admin`,
  '/Route/api/me',
  '/%72oute/api/me',
  '//route/api/me',
  '/./route/api/me',
  '/x/../route/api/me',
  '*',
]) {
  test(`I20 GET ${target} is at no route of the gateway: 4xx, and nothing leaves`, async () => {
    const count = connections()
    const status = statusOf(await ask(target))
    assert.ok(status >= 400 && status < 500, String(status))
    assert.equal(connections(), count)
  })
}

test('I20 CONNECT at the gateway opens nothing', async () => {
  for (const target of [`${API}:443`, '/route/api/me', 'api:443']) assert.doesNotMatch(await ask(target, '', 'CONNECT'), /^HTTP\/1\.1 2/)
})

for (const { target, path } of [
  { target: '/route/api', path: '/v1' },
  { target: '/route/api/', path: '/v1/' },
  { target: '/route/api?x=/../..&y=%2f', path: '/v1?x=/../..&y=%2f' },
  { target: '/route/api/me', path: '/v1/me' },
  { target: '/route/api/a%2fb;c=1/...', path: '/v1/a%2fb;c=1/...' },
  { target: '/route/api/http://evil.test'.replace('//', '/'), path: '/v1/http:/evil.test' },
  { target: '/route/api/@evil.test', path: '/v1/@evil.test' },
  { target: '/route/api/me?redirect=//evil.test#'.replace('#', ''), path: '/v1/me?redirect=//evil.test' },
]) {
  test(`I20 GET ${target} arrives as ${path} at the route's host, with its credential`, async () => {
    const answer = await ask(target, 'Authorization: Bearer own\r\nX-Api-Key: own\r\nX-Forwarded-Host: evil.test\r\n')
    assert.equal(statusOf(answer), 200)
    const request = secure.requests.at(-1)
    assert.equal(request?.url, path)
    assert.equal(headerOf(request, 'host'), API)
    assert.equal(headerOf(request, 'authorization'), `Bearer ${CANARY}`)
    assert.equal(headerOf(request, 'x-api-key'), undefined)
  })
}

for (const [target, path] of [
  ['/route/open', '/'],
  ['/route/open?x', '/?x'],
  ['/route/open/', '/'],
] as const) {
  test(`${target} of a route without a base path arrives as ${path}, and without a credential`, async () => {
    assert.equal(statusOf(await ask(target)), 200)
    assert.equal(plain.requests.at(-1)?.url, path)
    assert.doesNotMatch((plain.requests.at(-1)?.rawHeaders ?? []).join(), new RegExp(CANARY))
  })
}

test('I20 fields that rewrite the path or the method do not go on', async () => {
  const fields = ['X-Original-URL: /admin', 'X-Rewrite-URL: /admin', 'X-HTTP-Method-Override: DELETE', 'Proxy-Connection: keep-alive']
  assert.equal(statusOf(await ask('/route/api/me', `${fields.join('\r\n')}\r\n`)), 200)
  assert.doesNotMatch((secure.requests.at(-1)?.rawHeaders ?? []).join(), /admin|DELETE|proxy-connection/i)
})

test('a method that a rule denies is denied at a route too, and any other goes', async () => {
  const count = secure.requests.length
  assert.equal(codeOf(await ask('/route/api/me', '', 'DELETE')), 'denied_by_rule')
  for (const method of ['PUT', 'PATCH', 'OPTIONS']) assert.equal(statusOf(await ask('/route/api/me', '', method)), 200)
  assert.equal(codeOf(await ask('/route/api/me', '', 'TRACE')), 'method_refused')
  assert.deepEqual(
    secure.requests.slice(count).map(({ method }) => method),
    ['PUT', 'PATCH', 'OPTIONS'],
  )
})

test('I5 a credential of a route is written only for its paths, over plain HTTP because the route accepts that', async () => {
  for (const [path, value] of [
    ['/me', CANARY],
    ['/other', undefined],
  ] as const) {
    assert.equal(statusOf(await ask(`/route/plain${path}`)), 200)
    assert.equal(headerOf(plain.requests.at(-1), 'x-api-key'), value)
  }
})

test('an unknown route is 404 with the name that was probably meant, and the operator is named where none is near', async () => {
  assert.match(await ask('/route/tool/x'), /did you mean \\"tools\\"\?/)
  assert.match(await ask('/route/something-else/x'), /the operator adds routes to the policy/)
})

test('a redirect of the upstream is given to the agent as it is, and not followed', async () => {
  const count = connections()
  const answer = await ask('/route/api/moved')
  assert.equal(statusOf(answer), 307)
  assert.match(answer, new RegExp(`^location: https://${CHAT}/elsewhere\\r$`, 'im'))
  assert.ok(connections() <= count + 1)
  assert.equal(chat.requests.length, 0)
})

for (const { host, isServed } of [
  { host: 'sallyport:7070', isServed: true },
  { host: 'sallyport', isServed: true },
  { host: 'SALLYPORT:1', isServed: true },
  { host: '127.0.0.1', isServed: true },
  { host: '10.213.7.2:7070', isServed: true },
  { host: '[::1]:7070', isServed: true },
  { host: 'localhost:7070', isServed: true },
  { host: 'rebound.evil.test:7070', isServed: false },
  { host: API, isServed: false },
  { host: 'sallyport.evil.test', isServed: false },
  { host: '127.0.0.1.evil.test', isServed: false },
  { host: '127.1', isServed: false },
  { host: 'sallyport@evil.test', isServed: false },
  { host: 'sallyport,evil.test', isServed: false },
]) {
  test(`a request to a route with "Host: ${host}" is ${isServed ? 'served' : 'not served: a page of that name could have sent it'}`, async () => {
    const count = secure.requests.length
    const answer = await ask('/route/api/me', '', 'GET', host)
    assert.equal(statusOf(answer), isServed ? 200 : 421)
    if (!isServed) assert.equal(codeOf(answer), 'misdirected_request')
    assert.equal(secure.requests.length, count + (isServed ? 1 : 0))
  })
}

test('under another Host the gateway tells its health and its public certificate, which are no secrets, and nothing else', async () => {
  assert.match(await ask('/healthz', '', 'GET', 'rebound.evil.test'), /^HTTP\/1\.1 200 [^]*\{"status":"ok"\}$/)
  assert.equal(bodyOf(await ask('/ca.crt', '', 'GET', 'rebound.evil.test')), setting.ca)
  assert.equal(statusOf(await ask('/', '', 'GET', 'rebound.evil.test')), 404)
  assert.doesNotMatch(await ask('/healthz'), /access-control-allow-origin/i)
})

test('two Host fields at a route are refused', async () => {
  assert.equal(statusOf(await ask('/route/api/me', 'Host: sallyport\r\n')), 400)
})

test('a large upload to a route arrives whole while it is sent, its length kept', async () => {
  const chunk = Buffer.alloc(256 * 1024, 0x61)
  const socket = await dialPort(setting.gate.ports.gateway)
  const answered = readToEnd(socket)
  socket.write(`POST /route/tools/upload HTTP/1.1\r\nHost: sallyport\r\nContent-Length: ${64 * chunk.length}\r\nConnection: close\r\n\r\n`)
  for (let n = 0; n < 64; n++) if (!socket.write(chunk)) await once(socket, 'drain')
  assert.equal(statusOf(await answered), 200)
  const request = tools.requests.at(-1)
  assert.equal(headerOf(request, 'content-length'), String(64 * chunk.length))
  assert.equal(request?.url, '/mcp/upload')
})

test('an MCP server behind a route: the session header both ways, a stream event by event, and its end', async () => {
  const opened = await ask(
    '/route/tools',
    'Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}',
    'POST',
  )
  assert.match(opened, /^mcp-session-id: session-1\r$/im)
  assert.equal(tools.requests.at(-1)?.url, '/mcp')

  const socket: Socket = await dialPort(setting.gate.ports.gateway)
  socket.write(
    'GET /route/tools HTTP/1.1\r\nHost: sallyport\r\nAccept: text/event-stream\r\nMcp-Session-Id: session-1\r\nLast-Event-ID: 0\r\n\r\n',
  )
  let text = ''
  while (!text.includes('{"n":1}\n\n')) text += String((await once(socket, 'data'))[0])
  assert.match(text, /content-type: text\/event-stream/i)
  assert.equal(headerOf(tools.requests.at(-1), 'last-event-id'), '0')
  // The second is sent when the first is here.
  stream?.write('id: 2\ndata: {"n":2}\n\n')
  while (!text.includes('{"n":2}\n\n')) text += String((await once(socket, 'data'))[0])
  socket.destroy()

  assert.equal(statusOf(await ask('/route/tools', 'Mcp-Session-Id: session-1\r\n', 'DELETE')), 204)
  assert.equal(headerOf(tools.requests.at(-1), 'mcp-session-id'), 'session-1')
})

test('a WebSocket goes by a route, with the credential in its handshake and below the base path', async () => {
  const socket = new WebSocket(`ws://127.0.0.1:${setting.gate.ports.gateway}/route/chat/room?x=1`, {
    headers: { Authorization: 'Bearer own' },
  })
  await once(socket, 'open')
  socket.send('hello')
  assert.equal(String((await once(socket, 'message'))[0]), 'hello')
  socket.close()
  await once(socket, 'close')
  assert.equal(chat.requests.at(-1)?.url, '/socket/room?x=1')
  assert.equal(headerOf(chat.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
})

for (const [what, path, host] of [
  ['a path that leaves the base path', '/route/chat/../x', 'sallyport'],
  ['another Host', '/route/chat/room', 'rebound.evil.test'],
  ['no route', '/healthz', 'sallyport'],
] as const) {
  test(`a WebSocket handshake for ${what} is not carried`, async () => {
    const count = chat.connections
    const answer = await ask(
      path,
      'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n',
      'GET',
      host,
    )
    assert.doesNotMatch(answer, /^HTTP\/1\.1 101/)
    assert.equal(chat.connections, count)
  })
}

test('I18 an answer on a route that is taken away, or led elsewhere, is cut', async () => {
  for (const [text, changed] of [
    [`upstream: "http://${TOOLS}/mcp"`, `upstream: "http://${TOOLS}/other"`],
    ['name: tools', 'name: gone'],
  ] as const) {
    const socket = await dialPort(setting.gate.ports.gateway)
    socket.write('GET /route/tools HTTP/1.1\r\nHost: sallyport\r\n\r\n')
    await once(socket, 'data')
    const ended = readToEnd(socket)
    assert.equal(await setting.gate.setPolicy(POLICY.replace(text, changed)), true)
    await ended
    assert.equal(await setting.gate.setPolicy(POLICY), true)
  }
})

test('I1 nothing that came back by a route, and no line of audit or log, has the secret', async () => {
  assert.doesNotMatch(await ask('/route/api/me'), new RegExp(CANARY))
  assert.doesNotMatch((await setting.gate.auditText()) + setting.gate.log(), new RegExp(CANARY))
})
