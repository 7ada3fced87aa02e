/** I41: an answer that holds for longer opens what was shown and nothing else, and beats no denial. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { rememberedFile } from '../../src/controller/approvals/approvals.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { describeCommand } from '../../src/command/command.ts'
import { decideHostCommand, exactPattern, loadPolicy } from '../../src/policy/policy.ts'
import type { CommandSubject, QuestionWish } from '../../src/wire/question.ts'
import { allow, commandSubject, deny, evidenceFor, openDesk, secretSubject, SHA, wishOf, type Desk } from '../support/approvals.ts'
import { writeFiles } from '../support/policy.ts'

async function answerFor(
  desk: Desk,
  wish: QuestionWish,
  scope: 'session' | 'remember' | 'once',
  decision: 'allow' | 'deny' = 'allow',
  more = {},
) {
  const { question, outcome } = await desk.ask(wish)
  const make = decision === 'allow' ? allow : deny
  await desk.approvals.answer(question.id, make(question, { scope, ...more }), evidenceFor(question.digest), 'pts/1')
  return outcome
}

/** What is done without anybody being asked, or `asked`. */
async function unasked(desk: Desk, wish: QuestionWish): Promise<string> {
  const abort = new AbortController()
  const outcome = desk.approvals.ask(wish, abort.signal)
  await Promise.race([outcome, new Promise((resolve) => setImmediate(resolve))])
  abort.abort()
  const end = await outcome
  return end.decision === 'deny' && end.code === 'approval_cancelled' ? 'asked' : end.decision
}

test('an allowance for the session lets the same pass without a question, each time with a digest and records of its own, once each', async () => {
  await using desk = await openDesk()
  await answerFor(desk, wishOf(), 'session')
  const [one, two] = [
    await desk.approvals.ask(wishOf({ reason: 'again' }), new AbortController().signal),
    await desk.approvals.ask(wishOf(), new AbortController().signal),
  ]
  assert.deepEqual([one.decision, two.decision, one.question.answer?.by], ['allow', 'allow', 'pts/1'])
  assert.notEqual(one.question.digest, two.question.digest)
  assert.equal(await desk.approvals.consume(one.question.id, two.question.digest), false)
  assert.equal(await desk.approvals.consume(one.question.id, one.question.digest), true)
  assert.equal(await desk.approvals.consume(one.question.id, one.question.digest), false)
  assert.equal(await desk.approvals.consume(two.question.id, two.question.digest), true)
  assert.match(desk.approvals.get(two.question.id).note ?? '', /^as q-\w+ was answered for the session$/)
})

const file = (path: string) => ({ path, device: '1', inode: '2', sizeBytes: 3, sha256: SHA })
const { executable, cwd, environment } = commandSubject()
const OTHERS: Readonly<Record<string, Partial<CommandSubject>>> = {
  'one argument more': { argv: ['gh', 'pr', 'view', '12', '--web'] },
  'the arguments joined': { argv: ['gh', 'pr', 'view 12'] },
  'an empty argument more': { argv: ['gh', 'pr', 'view', '12', ''] },
  'a look-alike letter': { argv: ['gh', 'pr', 'v\u0456ew', '12'] },
  'another program of the same name': { executable: { ...executable, path: '/tmp/x/gh' } },
  'the program changed, with the same size and inode': { executable: { ...executable, sha256: SHA.replace('a', 'b') } },
  'the program in another file': { executable: { ...executable, inode: '9007199254740992' } },
  'a script among the arguments': { scripts: [file('/s')] },
  'another folder': { cwd: { ...cwd, path: '/home/op/project/sub' } },
  'another folder of the same name': { cwd: { ...cwd, inode: '78' } },
  'a variable more': { environment: { ...environment, NODE_OPTIONS: '--require /tmp/x' } },
  'another PATH': { environment: { ...environment, PATH: '/tmp/x:/usr/bin' } },
  'a variable less': { environment: { PATH: environment['PATH'] ?? '' } },
  'a secret more': { secrets: ['TOKEN'] },
  'another sandbox': { sandbox: 'bubblewrap' },
}
test('I41 an allowance for the session opens nothing that differs in anything', async () => {
  await using desk = await openDesk()
  await answerFor(desk, wishOf(), 'session')
  for (const [what, other] of Object.entries(OTHERS)) {
    assert.equal(await unasked(desk, wishOf({ subject: commandSubject(undefined, other) })), 'asked', what)
  }
  for (const other of [{ tier: 'T1' }, { asker: { ...wishOf().asker, agent: 'codex' } }, { subject: secretSubject() }] as const) {
    assert.equal(await unasked(desk, wishOf(other)), 'asked', JSON.stringify(other))
  }
  assert.equal(await unasked(desk, wishOf()), 'allow')
})

