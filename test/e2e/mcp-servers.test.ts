/** MCP servers behind the gate, by the official client: what passes, and what of them an agent has. */
import assert from 'node:assert/strict'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { ProgressNotificationSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { LIMITS } from '../../src/kernel/limits.ts'
import { AGENT_LEASE, SESSION } from '../support/control.ts'
import { eventually } from '../support/eventually.ts'
import { openServers, TOOL_CANARY, toolPolicy } from '../support/mcp-servers.ts'
import { toolServer } from '../support/mcp-tool-server.ts'
import { createUpstreamCa, leafFor } from '../support/upstream.ts'

const textOf = (result: unknown): string => {
  const [content] = (result as CallToolResult).content
  return content?.type === 'text' ? content.text : ''
}

test('I69 a program with a secret answers through the gate, and what it says is without it, in any page of any answer', async () => {
  await using servers = await openServers({ policy: toolPolicy() })
  await using client = await servers.client()
  assert.deepEqual(client.getServerVersion(), { name: 'tool-server', version: '1.0' })
  const names: string[] = []
  let cursor: string | undefined
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor })
    names.push(...page.tools.map(({ name }) => name))
    cursor = page.nextCursor
  } while (cursor !== undefined)
  assert.equal(names.length, 6)
  assert.equal(textOf(await client.callTool({ name: 'get_secret_length' })), String(TOOL_CANARY.length))
  assert.match(textOf(await client.callTool({ name: 'get_secret' })), /^it is \*+\.$/)
  assert.equal(textOf(await client.callTool({ name: 'get_variables' })), 'PLAIN TOOL_SECRET')
  const [wish] = servers.started
  assert.deepEqual(wish?.environment, { PLAIN: 'yes' })
  assert.ok(!JSON.stringify(servers.audited).includes(TOOL_CANARY) && !servers.log().includes(TOOL_CANARY))
  await eventually(() => assert.match(servers.log(), /the secret is \*+/))
  const calls = (await servers.gateAudit()).filter(({ event }) => event === 'tool_called')
  assert.deepEqual(
    calls.map(({ server, tool, decision }) => [server, tool, decision]),
    ['get_secret_length', 'get_secret', 'get_variables'].map((tool) => ['tools', tool, 'allow']),
  )
})

test('each client has a program of its own, which ends with its session; a program that ends is an error, and the next client has a new one', async () => {
  await using servers = await openServers({ policy: toolPolicy() })
  await using first = await servers.client()
  {
    await using second = await servers.client()
    assert.equal(servers.started.length, 2)
    await second.ping()
  }
  await eventually(() => assert.equal(servers.audited.filter(({ event }) => event === 'tool_ended').length, 1))
  await assert.rejects(first.callTool({ name: 'exit' }), /ended with code 7/)
  await using third = await servers.client()
  assert.equal(textOf(await third.callTool({ name: 'get_secret_length' })), String(TOOL_CANARY.length))
  const ended = servers.audited.filter((event) => event.event === 'tool_ended')
  assert.deepEqual(ended[1]?.event === 'tool_ended' && [ended[1].code, ended[1].exit_code], ['ended with code 7', 7])
  await servers.tools.endSession(SESSION)
  await assert.rejects(third.callTool({ name: 'get_variables' }))
})

test('clients that went away without ending their sessions make room for the next; those that listen do not', async () => {
  await using servers = await openServers({ policy: toolPolicy() })
  using closing = new DisposableStack()
  const begin = async () => {
    const session = await servers.begin()
    return {
      status: session.status,
      async listen() {
        const stop = closing.adopt(new AbortController(), (controller) => controller.abort())
        assert.equal((await session.ask('GET', undefined, stop.signal)).status, 200)
      },
      length: async () => (await session.ask('POST', LENGTH)).text(),
    }
  }
  const LENGTH = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'get_secret_length' } }
  const listening = await begin()
  await listening.listen()
  const all = [listening]
  while (all.length < LIMITS.toolConnectionsPerServerMax) all.push(await begin())
  const next = await begin()
  assert.match(await next.length(), new RegExp(`"${TOOL_CANARY.length}"`))
  assert.match(await listening.length(), new RegExp(`"${TOOL_CANARY.length}"`))
  await eventually(() => assert.equal(servers.audited.filter(({ event }) => event === 'tool_ended').length, 1))
  assert.match((await all[1]?.length()) ?? '', /Session not found/)
  for (const one of [next, ...all.slice(2)]) await one.listen()
  assert.equal((await begin()).status, 503)
  assert.equal(servers.started.length, LIMITS.toolConnectionsPerServerMax + 1)
})

test('what a server says by itself reaches its client: progress of a call, and that its tools changed', async () => {
  await using servers = await openServers({ policy: toolPolicy() })
  await using client = await servers.client()
  let changed = 0
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void (changed += 1))
  const steps: number[] = []
  await client.callTool({ name: 'get_progress' }, undefined, { onprogress: ({ progress }) => void steps.push(progress) })
  assert.deepEqual(steps, [1])
  await eventually(() => assert.equal(changed, 1))
  assert.ok(ProgressNotificationSchema)
})

