/** What a client may not do to the gate, and what it cannot: by bodies, heads, sessions, and by not reading. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, request as requestOf, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { AuthInfo } from '@modelcontextprotocol/sdk/server/auth/types.js'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system } from '../../src/kernel/system.ts'
import { callerOf, createMcpSessions, type McpSession } from '../../src/sidecar/gateway/mcp-sessions.ts'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import { eventually } from '../support/eventually.ts'
import { GATEWAY_LEASE, REQUEST_ID as ID } from '../support/gateway.ts'
import { INITIALIZE, MCP_ACCEPTS, openMcp, type TestMcp } from '../support/mcp.ts'

const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
const CALL = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'host_run', arguments: { argv: ['true'] } } }
const PENDING: RequestView = { id: ID, method: 'host.run', status: 'pending' }

async function begin(mcp: TestMcp): Promise<string> {
  const response = await mcp.post(INITIALIZE)
  assert.equal(response.status, 200)
  await response.arrayBuffer()
  return response.headers.get('mcp-session-id') ?? assert.fail('no session')
}

const poison =
  '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"host_run","arguments":{"argv":["true"],"__proto__":{"cwd":"/"}}}}'

for (const { what, body, headers, status } of [
  { what: 'no JSON', body: '{"jsonrpc": "2.0",', status: 400 },
  { what: 'no message of JSON-RPC', body: { hello: 'you' }, status: 400 },
  { what: 'a text', body: '"tools/list"', status: 400 },
  { what: 'nothing', body: '', status: 400 },
  { what: 'an id that is an object', body: { ...LIST, id: {} }, status: 400 },
  { what: 'a name that poisons who copies it', body: poison, status: 400 },
  {
    what: 'constructor.prototype',
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"constructor":{"prototype":{}}}}',
    status: 400,
  },
  { what: 'ten thousand calls at once', body: Array.from({ length: 10_000 }, (_, id) => ({ ...LIST, id })), status: 400 },
  { what: 'a hundred thousand levels', body: `${'['.repeat(100_000)}${']'.repeat(100_000)}`, status: 400 },
  { what: 'more bytes than it may have', body: { ...LIST, params: { x: 'x'.repeat(LIMITS.mcpBodyBytesMax) } }, status: 413 },
  { what: 'no JSON by its type', body: LIST, headers: { 'content-type': 'text/plain' }, status: 415 },
  { what: 'no type that the client takes for an answer', body: LIST, headers: { accept: 'text/html' }, status: 406 },
])
  test(`a body with ${what} is ${status}, the controller is not asked, and the session goes on`, async () => {
    await using mcp = await openMcp()
    const session = await begin(mcp)
    const refused = await mcp.gateway.ask('/mcp', {
      method: 'POST',
      headers: { accept: MCP_ACCEPTS, 'content-type': 'application/json', 'mcp-session-id': session, ...headers },
      body,
    })
    assert.equal(refused.status, status)
    const { jsonrpc, error } = (await refused.json()) as { jsonrpc: string; error: { code: number } }
    assert.deepEqual([jsonrpc, error.code < 0], ['2.0', true])
    const listed = await mcp.post(LIST, { 'mcp-session-id': session })
    assert.match(await listed.text(), /host_run/)
    assert.equal(({} as { cwd?: string }).cwd, undefined)
  })

test('deep arguments are refused, and cost the gate nothing that others need', async () => {
  await using mcp = await openMcp()
  const session = await begin(mcp)
  const deep = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`
  const body = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"host_run","arguments":{"argv":["true"],"x":${deep}}}}`
  const refused = await mcp.post(body, { 'mcp-session-id': session })
  assert.match(await refused.text(), /request_invalid|Parse error|Invalid/)
  assert.equal((await mcp.gateway.ask('/healthz')).status, 200)
})

for (const [what, headers, status, code] of [
  ['a name that is not the gate’s', { host: 'evil.example.com' }, 421, 'misdirected_request'],
  ['a page of another origin', { origin: 'http://evil.example.com' }, 403, 'origin_not_allowed'],
  ['a page without an origin', { origin: 'null' }, 403, 'origin_not_allowed'],
] as const)
  test(`a request by ${what} is refused before it is read`, async () => {
    await using mcp = await openMcp()
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const own = { authorization: `Bearer ${GATEWAY_LEASE}`, 'content-type': 'application/json', accept: MCP_ACCEPTS }
      requestOf(mcp.url, { method: 'POST', headers: { ...own, ...headers } }, resolve)
        .on('error', reject)
        .end(JSON.stringify(INITIALIZE))
    })
    const [document] = (await answer.toArray()) as [Buffer]
    assert.deepEqual([answer.statusCode, (JSON.parse(document.toString()) as { code: string }).code], [status, code])
    assert.equal(answer.headers['mcp-session-id'], undefined)
  })

test('without a session only one that begins is taken, and an id that was made up is not found', async () => {
  await using mcp = await openMcp()
  for (const { body, headers, status } of [
    { body: LIST, headers: {}, status: 400 },
    { body: [INITIALIZE], headers: {}, status: 400 },
    { body: LIST, headers: { 'mcp-session-id': 'a'.repeat(64) }, status: 404 },
    { body: LIST, headers: { 'mcp-session-id': '__proto__' }, status: 404 },
    { body: INITIALIZE, headers: { 'mcp-session-id': 'x'.repeat(20_000) }, status: 404 },
  ]) {
    const response = await mcp.post(body, headers)
    assert.equal(response.status, status)
    assert.equal(response.headers.get('mcp-session-id'), null)
    await response.arrayBuffer()
  }
  for (const method of ['GET', 'DELETE']) assert.equal((await mcp.gateway.ask('/mcp', { method })).status, 400)
})

test('of many sessions as many are kept as the gate has room for: the latest, and what is in use', async () => {
  await using mcp = await openMcp()
  const used = await begin(mcp)
  const headers = { authorization: `Bearer ${GATEWAY_LEASE}`, accept: 'text/event-stream', 'mcp-session-id': used }
  const stream = await fetch(mcp.url, { headers })
  const all: string[] = []
  for (let index = 0; index < 3 * LIMITS.mcpSessionsMax; index += 1) all.push(await begin(mcp))
  assert.equal(new Set(all).size, all.length)
  const isThere = async (session: string): Promise<boolean> => {
    const response = await mcp.post({ jsonrpc: '2.0', id: 3, method: 'ping' }, { 'mcp-session-id': session })
    await response.arrayBuffer()
    return response.status === 200
  }
  assert.equal(await isThere(used), true)
  const kept = all.slice(-(LIMITS.mcpSessionsMax - 1))
  assert.deepEqual([await isThere(all.at(-LIMITS.mcpSessionsMax) ?? ''), await isThere(kept[0] ?? '')], [false, true])
  await stream.body?.cancel()
})

test('where all sessions are in use a further one is refused, and is taken when one is free', async () => {
  await using mcp = await openMcp()
  const streams: Response[] = []
  for (let index = 0; index < LIMITS.mcpSessionsMax; index += 1) {
    const session = await begin(mcp)
    streams.push(
      await fetch(mcp.url, {
        headers: { authorization: `Bearer ${GATEWAY_LEASE}`, accept: 'text/event-stream', 'mcp-session-id': session },
      }),
    )
  }
  const refused = await mcp.post({ ...INITIALIZE, id: 'first' })
  const { id, error } = (await refused.json()) as { id: string; error: { data: { code: string } } }
  assert.deepEqual([refused.status, id, error.data.code], [503, 'first', 'overloaded'])
  await streams[0]?.body?.cancel()
  await eventually(() => begin(mcp))
  for (const stream of streams.slice(1)) await stream.body?.cancel()
})

test('a call that is cancelled gets no answer, and its stream ends instead of standing open for ever', async () => {
  const cancelled: unknown[] = []
  const { promise: waits, resolve: waiting } = Promise.withResolvers<void>()
  await using mcp = await openMcp({
    callController: ({ method, params }) => {
      if (method === 'host.run') return Promise.resolve(PENDING)
      if (method === 'request.cancel') return Promise.resolve(void cancelled.push(params))
      waiting()
      return new Promise(() => undefined)
    },
  })
  const session = { 'mcp-session-id': await begin(mcp) }
  const call = await mcp.post(CALL, session)
  await waits
  const note = await mcp.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 2, reason: 'enough' } }, session)
  assert.equal(note.status, 202)
  assert.equal(await call.text(), '')
  assert.deepEqual(cancelled, [{ id: ID }])
})

test('a client that stops reading is left out of what is said meanwhile, and its connection has an end', async () => {
  await using sessions = createMcpSessions(system)
  const { promise: flooded, resolve: isFlooded } = Promise.withResolvers<number>()
  const flood = async ({ transport }: McpSession): Promise<void> => {
    Object.assign(transport, {
      async onmessage({ id, method }: { id: number; method: string }, { authInfo }: { authInfo: AuthInfo }) {
        if (method === 'initialize') return transport.send({ jsonrpc: '2.0', id, result: {} })
        const { isBehind } = callerOf(authInfo)
        let bytes = 0
        for (const params = { text: 'x'.repeat(65_536) }; !isBehind(); bytes += params.text.length) {
          await transport.send({ jsonrpc: '2.0', method: 'notifications/progress', params }, { relatedRequestId: id })
          await new Promise((next) => setImmediate(next))
        }
        isFlooded(bytes)
      },
    })
    await transport.start()
  }
  const answered: ServerResponse[] = []
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    answered.push(response)
    const body: unknown = JSON.parse(Buffer.concat((await request.toArray()) as Buffer[]).toString())
    await sessions.serve({ request, response, body, lease: GATEWAY_LEASE, server: 'x', connect: flood })
  }
  const server = createServer((request, response) => void take(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const send = (message: object, session: object = {}): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', accept: MCP_ACCEPTS, ...session }
      requestOf({ port, host: '127.0.0.1', method: 'POST', headers }, resolve).on('error', reject).end(JSON.stringify(message))
    })
  const begun = await send(INITIALIZE)
  begun.resume()
  const deaf = await send(CALL, { 'mcp-session-id': begun.headers['mcp-session-id'] })
  deaf.on('error', () => undefined)
  // What the two sockets hold, and not what there would be to say.
  assert.ok((await flooded) < 64 * 1024 * 1024)
  const { socket } = answered[1] ?? assert.fail('no answer')
  assert.equal(socket?.timeout, LIMITS.mcpStalledMs)
  const closed = new Promise((resolve) => deaf.once('close', resolve))
  socket.emit('timeout')
  deaf.resume()
  await closed
  assert.equal(deaf.complete, false)
  server.closeAllConnections()
  server.close()
})
