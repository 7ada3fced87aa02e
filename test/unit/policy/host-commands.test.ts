import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkPolicy, closedPolicy, loadPolicy } from '../../../src/policy/policy.ts'
import { commandPolicy, decided, open } from '../../support/host-commands.ts'

for (const { pattern, argv, match, why } of [
  { pattern: 'gh pr view *', argv: ['gh', 'pr', 'view', '12'], match: true, why: 'one argument' },
  { pattern: 'gh pr view *', argv: ['gh', 'pr', 'view', 'a b; c'], match: true, why: 'one argument, whatever is in it' },
  { pattern: 'gh pr view *', argv: ['gh', 'pr', 'view', '--comments'], match: false, why: 'an option is none' },
  { pattern: 'gh pr view *', argv: ['gh', 'pr', 'view', ''], match: false, why: 'nothing is none' },
  { pattern: 'gh pr view *', argv: ['gh', 'pr', 'view', '1', '2'], match: false, why: 'two are more than one' },
  { pattern: 'gh pr view *', argv: ['gh', 'pr', 'view'], match: false, why: 'and none less' },
  { pattern: 'gh pr view <int>', argv: ['gh', 'pr', 'view', '012'], match: false, why: 'a number has one spelling' },
  { pattern: 'git show <sha>', argv: ['git', 'show', '0a1b2c3'], match: true, why: 'seven digits' },
  { pattern: 'git show <sha>', argv: ['git', 'show', 'HEAD'], match: false, why: 'a name is no hash' },
  { pattern: 'git rev-parse <name>', argv: ['git', 'rev-parse', 'v1.2-x_y'], match: true, why: 'letters, digits, dots, dashes' },
  { pattern: 'git rev-parse <name>', argv: ['git', 'rev-parse', 'a..b'], match: false, why: 'two dots are a range' },
  { pattern: 'wc <relpath>', argv: ['wc', 'src/a b'], match: false, why: 'no spaces' },
  { pattern: 'wc <relpath>', argv: ['wc', 'src/a.ts'], match: true, why: 'below the folder' },
  { pattern: 'wc <relpath>', argv: ['wc', 'host:a'], match: false, why: 'another host' },
  { pattern: "echo '*'", argv: ['echo', '*'], match: true, why: 'quoted it is itself' },
  { pattern: "echo '*'", argv: ['echo', 'x'], match: false, why: 'and no other' },
  { pattern: "echo '<int>'", argv: ['echo', '1'], match: false, why: 'a quoted slot is text' },
])
  test(`${pattern} ${match ? 'allows' : 'does not allow'} ${JSON.stringify(argv)}: ${why}`, async () => {
    assert.equal((await decided(commandPolicy({ allow: [pattern] }), argv)).action === 'allow', match)
  })

for (const [pattern, says] of [
  ['git log; id', '";"'],
  ['git log $X', '"$"'],
  ['git ** log', '"**" stands at the end'],
  ['* log', 'a program by its name'],
  ['git v*', '"*" in a word'],
  ['git <number>', 'none of <int>'],
  ["git 'x", "a ' without its end"],
  ["''", 'a program by its name'],
] as const)
  test(`the pattern ${pattern} is refused, and says why`, () => {
    const { errors } = checkPolicy([{ file: 'p.yaml', text: JSON.stringify({ version: 1, host_commands: { deny: [pattern] } }) }], {
      policyDirs: [],
    })
    assert.ok(errors[0]?.message.includes(says), JSON.stringify(errors))
  })

test('what contradicts itself is an error with its line, what deserves a look a warning', () => {
  const text = `version: 1
host_commands:
  allow:
    - "git **"
    - {pattern: git status, open_tail: accept}
    - {pattern: git log, match: [git log -p]}
    - {pattern: git diff *, not_match: [git diff x]}
    - {pattern: git tag -l, match: [[git, tag, -l]], not_match: [git tag -d x]}
    - git push
    - ./run.sh
    - {pattern: "sort **", open_tail: accept}
  deny:
    - git push **
    - {pattern: rm *, presence: T1}
`
  const { errors, warnings } = checkPolicy([{ file: 'p.yaml', text }], { policyDirs: [] })
  assert.deepEqual(
    errors.map(({ line }) => line),
    [4, 5, 6, 7, 9, 10, 14],
    JSON.stringify(errors, null, 1),
  )
  const said = warnings.map(({ line, message }) => `${line} ${message}`).join('\n')
  assert.match(said, /11 .*its tail is open/)
  assert.match(said, /4 .*write mode: allowlist/)
})

for (const [mode, action] of [
  ['always-prompt', 'ask'],
  ['allowlist', 'allow'],
  ['blocklist', 'ask'],
  ['disabled', 'disabled'],
] as const)
  test(`an allowance in mode ${mode} is ${action}, and a denial is one in all but disabled`, async () => {
    const policy = commandPolicy({ mode, allow: ['git status'], deny: ['git push **'] })
    const found = await decided(policy, 'git status')
    assert.equal(found.action, action)
    assert.equal(found.code, mode === 'disabled' ? 'command_disabled' : undefined)
    assert.equal((await decided(policy, 'git push')).action, mode === 'disabled' ? 'disabled' : 'deny')
  })

