import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { chmod, lstat, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { workspacePolicyDir } from '../../src/controller/sessions/session-layers.ts'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import { eventually } from '../support/eventually.ts'
import { requestsSetting } from '../support/requests.ts'

type Setting = Awaited<ReturnType<typeof requestsSetting>>

/** Proposes, and gives how it ended without anybody being asked. */
async function refused(setting: Setting, method: string, params: object): Promise<RequestView> {
  setting.desk.clock.pass(60_000)
  const view = await setting.ended(await setting.call(method, { reason: '', ...params }))
  assert.deepEqual([setting.desk.approvals.list(), setting.events], [[], []], `${JSON.stringify(params).slice(0, 80)} was asked about`)
  return view
}

async function applied(setting: Setting, method: string, params: object): Promise<RequestView> {
  const view = await setting.call(method, { reason: '', ...params })
  await setting.yes(await setting.asked())
  return setting.ended(view)
}

const GOOD: Readonly<Record<string, string>> = {
  audit: 'version: 1\nretention_days: 400\n',
  notify: 'version: 1\nchannels:\n  - desktop: true\n',
  providers: 'version: 1\n',
}

test('I54 names of proposals lead nowhere but to their own folder', async () => {
  await using setting = await requestsSetting()
  for (const name of ['../policy', '..', '.', '', 'a/b', 'a\\b', 'a\0b', '-a', 'A', 'a.md', '%2e%2e', '\u202ea', 'a\n', '__proto__'])
    for (const method of ['propose.tool', 'propose.skill', 'propose.config_change'])
      assert.equal(
        (await refused(setting, method, { name, content: '{}' })).error?.code,
        'proposal_invalid',
        `${method} ${JSON.stringify(name)}`,
      )
  for (const name of ['vault', 'trust', 'lease', 'state', 'approver', 'policy'])
    assert.equal((await refused(setting, 'propose.config_change', { name, content: 'version: 1' })).error?.code, 'proposal_invalid')
  assert.deepEqual(await readdir(setting.home), [])
})

test('I54 settings that their own reader would refuse are never asked about: the daemon would not start with them', async () => {
  await using setting = await requestsSetting()
  const bomb = `a: &a [${'x,'.repeat(9)}x]\n${'bcdefghi'.replaceAll(/./g, (c) => `${c}: &${c} [${`*${String.fromCharCode(c.charCodeAt(0) - 1)},`.repeat(9)}1]\n`)}`
  for (const name of ['audit', 'notify', 'providers'])
    for (const content of [
      '',
      'hello',
      '{',
      '[]',
      'version: 2',
      'version: 1\nversion: 1',
      'version: 1\nunknown: true',
      bomb,
      'x: '.repeat(10_000),
    ]) {
      const { error } = await refused(setting, 'propose.config_change', { name, content })
      assert.equal(error?.code, 'proposal_invalid', `${name}: ${content.slice(0, 40)}`)
    }
  for (const [name, content] of Object.entries(GOOD)) {
    assert.equal((await applied(setting, 'propose.config_change', { name, content })).status, 'done', name)
    assert.equal(await readFile(join(setting.home, `${name}.yaml`), 'utf8'), content)
  }
})

test('I54 a proposal with text that nobody would see as it is is never asked about', async () => {
  await using setting = await requestsSetting()
  for (const char of [
    '\0',
    '\x1b[2J',
    '\r',
    '\u202e',
    '\u2066',
    '\u200b',
    '\u{e0041}',
    '\u2028',
    '\ufeff',
    '\ud800',
    '\x7f',
    '\u0085',
    '\u00ad',
  ])
    for (const [method, params] of [
      ['propose.skill', { name: 'one', content: `# one\nread ${char}me\n` }],
      ['propose.tool', { name: 'one', content: `{"a": "${char}"}` }],
      ['propose.policy', { content: `version: 1 # ${char}\n` }],
      ['propose.config_change', { name: 'audit', content: `version: 1 # ${char}\n` }],
    ] as const)
      assert.equal((await refused(setting, method, params)).error?.code, 'proposal_invalid', `${method} ${JSON.stringify(char)}`)
})

test('I54 a target that is a link, or lies behind one, is left alone: what it leads to is nobody’s to propose', async () => {
  await using setting = await requestsSetting()
  const victim = await setting.write('elsewhere/victim', 'the operator’s own', 0o600)
  const folder = workspacePolicyDir(setting.home, setting.workspace)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await symlink(victim, join(folder, 'policy.yaml'))
  await symlink(setting.elsewhere, join(folder, 'skills'))
  await symlink(victim, join(setting.home, 'audit.yaml'))
  for (const [method, params] of [
    ['propose.policy', { content: 'version: 1\n' }],
    ['propose.skill', { name: 'one', content: '# one\n' }],
    ['propose.config_change', { name: 'audit', content: GOOD['audit'] }],
  ] as const)
    assert.equal((await refused(setting, method, params)).error?.code, 'proposal_invalid', method)
  assert.equal(await readFile(victim, 'utf8'), 'the operator’s own')
  assert.deepEqual(await readdir(setting.elsewhere), ['victim'])
})

test('I54 a folder that becomes a link while the operator thinks gets nothing', async () => {
  await using setting = await requestsSetting()
  const folder = workspacePolicyDir(setting.home, setting.workspace)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const view = await setting.call('propose.skill', { name: 'one', content: '# one\n' })
  const question = await setting.asked()
  await symlink(setting.elsewhere, join(folder, 'skills'))
  await setting.yes(question)
  assert.equal((await setting.ended(view)).status, 'failed')
  assert.deepEqual(await readdir(setting.elsewhere), [])
})

test('I54 of two proposals for one file that are allowed at once, one is applied: the other was about other bytes', async () => {
  await using setting = await requestsSetting()
  const views = [
    await setting.call('propose.skill', { name: 'one', content: '# first\n' }),
    await setting.call('propose.skill', { name: 'one', content: '# second\n' }),
  ]
  await eventually(() => assert.equal(setting.desk.approvals.list({ state: 'pending' }).length, 2))
  await Promise.all(setting.desk.approvals.list({ state: 'pending' }).map((question) => setting.yes(question)))
  const endings = await Promise.all(views.map((view) => setting.ended(view)))
  assert.deepEqual(endings.map(({ status, error }) => error?.code ?? status).toSorted(), ['done', 'proposal_outdated'])
  assert.equal((await setting.proposals.list()).length, 1)
})

test('I54 a change that could not be written is not one that was applied', async () => {
  await using setting = await requestsSetting()
  const folder = workspacePolicyDir(setting.home, setting.workspace)
  const view = await setting.call('propose.skill', { name: 'one', content: '# one\n' })
  const question = await setting.asked()
  await mkdir(join(folder, 'skills'), { recursive: true, mode: 0o500 })
  // As root modes stop nobody: a file in the place of the folder does.
  if (process.getuid?.() === 0) await chmod(folder, 0o700).then(() => replaceByFile(join(folder, 'skills')))
  await setting.yes(question)
  assert.equal((await setting.ended(view)).status, 'failed')
  assert.deepEqual(await setting.proposals.list(), [])
  assert.equal(existsSync(join(folder, 'skills', 'one.md')), false)
})

async function replaceByFile(path: string): Promise<void> {
  const { rm } = await import('node:fs/promises')
  await rm(path, { recursive: true })
  await writeFile(path, '')
}

test('I54 what was applied is taken back to the byte, however large and odd it was, and stays private', async () => {
  await using setting = await requestsSetting()
  const file = join(workspacePolicyDir(setting.home, setting.workspace), 'skills', 'one.md')
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const before = '"\\€\n'.repeat(2_000)
  await writeFile(file, before, { mode: 0o600 })
  assert.equal((await applied(setting, 'propose.skill', { name: 'one', content: '"\\\t€\n'.repeat(2_000) })).status, 'done')
  const [{ id } = { id: '' }] = await setting.proposals.list()
  await setting.proposals.revert(id)
  assert.deepEqual([await readFile(file, 'utf8'), (await stat(file)).mode & 0o777, (await lstat(file)).isFile()], [before, 0o600, true])
  await assert.rejects(setting.proposals.revert(id), { code: 'proposal_invalid' })
})

test('I54 two who take one change back at once take it back once', async () => {
  await using setting = await requestsSetting()
  await applied(setting, 'propose.skill', { name: 'one', content: '# one\n' })
  const [{ id } = { id: '' }] = await setting.proposals.list()
  const results = await Promise.allSettled([setting.proposals.revert(id), setting.proposals.revert(id)])
  assert.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  assert.equal(setting.events.filter(({ event }) => event === 'proposal reverted').length, 1)
})

test('a change of thousands of lines into thousands of others is shown without a long search for what they share', async () => {
  await using setting = await requestsSetting()
  const file = join(workspacePolicyDir(setting.home, setting.workspace), 'skills', 'one.md')
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const lines = (word: string): string => Array.from({ length: 8_000 }, (_, at) => `${word}${at}\n`).join('')
  await writeFile(file, lines('a'), { mode: 0o600 })
  await setting.call('propose.skill', { name: 'one', content: lines('b'), reason: '' })
  const { subject } = await setting.asked()
  assert.ok(subject.kind === 'proposal' && subject.diff.includes('\n-a7999\n') && subject.diff.endsWith('\n+b7999\n'))
})

test('proposals wait for an operator who is not there, and the agent is told so; everything else is refused at once', async () => {
  await using setting = await requestsSetting({ host_commands: { mode: 'always-prompt' } }, { isWatched: false })
  const command = await setting.ended(await setting.call('host.run', { argv: ['/bin/true'] }))
  assert.equal(command.error?.code, 'approver_absent')
  const view = (await setting.call('propose.skill', { name: 'one', content: '# one\n' })) as RequestView
  const question = await setting.asked()
  const waiting = (await setting.call('request.await', { id: view.id, wait: 0 })) as RequestView
  assert.deepEqual([waiting.status, /nobody/.test(waiting.note ?? '')], ['pending', true])
  await setting.yes(question)
  const ended = await setting.ended(view)
  assert.deepEqual([ended.status, ended.note], ['done', undefined])
})

test('proposals of one session are few a minute: each is read, compared and shown', async () => {
  await using setting = await requestsSetting()
  const codes: string[] = []
  for (let at = 0; at < 3 * LIMITS.proposalsPerMinuteMax; at++)
    await setting.call('propose.skill', { name: `n${at}`, content: '# x\n' }).then(
      () => codes.push('asked'),
      (error: { code: string }) => codes.push(error.code),
    )
  assert.ok(codes.filter((code) => code === 'asked').length <= LIMITS.proposalsPerMinuteMax)
  assert.equal(codes.at(-1), 'overloaded')
})
