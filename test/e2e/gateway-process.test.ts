/** The gateway of a gate's own process, with a controller behind it that asks, runs and refuses: by its own document. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { AGENT_METHOD_NAMES, AGENT_METHODS, type AgentMethod, type RequestView } from '../../src/wire/agent-requests.ts'
import { AGENT_LEASE, createTestSession, openTestController, SIDECAR_LEASE, startSidecar } from '../support/control.ts'
import { open } from '../support/host-commands.ts'
import { enterOwnNetwork } from '../support/own-network.ts'
import { LEASE, requestsSetting } from '../support/requests.ts'

// The gateway's port is fixed.
await enterOwnNetwork(import.meta.filename)

const ORIGIN = 'http://127.0.0.1:7070'
const HOST_COMMANDS = { mode: 'allowlist', allow: [open('touch'), 'printf <name>'] }
type Setting = Awaited<ReturnType<typeof openSetting>>
type Operation = {
  readonly operationId: string
  readonly security?: readonly unknown[]
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly required: boolean }[]
  readonly requestBody?: object
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>
}
type Document = { readonly openapi: string; readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>> }

async function openSetting() {
  await using parts = new AsyncDisposableStack()
  const story = async (): Promise<{ status: 'done'; handle: string }> => ({ status: 'done', handle: `sph_${'a'.repeat(32)}` })
  const requests = parts.use(await requestsSetting({ host_commands: HOST_COMMANDS }, { secretRequest: story, secretUse: story }))
  const calls: string[] = []
  const session = parts.use(
    await createTestSession(
      {},
      {
        onAgent: ({ lease, ...call }, signal) => {
          assert.equal(lease, AGENT_LEASE)
          calls.push(call.method)
          return requests.requests.call('s-1', { ...call, lease: LEASE }, signal)
        },
      },
    ),
  )
  const controller = parts.use(await openTestController(session))
  const text = (more: object = {}): string => JSON.stringify({ version: 1, host_commands: HOST_COMMANDS, ...more })
  const sidecar = parts.use(await startSidecar({ transport: 'unix', session, policy: text() }))
  await controller.link.ready(AbortSignal.timeout(30_000))
  const running = parts.move()
  return {
    requests,
    session,
    calls,
    link: controller.link,
    /** As a reload has it: in force at the gate when this resolves. `isGateAlone`: the controller has another. */
    async setPolicy(more: object, isGateAlone = false): Promise<void> {
      await writeFile(sidecar.policy, text(more))
      await controller.link.pushPolicy()
      if (!isGateAlone) requests.state.policy = { host_commands: HOST_COMMANDS, ...more }
    },
    ask: (path: string, { body, lease = AGENT_LEASE, ...init }: { method?: string; body?: unknown; lease?: string } = {}) =>
      fetch(`${ORIGIN}${path}`, {
        ...init,
        headers: {
          ...(lease !== '' && { authorization: `Bearer ${lease}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
    async document(): Promise<Document> {
      return (await (await this.ask('/openapi.json')).json()) as Document
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

let setting: Setting
before(async () => {
  setting = await openSetting()
})
after(() => setting[Symbol.asyncDispose]())

const operationsOf = ({ paths }: Document) =>
  Object.entries(paths).flatMap(([path, verbs]) =>
    Object.entries(verbs).map(([verb, operation]) => ({ path, verb: verb.toUpperCase(), operation })),
  )

/** A wish of each method that is asked for and takes no person. */
const wishes = (id: string): { readonly [M in AgentMethod]: Readonly<Record<string, unknown>> } => ({
  'secret.request': { name: 'DB', scope: 'single-command', reason: 'to look' },
  'secret.use_in': { argv: ['true'], env: { PGPASSWORD: `\${sph_${'a'.repeat(32)}}` } },
  'host.run': { argv: ['touch', 'made'], reason: 'to see' },
  'host.run_capability': { command: 'touch made' },
  'request.await': { id, wait: 20 },
  'request.output': { id },
  'request.cancel': { id },
  'policy.explain': { url: 'https://api.example.com/', method: 'GET' },
  'propose.policy': { content: 'version: 1\n' },
  'propose.tool': { name: 'fmt', content: '#!/bin/sh\n' },
  'propose.skill': { name: 'fmt', content: '# fmt\n' },
  'propose.config_change': { name: 'global.yaml', content: 'version: 1\n' },
})

test('the document is OpenAPI 3.1, has all that is there, and says for each what it wants', async () => {
  const document = await setting.document()
  const result = await new Validator().validate(JSON.parse(JSON.stringify(document)) as Record<string, unknown>)
  assert.deepEqual([result.valid, result.errors], [true, undefined])
  assert.equal(document.openapi, '3.1.0')
  const operations = operationsOf(document)
  const names = operations.map(({ operation }) => operation.operationId)
  assert.equal(new Set(names).size, names.length)
  for (const method of AGENT_METHOD_NAMES) assert.ok(names.includes(AGENT_METHODS[method].tool), method)
  const withoutLease = operations.filter(({ operation }) => operation.security?.length === 0).map(({ path }) => path)
  assert.deepEqual(withoutLease, ['/healthz', '/ca.crt'])
})

test('every operation answers as the document says when it is called as the document says, and what it answers is what the table has', async () => {
  const { id } = (await (await setting.ask('/v1/host/run', { method: 'POST', body: { argv: ['touch', 'first'] } })).json()) as RequestView
  const byTool = new Map(AGENT_METHOD_NAMES.map((method) => [AGENT_METHODS[method].tool as string, method]))
  for (const { path, verb, operation } of operationsOf(await setting.document())) {
    const method = byTool.get(operation.operationId)
    const wish: Readonly<Record<string, unknown>> = method === undefined ? { name: 'none' } : wishes(id)[method]
    const parameters = operation.parameters ?? []
    const at = path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => String(wish[name]))
    const query = parameters
      .filter((one) => one.in === 'query' && one.name in wish)
      .map(({ name }): [string, string] => [name, String(wish[name])])
    const response = await setting.ask(query.length === 0 ? at : `${at}?${new URLSearchParams(query).toString()}`, {
      method: verb,
      ...(operation.requestBody && { body: wish }),
      ...(operation.security?.length === 0 && { lease: '' }),
    })
    const body = await response.text()
    const said = operation.responses[response.status]
    assert.ok(said !== undefined, `${verb} ${path} answers ${response.status}: ${body}`)
    if (method === undefined) continue
    const { status, result, isStream }: { status: number; result: { parse(value: unknown): unknown }; isStream?: true } =
      AGENT_METHODS[method]
    assert.equal(response.status, status, `${verb} ${path}: ${body}`)
    assert.ok(Object.keys(said.content ?? {}).includes((response.headers.get('content-type') ?? '').replace(/;.*$/, '')), path)
    if (isStream === undefined) result.parse(JSON.parse(body))
    else assert.match(body, /event: end\ndata: \{.*"status":"done"/)
  }
  assert.equal(existsSync(join(setting.requests.workspace, 'first')), true)
})

test('what a command prints comes through the stream of a gate and a controller, whole and in order', async () => {
  const view = (await (
    await setting.ask('/v1/host/run', { method: 'POST', body: { argv: ['printf', 'hello-there'] } })
  ).json()) as RequestView
  const text = await (await setting.ask(`/v1/requests/${view.id}/output`)).text()
  assert.match(text, /event: output\ndata: \{"stream":"stdout","text":"hello-there"\}/)
  assert.match(text, /event: end\ndata: .*"status":"done"/)
})

for (const { what, path, init, status, code } of [
  { what: 'a URL that is none', path: '/v1/policy/explain?url=nonsense', status: 400, code: 'request_invalid' },
  {
    what: 'a long URL of odd characters',
    path: `/v1/policy/explain?url=${encodeURIComponent('\u202e\u0001é'.repeat(1_000))}`,
    status: 400,
    code: 'request_invalid',
  },
  {
    what: 'a method that is none',
    path: '/v1/policy/explain?url=https%3A%2F%2Fa.test%2F&method=G%20T',
    status: 400,
    code: 'request_invalid',
  },
  {
    what: 'a command with NUL in it',
    path: '/v1/host/run_capability',
    init: { method: 'POST', body: { argv: ['id', 'a\0b'] } },
    status: 400,
    code: 'command_invalid',
  },
  {
    what: 'a folder that is none',
    path: '/v1/host/run_capability',
    init: { method: 'POST', body: { argv: ['touch', 'x'], cwd: '/workspace/none' } },
    status: 400,
    code: 'command_invalid',
  },
  { what: 'a request that is none', path: `/v1/requests/${'0'.repeat(32)}?wait=0`, status: 404, code: 'request_not_found' },
  { what: 'a stream of none', path: `/v1/requests/${'0'.repeat(32)}/output`, status: 404, code: 'request_not_found' },
] satisfies { what: string; path: string; init?: object; status: number; code: string }[])
  test(`${what} is ${status} ${code} by the controller, and no fault of ours`, async () => {
    const response = await setting.ask(path, init)
    const problem = (await response.json()) as { code: string; detail: string }
    assert.deepEqual([response.status, problem.code], [status, code], problem.detail)
  })

test('I53 the gate’s own lease, another session’s, a part of the agent’s and none open nothing, the document neither', async () => {
  const callsBefore = setting.calls.length
  for (const lease of [SIDECAR_LEASE, 'lease-of-another-session', `${AGENT_LEASE}0`, AGENT_LEASE.slice(0, -1), ''])
    for (const path of ['/openapi.json', '/v1/policy/explain?secret=DB', '/v1/placeholders', '/v1/nothing']) {
      const response = await setting.ask(path, { lease })
      assert.equal(response.status, 401, path)
      await response.arrayBuffer()
    }
  assert.equal(setting.calls.length, callsBefore)
})

test('I18 a method that the policy takes away is gone when the push of it resolves, and there again with the next', async () => {
  const run = () => setting.ask('/v1/host/run', { method: 'POST', body: { argv: ['touch', 'harm'] } })
  await setting.setPolicy({ gateway: { disabled: ['host.run', 'propose.skill'] } })
  const callsBefore = setting.calls.length
  const refused = await run()
  assert.deepEqual([refused.status, ((await refused.json()) as { code: string }).code], [404, 'not_found'])
  assert.equal(setting.calls.length, callsBefore)
  const { paths } = await setting.document()
  assert.deepEqual(
    [paths['/v1/host/run'], paths['/v1/propose/skill'], paths['/v1/host/run_capability'] === undefined],
    [undefined, undefined, false],
  )
  // A gate that has missed it: the controller knows.
  await setting.setPolicy({}, true)
  const unheard = await run()
  assert.deepEqual([unheard.status, setting.calls.length], [404, callsBefore + 1])
  await unheard.arrayBuffer()
  assert.equal(existsSync(join(setting.requests.workspace, 'harm')), false)
  await setting.setPolicy({})
  const back = await run()
  assert.equal(back.status, 202)
  await back.arrayBuffer()
})

test('I34 once the lease is revoked nothing is there any more, not even for who has it', async () => {
  await setting.link.revoke()
  for (const path of ['/openapi.json', '/v1/placeholders', '/v1/policy/explain?secret=DB']) {
    const response = await setting.ask(path)
    assert.equal(response.status, 401, path)
    await response.arrayBuffer()
  }
})
