/** Methods that the policy switched off, at the controller: a gate that asks for them all the same gets nothing. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { AGENT_METHOD_NAMES, type AgentMethod, type RequestView } from '../../src/wire/agent-requests.ts'
import { open } from '../support/host-commands.ts'
import { requestsSetting } from '../support/requests.ts'

const ID = 'a0b1c2d3e4f5a6b7'
const PARAMS: { readonly [M in AgentMethod]: object } = {
  'secret.request': { name: 'DB', scope: 'session', reason: '' },
  'secret.use_in': { argv: ['id'] },
  'host.run': { argv: ['touch', 'harm'] },
  'host.run_capability': { argv: ['touch', 'harm'] },
  'request.await': { id: ID, wait: 0 },
  'request.output': { id: ID, after: 0, wait: 0 },
  'request.cancel': { id: ID },
  'policy.explain': { url: 'https://api.example.com/' },
  'propose.policy': { content: 'version: 1' },
  'propose.tool': { name: 'x', content: 'x' },
  'propose.skill': { name: 'x', content: 'x' },
  'propose.config_change': { name: 'x', content: 'x' },
}

test('I56 a method that is switched off is not there for a gate that asks for it: nothing runs, nobody is asked', async () => {
  const secrets: string[] = []
  const story = async (): Promise<{ status: 'done' }> => (secrets.push('asked'), { status: 'done' })
  const hostCommands = { mode: 'blocklist', allow: [open('touch')] }
  await using setting = await requestsSetting(
    { host_commands: hostCommands, gateway: { disabled: AGENT_METHOD_NAMES } },
    { secretRequest: story, secretUse: story },
  )
  for (const method of AGENT_METHOD_NAMES) await assert.rejects(setting.call(method, PARAMS[method]), { code: 'not_found' }, method)
  assert.deepEqual(
    [secrets, setting.desk.approvals.list(), setting.events, existsSync(join(setting.workspace, 'harm'))],
    [[], [], [], false],
  )
})

test('host_commands.mode: disabled takes host.run and host.run_capability away, and nothing else', async () => {
  await using setting = await requestsSetting({ host_commands: { mode: 'disabled', allow: [open('touch')] } })
  for (const method of ['host.run', 'host.run_capability'] as const)
    await assert.rejects(setting.call(method, PARAMS[method]), { code: 'not_found' }, method)
  await assert.rejects(setting.call('request.await', PARAMS['request.await']), { code: 'request_not_found' })
  assert.equal(existsSync(join(setting.workspace, 'harm')), false)
})

test('what begins something is refused by the policy as it is now, and looks at a request within a second', async () => {
  await using setting = await requestsSetting({ host_commands: { mode: 'allowlist', allow: [open('touch')] } })
  const { id } = (await setting.call('host.run', { argv: ['touch', 'fine'] })) as RequestView
  assert.equal((await setting.ended({ id })).status, 'done')
  setting.state.policy = {
    host_commands: { mode: 'allowlist', allow: [open('touch')] },
    gateway: { disabled: ['host.run', 'request.await'] },
  }
  await assert.rejects(setting.call('host.run', PARAMS['host.run']), { code: 'not_found' })
  setting.desk.clock.pass(LIMITS.policyLookMs)
  await assert.rejects(setting.call('request.await', { id }), { code: 'not_found' })
  assert.equal(existsSync(join(setting.workspace, 'harm')), false)
})

test('what is said of a secret is what the policy declares for methods, and of every other name one and the same', async () => {
  const source = 'env:NOT_HERE'
  await using setting = await requestsSetting({
    secrets: [
      { name: 'FOR_USE', source, resources: ['method:secret.use_in'] },
      { name: 'FOR_GATE', source, resources: ['inject'] },
      { name: 'FOR_TOOL', source, resources: ['tool:db'] },
    ],
  })
  const explain = (secret: string): Promise<unknown> => setting.call('policy.explain', { secret })
  const said = (await explain('FOR_USE')) as { action: string; why: string }
  assert.deepEqual([said.action, said.why], ['ask', 'the policy declares it for secret.use_in'])
  const unknown = await explain('NEVER_SEEN')
  for (const name of ['FOR_GATE', 'FOR_TOOL', 'constructor', '__proto__', 'x'.repeat(256)])
    assert.deepEqual(await explain(name), unknown, name)
  assert.deepEqual(Object.keys(unknown as object), Object.keys(said))
})
