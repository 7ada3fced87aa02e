import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { sandboxOf } from '../../src/controller/executor/executor.ts'
import { createPlaces } from '../../src/controller/requests/place.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import type { DomainSubject } from '../../src/wire/question.ts'
import { open } from '../support/host-commands.ts'
import { eventually } from '../support/eventually.ts'
import { LEASE, requestsSetting } from '../support/requests.ts'
import { running } from '../support/running-commands.ts'

const NEVER = new AbortController().signal
const allowlist = (allow: readonly unknown[], deny: readonly unknown[] = []): object => ({
  host_commands: { mode: 'allowlist', allow, deny },
})

test('I43 a link of the agent’s own brings no command past a denial for the folder that it leads to', async () => {
  const touch = { ...open('touch'), match: ['touch x'] }
  await using setting = await requestsSetting(allowlist([touch], [{ pattern: 'touch **', cwd: 'prod' }]))
  await mkdir(join(setting.workspace, 'prod/deep'), { recursive: true })
  await symlink('prod', join(setting.workspace, 'x'))
  await symlink(join(setting.workspace, 'prod'), join(setting.workspace, 'y'))
  for (const cwd of ['prod', 'prod/deep', 'x', './x/', 'x/deep', '/workspace/x', 'y', '/workspace/y/.', '/workspace/prod/']) {
    const ended = await setting.ended(await setting.call('host.run', { argv: ['touch', 'harm'], cwd }))
    assert.equal(ended.error?.code, 'command_not_allowed', cwd)
    assert.equal(((await setting.call('host.run_capability', { argv: ['touch', 'harm'], cwd })) as { action: string }).action, 'deny', cwd)
  }
  for (const folder of ['prod', 'prod/deep']) assert.equal(existsSync(join(setting.workspace, folder, 'harm')), false)
  assert.equal((await setting.ended(await setting.call('host.run', { argv: ['touch', 'fine'] }))).status, 'done')
})

test('I43 an allowance for one folder is none for the folder that a link in its place leads to', async () => {
  await using setting = await requestsSetting(allowlist([{ ...open('touch'), cwd: 'packages/api' }]))
  await mkdir(join(setting.workspace, 'packages'))
  await symlink('..', join(setting.workspace, 'packages/api'))
  const view = (await setting.call('host.run', { argv: ['touch', 'harm'], cwd: 'packages/api' })) as RequestView
  const question = await setting.asked()
  assert.equal(question.subject.kind, 'command')
  await setting.call('request.cancel', { id: view.id })
  assert.equal(existsSync(join(setting.workspace, 'harm')), false)
})

test('folders outside of the workspace are refused, however they are spelled', async () => {
  await using setting = await requestsSetting(allowlist([open('touch')]))
  await symlink(setting.elsewhere, join(setting.workspace, 'out'))
  const spellings = [
    '/',
    '/etc',
    '..',
    '../elsewhere',
    '/workspace/..',
    '/workspacex',
    '/workspace/../etc',
    'a/../..',
    'out',
    '/workspace/out',
    setting.elsewhere,
    'out/..',
    '\0',
    'x\n',
  ]
  for (const cwd of spellings) {
    const ended = await setting.ended(await setting.call('host.run', { argv: ['touch', 'harm'], cwd }))
    assert.ok(
      ['command_invalid', 'command_not_allowed'].includes(ended.error?.code ?? ''),
      `${JSON.stringify(cwd)}: ${JSON.stringify(ended)}`,
    )
  }
  assert.deepEqual([existsSync(join(setting.elsewhere, 'harm')), setting.desk.approvals.list()], [false, []])
})

