import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdir, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { hardenedGit } from '../../src/controller/executor/git-hardening.ts'
import { commandSetting } from '../support/executor.ts'

type Setting = Awaited<ReturnType<typeof commandSetting>>

/** A repository of the workspace with a commit, a change, and a program that leaves a mark, and says where it left it. */
async function repository() {
  const setting = await commandSetting()
  const { workspace } = setting
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', workspace, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { encoding: 'utf8', stdio: 'pipe' })
  git('init', '-q')
  await writeFile(join(workspace, 'a.txt'), 'one\n')
  git('add', 'a.txt')
  git('commit', '-qm', 'one')
  await writeFile(join(workspace, 'a.txt'), 'two\n')
  const program = await setting.write('elsewhere/evil', `#!/bin/sh\ntouch ${setting.root}/HARM\n[ $# -eq 0 ] || cat "$@" 2>/dev/null\n`)
  return { ...setting, git, program }
}

const READING = [
  ['git', 'status'],
  ['git', 'status', '--porcelain'],
  ['git', 'diff'],
  ['git', 'log', '-p'],
  ['git', 'show'],
  ['git', 'branch', '--list'],
  ['git', 'blame', '-s', 'a.txt'],
  ['git', 'stash', 'list'],
  ['git', 'grep', 'one'],
  ['git', '-C', '.', 'diff', '--stat'],
]

const PLANTS: readonly {
  readonly what: string
  readonly plant: (setting: Setting & { git: (...args: string[]) => string; program: string }) => Promise<unknown>
  readonly commands: readonly string[][]
}[] = [
  { what: 'core.fsmonitor', plant: async ({ git, program }) => git('config', 'core.fsmonitor', program), commands: READING },
  {
    what: 'core.fsmonitor of an included file',
    plant: async ({ git, program, write }) =>
      git('config', 'include.path', await write('workspace/conf', `[core]\nfsmonitor = ${program}\n`)),
    commands: READING,
  },
  {
    what: 'core.fsmonitor by a planted commondir',
    plant: async ({ workspace, program }) => {
      const common = join(workspace, '.common')
      execFileSync('cp', ['-r', join(workspace, '.git'), common])
      await writeFile(join(common, 'config'), `[core]\nrepositoryformatversion = 0\nfsmonitor = ${program}\n`)
      await writeFile(join(workspace, '.git/commondir'), '../.common\n')
    },
    commands: READING,
  },
  {
    what: 'core.fsmonitor of a submodule',
    plant: async ({ workspace, git, program, elsewhere }) => {
      execFileSync('git', ['init', '-q', join(elsewhere, 'sub')])
      execFileSync('git', [
        '-C',
        join(elsewhere, 'sub'),
        '-c',
        'user.name=a',
        '-c',
        'user.email=a@b',
        'commit',
        '-q',
        '--allow-empty',
        '-m',
        'x',
      ])
      git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', join(elsewhere, 'sub'), 'sub')
      await writeFile(
        join(workspace, '.git/modules/sub/config'),
        `[core]\nrepositoryformatversion = 0\nworktree = ../../../sub\nfsmonitor = ${program}\n`,
      )
    },
    commands: READING,
  },
  {
    what: 'diff.external',
    plant: async ({ git, program }) => git('config', 'diff.external', program),
    commands: [['git', 'diff'], ['git', 'log', '-p', '--ext-diff'].slice(0, 3), ['git', 'show']],
  },
  {
    what: 'textconv',
    plant: async ({ workspace, git, program }) => {
      git('config', 'diff.evil.textconv', program)
      await writeFile(join(workspace, '.gitattributes'), '*.txt diff=evil\n')
    },
    commands: [
      ['git', 'diff'],
      ['git', 'log', '-p'],
      ['git', 'show'],
      ['git', 'blame', '-s', 'a.txt'],
      ['git', 'stash', 'show'],
    ],
  },
  {
    what: 'core.pager',
    plant: async ({ git, program }) => git('config', 'core.pager', program),
    commands: [
      ['git', 'log'],
      ['git', '-p', 'status'],
    ],
  },
  { what: 'pager.log', plant: async ({ git, program }) => git('config', 'pager.status', program), commands: [['git', 'status']] },
  {
    what: 'hooks',
    plant: async ({ workspace, program }) => {
      for (const name of [
        'pre-commit',
        'post-commit',
        'commit-msg',
        'post-checkout',
        'pre-push',
        'reference-transaction',
        'post-index-change',
      ])
        execFileSync('cp', [program, join(workspace, '.git/hooks', name)])
    },
    commands: [
      ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qam', 'x'],
      ['git', 'checkout', '-q', '-b', 'y'],
      ['git', 'status'],
    ],
  },
  {
    what: 'hooks by core.hooksPath',
    plant: async ({ git, write, program }) => {
      const hook = await write('workspace/h/pre-commit', '')
      execFileSync('cp', [program, hook])
      git('config', 'core.hooksPath', 'h')
    },
    commands: [['git', '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qam', 'x']],
  },
  {
    what: 'core.editor',
    plant: async ({ git, program }) => git('config', 'core.editor', program),
    commands: [
      ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-a'],
      ['git', 'rebase', '-i', '--root'],
    ],
  },
  {
    what: 'core.sshCommand',
    plant: async ({ git, program }) => {
      git('config', 'core.sshCommand', program)
      git('remote', 'add', 'origin', 'ssh://127.0.0.1:9/x')
    },
    commands: [
      ['git', 'fetch', 'origin'],
      ['git', 'push', 'origin', 'HEAD'],
      ['git', 'ls-remote'],
    ],
  },
  {
    what: 'a remote that is a command',
    plant: async ({ git, program }) => git('remote', 'add', 'origin', `ext::${program}`),
    commands: [
      ['git', 'fetch', 'origin'],
      ['git', 'ls-remote'],
    ],
  },
  {
    what: 'gpg.program',
    plant: async ({ git, program }) => {
      git('config', 'gpg.program', program)
      git('config', 'commit.gpgSign', 'true')
      git('config', 'log.showSignature', 'true')
    },
    commands: [
      ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qam', 'x'],
      ['git', 'log'],
    ],
  },
  {
    what: 'a repository that took the place of the one with covers',
    plant: async ({ workspace, git, program }) => {
      await rename(join(workspace, '.git'), join(workspace, 'x'))
      await mkdir(join(workspace, '.git'))
      execFileSync('cp', ['-r', `${join(workspace, 'x')}/.`, join(workspace, '.git')])
      git('config', 'core.fsmonitor', program)
    },
    commands: READING,
  },
]