test('I41 an answer for the session ends with the session, and with the controller', async () => {
  await using desk = await openDesk()
  await answerFor(desk, wishOf(), 'session')
  desk.approvals.endSession('s-2')
  assert.equal(await unasked(desk, wishOf()), 'allow')
  desk.approvals.endSession('s-1')
  assert.equal(await unasked(desk, wishOf()), 'asked')
  await answerFor(desk, wishOf(), 'session')
  await desk.reopen()
  assert.equal(await unasked(desk, wishOf()), 'asked')
})

test('a denial for the session is the answer to all its equals, with its words, and a later allowance takes its place only by a question', async () => {
  await using desk = await openDesk()
  await answerFor(desk, wishOf(), 'session', 'deny', { message: 'use the mirror' })
  const end = await desk.approvals.ask(wishOf(), new AbortController().signal)
  assert.ok(end.decision === 'deny' && end.code === 'approval_denied')
  assert.equal(end.message, 'use the mirror')
})

for (const { what, wish, answer } of [
  { what: 'a rule that was not offered', wish: wishOf(), answer: { scope: 'remember', rule: 'gh **' } },
  { what: 'no rule', wish: wishOf(), answer: { scope: 'remember' } },
  {
    what: 'a rule where none is offered',
    wish: { ...wishOf(), remember: undefined } as unknown as QuestionWish,
    answer: { scope: 'remember', rule: 'gh pr view 12' },
  },
  { what: 'an end that has passed', wish: wishOf(), answer: { scope: 'remember', rule: 'gh pr view 12', expiresAt: 1 } },
  { what: 'no end in sight', wish: wishOf(), answer: { scope: 'remember', rule: 'gh pr view 12', expiresAt: Number.MAX_SAFE_INTEGER } },
  { what: 'a rule with once', wish: wishOf(), answer: { scope: 'once', rule: 'gh pr view 12' } },
  {
    what: 'a session for a proposal',
    wish: wishOf({ subject: { kind: 'proposal', of: 'policy', target: '/p', diff: '+a', after: SHA } }),
    answer: { scope: 'session' },
  },
] as const) {
  test(`I41 an answer with ${what} is refused, and stores and allows nothing`, async () => {
    await using desk = await openDesk()
    const { question } = await desk.ask(wish)
    await assert.rejects(desk.approvals.answer(question.id, allow(question, answer), evidenceFor(question.digest)), {
      code: 'answer_invalid',
    })
    assert.deepEqual([desk.approvals.get(question.id).state, desk.approvals.remembered()], ['pending', []])
    assert.equal(await desk.approvals.consume(question.id, question.digest), false)
    assert.equal(existsSync(join(desk.folder, 'policies')), false)
    await desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest))
  })
}

const NETWORK = wishOf({
  subject: { kind: 'domain', rule: 'asks', lane: 'http', scheme: 'https', host: 'api.example.com', port: 443, method: 'GET', path: '/a' },
  remember: { kind: 'network', rule: '{"host":"api.example.com","ports":[443],"methods":["GET"],"paths":["/a"]}' },
})
const layerOf = (desk: Desk): string => rememberedFile(join(desk.folder, 'policies', 'remembered'), '/home/op/project')

