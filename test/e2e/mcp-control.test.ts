/** The gate as a session has it: a process of its own, whose controller is at the other end of the control channel. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import type { AgentCall } from '../../src/wire/control.ts'
import { AGENT_LEASE, createTestSession, openTestController, startSidecar } from '../support/control.ts'
import { eventually } from '../support/eventually.ts'
import { INITIALIZE, MCP_ACCEPTS, viewOf } from '../support/mcp.ts'
import { enterOwnNetwork } from '../support/own-network.ts'

// The sidecar's ports are fixed.
await enterOwnNetwork(import.meta.filename)

const GATEWAY = new URL('http://127.0.0.1:7070/mcp')

test('I58 a call reaches the controller with its lease, a policy that it pushes changes the tools, and a lease that it revokes ends the session', async () => {
  const calls: AgentCall[] = []
  const onAgent = (call: AgentCall): Promise<unknown> => {
    calls.push(call)
    return Promise.resolve({ id: 'a'.repeat(32), method: call.method, status: 'done', exit_code: 0, stdout: 'from the host' })
  }
  await using session = await createTestSession({}, { onAgent })
  await using controller = await openTestController(session)
  await using sidecar = await startSidecar({ transport: 'unix', session, policy: 'version: 1\n' })
  await controller.link.ready(AbortSignal.timeout(30_000))
  const client = new Client({ name: 'test', version: '1' })
  const http = new StreamableHTTPClientTransport(GATEWAY, { requestInit: { headers: { authorization: `Bearer ${AGENT_LEASE}` } } })
  await client.connect(http)
  const result = await client.callTool({ name: 'host_run', arguments: { argv: ['id'] } })
  assert.equal(viewOf(result).stdout, 'from the host')
  assert.deepEqual(calls, [{ lease: AGENT_LEASE, method: 'host.run', params: { argv: ['id'], reason: '' } }])

  const standing = (): Promise<Response> =>
    fetch(GATEWAY, {
      headers: { authorization: `Bearer ${AGENT_LEASE}`, accept: 'text/event-stream', 'mcp-session-id': http.sessionId ?? '' },
    })
  await eventually(async () => assert.equal((await standing()).status, 409))
  const { promise: told, resolve } = Promise.withResolvers<void>()
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve())
  await writeFile(sidecar.policy, 'version: 1\nhost_commands: {mode: disabled}\n')
  await controller.link.pushPolicy()
  await told
  assert.equal(
    (await client.listTools()).tools.some(({ name }) => name === 'host_run'),
    false,
  )

  // A stream that its client breaks off leaves no word on stdout, where a gate may have its controller.
  const headers = { authorization: `Bearer ${AGENT_LEASE}`, accept: MCP_ACCEPTS, 'content-type': 'application/json' }
  const other = await fetch(GATEWAY, { method: 'POST', headers, body: JSON.stringify(INITIALIZE) })
  await other.arrayBuffer()
  const cut = new AbortController()
  await fetch(GATEWAY, { headers: { ...headers, 'mcp-session-id': other.headers.get('mcp-session-id') ?? '' }, signal: cut.signal })
  cut.abort()

  const ended = new Promise<void>((done) => void Object.assign(client, { onerror: () => done() }))
  session.isRevoked = true
  await controller.link.revoke()
  await ended
  await assert.rejects(client.listTools(), { code: 401 })
  assert.equal(calls.length, 1)
  assert.equal(`${sidecar.stderr()}${sidecar.stdout().toString()}`.includes(AGENT_LEASE), false)
  assert.match(sidecar.stdout().toString(), /^\{"event":"ready".*\}\n$/)
  await client.close()
})
