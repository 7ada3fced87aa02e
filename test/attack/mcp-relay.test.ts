/** What an agent, or a server elsewhere, may make of the way between them: waiting, memory, and what goes on when the policy has changed. */
import assert from 'node:assert/strict'
import { createServer, type ServerResponse } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system } from '../../src/kernel/system.ts'
import { createMcpSessions, type McpSession } from '../../src/sidecar/gateway/mcp-sessions.ts'
import { AGENT_LEASE, SESSION } from '../support/control.ts'
import { eventually } from '../support/eventually.ts'
import { openServers, toolPolicy } from '../support/mcp-servers.ts'
import { openUpstream, type Recorded } from '../support/upstream.ts'

type Servers = Awaited<ReturnType<typeof openServers>>

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}
const HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  authorization: `Bearer ${AGENT_LEASE}`,
}

async function rawClient(servers: Servers, server: string) {
  const post = (body: unknown, more: Readonly<Record<string, string>> = {}, signal?: AbortSignal): Promise<Response> =>
    fetch(`${servers.origin}/mcp/${server}`, {
      method: 'POST',
      headers: { ...HEADERS, ...more },
      body: JSON.stringify(body),
      signal: signal ?? AbortSignal.timeout(10_000),
    })
  const begun = await post(INITIALIZE)
  const text = await begun.text()
  const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
  const send = (body: unknown): Promise<string> => post(body, session).then((answer) => answer.text())
  await send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  return { post, send, session, text }
}

type Sent = { readonly id?: number; readonly method?: string; readonly params?: Readonly<Record<string, unknown>> }

/** A server elsewhere that answers with JSON when it is done; `held` are the calls that it has not answered. */
async function openFar(answer: (message: Sent, response: ServerResponse) => boolean) {
  const seen: Sent[] = []
  const upstream = await openUpstream((request: Recorded, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const message = JSON.parse(request.body.toString()) as Sent
    seen.push(message)
    const { id, method } = message
    if (answer(message, response)) return
    if (id === undefined || method === undefined) return void response.writeHead(202).end()
    const result =
      method === 'initialize' ? { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'far', version: '1' } } : { method }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  })
  const policy = `version: 1
mcp_servers:
  - {name: far, url: "http://far.example.com:${upstream.port}/mcp", headers: {X-Key: "\${secret:K}"}, plaintext: accept, addresses: ["127.0.0.0/8"]}
`
  const servers = await openServers({ policy, values: { K: 'far-canary-0012' }, gate: { hosts: { 'far.example.com': ['127.0.0.1'] } } })
  return {
    seen,
    upstream,
    servers,
    policy,
    async [Symbol.asyncDispose]() {
      await servers[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

test('a call that a server elsewhere is slow to answer holds up no other one, nor what cancels it', async () => {
  await using far = await openFar(({ method }) => method === 'tools/call')
  const client = await rawClient(far.servers, 'far')
  const slow = client.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'slow' } })
  await eventually(() => assert.ok(far.seen.some(({ id }) => id === 1)))
  assert.match(await client.send({ jsonrpc: '2.0', id: 2, method: 'ping' }), /"id":2/)
  await client.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })
  await eventually(() => assert.ok(far.seen.some(({ method }) => method === 'notifications/cancelled')))
  assert.doesNotMatch(await slow, /"id":1/)
})

test('I73 what an agent sends by the thousand to a server that does not take it is not kept: its session ends, and says why', async () => {
  await using far = await openFar(({ method }) => method === 'tools/call' || method === 'notifications/held')
  const client = await rawClient(far.servers, 'far')
  const called = client.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } })
  await eventually(() => assert.ok(far.seen.some(({ id }) => id === 1)))
  const held = { jsonrpc: '2.0', method: 'notifications/held', params: { data: 'x'.repeat(900_000) } }
  let sent = 0
  for (let answer = ''; !answer.includes('Session not found'); sent++) {
    assert.ok(sent * 900_000 < 2 * LIMITS.relayWaitingCharsMax, 'all of it is kept')
    answer = await client.send(held)
  }
  assert.match(await called, /"code":"overloaded"/)
})

test('I73 a server that leaves the policy is left at once, also by sessions that are silent', async () => {
  await using servers = await openServers({ policy: toolPolicy() })
  await rawClient(servers, 'tools')
  assert.equal(servers.started.length, 1)
  await servers.setPolicy('version: 1\n')
  await eventually(() => assert.ok(servers.audited.some(({ event }) => event === 'tool_ended')))
})

test('the name of a tool that nobody can have does not go into the audit as it is: its lines stay such as are verified', async () => {
  await using servers = await openServers({ policy: toolPolicy() })
  const client = await rawClient(servers, 'tools')
  const name = 'n'.repeat(400_000)
  assert.match(await client.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name } }), /not one that this session has/)
  const lines = (await servers.gate.auditText()).split('\n')
  assert.ok(lines.some((line) => line.includes('"tool_called"') && line.includes('"deny"')))
  assert.ok(lines.every((line) => line.length < 4_096))
})

