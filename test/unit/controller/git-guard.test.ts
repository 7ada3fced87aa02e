import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { guardGit } from '../../../src/controller/sessions/git-guard.ts'
import { temporaryFolder } from '../../support/audit.ts'

test('a folder that is no repository stays as it is and gets no mounts', async () => {
  await using folder = await temporaryFolder()
  assert.deepEqual(guardGit(folder.path), [])
  assert.deepEqual(readdirSync(folder.path), [])
})

test('.git is mounted onto itself before anything in it', async () => {
  await using folder = await temporaryFolder()
  execFileSync('git', ['init', '-q', folder.path])
  const [first, ...rest] = guardGit(folder.path)
  assert.deepEqual(first, { path: '.git', readOnly: false })
  assert.ok(rest.every(({ path, readOnly }) => readOnly && path.startsWith('.git/')))
})

test('everything that is covered exists, and git works with it', async () => {
  await using folder = await temporaryFolder()
  execFileSync('git', ['init', '-q', '--template=', folder.path])
  const mounts = guardGit(folder.path)
  assert.deepEqual(mounts.map(({ path }) => path).toSorted(), [
    '.git',
    '.git/commondir',
    '.git/config',
    '.git/config.worktree',
    '.git/hooks',
    '.git/info',
    '.git/modules',
  ])
  assert.equal(execFileSync('git', ['-C', folder.path, 'status', '--porcelain'], { encoding: 'utf8' }), '')
  assert.deepEqual(guardGit(folder.path), mounts)
})

test('a config that exists is left as it is', async () => {
  await using folder = await temporaryFolder()
  execFileSync('git', ['init', '-q', folder.path])
  const config = readFileSync(join(folder.path, '.git/config'))
  guardGit(folder.path)
  assert.deepEqual(readFileSync(join(folder.path, '.git/config')), config)
})

test('the .git file of a linked worktree is read-only itself', async () => {
  await using folder = await temporaryFolder()
  writeFileSync(join(folder.path, '.git'), 'gitdir: /elsewhere\n')
  assert.deepEqual(guardGit(folder.path), [{ path: '.git', readOnly: true }])
})

for (const name of ['.git', '.git/hooks', '.git/config', '.git/commondir']) {
  test(`${name} as a symbolic link is refused: a mount would cover what it leads to`, async () => {
    await using folder = await temporaryFolder()
    mkdirSync(join(folder.path, 'target'))
    if (name !== '.git') mkdirSync(join(folder.path, '.git'))
    symlinkSync(join(folder.path, 'target'), join(folder.path, name))
    assert.throws(() => guardGit(folder.path), { code: 'config_invalid' })
  })
}

for (const named of ['./.bare', '.bare', 'sub/../.bare', '.']) {
  test(`a .git file that names ${named} is refused: what git executes there would be the agent's`, async () => {
    await using folder = await temporaryFolder()
    mkdirSync(join(folder.path, '.bare'))
    writeFileSync(join(folder.path, '.git'), `gitdir: ${named}\n`)
    assert.throws(() => guardGit(folder.path), { code: 'config_invalid' })
  })
}