for (const { what, plant, commands } of PLANTS)
  test(`I46 git runs nothing by ${what} of the workspace`, async () => {
    await using setting = await repository()
    await plant(setting)
    for (const argv of commands) {
      const { code } = await setting.run({ argv })
      assert.equal(code, undefined)
      assert.ok(!(await readdir(setting.root)).includes('HARM'), argv.join(' '))
    }
  })

// Without a terminal git starts no pager.
for (const { what, plant, commands } of PLANTS.filter((one) => !one.what.includes('pager')))
  test(`git as it is does run something by ${what}: the test above would see it`, async () => {
    await using setting = await repository()
    await plant(setting)
    for (const [, ...args] of commands)
      spawnSync('git', args, {
        cwd: setting.workspace,
        stdio: 'ignore',
        timeout: 5_000,
        env: { ...process.env, GIT_ALLOW_PROTOCOL: 'ext:ssh:file', GIT_TERMINAL_PROMPT: '0' },
      })
    assert.ok((await readdir(setting.root)).includes('HARM'))
  })

test('git started by another program has the same settings', async () => {
  await using setting = await repository()
  setting.git('config', 'core.fsmonitor', setting.program)
  await setting.write('workspace/Makefile', 'all:\n\t@git status --porcelain\n', 0o644)
  const { stdout } = await setting.run({ argv: ['make'] })
  assert.match(stdout, /^ M a\.txt$/m)
  assert.ok(!(await readdir(setting.root)).includes('HARM'))
})

test('what a hardened git runs is in what is shown, and the rest of its answer is as it was', async () => {
  await using setting = await repository()
  await using prepared = await setting.prepare({ argv: ['git', 'diff', '--stat'] })
  assert.deepEqual(prepared.subject.argv, ['git', 'diff', '--no-ext-diff', '--no-textconv', '--ignore-submodules=all', '--stat'])
  assert.equal(prepared.subject.environment['GIT_CONFIG_KEY_0'], 'core.fsmonitor')
  for (const argv of [
    ['git', 'diff'],
    ['git', 'log', '--oneline'],
    ['git', 'show'],
    ['git', 'status'],
    ['git', 'grep', 'two'],
    ['git', 'blame', '-s', 'a.txt'],
  ])
    assert.equal((await setting.run({ argv })).stdout, setting.git(...argv.slice(1)), argv.join(' '))
  setting.git('stash')
  for (const more of [[], ['--stat'], ['-p']])
    assert.equal((await setting.run({ argv: ['git', 'stash', 'show', ...more] })).stdout, setting.git('stash', 'show', ...more))
})

for (const [argv, hardened] of [
  ['git', 'git'],
  ['git push', 'git push'],
  ['git -C a -c b=c log -1', 'git -C a -c b=c log --no-ext-diff --no-textconv --ignore-submodules=all -1'],
  ['git --git-dir=x --no-pager blame -- f', 'git --git-dir=x --no-pager blame --no-textconv -- f'],
  ['git stash show stash@{1}', 'git stash show --no-ext-diff --no-textconv --stat stash@{1}'],
  ['git stash', 'git stash'],
  ['git constructor', 'git constructor'],
] as const)
  test(`${argv} becomes ${hardened}`, () => assert.deepEqual(hardenedGit(argv.split(' ')), hardened.split(' ')))
