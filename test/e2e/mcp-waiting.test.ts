/** Calls that wait: what a client hears meanwhile, what ends them, and what goes on without them. */
import assert from 'node:assert/strict'
import { request as requestOf } from 'node:http'
import { test } from 'node:test'
import { CallToolResultSchema, CreateTaskResultSchema, RELATED_TASK_META_KEY, type Progress } from '@modelcontextprotocol/sdk/types.js'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system as realSystem } from '../../src/kernel/system.ts'
import type { CallController } from '../../src/sidecar/gateway/gateway.ts'
import type { OutputPiece, RequestView } from '../../src/wire/agent-requests.ts'
import { standingClock } from '../support/approvals.ts'
import { eventually } from '../support/eventually.ts'
import { GATEWAY_LEASE, REQUEST_ID as ID } from '../support/gateway.ts'
import { MCP_ACCEPTS, openMcp, openMcpOfRequests, textOf, viewOf } from '../support/mcp.ts'
import { running } from '../support/running-commands.ts'

const PENDING: RequestView = { id: ID, method: 'host.run', status: 'pending' }
const RUN = { name: 'host_run', arguments: { argv: ['true'] } }

/** A controller whose request goes through these steps, one at each look; a wait takes its whole time at once. */
function stepping(steps: readonly (RequestView & { readonly prints?: readonly OutputPiece[] })[]) {
  const clock = standingClock()
  const waited: number[] = []
  const calls: string[] = []
  let at = 0
  const callController: CallController = ({ method, params }) => {
    calls.push(method)
    const { prints = [], ...view }: RequestView & { readonly prints?: readonly OutputPiece[] } =
      steps[Math.min(at, steps.length - 1)] ?? PENDING
    if (method === 'host.run') return Promise.resolve(PENDING)
    const { wait } = params as { wait: number }
    waited.push(wait)
    clock.pass(wait * 1_000)
    if (method === 'request.output') return Promise.resolve({ pieces: prints, next: prints.length, lost: false, isEnded: false })
    at += 1
    return Promise.resolve(view)
  }
  return { callController, system: { ...realSystem, elapsed: () => clock.elapsed() }, waited, calls }
}

test('a call that nobody answers is over before any client gives up, says so, and names the request and what to do', async () => {
  const { waited, ...parts } = stepping([{ ...PENDING, note: 'nobody watches now' }])
  await using mcp = await openMcp(parts)
  await using client = await mcp.client()
  const result = await client.callTool(RUN)
  assert.deepEqual(viewOf(result), { ...PENDING, note: 'nobody watches now', next: `call request_await with the id ${ID}` })
  assert.deepEqual([result.isError, textOf(result)], [undefined, viewOf(result)])
  assert.deepEqual(waited, [25])
  const again = await client.callTool({ name: 'request_await', arguments: { id: ID, wait: 45 } })
  assert.deepEqual([viewOf(again).status, waited.at(-1)], ['pending', 45])
  const tooLong = await client.callTool({ name: 'request_await', arguments: { id: ID, wait: 46 } })
  assert.equal(tooLong.isError, true)
})

test('a client that asked for progress hears every 10 s what it waits for, and what is printed as it comes', async () => {
  const steps = [
    { ...PENDING, note: 'nobody watches now' },
    { ...PENDING, status: 'running' as const, prints: [] },
    { ...PENDING, status: 'done' as const, exit_code: 0, stdout: 'built\n' },
  ]
  const { waited, ...parts } = stepping(steps)
  await using mcp = await openMcp(parts)
  await using client = await mcp.client()
  const heard: Progress[] = []
  const result = await client.callTool(RUN, undefined, { onprogress: (progress) => void heard.push(progress) })
  assert.deepEqual(
    heard.map(({ progress, message }) => [progress, message]),
    [
      [1, 'waits for the answer of a person'],
      [2, 'nobody watches now'],
      [3, 'runs'],
    ],
  )
  assert.deepEqual([viewOf(result).status, viewOf(result).next], ['done', undefined])
  assert.deepEqual(waited, [10, 0, 10, 0, 5, 0])
})

test('request_await with progress tells what is printed, and its wait is no longer than it was asked for', async () => {
  const { waited, ...parts } = stepping([
    { ...PENDING, status: 'running', prints: [{ stream: 'stdout', text: `${'x'.repeat(LIMITS.mcpProgressCharsMax)}end\n` }] },
  ])
  await using mcp = await openMcp(parts)
  await using client = await mcp.client()
  const heard: string[] = []
  const onprogress = ({ message = '' }: Progress): void => void heard.push(message)
  const result = await client.callTool({ name: 'request_await', arguments: { id: ID, wait: 3 } }, undefined, { onprogress })
  assert.deepEqual([viewOf(result).status, waited], ['running', [0, 3, 0]])
  assert.equal(heard[0], 'runs')
  assert.match(heard[1] ?? '', /^…x+end\n$/)
  assert.equal(heard[1]?.length, LIMITS.mcpProgressCharsMax + 1)
})