test('I48 a program of the path that is a link into the workspace is the agent’s: it never runs bare because a rule allows its name', async () => {
  await using setting = await requestsSetting(allowlist([open('mytool')]))
  await setting.write('workspace/cli.sh', '#!/bin/sh\necho HARM > "$1"\n')
  await mkdir(join(setting.root, 'bin'))
  await symlink(join(setting.workspace, 'cli.sh'), join(setting.root, 'bin/mytool'))
  const env = setting.place.environment as Record<string, string>
  env['PATH'] = `${join(setting.root, 'bin')}:${env['PATH'] ?? ''}`
  const target = join(setting.elsewhere, 'harm')
  const view = (await setting.call('host.run', { argv: ['mytool', target] })) as RequestView
  // Asked about, as the rule has no workspace_code.
  const question = await setting.asked()
  assert.deepEqual([question.tier, question.subject.kind === 'command' && question.subject.sandbox], ['T1', sandboxOf()])
  await setting.call('request.cancel', { id: view.id })
  assert.equal(existsSync(target), false)
})

test('members that are not in the table are refused, and none makes a call stronger', async () => {
  await using setting = await requestsSetting({ host_commands: { mode: 'always-prompt' } })
  for (const more of [
    { force: true },
    { approved: true },
    { tier: 'T0' },
    { env: { A: 'b' } },
    { sandbox: false },
    { command: 'true' },
    { session: 's-2' },
  ])
    await assert.rejects(setting.call('host.run', { argv: ['true'], ...more }), { code: 'request_invalid' })
  for (const params of [
    null,
    [],
    'x',
    1,
    {},
    { argv: [] },
    { argv: 'true' },
    { argv: ['a', 1] },
    JSON.parse('{"__proto__":{"argv":["true"]}}'),
  ])
    await assert.rejects(setting.call('host.run', params), { code: 'request_invalid' })
  for (const method of ['toString', '__proto__', 'constructor', 'host.RUN', '', 'propose.vault'])
    await assert.rejects(setting.call(method, {}), { code: 'not_found' })
  assert.deepEqual([setting.desk.approvals.list(), setting.events], [[], []])
})

test('I53 another session sees, reads and ends no request, with the id of it and a lease of its own', async () => {
  await using setting = await requestsSetting({ host_commands: { mode: 'always-prompt' } })
  const { id } = (await setting.call('host.run', { argv: ['true'] })) as RequestView
  for (const [method, params] of [
    ['request.await', { id, wait: 0 }],
    ['request.output', { id, after: 0, wait: 0 }],
    ['request.cancel', { id }],
  ] as const)
    await assert.rejects(setting.call(method, params, 's-2'), { code: 'request_not_found' })
  assert.equal(((await setting.call('request.await', { id, wait: 0 })) as RequestView).status, 'pending')
})

/** A command that ends at no signal but the last, and has children. */
async function stubborn(setting: Awaited<ReturnType<typeof requestsSetting>>, mark: string): Promise<RequestView> {
  const file = await setting.write(
    `elsewhere/${mark}`,
    `#!/bin/sh\ntrap '' TERM INT HUP\n(trap '' TERM; while :; do sleep 1; done) &\nwhile :; do sleep 1; done\n`,
  )
  const view = (await setting.call('host.run', { argv: [file] })) as RequestView
  await setting.yes(await setting.asked())
  await eventually(() => assert.ok(running(mark).length > 0))
  return view
}

test('what a command printed is in the record by its digest, as it was given on, and in no other way', async () => {
  await using setting = await requestsSetting({
    host_commands: { mode: 'allowlist', allow: [{ pattern: 'printf **', open_tail: 'accept' }] },
  })
  await setting.call('host.run', { argv: ['printf', 'only-here\\n'] })
  await eventually(() => assert.equal(setting.events.at(-1)?.event, 'command_finished'))
  const { stdout_sha256: found, stderr_sha256: none, bytes } = setting.events.at(-1) as Record<string, unknown>
  assert.deepEqual([found, none, bytes], [createHash('sha256').update('only-here\n').digest('hex'), undefined, 10])
  assert.doesNotMatch(JSON.stringify(setting.events.filter(({ event }) => event !== 'command_decided')), /only-here/)
})