test('a remembered request is in no layer, where a rule that asks is stronger than it, and ends when it was to', async () => {
  await using desk = await openDesk()
  const rule = NETWORK.remember?.rule ?? ''
  await answerFor(desk, NETWORK, 'remember', 'allow', { rule, expiresAt: desk.clock.now() + 60_000 })
  const rules = desk.approvals.remembered('/home/op/project').map((one) => [one.kind, one.rule])
  assert.deepEqual([rules, existsSync(layerOf(desk)), desk.changed], [[['network', rule]], false, []])
  await answerFor(desk, wishOf(), 'remember', 'allow', { rule: 'gh pr view 12' })
  assert.equal(statSync(layerOf(desk)).mode & 0o777, 0o600)
  assert.deepEqual(Object.keys(parse(readFileSync(layerOf(desk), 'utf8')) as object), ['version', 'host_commands'])
  desk.clock.pass(60_000)
  await desk.reopen()
  assert.deepEqual(
    desk.approvals.remembered().map(({ kind }) => kind),
    ['host_command'],
  )
  assert.ok(desk.audited.some((event) => event.event === 'operator' && event.did === 'rule_ended'))
})

test('a layer that says something of the network is written anew without it', async () => {
  await using desk = await openDesk()
  await answerFor(desk, NETWORK, 'remember', 'allow', { rule: NETWORK.remember?.rule ?? '' })
  await answerFor(desk, wishOf(), 'remember', 'allow', { rule: 'gh pr view 12' })
  const right = readFileSync(layerOf(desk), 'utf8')
  writeFileSync(layerOf(desk), `${right}network:\n  rules:\n    - {id: remembered.a, host: api.example.com, action: allow}\n`)
  await desk.reopen()
  assert.equal(readFileSync(layerOf(desk), 'utf8'), right)
})

test('commands are remembered as patterns with an end, each once, and a rule that is taken back is gone from the layer', async () => {
  await using desk = await openDesk()
  const rule = 'gh pr view 12'
  await answerFor(desk, wishOf(), 'remember', 'allow', { rule })
  await answerFor(desk, wishOf({ session: 's-2' }), 'remember', 'allow', { rule, expiresAt: desk.clock.now() + LIMITS.rememberMaxMs })
  const end = new Date(desk.clock.now() + LIMITS.rememberMaxMs).toISOString().slice(0, 10)
  assert.match(
    readFileSync(layerOf(desk), 'utf8'),
    new RegExp(`host_commands:\n  allow:\n    - pattern: "gh pr view 12"\n      expires: "${end}[^"]*"\n$`),
  )
  for (const { id } of desk.approvals.remembered('/home/op/project')) assert.equal(await desk.approvals.forget(id), true)
  assert.equal(existsSync(layerOf(desk)), false)
  assert.equal(await desk.approvals.forget('0'.repeat(12)), false)
  assert.equal(desk.audited.filter((event) => event.event === 'operator' && event.did === 'rule_forgotten').length, 2)
})

test('text of a rule cannot leave its place in the layer', async () => {
  await using desk = await openDesk({ complaint: () => undefined })
  const rule = 'x"\nnetwork:\n  mode: open # \u2028'
  await answerFor(desk, wishOf({ remember: { kind: 'host_command', rule } }), 'remember', 'allow', { rule })
  const document = parse(readFileSync(layerOf(desk), 'utf8')) as { host_commands: { allow: { pattern: string }[] } }
  assert.deepEqual(Object.keys(document), ['version', 'host_commands'])
  assert.deepEqual(
    document.host_commands.allow.map(({ pattern }) => pattern),
    [rule],
  )
})