test('what fails while a call waits is told with the request that goes on', async () => {
  const callController: CallController = ({ method }) =>
    method === 'host.run' ? Promise.resolve(PENDING) : Promise.reject(new SallyportError('controller_unavailable', 'it is gone'))
  await using mcp = await openMcp({ callController })
  await using client = await mcp.client()
  const result = await client.callTool(RUN)
  assert.deepEqual([result.isError, viewOf(result).id, viewOf(result).error?.code], [true, ID, 'controller_unavailable'])
})

test('long output is cut to its end, and where the rest is stands in its place', async () => {
  const stdout = `${'a'.repeat(LIMITS.mcpOutputCharsMax)}\nthe end`
  await using mcp = await openMcp({
    callController: () => Promise.resolve({ ...PENDING, status: 'done', exit_code: 0, stdout, stderr: 'short' }),
  })
  await using client = await mcp.client()
  const view = viewOf(await client.callTool(RUN))
  assert.deepEqual([view.truncated, view.stderr], [true, 'short'])
  assert.match(
    view.stdout ?? '',
    /^\[8 characters before this are left out: GET \$SALLYPORT_URL\/v1\/requests\/\w+ has them\]\na+\nthe end$/,
  )
})

test('I59 a call that the client cancels is withdrawn: nobody is asked any more, and nothing runs', async () => {
  await using mcp = await openMcpOfRequests()
  await using client = await mcp.client()
  const stop = new AbortController()
  const called = client.callTool({ name: 'host_run', arguments: { argv: ['touch', 'harm'] } }, undefined, { signal: stop.signal })
  const question = await mcp.setting.asked()
  stop.abort('not any more')
  await assert.rejects(called)
  await eventually(() => assert.equal(mcp.setting.desk.approvals.get(question.id).state, 'cancelled'))
  assert.ok((await client.listTools()).tools.length > 0, 'its session goes on')
})

test('a command that runs is dead when its call is cancelled', async () => {
  await using mcp = await openMcpOfRequests()
  await using client = await mcp.client()
  const mark = `mcp-cancelled-${process.pid}`
  const file = await mcp.setting.write(`elsewhere/${mark}`, '#!/bin/sh\nwhile :; do sleep 1; done\n')
  const stop = new AbortController()
  const called = client.callTool({ name: 'host_run', arguments: { argv: [file] } }, undefined, { signal: stop.signal })
  await mcp.setting.yes(await mcp.setting.asked())
  await eventually(() => assert.ok(running(mark).length > 0))
  stop.abort()
  await assert.rejects(called)
  await eventually(() => assert.deepEqual(running(mark), []))
})

test('I59 a request_await that is cancelled only stops to wait, and a session that ends withdraws nothing', async () => {
  await using mcp = await openMcpOfRequests()
  await using client = await mcp.client()
  const { id } = (await mcp.setting.call('host.run', { argv: ['echo', 'still'] })) as RequestView
  const question = await mcp.setting.asked()
  const stop = new AbortController()
  const waits = client.callTool({ name: 'request_await', arguments: { id } }, undefined, { signal: stop.signal })
  await client.ping()
  stop.abort()
  await assert.rejects(waits)
  const called = client.callTool({ name: 'host_run', arguments: { argv: ['echo', 'other'] } })
  called.catch(() => undefined)
  await eventually(() => assert.equal(mcp.setting.desk.approvals.list({ state: 'pending' }).length, 2))
  await client.http.terminateSession()
  await using again = await mcp.client()
  assert.equal(mcp.setting.desk.approvals.get(question.id).state, 'pending')
  assert.equal(mcp.setting.desk.approvals.list({ state: 'pending' }).length, 2)
  const other = again.callTool({ name: 'request_await', arguments: { id } })
  await mcp.setting.yes(question)
  assert.equal(viewOf(await other).stdout, 'still\n')
})

test('I59 a client whose connection breaks off cancels nothing: only the waiting for it ends, and the request is awaited by its id', async () => {
  const looked = Promise.withResolvers<void>()
  const silence = Promise.withResolvers<unknown>()
  const calls: string[] = []
  const callController: CallController = ({ method }) => {
    calls.push(method)
    if (method === 'host.run') return Promise.resolve(PENDING)
    if (method === 'request.await') return Promise.resolve({ ...PENDING, status: 'done', exit_code: 0 })
    looked.resolve()
    return silence.promise
  }
  await using mcp = await openMcp({ callController })
  await using client = await mcp.client()
  const headers = {
    authorization: `Bearer ${GATEWAY_LEASE}`,
    'content-type': 'application/json',
    accept: MCP_ACCEPTS,
    'mcp-session-id': client.http.sessionId ?? '',
  }
  const raw = requestOf(mcp.url, { method: 'POST', headers })
  raw.on('error', () => undefined).on('response', (response) => response.on('error', () => undefined).resume())
  const params = { ...RUN, _meta: { progressToken: 'p' } }
  raw.end(JSON.stringify({ jsonrpc: '2.0', id: 77, method: 'tools/call', params }))
  await looked.promise
  raw.destroy()
  await client.ping()
  silence.resolve({ pieces: [], next: 0, lost: false, isEnded: false })
  await client.ping()
  assert.deepEqual(calls, ['host.run', 'request.output'])
  const again = await client.callTool({ name: 'request_await', arguments: { id: ID } })
  assert.deepEqual([viewOf(again).status, calls.at(-1), calls.length], ['done', 'request.await', 3])
})

