/** Whatever is sent for a method, the gateway has an answer that is no fault of its own. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { SallyportError } from '../../src/kernel/errors.ts'
import { parseAgentParams } from '../../src/wire/agent-params.ts'
import { AGENT_METHOD_NAMES, AGENT_METHODS, type AgentMethodEntry } from '../../src/wire/agent-requests.ts'
import { standingClock } from '../support/approvals.ts'
import { openTestGateway, REQUEST_ID as ID } from '../support/gateway.ts'

const Method = fc.constantFrom(...AGENT_METHOD_NAMES)
/** Names of fields that some method has, names that are traps, and any others. */
const Name = fc.oneof(
  fc.constantFrom(...new Set(AGENT_METHOD_NAMES.flatMap((method) => Object.keys(AGENT_METHODS[method].params.shape)))),
  fc.constantFrom('__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', ''),
  fc.string({ unit: 'binary', maxLength: 20 }),
)
const Value = fc.oneof(
  fc.jsonValue({ maxDepth: 4 }),
  fc.string({ unit: 'binary' }),
  fc.constantFrom(ID, 'session', 'none', 'ro', 0, -0, 1e308, -1, 2 ** 53, 45, '\ud800', '\0'),
  fc.array(fc.string({ unit: 'binary' }), { maxLength: 4 }),
)
/** JSON text, so that `__proto__` is a field like any other. */
const Body = fc.oneof(
  fc
    .array(fc.tuple(Name, Value), { maxLength: 6 })
    .map((fields) => `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`),
  fc.json(),
  fc.string({ unit: 'binary' }),
)

type Gateway = Awaited<ReturnType<typeof openTestGateway>>
let gateway: Gateway
const clock = standingClock()
const reached: unknown[] = []
before(async () => {
  gateway = await openTestGateway({
    system: clock,
    callController: ({ method, params }) => {
      reached.push([method, params])
      return Promise.resolve(method === 'request.output' ? { pieces: [], next: 0, lost: false, isEnded: true } : { id: ID, status: 'done' })
    },
  })
})
after(() => gateway[Symbol.asyncDispose]())

test('I57 whatever the body or the query, the answer is a success or a problem with 4xx, and only what the table takes reaches the controller', async () => {
  await fc.assert(
    fc.asyncProperty(
      Method,
      Body,
      fc.array(fc.tuple(Name, fc.string({ unit: 'binary' })), { maxLength: 4 }),
      async (method, body, query) => {
        clock.pass(60_000)
        reached.length = 0
        const { verb, path, status }: AgentMethodEntry = AGENT_METHODS[method]
        const search = new URLSearchParams(query.map(([name, value]): [string, string] => [name.toWellFormed(), value.toWellFormed()]))
        const response =
          verb === 'POST'
            ? await gateway.ask(path, { method: verb, body })
            : await gateway.ask(`${path.replace('{id}', ID)}?${search.toString()}`, { method: verb })
        const text = await response.text()
        if (response.status !== status) {
          assert.ok(response.status >= 400 && response.status < 500, `${response.status} ${text}`)
          assert.equal((JSON.parse(text) as { status: number }).status, response.status)
          assert.deepEqual(reached, [])
        } else for (const [name, params] of reached as [typeof method, unknown][]) assert.deepEqual(parseAgentParams(name, params), params)
      },
    ),
    { numRuns: 400 },
  )
})

test('of any value parseAgentParams gives what the schema has, or throws request_invalid', () => {
  fc.assert(
    fc.property(Method, Body, (method, body) => {
      let value: unknown
      try {
        value = JSON.parse(body)
      } catch {
        value = body
      }
      try {
        const parsed = parseAgentParams(method, value)
        for (const key of Object.keys(parsed)) assert.ok(key in AGENT_METHODS[method].params.shape, key)
      } catch (error) {
        assert.ok(error instanceof SallyportError && error.code === 'request_invalid', String(error))
      }
      assert.equal(({} as Record<string, unknown>)['polluted'], undefined)
    }),
    { numRuns: 2_000 },
  )
})
