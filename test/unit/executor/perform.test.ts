import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { commandSetting, performed } from '../../support/executor.ts'

test('a command gives its exit code and both of its streams', async () => {
  await using setting = await commandSetting()
  const { stdout, stderr, exitCode, bytes, truncated, code } = await setting.run({ argv: ['sh', '-c', 'echo out; echo err >&2; exit 7'] })
  assert.deepEqual(
    { stdout, stderr, exitCode, bytes, truncated, code },
    { stdout: 'out\n', stderr: 'err\n', exitCode: 7, bytes: { stdout: 4, stderr: 4 }, truncated: false, code: undefined },
  )
})

test('a command that a signal ends says which', async () => {
  await using setting = await commandSetting()
  const { exitCode, signal } = await setting.run({ argv: ['sh', '-c', 'kill -USR1 $$'] })
  assert.deepEqual({ exitCode, signal }, { exitCode: undefined, signal: 'SIGUSR1' })
})

test('arguments reach the program as they are: no shell reads them', async () => {
  await using setting = await commandSetting()
  const argv = ['printf', '%s|', '$(id)', '`id`', '; id', '*', '> x', 'a\nb', '', '$HOME', '"', "'"]
  const { stdout } = await setting.run({ argv })
  assert.equal(
    stdout,
    argv
      .slice(2)
      .map((token) => `${token}|`)
      .join(''),
  )
  assert.deepEqual(await readdir(setting.workspace), [])
})

test('a prepared command runs once: a second time nothing starts', async () => {
  await using setting = await commandSetting()
  await using prepared = await setting.prepare({ argv: ['sh', '-c', 'echo x >> ran'] })
  await performed(prepared)
  await assert.rejects(performed(prepared), { code: 'command_invalid' })
  assert.deepEqual(await readdir(setting.workspace), ['ran'])
})

test('what prepare did not make cannot be performed', async () => {
  await using setting = await commandSetting()
  await using prepared = await setting.prepare({ argv: ['true'] })
  await assert.rejects(performed({ ...prepared }), { code: 'command_invalid' })
})

test('a disposed command cannot be performed', async () => {
  await using setting = await commandSetting()
  const prepared = await setting.prepare({ argv: ['true'] })
  await prepared[Symbol.asyncDispose]()
  await assert.rejects(performed(prepared), { code: 'command_invalid' })
})

test('a subject that was altered after it was shown changes nothing of what runs', async () => {
  await using setting = await commandSetting()
  await using prepared = await setting.prepare({ argv: ['env'] })
  Object.assign(prepared.subject.environment, { LD_PRELOAD: '/x' })
  assert.doesNotMatch((await performed(prepared)).stdout, /LD_PRELOAD/)
})

test('the program sees the name that it was called by', async () => {
  await using setting = await commandSetting()
  assert.match((await setting.run({ argv: ['bash', '-c', 'tr "\\0" " " < /proc/$$/cmdline'] })).stdout, /^bash -c /)
})

test('the folder of the command is that of the host, also through a link within the workspace', async () => {
  await using setting = await commandSetting()
  await mkdir(join(setting.workspace, 'a/b'), { recursive: true })
  await symlink('a/b', join(setting.workspace, 'link'))
  for (const [cwd, folder] of [
    [undefined, ''],
    ['/workspace', ''],
    ['/workspace/a/b', '/a/b'],
    ['a', '/a'],
    ['/workspace/link', '/a/b'],
    ['/workspace/a/../a/b/', '/a/b'],
  ] as const)
    assert.equal((await setting.run({ argv: ['pwd'], ...(cwd === undefined ? {} : { cwd }) })).stdout, `${setting.workspace}${folder}\n`)
})

for (const cwd of [
  '/',
  '..',
  '/workspace/..',
  '/workspace/../elsewhere',
  '/workspacex',
  'out',
  '/workspace/out',
  'file',
  'none',
  '/etc',
  'a\0b',
])
  test(`the folder ${JSON.stringify(cwd)} is refused`, async () => {
    await using setting = await commandSetting()
    await setting.write('workspace/file', '')
    await symlink(setting.elsewhere, join(setting.workspace, 'out'))
    await assert.rejects(setting.prepare({ argv: ['true'], cwd }), { code: 'command_invalid' })
  })

for (const { argv, why } of [
  { argv: [], why: 'no program' },
  { argv: [''], why: 'an empty one' },
  { argv: ['no-such-program-anywhere'], why: 'none of this name' },
  { argv: ['/no/such'], why: 'none at this path' },
  { argv: ['true', 'a\0b'], why: 'a NUL' },
  { argv: ['true', '\ud800'], why: 'half a character' },
  { argv: ['true', 'x'.repeat(65_537)], why: 'too long' },
  { argv: ['true', ...Array.from({ length: 4_096 }, () => 'x')], why: 'too many' },
  { argv: ['/workspace'], why: 'a folder' },
  { argv: ['..'], why: 'a folder on the path' },
  { argv: ['./almost'], why: 'the first bytes of a program alone' },
  { argv: ['./text'], why: 'no program by its bytes: a shell would read it' },
])
  test(`a command of ${why} is refused before anything is asked`, async () => {
    await using setting = await commandSetting()
    await setting.write('workspace/text', 'touch ran\n')
    await setting.write('workspace/almost', '\x7fELF\ntouch ran\n')
    await assert.rejects(setting.prepare({ argv }), (error) => error instanceof SallyportError && error.code === 'command_invalid')
  })

test('what cannot be started is said, with nothing of it in the output', async () => {
  await using setting = await commandSetting()
  const program = await readFile('/bin/true')
  const loader = program.indexOf('/ld-linux')
  assert.ok(loader > 0)
  program.write('/no-linux', loader)
  await setting.write('workspace/broken', program)
  const { code, stdout, stderr, exitCode } = await setting.run({ argv: ['./broken'] })
  assert.deepEqual({ code, stdout, stderr, exitCode }, { code: 'command_not_started', stdout: '', stderr: '', exitCode: undefined })
})

test('the subject has the program, its scripts and interpreters, the folder and the whole environment', async () => {
  await using setting = await commandSetting()
  const tool = await setting.write('workspace/tool', '#!/usr/bin/env -S bash -e\nexit 0\n')
  await using prepared = await setting.prepare({ argv: ['./tool', 'x'], environment: { CI: '1' } })
  const { subject } = prepared
  assert.equal(subject.executable.path, tool)
  assert.match(subject.executable.sha256, /^[0-9a-f]{64}$/)
  assert.deepEqual(
    subject.scripts.map(({ path }) => path),
    ['/usr/bin/bash'],
  )
  assert.equal(subject.cwd.path, setting.workspace)
  assert.equal(subject.environment['CI'], '1')
  assert.equal(subject.sandbox, 'none')
})

test('two equal wishes have equal subjects', async () => {
  await using setting = await commandSetting()
  await using one = await setting.prepare({ argv: ['git', 'status'] })
  await using two = await setting.prepare({ argv: ['git', 'status'] })
  assert.deepEqual(one.subject, two.subject)
})

test('nothing of a command is left in its folder for temporary files', async () => {
  await using setting = await commandSetting()
  const { stdout } = await setting.run({
    argv: ['sh', '-c', 'touch "$TMPDIR/x"; mkdir "$TMPDIR/y"; stat -c %a "$TMPDIR" "$TMPDIR/x"; echo "$TMPDIR"'],
  })
  const [folder, file, path] = stdout.split('\n')
  assert.deepEqual([folder, file], ['700', '600'])
  assert.deepEqual(await readdir(path ?? ''), [])
})