test('a call as a task is a request: its state is the controller’s, and its result what the call would have had', async () => {
  await using mcp = await openMcpOfRequests()
  await using client = await mcp.client()
  const { tasks } = client.experimental
  const created = await client.request(
    { method: 'tools/call', params: { name: 'host_run', arguments: { argv: ['echo', 'task'] }, task: { ttl: 60_000 } } },
    CreateTaskResultSchema,
  )
  const { taskId, status, pollInterval, ttl } = created.task
  assert.deepEqual([status, pollInterval, ttl], ['working', LIMITS.mcpTaskPollMs, LIMITS.requestKeptMs])
  assert.equal(((await mcp.setting.call('request.await', { id: taskId, wait: 0 })) as RequestView).status, 'pending')
  assert.deepEqual(
    [(await tasks.getTask(taskId)).status, (await tasks.listTasks()).tasks.map((task) => task.taskId)],
    ['working', [taskId]],
  )
  const result = client.request({ method: 'tasks/result', params: { taskId } }, CallToolResultSchema)
  await mcp.setting.yes(await mcp.setting.asked())
  const { structuredContent, _meta: meta } = await result
  assert.deepEqual([(structuredContent as RequestView).stdout, meta?.[RELATED_TASK_META_KEY]], ['task\n', { taskId }])
  assert.equal((await tasks.getTask(taskId)).status, 'completed')
  await assert.rejects(tasks.cancelTask(taskId), { code: -32_602, message: /terminal/ })
})

test('a task that is cancelled is withdrawn; one that is denied has failed; one of nobody is not found', async () => {
  await using mcp = await openMcpOfRequests({ host_commands: { mode: 'always-prompt', deny: ['rm **'] } })
  await using client = await mcp.client()
  const begin = async (argv: readonly string[], name = 'host_run'): Promise<string> => {
    const params = { name, arguments: { argv }, task: {} }
    return (await client.request({ method: 'tools/call', params }, CreateTaskResultSchema)).task.taskId
  }
  const { tasks } = client.experimental
  const first = await begin(['touch', 'harm'])
  const question = await mcp.setting.asked()
  assert.equal((await tasks.cancelTask(first)).status, 'cancelled')
  assert.equal(mcp.setting.desk.approvals.get(question.id).state, 'cancelled')
  const denied = await begin(['rm', '-rf', 'x'])
  const result = await client.request({ method: 'tasks/result', params: { taskId: denied } }, CallToolResultSchema)
  assert.deepEqual([result.isError, (await tasks.getTask(denied)).status], [true, 'failed'])
  for (const id of ['', 'x'.repeat(32), '__proto__']) await assert.rejects(tasks.getTask(id), { code: -32_602 })
  // A request that did not begin as a task is none.
  const { id } = (await mcp.setting.call('host.run', { argv: ['true'] })) as RequestView
  await assert.rejects(tasks.getTask(id), { code: -32_602 })
  await assert.rejects(begin(['true'], 'host_run_capability'), { code: -32_601 })
})

test('a fault of ours tells who asks for a task nothing of itself, and a refusal its code', async () => {
  let fault: Error = new Error('/home/operator/private broke')
  await using mcp = await openMcp({
    callController: ({ method }) => (method === 'host.run' ? Promise.resolve(PENDING) : Promise.reject(fault)),
  })
  await using client = await mcp.client()
  await client.request({ method: 'tools/call', params: { ...RUN, task: {} } }, CreateTaskResultSchema)
  const { tasks } = client.experimental
  for (const ask of [() => tasks.getTask(ID), () => tasks.listTasks(), () => tasks.cancelTask(ID)])
    await assert.rejects(ask(), (error: Error) => !error.message.includes('private'))
  fault = new SallyportError('controller_unavailable', 'it is gone')
  await assert.rejects(tasks.getTask(ID), { code: -32_603, data: { code: 'controller_unavailable' } })
  fault = new SallyportError('request_not_found', 'it is forgotten')
  assert.deepEqual((await tasks.listTasks()).tasks, [])
  await assert.rejects(tasks.getTask(ID), { code: -32_602 })
})
