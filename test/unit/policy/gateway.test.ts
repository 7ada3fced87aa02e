import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closedPolicy, disabledMethods, inspectRestricted, loadPolicy } from '../../../src/policy/policy.ts'
import { AGENT_METHOD_NAMES } from '../../../src/wire/agent-methods.ts'
import { policyOf, problemsOf } from '../../support/policy.ts'

const file = (name: string, text: string) => ({ file: name, text: `version: 1\n${text}\n` })
const disabled = (text: string): string[] => [...disabledMethods(policyOf(`version: 1\n${text}\n`))]

test('without a word every method is there', () => assert.deepEqual(disabled(''), []))

test('host_commands.mode: disabled takes host.run and host.run_capability away, and nothing else', () =>
  assert.deepEqual(disabled('host_commands: {mode: disabled}'), ['host.run', 'host.run_capability']))

test('every method can be switched off, and all of them', () =>
  assert.deepEqual(disabled(`gateway: {disabled: [${AGENT_METHOD_NAMES.join(', ')}]}`), [...AGENT_METHOD_NAMES]))

test('over layers what is switched off adds up, each with the place where it is said first', () => {
  const policy = loadPolicy(
    [
      file('a.yaml', 'gateway: {disabled: [host.run]}'),
      file('b.yaml', 'gateway: {disabled: [host.run, propose.skill]}'),
      file('c.yaml', ''),
    ],
    { policyDirs: [] },
  )
  assert.deepEqual(
    policy.effective.gateway.disabled.map(({ value, from }) => [value, from.file, from.line]),
    [
      ['host.run', 'a.yaml', 2],
      ['propose.skill', 'b.yaml', 2],
    ],
  )
})

test("I29 a workspace's own layer switches off and never on", () => {
  const own = file('own.yaml', 'gateway: {disabled: [propose.tool, host.run]}')
  const policy = loadPolicy([file('a.yaml', 'gateway: {disabled: [host.run]}')], { policyDirs: [], restricted: [own] })
  assert.deepEqual([...disabledMethods(policy)], ['host.run', 'propose.tool'])
  assert.equal(policy.effective.gateway.disabled[0]?.from.file, 'a.yaml')
  assert.deepEqual(inspectRestricted(own), { errors: [], allows: [] })
  const { allows } = inspectRestricted(file('own.yaml', 'gateway: {disabled: [host.run], enabled: [host.run]}'))
  assert.match(allows.map(({ message }) => message).join('\n'), /gateway\.enabled/)
})

test('what is switched off is part of what the policy says: its digest is another', () =>
  assert.notEqual(policyOf('version: 1\n').digest, policyOf('version: 1\ngateway: {disabled: [host.run]}\n').digest))

test('a session that was revoked has no host commands either', () => {
  const closed = closedPolicy(policyOf('version: 1\n'), { code: 'session_revoked', message: 'over' })
  assert.ok(disabledMethods(closed).has('host.run'))
})

for (const [text, says] of [
  ['gateway: {disabled: [host.rum]}', /gateway\.disabled\[0\].*"host\.rum": did you mean "host\.run"\?/],
  ['gateway: {disabled: [secret_request]}', /did you mean "secret\.request"\?/],
  ['gateway: {disable: [host.run]}', /unknown key "disable": did you mean "disabled"\?/],
  ['gateway: {disabled: []}', /must not be empty/],
  ['gateway: {disabled: host.run}', /must be a list/],
  ['gateway: {disabled: [host.run, host.run]}', /stands in the list twice/],
  ['gateway: {disabled: [7]}', /must be/],
  ['gatway: {disabled: [host.run]}', /unknown key "gatway": did you mean "gateway"\?/],
] as const)
  test(`${text} is refused with the place and what to write`, () => {
    const { errors } = problemsOf(`version: 1\n${text}\n`)
    assert.match(errors.join('\n'), says)
    for (const error of errors) assert.match(error, /^policy\.yaml:2: /)
  })