test('without a word about host commands everything is asked about', async () => {
  const { hostCommands } = loadPolicy([{ file: 'p', text: 'version: 1\n' }], { policyDirs: [] })
  const { action, tier } = await decided(hostCommands, 'git status')
  assert.deepEqual([action, tier], ['ask', 'T0'])
})

test('a revoked session has no host commands', () => {
  const policy = loadPolicy([{ file: 'p', text: 'version: 1\nhost_commands: {mode: allowlist, allow: [git status]}\n' }], {
    policyDirs: [],
  })
  assert.equal(closedPolicy(policy, { code: 'session_revoked', message: 'x' }).hostCommands.mode.value, 'disabled')
})

test('always_allow is allow, and the strictest of all layers wins whatever their order', async () => {
  const file = (name: string, section: object) => ({ file: name, text: JSON.stringify({ version: 1, host_commands: section }) })
  const layers = [file('a', { deny: ['git status'] }), file('b', { mode: 'allowlist', always_allow: ['git status', 'git log'] })]
  for (const order of [layers, layers.toReversed()]) {
    const { hostCommands } = loadPolicy(order, { policyDirs: [] })
    assert.equal((await decided(hostCommands, 'git status')).action, 'deny')
    assert.equal((await decided(hostCommands, 'git log')).action, 'allow')
  }
})

test('a rule that has ended is none, and one of a day ends with that day', async () => {
  const policy = commandPolicy({
    allow: [{ pattern: 'git status', expires: '2030-01-31' }],
    deny: [{ pattern: 'git log', expires: '2030-01-31T12:00:00Z' }],
  })
  assert.equal((await decided(policy, 'git status', { now: Date.UTC(2030, 0, 31, 23, 59) })).action, 'allow')
  assert.equal((await decided(policy, 'git status', { now: Date.UTC(2030, 1, 1) })).action, 'ask')
  assert.equal((await decided(policy, 'git log', { now: Date.UTC(2030, 0, 31, 11) })).action, 'deny')
  assert.equal((await decided(policy, 'git log', { now: Date.UTC(2030, 0, 31, 12) })).action, 'ask')
  assert.throws(() => commandPolicy({ allow: [{ pattern: 'git status', expires: '2030-02-31' }] }), { code: 'policy_invalid' })
})

test('a rule about a folder is about it and below, however it is said, and what is not in the workspace is refused', async () => {
  const policy = commandPolicy({ allow: [{ pattern: 'git status', cwd: 'packages/api' }] })
  for (const cwd of ['packages/api', '/workspace/packages/api/x', './packages//api/'])
    assert.equal((await decided(policy, 'git status', { cwd })).action, 'allow', cwd)
  for (const cwd of ['.', 'packages', 'packages/api2', '/workspace']) {
    const { action, nearMiss } = await decided(policy, 'git status', { cwd })
    assert.equal(action, 'ask', cwd)
    assert.match(nearMiss ?? '', /about the folder packages\/api/)
  }
  for (const cwd of ['..', '/etc', '/workspace/../etc', 'packages/api/../..', '/workspace2'])
    assert.equal((await decided(policy, 'git status', { cwd })).code, 'command_invalid', cwd)
})

test('presence is the highest of what the risk, the rule and the kind of program ask for', async () => {
  const policy = commandPolicy({ ask: [{ pattern: 'git status', presence: 'T2' }] }, { safe: 'T0', caution: 'T1', dangerous: 'T2' })
  assert.equal((await decided(policy, 'git status')).tier, 'T2')
  assert.equal((await decided(policy, 'git log')).tier, 'T0')
  assert.equal((await decided(policy, 'frobnicate')).tier, 'T1')
  assert.equal((await decided(policy, 'curl x | sh')).tier, 'T2')
  assert.equal((await decided(commandPolicy({}), 'docker run x')).tier, 'T2')
})

test('the environment of a decision is what its rule adds; what keeps the program from a pager is known of it', async () => {
  const { environment, facts } = await decided(commandPolicy({ allow: [{ pattern: 'git status', env: { FOO: 'bar' } }] }), 'git status')
  assert.deepEqual(environment, { FOO: 'bar' })
  assert.equal(facts.environment['GIT_PAGER'], 'cat')
})

test('the near miss is the allowance that agrees longest, and where it stops to', async () => {
  const policy = commandPolicy({ allow: ['gh pr list', 'gh pr view <int>'] })
  assert.match(
    (await decided(policy, 'gh pr view main')).nearMiss ?? '',
    /"gh pr view <int>" \(operator\.yaml:1\) wants <int> where the command has "main"/,
  )
  assert.match((await decided(policy, 'gh pr view')).nearMiss ?? '', /the command ends there/)
  assert.equal((await decided(policy, 'docker ps')).nearMiss, undefined)
})

test('only what would be allowed by its own words may be remembered', async () => {
  const policy = commandPolicy({ ask: ['gh pr merge *'] })
  assert.equal((await decided(policy, 'gh pr comment 1')).mayBeRemembered, true)
  for (const line of ['gh pr merge 1', 'sort -o f a', 'sh -c x', 'git log; id', 'npm test', 'cat .env'])
    assert.equal((await decided(policy, line)).mayBeRemembered, false, line)
  assert.equal((await decided(commandPolicy({ mode: 'always-prompt' }), 'gh pr comment 1')).mayBeRemembered, false)
  assert.equal((await decided(commandPolicy({ allow: [open('gh')] }), 'gh pr merge 1')).action, 'allow')
})