test('I53 a command that ignores signals is dead, and its end is recorded, when the requests are taken down', async () => {
  const mark = `stubborn-stop-${process.pid}`
  await using setting = await requestsSetting({ host_commands: { mode: 'always-prompt' } })
  await stubborn(setting, mark)
  await setting.requests[Symbol.asyncDispose]()
  assert.deepEqual(running(mark), [])
  assert.equal(setting.events.at(-1)?.event, 'command_finished')
  await assert.rejects(setting.call('host.run', { argv: ['true'] }), { code: 'controller_unavailable' })
})

test('I53 the end of a session ends what runs for it and what it asked, and an answer that comes then starts nothing', async () => {
  const mark = `stubborn-end-${process.pid}`
  await using setting = await requestsSetting({ host_commands: { mode: 'always-prompt' } })
  await stubborn(setting, mark)
  const harm = join(setting.workspace, 'harm')
  await setting.call('host.run', { argv: ['touch', harm] })
  const question = await setting.asked()
  setting.desk.clock.pass(LIMITS.debounceMs)
  await Promise.all([setting.requests.endSession('s-1'), assert.rejects(setting.yes(question), { code: 'question_settled' })])
  assert.deepEqual([running(mark), existsSync(harm)], [[], false])
  assert.equal(setting.desk.approvals.get(question.id).state, 'cancelled')
})

test('I53 a session whose leases were revoked asks nobody anything, also while its gate holds the channel open', () => {
  const row = { id: 's-1', name: 'one', state: 'running', record: { workspace: '/w' } }
  const place = createPlaces({
    home: '/h',
    state: { row: () => row, live: () => [], isRevoked: () => true } as never,
    policyOf: () => assert.fail('it is not looked at'),
    secretsOf: () => [],
    refuseSuspect: () => Promise.resolve(),
    operatorPorts: () => [],
  })
  assert.throws(() => place('s-1'), { code: 'session_revoked' })
})

const DOMAIN: DomainSubject = {
  kind: 'domain',
  rule: 'r',
  lane: 'forward',
  scheme: 'https',
  host: 'a.example',
  port: 443,
  method: 'GET',
  path: '/',
}

test('I53 a gate that floods the controller with questions is slowed, and fills neither file nor audit', async () => {
  await using setting = await requestsSetting()
  const ask = (at: number, session: string) => setting.requests.ask(session, { request: `r${at}`, subject: DOMAIN }, NEVER)
  const first = ask(0, 's-1')
  const question = await setting.asked()
  setting.desk.clock.pass(LIMITS.debounceMs)
  await setting.desk.approvals.answer(
    question.id,
    { digest: question.digest, decision: 'allow', scope: 'session' },
    { tier: 'T0', means: 'key', at: 0, digest: question.digest },
  )
  assert.deepEqual(await first, { decision: 'allow', scope: 'session' })
  const results = await Promise.allSettled(Array.from({ length: 2_000 }, (_, at) => ask(at, 's-1')))
  const refused = results.filter((result) => result.status === 'rejected').map(({ reason }) => (reason as { code: string }).code)
  assert.ok(refused.includes('overloaded') && refused.length > 1_500, `${refused.length}`)
  // Another session is not slowed.
  const other = ask(0, 's-2')
  assert.equal((await setting.asked()).asker.session, 's-2')
  setting.requests.endSession('s-2').catch(() => undefined)
  assert.equal((await other).decision, 'deny')
})