test('the operator is told of all tools, and which of them agents do not have', async () => {
  await using servers = await openServers({ policy: toolPolicy('    tools: ["get_*", "exit"]\n') })
  using pass = servers.tools.pass(SESSION, 'tools')
  await servers.controller.link.ready(AbortSignal.timeout(10_000))
  const tested = await servers.controller.link.testServer('tools', pass.text)
  assert.equal(tested.server, 'tool-server 1.0')
  assert.deepEqual(
    tested.tools.map(({ name, isAllowed }) => `${isAllowed ? '+' : '-'}${name}`),
    ['+get_secret_length', '+get_secret', '+get_variables', '+get_progress', '-delete_all', '+exit'],
  )
  await eventually(() => assert.equal(servers.audited.filter(({ event }) => event === 'tool_ended').length, 1))
})

/** A server elsewhere, with TLS and sessions, which records the fields of each request. */
async function openElsewhere(host: string) {
  const ca = await createUpstreamCa()
  const seen: { method: string; headers: NodeJS.Dict<string | string[]> }[] = []
  const called: string[] = []
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const server = createServer(leafFor(ca.authority, host), (request, response) => {
    seen.push({ method: request.method ?? '', headers: request.headers })
    void (async () => {
      const id = request.headers['mcp-session-id']
      const known = typeof id === 'string' ? sessions.get(id) : undefined
      const transport =
        known ??
        new StreamableHTTPServerTransport({
          sessionIdGenerator: () => `session-${sessions.size}`,
          onsessioninitialized: (made) => void sessions.set(made, transport),
        })
      if (known === undefined) await toolServer((name) => void called.push(name), { TOOL_SECRET: ELSEWHERE_CANARY }).connect(transport)
      await transport.handleRequest(request, response)
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    ca,
    seen,
    called,
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await ca[Symbol.asyncDispose]()
    },
  }
}

const ELSEWHERE_CANARY = 'elsewhere-canary-77aa01'
const HOST = 'mcp.example.com'
const elsewherePolicy = (port: number, more = ''): string => `version: 1
mcp_servers:
  - name: remote
    url: https://${HOST}:${port}/v1/mcp
    headers: {Authorization: "Bearer \${secret:REMOTE_KEY}", X-Org: acme}
    addresses: ["127.0.0.0/8"]
${more}secrets:
  - {name: REMOTE_KEY, source: "env:REMOTE_KEY", resources: ["tool:remote"]}
`

test('a server elsewhere gets the fields that the policy names and nothing of the lease; its own session stays at the gate', async () => {
  await using elsewhere = await openElsewhere(HOST)
  await using servers = await openServers({
    policy: elsewherePolicy(elsewhere.port),
    values: { REMOTE_KEY: ELSEWHERE_CANARY },
    gate: { upstreamCa: [elsewhere.ca.file], hosts: { [HOST]: ['127.0.0.1'] } },
  })
  {
    await using client = await servers.client('remote', { 'x-agent': 'mine', cookie: 'a=b' })
    assert.equal((await client.listTools()).tools.length, 2)
    // Also where it says the value of its own secret.
    assert.match(textOf(await client.callTool({ name: 'get_secret' })), /^it is \*+\.$/)
    let changed = 0
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void (changed += 1))
    const steps: number[] = []
    await client.callTool({ name: 'get_progress' }, undefined, { onprogress: ({ progress }) => void steps.push(progress) })
    assert.deepEqual(steps, [1])
    await eventually(() => assert.equal(changed, 1))
    assert.doesNotMatch(client.http.sessionId ?? '', /^session-/)
  }
  await eventually(() => assert.equal(elsewhere.seen.at(-1)?.method, 'DELETE'))
  for (const { headers } of elsewhere.seen) {
    assert.equal(headers['authorization'], `Bearer ${ELSEWHERE_CANARY}`)
    assert.equal(headers['x-org'], 'acme')
    assert.deepEqual([headers['x-agent'], headers['cookie']], [undefined, undefined])
    assert.ok(!JSON.stringify(headers).includes(AGENT_LEASE))
  }
  const audit = await servers.gate.auditText()
  assert.ok(!audit.includes(ELSEWHERE_CANARY))
  assert.match(audit, /"credential":"mcp-remote"/)
})

test('I71 an agent gets to a server elsewhere by the relay alone: not by its route, nor by the host', async () => {
  await using elsewhere = await openElsewhere(HOST)
  await using servers = await openServers({
    policy: elsewherePolicy(elsewhere.port, '    tools: ["get_secret_length"]\n'),
    values: { REMOTE_KEY: ELSEWHERE_CANARY },
    gate: { upstreamCa: [elsewhere.ca.file], hosts: { [HOST]: ['127.0.0.1'] } },
  })
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'delete_all' } }
  const answer = await fetch(`${servers.origin}/route/mcp-remote`, {
    method: 'POST',
    headers: { authorization: `Bearer ${AGENT_LEASE}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify(call),
  })
  assert.equal(answer.status, 404)
  assert.equal(((await answer.json()) as { code: string }).code, 'route_unknown')
  await using client = await servers.client('remote')
  assert.deepEqual(
    (await client.listTools()).tools.map(({ name }) => name),
    ['get_secret_length'],
  )
  await assert.rejects(client.callTool({ name: 'delete_all' }), /not one that this session has/)
  assert.deepEqual(elsewhere.called, [])
  using pass = servers.tools.pass(SESSION, 'remote')
  const tested = await servers.controller.link.testServer('remote', pass.text)
  assert.equal(tested.tools.filter(({ isAllowed }) => isAllowed).length, 1)
  assert.equal(tested.tools.length, 6)
})
