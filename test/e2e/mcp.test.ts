/** What agents call, by the official client of MCP, before real requests: approvals, executor and files. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolListChangedNotificationSchema, type CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { LIMITS } from '../../src/kernel/limits.ts'
import { AGENT_METHOD_NAMES, AGENT_METHODS } from '../../src/wire/agent-requests.ts'
import { eventually } from '../support/eventually.ts'
import { GATEWAY_LEASE } from '../support/gateway.ts'
import { INITIALIZE, MCP_ACCEPTS, openMcp, openMcpOfRequests, textOf, viewOf } from '../support/mcp.ts'

const allow = (...patterns: readonly string[]): object => ({ host_commands: { mode: 'allowlist', allow: patterns } })

test('the tools are the methods of the table, and no client has to change their names or schemas', async () => {
  await using mcp = await openMcp()
  await using client = await mcp.client()
  const { tools } = await client.listTools()
  assert.deepEqual(
    tools.map(({ name, title }) => [name, title]),
    AGENT_METHOD_NAMES.map((method) => [AGENT_METHODS[method].tool, method]),
  )
  for (const { name, description = '', inputSchema, outputSchema, annotations, execution } of tools) {
    assert.match(name, /^[a-z0-9_]{1,30}$/)
    // A model is told of tools by the names that it has for them.
    for (const method of AGENT_METHOD_NAMES)
      assert.ok(!`${description}${JSON.stringify([inputSchema, outputSchema])}`.includes(method), name)
    for (const schema of [inputSchema, outputSchema]) {
      assert.equal(schema?.type, 'object', name)
      assert.doesNotMatch(JSON.stringify(schema), /"\$ref"|"oneOf"|"anyOf"|"allOf"|"\$schema"|"propertyNames"/, name)
    }
    assert.deepEqual(Object.keys(annotations ?? {}), ['title', 'readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'])
    assert.equal(execution?.taskSupport, /_run$|^secret_|^propose_/.test(name) ? 'optional' : undefined, name)
  }
  assert.match(client.getInstructions() ?? '', /request_await/)
  assert.deepEqual(client.getServerVersion()?.name, 'sallyport')
})

test('a command runs in one call, and its result is data and text; another status than 0 is no error of the tool', async () => {
  await using mcp = await openMcpOfRequests(allow('echo hello', 'ls nothing-is-here'))
  await using client = await mcp.client()
  const ran = await client.callTool({ name: 'host_run', arguments: { argv: ['echo', 'hello'], reason: 'to greet' } })
  const view = viewOf(ran)
  assert.deepEqual([view.status, view.exit_code, view.stdout, ran.isError], ['done', 0, 'hello\n', undefined])
  assert.deepEqual(textOf(ran), view)
  const failed = await client.callTool({ name: 'host_run', arguments: { command: 'ls nothing-is-here' } })
  assert.deepEqual([viewOf(failed).status, failed.isError, viewOf(failed).stdout], ['done', undefined, ''])
  assert.ok((viewOf(failed).exit_code ?? 0) > 0)
  assert.match(viewOf(failed).stderr ?? '', /nothing-is-here/)
})

test('a denial is an error of the tool with its code, message and hint, and nothing ran', async () => {
  await using mcp = await openMcpOfRequests({ host_commands: { mode: 'allowlist', allow: [], deny: ['touch **'] } })
  await using client = await mcp.client()
  const denied = await client.callTool({ name: 'host_run', arguments: { argv: ['touch', 'harm'] } })
  assert.deepEqual([denied.isError, viewOf(denied).status, viewOf(denied).error?.code], [true, 'denied', 'command_not_allowed'])
  assert.deepEqual(textOf(denied), viewOf(denied))
  const capability = await client.callTool({ name: 'host_run_capability', arguments: { argv: ['touch', 'harm'] } })
  assert.deepEqual([capability.isError, viewOf(capability)['action' as 'status']], [undefined, 'deny'])
})

test('a person’s answer that comes while the call waits is the result of the call', async () => {
  await using mcp = await openMcpOfRequests()
  await using client = await mcp.client()
  const called = client.callTool({ name: 'host_run', arguments: { argv: ['echo', 'asked'] } })
  await mcp.setting.yes(await mcp.setting.asked())
  assert.deepEqual([viewOf(await called).status, viewOf(await called).stdout], ['done', 'asked\n'])
})

for (const { what, params, code } of [
  { what: 'arguments that the table does not have', params: { argv: ['true'], force: true }, code: 'request_invalid' },
  { what: 'no arguments', params: undefined, code: 'request_invalid' },
  { what: 'two wishes', params: { argv: ['true'], command: 'true' }, code: 'request_invalid' },
  { what: 'more than the method takes', params: { argv: ['x'.repeat(LIMITS.agentBodyBytesMax + 1)] }, code: /request_(invalid|too_large)/ },
])
  test(`${what} are an error of the tool that says what is wrong, and the controller is not asked`, async () => {
    await using mcp = await openMcp()
    await using client = await mcp.client()
    const result = (await client.callTool({ name: 'host_run', ...(params && { arguments: params }) })) as CallToolResult
    assert.equal(result.isError, true)
    assert.match((textOf(result) as { error: { code: string } }).error.code, new RegExp(code))
  })

test('a fault of ours tells the model nothing of itself', async () => {
  await using mcp = await openMcp({ callController: () => Promise.reject(new Error('/home/operator/private broke')) })
  await using client = await mcp.client()
  const result = await client.callTool({ name: 'host_run', arguments: { argv: ['true'] } })
  assert.deepEqual([result.isError, (textOf(result) as { error: { code: string } }).error.code], [true, 'internal'])
  assert.doesNotMatch(JSON.stringify(result), /private/)
})

test('what the policy disables is no tool and cannot be called, and clients are told when that changes', async () => {
  await using mcp = await openMcp()
  await using client = await mcp.client()
  const { promise: told, resolve } = Promise.withResolvers<void>()
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve())
  const names = async (): Promise<string[]> => (await client.listTools()).tools.map(({ name }) => name)
  assert.ok((await names()).includes('host_run'))
  await eventually(async () => assert.equal((await mcp.gateway.ask('/mcp', { headers: headersOf(client) })).status, 409))
  mcp.setPolicy({ host_commands: { mode: 'disabled' }, gateway: { disabled: ['propose.tool'] } })
  await told
  const left = await names()
  assert.deepEqual(
    ['host_run', 'host_run_capability', 'propose_tool', 'propose_skill'].map((name) => left.includes(name)),
    [false, false, false, true],
  )
  await assert.rejects(client.callTool({ name: 'host_run', arguments: { argv: ['true'] } }), { code: -32_602, message: /Unknown tool/ })
  await assert.rejects(client.callTool({ name: 'toString' }), { code: -32_602 })
})

const headersOf = ({ http }: { readonly http: { readonly sessionId?: string | undefined } }): Record<string, string> => ({
  'mcp-session-id': http.sessionId ?? '',
  accept: MCP_ACCEPTS,
})

test('I53 a stranger is refused with a problem before the protocol begins, and finds nothing to log in with', async () => {
  await using mcp = await openMcp()
  for (const authorization of ['', 'Bearer other', `Basic ${GATEWAY_LEASE}`, `Bearer ${GATEWAY_LEASE}x`]) {
    const refused = await mcp.post(INITIALIZE, { authorization })
    assert.deepEqual([refused.status, refused.headers.get('content-type')], [401, 'application/problem+json'])
    assert.equal(refused.headers.get('mcp-session-id'), null)
    assert.doesNotMatch(refused.headers.get('www-authenticate') ?? '', /resource_metadata/)
    assert.equal(((await refused.json()) as { code: string }).code, 'unauthenticated')
  }
  for (const path of [
    '/.well-known/oauth-protected-resource',
    '/.well-known/oauth-authorization-server',
    '/.well-known/openid-configuration',
    '/register',
    '/authorize',
    '/token',
  ])
    for (const below of ['', '/mcp']) {
      const nothing = await mcp.gateway.ask(`${path}${below}`, { headers: { authorization: '' } })
      assert.equal(nothing.status, 404, path)
      await nothing.arrayBuffer()
    }
})

test('I58 a session is its lease’s own: with another good one it is not found, and it goes on', async () => {
  const leases = new Set(['lease-one', 'lease-two'])
  await using mcp = await openMcp({ checkLease: (lease) => leases.has(lease) })
  await using client = await mcp.client('lease-one')
  for (const method of ['POST', 'GET', 'DELETE']) {
    const other = await mcp.gateway.ask('/mcp', {
      method,
      headers: { ...headersOf(client), authorization: 'Bearer lease-two' },
      ...(method === 'POST' && { body: { jsonrpc: '2.0', id: 5, method: 'tools/list' } }),
    })
    assert.equal(other.status, 404, method)
    assert.doesNotMatch(await other.text(), /host_run/)
  }
  assert.ok((await client.listTools()).tools.length > 0)
  // Revoked: the next request is refused, and the stream that stood open ends.
  leases.delete('lease-one')
  mcp.changed()
  await assert.rejects(client.listTools(), { code: 401 })
  await client.failed
  leases.add('lease-one')
  assert.equal((await mcp.gateway.ask('/mcp', { headers: { ...headersOf(client), authorization: 'Bearer lease-one' } })).status, 404)
})

test('a client that ends its session gets 404 with it from then on, and begins anew', async () => {
  await using mcp = await openMcp()
  await using client = await mcp.client()
  const headers = headersOf(client)
  await client.http.terminateSession()
  const gone = await mcp.post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, headers)
  assert.equal(gone.status, 404)
  await gone.arrayBuffer()
  await using again = await mcp.client()
  assert.ok((await again.listTools()).tools.length > 0)
})

test('versions of the protocol that are known are spoken, and an unknown one is answered with the newest that is', async () => {
  await using mcp = await openMcp()
  for (const [asked, spoken] of [
    ['2025-11-25', '2025-11-25'],
    ['2025-06-18', '2025-06-18'],
    ['2025-03-26', '2025-03-26'],
    ['2024-11-05', '2024-11-05'],
    ['2099-01-01', '2025-11-25'],
  ]) {
    const response = await mcp.post({ ...INITIALIZE, params: { ...INITIALIZE.params, protocolVersion: asked } })
    assert.match(await response.text(), new RegExp(`"protocolVersion":"${spoken}"`))
    const headers = { 'mcp-session-id': response.headers.get('mcp-session-id') ?? '', 'mcp-protocol-version': 'nonsense' }
    assert.equal((await mcp.post({ jsonrpc: '2.0', id: 1, method: 'ping' }, headers)).status, 400)
  }
})
