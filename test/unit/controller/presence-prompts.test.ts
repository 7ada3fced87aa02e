import assert from 'node:assert/strict'
import { chmod, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { macosPrompt } from '../../../src/controller/presence/macos-prompt.ts'
import { identityOf } from '../../../src/controller/presence/presence.ts'
import { bounded, openSystemPrompt } from '../../../src/controller/presence/system-prompt.ts'
import { trustedProgram } from '../../../src/controller/presence/trusted-program.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { runProgram } from '../../support/command.ts'
import { never, purpose } from '../../support/presence.ts'

const INSTALL = join(import.meta.dirname, '../../../host/polkit/install.sh')
const asking = identityOf(process.pid)

async function helper(script: string) {
  const folder = await temporaryFolder()
  const path = join(folder.path, 'presence')
  await writeFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return { folder, prompt: macosPrompt(() => path), [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() }
}

test('a helper of macOS that ends with 0 proves it, and is given the words of the prompt as its one argument', async () => {
  await using setting = await helper(`printf '%s\\n' "$#" "$@" > "$(dirname "$0")/got"`)
  assert.equal(await setting.prompt.confirm(asking, purpose(), never), 'macos')
  const got = await readFile(join(setting.folder.path, 'got'), 'utf8')
  assert.equal(got, `1\nallow once ${purpose().digest.slice(0, 16)}\n`)
})

for (const { script, says } of [
  { script: 'exit 1', says: 'macOS says that it was not its user' },
  { script: 'exit 2', says: 'macOS could not be asked (its command failed: exit 2)' },
  { script: 'kill -9 $$', says: 'macOS could not be asked (its command failed: SIGKILL)' },
  { script: 'exec cat /dev/zero', says: 'macOS could not be asked (its command printed too much)' },
])
  test(`a helper of macOS that does "${script}" proves nothing`, async () => {
    await using setting = await helper(script)
    await assert.rejects(setting.prompt.confirm(asking, purpose(), never), { code: 'presence_failed', message: says })
  })

test('a helper of macOS that anybody could have put there is none', async () => {
  await assert.rejects(macosPrompt(() => undefined).confirm(asking, purpose(), never), {
    code: 'presence_failed',
    message: /is not installed/,
  })
})

test('a program is trusted where only root can have put it there, and its links and folders', async (t) => {
  if (process.getuid?.() !== 0) return t.skip('files of root are made by root')
  assert.equal(trustedProgram(['/nonexistent', '/usr/bin/env']), '/usr/bin/env')
  await using folder = await temporaryFolder()
  const own = join(folder.path, 'program')
  await writeFile(own, '', { mode: 0o755 })
  // The folder of temporary files is everybody's.
  assert.equal(trustedProgram([own]), undefined)
  await symlink('/usr/bin/env', join(folder.path, 'link'))
  assert.equal(trustedProgram([join(folder.path, 'link')]), undefined)
  assert.equal(trustedProgram(['/etc/passwd', '/usr/bin']), undefined)
})

test('so many prompts are open at once, and no more', async () => {
  const open: (() => void)[] = []
  const prompt = bounded({ problem: () => undefined, confirm: () => new Promise((resolve) => open.push(() => resolve('polkit'))) })
  const asked = Array.from({ length: LIMITS.presencePromptsMax }, () => prompt.confirm(asking, purpose(), never))
  await assert.rejects(prompt.confirm(asking, purpose(), never), { code: 'presence_failed', message: /are open/ })
  open[0]?.()
  assert.equal(await asked[0], 'polkit')
  void prompt.confirm(asking, purpose(), never)
  assert.equal(open.length, LIMITS.presencePromptsMax + 1)
})

test('on another system there is no prompt, and no proof', async () => {
  const prompt = openSystemPrompt('win32')
  assert.match(prompt.problem() ?? '', /win32/)
  await assert.rejects(prompt.confirm(asking, purpose(), never), { code: 'presence_failed' })
})

test('nothing without a digest is asked about', async () => {
  await using setting = await helper('exit 0')
  for (const digest of ['', 'a'.repeat(63), `${'a'.repeat(60)}\nyes`, '--help'])
    await assert.rejects(setting.prompt.confirm(asking, purpose({ digest }), never), { code: 'presence_failed', message: /no digest/ })
})

test('host/polkit/install.sh writes the users into the policy, whole or not at all, and takes nobody who is none or root', async () => {
  await using folder = await temporaryFolder()
  const actions = join(folder.path, 'actions')
  await mkdir(actions)
  const run = (...argv: string[]) => runProgram([INSTALL, ...argv], { PATH: process.env['PATH'] ?? '', SALLYPORT_POLKIT_ACTIONS: actions })
  for (const argv of [[], ['root'], ['nobody', 'root'], ['no-such-user-here'], ['a/b'], ['x&y'], ['--help'], ['']]) {
    assert.notEqual((await run(...argv)).code, 0, argv.join(' '))
    assert.deepEqual(await readdir(actions), [])
  }
  assert.equal((await run('nobody', 'daemon')).code, 0)
  assert.deepEqual(await readdir(actions), ['org.sallyport.approve.policy'])
  const policy = await readFile(join(actions, 'org.sallyport.approve.policy'), 'utf8')
  assert.match(policy, /policykit\.owner">unix-user:nobody unix-user:daemon</)
  assert.deepEqual(
    [...policy.matchAll(/<allow_\w+>(.*)<\//g)].map(([, what]) => what),
    ['auth_self', 'auth_self', 'auth_self'],
  )
  assert.equal((await run('--remove')).code, 0)
  assert.deepEqual(await readdir(actions), [])
  await chmod(actions, 0o755)
})