test('I41 a remembered request is not asked about again, whoever of the workspace makes it, until its end, and no other is let through by it', async () => {
  await using setting = await requestsSetting()
  const ask = (subject: DomainSubject, session = 's-1') => setting.requests.ask(session, { request: 'r', subject }, NEVER)
  const first = ask(DOMAIN)
  const question = await setting.asked()
  setting.desk.clock.pass(LIMITS.debounceMs)
  const rule = question.remember?.rule ?? ''
  const expiresAt = setting.desk.clock.now() + 60_000
  const { digest } = question
  await setting.desk.approvals.answer(
    question.id,
    { digest, decision: 'allow', scope: 'remember', rule, expiresAt },
    { tier: 'T0', means: 'key', at: 0, digest },
  )
  assert.equal((await first).decision, 'allow')
  for (const session of ['s-1', 's-2']) assert.deepEqual(await ask(DOMAIN, session), { decision: 'allow', scope: 'once' })
  for (const more of [{ path: '/b' }, { method: 'POST' }, { port: 8_443 }, { host: 'b.example' }, { path: '/%2f' }, { path: '/?' }]) {
    const other = ask({ ...DOMAIN, ...more }, 's-3')
    assert.equal((await setting.asked()).asker.session, 's-3', JSON.stringify(more))
    await setting.requests.endSession('s-3')
    assert.equal((await other).decision, 'deny')
  }
  setting.desk.clock.pass(60_000)
  const late = ask(DOMAIN, 's-4')
  assert.equal((await setting.asked()).asker.session, 's-4')
  await setting.requests.endSession('s-4')
  assert.equal((await late).decision, 'deny')
})

test('I53 guesses at the lease cost the allowance of the session that guesses', async () => {
  await using setting = await requestsSetting()
  const codes: string[] = []
  for (let at = 0; at < 2 * LIMITS.agentBurstCallsMax; at++)
    await setting.requests
      .call('s-1', { lease: `guess ${at}`, method: 'policy.explain', params: { url: 'https://a.example/' } }, NEVER)
      .catch((error: { code: string }) => codes.push(error.code))
  assert.deepEqual(new Set(codes), new Set(['unauthenticated', 'overloaded']))
  await setting.requests.call('s-2', { lease: LEASE, method: 'policy.explain', params: { url: 'https://a.example/' } }, NEVER)
})

test('output of control characters, which JSON writes sixfold, passes whole within the frame of the channel', async () => {
  await using setting = await requestsSetting({ host_commands: { mode: 'always-prompt' } })
  const view = (await setting.call('host.run', { argv: ['head', '-c', '3000000', '/dev/zero'] })) as RequestView
  await setting.yes(await setting.asked())
  const ended = await setting.ended(view)
  assert.equal(ended.status, 'done')
  const frame = Buffer.byteLength(JSON.stringify(ended))
  assert.ok(frame < LIMITS.controlPushBytesMax, `${frame}`)
  const { pieces } = (await setting.call('request.output', { id: view.id, after: 0, wait: 0 })) as { pieces: unknown }
  assert.ok(Buffer.byteLength(JSON.stringify(pieces)) < LIMITS.controlPushBytesMax)
})

test('what an agent says is bounded before anything is made of it', async () => {
  await using setting = await requestsSetting({ host_commands: { mode: 'always-prompt' } })
  for (const params of [
    { argv: ['true'], reason: 'x'.repeat(LIMITS.reasonCharsMax + 1) },
    { argv: Array.from({ length: LIMITS.commandArgumentsMax + 1 }, () => 'a') },
    { argv: ['true'], cwd: 'a/'.repeat(5_000) },
    { command: 'x'.repeat(LIMITS.commandCharsMax + 1) },
  ])
    await assert.rejects(setting.call('host.run', params), { code: 'request_invalid' })
  for (const text of [
    '$('.repeat(8_000),
    '`'.repeat(16_000),
    '{'.repeat(16_000),
    '<<a '.repeat(4_000),
    '(('.repeat(8_000),
    '"${'.repeat(5_000),
  ])
    await setting.call('host.run_capability', { command: text }).catch((error: { code?: string }) => assert.notEqual(error.code, undefined))
  assert.equal(await readFile(join(setting.home, 'none')).catch(() => 'none'), 'none')
})