test('a client that is gone without a word leaves no place taken', async () => {
  await using servers = await openServers({ policy: toolPolicy() })
  for (let i = 0; i < LIMITS.toolConnectionsPerServerMax; i++) await rawClient(servers, 'tools')
  const next = await rawClient(servers, 'tools')
  assert.match(next.text, /"serverInfo"/)
  assert.match(await next.send({ jsonrpc: '2.0', id: 1, method: 'ping' }), /"id":1/)
})

test('a client that goes away while its server starts leaves no session that nobody knows of', async () => {
  await using sessions = createMcpSessions(system)
  const asked = Promise.withResolvers<void>()
  const started = Promise.withResolvers<void>()
  const served = Promise.withResolvers<void>()
  const begin = async (session: McpSession): Promise<void> => {
    asked.resolve()
    await started.promise
    await session.transport.start()
  }
  const server = createServer((request, response) => {
    response.once('close', () => started.resolve())
    void sessions.serve({ request, response, body: INITIALIZE, lease: 'l', server: 'slow', connect: begin }).then(served.resolve)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const gone = new AbortController()
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const answer = fetch(url, { method: 'POST', headers: HEADERS, body: JSON.stringify(INITIALIZE), signal: gone.signal }).catch(
    () => undefined,
  )
  await asked.promise
  gone.abort()
  await Promise.all([served.promise, answer])
  assert.equal(sessions.count, 0)
  await new Promise((resolve) => server.close(resolve))
})

test('an agent whose server cannot have its secret is told that it is not there, and by what code; the operator is told all', async () => {
  await using servers = await openServers({ policy: toolPolicy(), vault: {} })
  const { text } = await rawClient(servers, 'tools')
  assert.match(text, /"code":"mcp_server_failed"/)
  assert.match(text, /could not be started \(secret_missing\)/)
  assert.doesNotMatch(text, /vault has no key/)
  using pass = servers.tools.pass(SESSION, 'tools')
  await servers.controller.link.ready(AbortSignal.timeout(10_000))
  await assert.rejects(servers.controller.link.testServer('tools', pass.text), { code: 'secret_missing', message: /the vault has no key/ })
  assert.deepEqual(servers.started, [])
})

test('a body that is announced is asked for when the lease is good; HEAD and OPTIONS begin nothing', async () => {
  await using servers = await openServers({ policy: toolPolicy() })
  const { port } = new URL(servers.origin)
  const exchange = async (text: string, until: RegExp): Promise<string> => {
    const socket = connect({ host: '127.0.0.1', port: Number(port) })
    socket.write(text)
    let read = ''
    for await (const chunk of socket) {
      read += String(chunk)
      if (until.test(read)) break
    }
    return read
  }
  const head = (method: string, path: string, more = ''): string =>
    `${method} ${path} HTTP/1.1\r\nhost: sallyport\r\nauthorization: Bearer ${AGENT_LEASE}\r\n${more}\r\n`
  const announced = 'content-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\n'
  assert.match(await exchange(head('POST', '/mcp/tools', announced), /\r\n\r\n/), /^HTTP\/1.1 100 /)
  // Not before it is known who it is.
  const stranger = head('POST', '/mcp/tools', announced).replace(AGENT_LEASE, 'wrong')
  assert.match(await exchange(stranger, /\r\n\r\n/), /^HTTP\/1.1 401 /)
  for (const method of ['HEAD', 'OPTIONS', 'PUT'])
    assert.match(await exchange(head(method, '/mcp/tools', 'connection: close\r\n'), /\r\n\r\n/), /^HTTP\/1.1 (?:404|405) /, method)
  assert.deepEqual(servers.started, [])
})

test('a program ends with its client also when the lease is not good any more', async () => {
  await using servers = await openServers({ policy: toolPolicy() })
  const step = { server: 'tools', connection: 'ab'.repeat(16) }
  const call = (more: { do: 'open' | 'receive' | 'close'; lease: string }): Promise<unknown> =>
    servers.tools.call(SESSION, { ...step, ...more }, new AbortController().signal)
  await call({ do: 'open', lease: AGENT_LEASE })
  await assert.rejects(call({ do: 'receive', lease: 'revoked' }), { code: 'unauthenticated' })
  await call({ do: 'close', lease: 'revoked' })
  assert.ok(servers.audited.some(({ event }) => event === 'tool_ended'))
})

test('a server that leaves the policy while it starts does not run on for nobody', async () => {
  const asked = Promise.withResolvers<void>()
  const changed = Promise.withResolvers<void>()
  const starting = (): Promise<void> => {
    asked.resolve()
    return changed.promise
  }
  await using servers = await openServers({ policy: toolPolicy(), starting })
  const client = rawClient(servers, 'tools')
  await asked.promise
  await servers.setPolicy('version: 1\n')
  changed.resolve()
  assert.doesNotMatch((await client).text, /serverInfo/)
  await eventually(() => assert.ok(servers.audited.some(({ event }) => event === 'tool_ended')))
})
