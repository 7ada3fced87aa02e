/** The method table, which every way of asking is made from. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { paramsSchema, resultSchema } from '../../../src/sidecar/gateway/schemas.ts'
import { parseAgentParams } from '../../../src/wire/agent-params.ts'
import {
  AGENT_METHOD_NAMES,
  AGENT_METHODS,
  isAgentMethod,
  type AgentMethod,
  type AgentMethodEntry,
} from '../../../src/wire/agent-requests.ts'

const ENTRIES: readonly [AgentMethod, AgentMethodEntry][] = AGENT_METHOD_NAMES.map((name) => [name, AGENT_METHODS[name]])

test('the names and the table are the same, in the same order', () => {
  assert.deepEqual(Object.keys(AGENT_METHODS), [...AGENT_METHOD_NAMES])
  for (const [name, { title }] of ENTRIES) assert.equal(title, name)
  for (const name of ['constructor', '__proto__', 'toString', 'host_run', 'HOST.RUN', '']) assert.equal(isAgentMethod(name), false, name)
})

test('every method has both faces: a tool name that every client takes, and a verb and path that are no other’s', () => {
  for (const [name, { tool, description }] of ENTRIES) {
    assert.match(tool, /^[a-z][a-z0-9_]{0,29}$/)
    assert.equal(tool, name.replace('.', '_'))
    assert.ok(description.length > 40 && description.length < 700, `${name}: ${description.length}`)
  }
  assert.equal(new Set(ENTRIES.map(([, { tool }]) => tool)).size, ENTRIES.length)
  assert.equal(new Set(ENTRIES.map(([, { verb, path }]) => `${verb} ${path}`)).size, ENTRIES.length)
  for (const [name, { path, verb, status, params }] of ENTRIES) {
    assert.match(path, /^\/v1\/[a-z_/{}]+$/)
    for (const [, parameter = ''] of path.matchAll(/\{(\w+)\}/g)) assert.ok(parameter in params.shape, `${name}: ${parameter}`)
    // What is answered later is begun, and nothing is begun by a GET.
    assert.equal(status === 202 && verb !== 'POST', false, name)
  }
})

const WORDS = ['$ref', 'oneOf', 'anyOf', 'allOf', 'not', '$defs', 'propertyNames', '$schema']

for (const [name] of ENTRIES)
  test(`${name} takes and gives plain objects, every field of which is described or says what it is by its name`, () => {
    const [params, result] = [paramsSchema(name), resultSchema(name)]
    for (const schema of [params, result]) {
      assert.equal(schema.type, 'object')
      assert.equal(schema.additionalProperties, false)
      const text = JSON.stringify(schema)
      for (const word of WORDS) assert.equal(text.includes(`"${word}":`), false, `${word} in ${text}`)
    }
    for (const [field, schema] of Object.entries(params.properties))
      assert.ok(typeof schema['description'] === 'string' && schema['description'] !== '', `${name}: ${field}`)
    for (const field of params.required ?? []) assert.ok(field in params.properties)
  })

test('only what asks nobody and changes nothing is called read-only, and what runs something is called destructive', () => {
  const of = (hint: keyof AgentMethodEntry['annotations']): string[] =>
    ENTRIES.flatMap(([name, { annotations }]) => (annotations[hint] ? [name] : []))
  assert.deepEqual(of('readOnlyHint'), ['host.run_capability', 'request.await', 'request.output', 'policy.explain'])
  assert.deepEqual(of('destructiveHint'), ['secret.use_in', 'host.run', 'request.cancel'])
})

test('every method has bounds: none takes more than the channel carries, none may be called without end', () => {
  for (const [name, { bodyBytesMax, callsPerMinuteMax, burstCallsMax }] of ENTRIES) {
    assert.ok(bodyBytesMax > 0 && bodyBytesMax <= LIMITS.controlFrameBytesMax / 2, name)
    assert.ok(callsPerMinuteMax > 0 && callsPerMinuteMax <= LIMITS.agentCallsPerMinuteMax, name)
    assert.ok(burstCallsMax > 0 && burstCallsMax <= callsPerMinuteMax, name)
  }
})

test('what is left out has its default', () => {
  assert.deepEqual(parseAgentParams('request.await', { id: 'a'.repeat(32) }), { id: 'a'.repeat(32), wait: 25 })
  assert.deepEqual(parseAgentParams('secret.use_in', { argv: ['id'] }), { argv: ['id'], env: {}, reason: '', workspace: 'none' })
})

const ID = 'a'.repeat(32)
for (const { method, params, says } of [
  { method: 'host.run', params: { argv: ['id'], reson: '' }, says: /^unknown field "reson": did you mean "reason"\?$/ },
  { method: 'host.run', params: { argv: ['id'], force: true }, says: /^unknown field "force"$/ },
  { method: 'host.run', params: { argv: ['id'], command: 'id' }, says: /one of argv and command/ },
  { method: 'host.run', params: {}, says: /one of argv and command/ },
  { method: 'host.run', params: { argv: [] }, says: /^argv: / },
  { method: 'host.run', params: { argv: ['id', 7] }, says: /^argv\.1: .*expected string/ },
  { method: 'host.run', params: { argv: 'id' }, says: /^argv: .*expected array/ },
  { method: 'host.run', params: undefined, says: /a JSON object is missing/ },
  { method: 'host.run', params: null, says: /expected object/ },
  { method: 'host.run', params: [], says: /expected object/ },
  { method: 'host.run', params: 'id', says: /expected object/ },
  { method: 'host.run', params: JSON.parse('{"argv":["id"],"__proto__":{"reason":"x"}}'), says: /^unknown field "__proto__"$/ },
  { method: 'host.run', params: { argv: ['id'], constructor: 1 }, says: /^unknown field "constructor"/ },
  { method: 'secret.use_in', params: JSON.parse('{"argv":["id"],"env":{"__proto__":"x"}}'), says: /^unknown field "__proto__"$/ },
  { method: 'secret.use_in', params: { argv: ['id'], env: { 'A=B': 'x' } }, says: /^env: a name is not one of an environment variable$/ },
  { method: 'secret.use_in', params: { argv: ['id'], env: { A: 7 } }, says: /^env\.A: / },
  { method: 'secret.use_in', params: { argv: ['id'], workspace: 'rw' }, says: /^workspace: / },
  {
    method: 'secret.use_in',
    params: { argv: ['id'], env: Object.fromEntries(Array.from({ length: LIMITS.secretUseVariablesMax + 1 }, (_, n) => [`V${n}`, ''])) },
    says: /^env: more than 64 variables$/,
  },
  { method: 'secret.request', params: { name: 'A' }, says: /^scope: / },
  { method: 'secret.request', params: { scope: 'session' }, says: /^name is missing$/ },
  { method: 'secret.request', params: { name: 'A', scope: 'forever' }, says: /^scope: / },
  { method: 'request.await', params: { id: ID, wait: '3' }, says: /^wait: .*expected number/ },
  { method: 'request.await', params: { id: ID, wait: 1e9 }, says: /^wait: / },
  { method: 'request.await', params: { id: ID, wait: -1 }, says: /^wait: / },
  { method: 'request.await', params: { id: ID, wait: Number.POSITIVE_INFINITY }, says: /^wait: / },
  { method: 'request.await', params: { id: '../../x' }, says: /^id: / },
  { method: 'request.output', params: { id: ID, after: 0.5 }, says: /^after: / },
  { method: 'request.output', params: { id: ID, after: 2 ** 60 }, says: /^after: / },
  { method: 'policy.explain', params: { url: 'https://a.test/', secret: 'A' }, says: /one of url, command and secret/ },
  { method: 'propose.skill', params: { name: 'x'.repeat(65), content: '' }, says: /^name: / },
] satisfies { method: AgentMethod; params: unknown; says: RegExp }[])
  test(`${method} of ${JSON.stringify(params)?.slice(0, 80)} is refused by name`, () => {
    assert.throws(
      () => parseAgentParams(method, params),
      (error) =>
        error instanceof SallyportError && error.code === 'request_invalid' && says.test(error.message) && error.hint !== undefined,
    )
  })

test('a field with a long name or one that no terminal should see is named in short and in visible characters', () => {
  for (const name of ['x'.repeat(10_000), '\u001b[2J\u202eevil'])
    assert.throws(
      () => parseAgentParams('host.run', { argv: ['id'], [name]: 1 }),
      ({ message }: Error) => message.length < 300 && /^[ -~]+$/.test(message),
    )
})