for (const rule of [
  'host: a.com, action: deny',
  '{"host":"a.com","addresses":["10.0.0.0/8"]}',
  '{"host":"a.com","tls":"passthrough"}',
  '[]',
  '&a {host: *a}',
  '"a.com"',
  '',
]) {
  test(`a network rule says which requests and nothing else: ${rule || 'an empty one'} is refused`, async () => {
    await using desk = await openDesk({ complaint: () => undefined })
    const { question } = await desk.ask({ ...NETWORK, remember: { kind: 'network', rule } })
    await assert.rejects(desk.approvals.answer(question.id, allow(question, { scope: 'remember', rule }), evidenceFor(question.digest)), {
      code: 'answer_invalid',
    })
    assert.deepEqual([desk.approvals.remembered(), existsSync(layerOf(desk))], [[], false])
  })
}

test('twenty rules that are remembered at once are all in the layer', async () => {
  await using desk = await openDesk()
  const asked = []
  for (let n = 0; n < 20; n++) {
    const rule = `gh pr view ${n}`
    asked.push({
      rule,
      ...(await desk.ask(wishOf({ subject: commandSubject(rule.split(' ')), remember: { kind: 'host_command', rule } }))),
    })
  }
  await Promise.all(
    asked.map(({ question, rule }) =>
      desk.approvals.answer(question.id, allow(question, { scope: 'remember', rule }), evidenceFor(question.digest)),
    ),
  )
  const text = readFileSync(layerOf(desk), 'utf8')
  for (const { rule } of asked) assert.ok(text.includes(`"${rule}"`), rule)
})

test('I41 a layer that somebody put there, or that was left there, allows nothing once a controller has begun', async () => {
  await using desk = await openDesk()
  await answerFor(desk, wishOf(), 'remember', 'allow', { rule: 'gh pr view 12' })
  const right = readFileSync(layerOf(desk), 'utf8')
  const stranger = rememberedFile(join(desk.folder, 'policies', 'remembered'), '/home/op/another')
  for (const path of [layerOf(desk), stranger]) writeFileSync(path, 'version: 1\nnetwork:\n  mode: open\n')
  await desk.reopen()
  assert.deepEqual([readFileSync(layerOf(desk), 'utf8'), existsSync(stranger)], [right, false])
})

test('I41 a remembered command is allowed as it was shown and no other, until its end, and beats no denial and no question of another layer', async () => {
  await using desk = await openDesk()
  const rule = exactPattern(['gh', 'pr', 'view', '12'])
  const wish = wishOf({ remember: { kind: 'host_command', rule } })
  await answerFor(desk, wish, 'remember', 'allow', { rule, expiresAt: desk.clock.now() + 60_000 })
  using others = writeFiles({
    'mode.yaml': 'version: 1\nhost_commands: {mode: allowlist}\n',
    'deny.yaml': 'version: 1\nhost_commands: {deny: ["gh pr view *"]}\n',
    'ask.yaml': 'version: 1\nhost_commands: {ask: ["gh pr view *"]}\n',
  })
  const decide = async (argv: readonly string[], names: readonly string[], now = desk.clock.now()): Promise<string> => {
    const policy = loadPolicy([...names.map((name) => others.at(name)), layerOf(desk)], { policyDirs: [] })
    const facts = await describeCommand({ argv }, { home: desk.folder, workspace: '/home/op/project', operatorPorts: [] })
    return decideHostCommand(policy.effective.hostCommands, facts, '/workspace', now).action
  }
  const shown = ['gh', 'pr', 'view', '12']
  assert.equal(await decide(shown, ['mode.yaml']), 'allow')
  for (const other of [
    ['gh', 'pr', 'view', '13'],
    ['gh', 'pr', 'view', '12', '--web'],
    ['gh', 'pr', 'view 12'],
    ['/tmp/gh', 'pr', 'view', '12'],
  ])
    assert.equal(await decide(other, ['mode.yaml']), 'ask', other.join(' '))
  assert.equal(await decide(shown, ['mode.yaml'], desk.clock.now() + 60_000), 'ask')
  assert.equal(await decide(shown, ['mode.yaml', 'deny.yaml']), 'deny')
  assert.equal(await decide(shown, ['mode.yaml', 'ask.yaml']), 'ask')
})
