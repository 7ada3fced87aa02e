/** What every way of asking at the gateway goes through. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createMethods, type CallController } from '../../../src/sidecar/gateway/methods.ts'
import { AGENT_METHOD_NAMES, AGENT_METHODS } from '../../../src/wire/agent-requests.ts'
import { standingClock } from '../../support/approvals.ts'
import { gatewayPolicy, REQUEST_ID as ID } from '../../support/gateway.ts'

function setting(callController: CallController = () => Promise.resolve({ id: ID })) {
  const [clock, state, seen] = [standingClock(), { policy: gatewayPolicy() }, [] as unknown[]]
  const methods = createMethods({
    policy: () => state.policy,
    callController: (call) => {
      seen.push(call)
      return callController(call)
    },
    system: clock,
  })
  const call = (method: string, params: unknown = {}, signal?: AbortSignal) => methods.call(method, params, 'lease', signal)
  return { clock, state, seen, methods, call }
}

test('all methods are enabled without a word of the policy, in the order of the table', () =>
  assert.deepEqual(setting().methods.enabled(), AGENT_METHOD_NAMES))

test('the list is the same one until the policy is another, and then by that at once', () => {
  const { state, methods } = setting()
  const before = methods.enabled()
  assert.equal(methods.enabled(), before)
  state.policy = gatewayPolicy({ gateway: { disabled: ['request.cancel'] } })
  assert.deepEqual(
    methods.enabled(),
    AGENT_METHOD_NAMES.filter((method) => method !== 'request.cancel'),
  )
  state.policy = gatewayPolicy()
  assert.deepEqual(methods.enabled(), AGENT_METHOD_NAMES)
})

test('a method that is switched off is refused like one that never was, and nothing reaches the controller', async () => {
  const { state, call, seen } = setting()
  state.policy = gatewayPolicy({ gateway: { disabled: ['propose.policy'] }, host_commands: { mode: 'disabled' } })
  for (const method of ['propose.policy', 'host.run', 'host.run_capability', 'host.rum', 'constructor', '__proto__', '']) {
    const refused = await call(method, { argv: ['id'] }).catch((error: unknown) => error)
    assert.ok(refused instanceof SallyportError)
    assert.deepEqual([refused.code, refused.message], ['not_found', `there is no method "${method}"`])
  }
  assert.deepEqual(seen, [])
})

test('I57 what the controller is sent is what was checked: with defaults, and nothing else', async () => {
  const { call, seen } = setting()
  await call('host.run', { argv: ['id'] })
  await assert.rejects(call('host.run', { argv: ['id'], shell: true }), { code: 'request_invalid' })
  assert.deepEqual(seen, [{ lease: 'lease', method: 'host.run', params: { argv: ['id'], reason: '' } }])
})

for (const method of ['host.run_capability', 'propose.policy', 'request.cancel'] as const)
  test(`${method} has its own number of calls at once, then says when the next may come, and takes that`, async () => {
    const { call, clock, seen } = setting()
    const { burstCallsMax } = AGENT_METHODS[method]
    const params = { 'host.run_capability': { command: 'id' }, 'propose.policy': { content: '' }, 'request.cancel': { id: ID } }[method]
    for (let n = 0; n < burstCallsMax; n += 1) await call(method, params)
    const refused = await call(method, params).catch((error: unknown) => error)
    assert.ok(refused instanceof SallyportError && refused.code === 'rate_limited' && refused.retryAfterMs !== undefined)
    assert.equal(seen.length, burstCallsMax)
    // The others go on.
    await call('request.await', { id: ID })
    clock.pass(refused.retryAfterMs)
    await call(method, params)
    await assert.rejects(call(method, params), { code: 'rate_limited' })
  })

test('calls that are refused for what is in them count too', async () => {
  const { call } = setting()
  for (let n = 0; n < AGENT_METHODS['host.run'].burstCallsMax; n += 1)
    await assert.rejects(call('host.run', {}), { code: 'request_invalid' })
  await assert.rejects(call('host.run', { argv: ['id'] }), { code: 'rate_limited' })
})

test('what a method takes is bounded as a whole, in bytes, however few its fields are', async () => {
  const { call, seen } = setting()
  const half = LIMITS.agentBodyBytesMax / 2 / LIMITS.argumentBytesMax
  const argv = (many: number, letter: string): string[] => Array.from({ length: many }, () => letter.repeat(LIMITS.argumentBytesMax))
  await call('host.run', { argv: argv(half, 'x') })
  await assert.rejects(call('host.run', { argv: argv(half, 'ä') }), { code: 'request_too_large' })
  await assert.rejects(call('host.run', { argv: argv(half * 2, 'x') }), { code: 'request_too_large' })
  assert.equal(seen.length, 1)
})

test('I53 what nobody waits for any more holds its place until the controller has answered, and gives it back then', async () => {
  const answer = Promise.withResolvers<unknown>()
  const { call } = setting(() => answer.promise)
  const gone = new AbortController()
  const waiting = Array.from({ length: LIMITS.agentCallsMax }, () => call('request.await', { id: ID }, gone.signal))
  gone.abort(new Error('the client went'))
  for (const one of await Promise.allSettled(waiting)) assert.equal(one.status, 'rejected')
  await assert.rejects(call('request.await', { id: ID }), { code: 'overloaded' })
  answer.resolve({ id: ID })
  await answer.promise
  assert.deepEqual(await call('request.await', { id: ID }), { id: ID })
})

test('one that is over before it begins is not asked for', async () => {
  const { call, seen } = setting()
  await assert.rejects(call('host.run', { argv: ['id'] }, AbortSignal.abort(new Error('over'))), /over/)
  assert.deepEqual(seen, [])
})
