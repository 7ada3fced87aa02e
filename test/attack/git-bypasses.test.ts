import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { appendFile, chmod, link, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { compareGitScans, refuseSuspect, scanGit, type Finding } from '../../src/controller/sessions/git-scan.ts'
import { lostCovers } from '../../src/controller/sessions/workspace-covers.ts'
import type { Workspace } from '../../src/controller/sessions/workspace.ts'
import { system } from '../../src/kernel/system.ts'
import { openWorkspace, type WorkspaceSetting } from '../support/workspace-setting.ts'

type Bypass = {
  readonly title: string
  /** What the operator's repository has before the session. */
  readonly before?: (setting: WorkspaceSetting) => Promise<unknown>
  /** What an agent does that got past the mounts, or that no mount stands against. */
  readonly plant: (setting: WorkspaceSetting, program: string) => Promise<unknown>
  /** What the operator does afterwards, without a thought. */
  readonly operator: readonly (readonly string[])[]
  readonly cwd?: string
  readonly kind: Finding['kind']
}

const fsmonitor = (program: string, more = ''): string =>
  `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = ${program}\n${more}`

/** A folder that git takes for a repository, with a config of the agent's. */
async function plantGitFolder(setting: WorkspaceSetting, folder: string, config: string): Promise<void> {
  const path = join(setting.workspace, folder)
  for (const name of ['objects', 'refs/heads']) await mkdir(join(path, name), { recursive: true })
  await writeFile(join(path, 'HEAD'), 'ref: refs/heads/main\n')
  await writeFile(join(path, 'config'), config)
}

async function addSubmodule({ folder, workspace, mustGit }: WorkspaceSetting): Promise<void> {
  await mustGit(['clone', '-q', workspace, join(folder, 'library')])
  await mustGit(['submodule', '--quiet', 'add', join(folder, 'library'), 'library'])
  await mustGit(['commit', '-qm', 'library'])
}

async function embed(setting: WorkspaceSetting, folder: Buffer, program: string): Promise<void> {
  const path = Buffer.concat([Buffer.from(`${setting.workspace}/`), folder])
  await mkdir(path)
  for (const args of [
    ['init', '-q'],
    ['commit', '-q', '--allow-empty', '-m', 'x'],
    ['config', 'core.fsmonitor', program],
  ]) {
    // The shell, as Node gives no program a folder whose name is no UTF-8.
    const code = `cd "$(printf '${folder.toString('latin1').replace(/[^a-z]/g, (char) => `\\${char.charCodeAt(0).toString(8)}`)}')" && git "$@"`
    execFileSync('sh', ['-c', code, 'sh', ...args], { cwd: setting.workspace, env: { ...process.env, ...EMBEDDER }, stdio: 'pipe' })
  }
  execFileSync('git', ['add', '-A'], { cwd: setting.workspace, stdio: 'pipe', env: { ...process.env, ...EMBEDDER } })
}
const EMBEDDER = {
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'a',
  GIT_AUTHOR_EMAIL: 'a@example.com',
  GIT_COMMITTER_NAME: 'a',
  GIT_COMMITTER_EMAIL: 'a@example.com',
}

const BYPASSES: readonly Bypass[] = [
  {
    title: 'a config with core.fsmonitor',
    plant: ({ workspace }, program) => appendFile(join(workspace, '.git/config'), `[core]\n\tfsmonitor = ${program}\n`),
    operator: [['status']],
    kind: 'config',
  },
  {
    title: 'a commondir that names a folder of the agent’s',
    plant: async (setting, program) => {
      await plantGitFolder(setting, 'other', fsmonitor(program))
      await writeFile(join(setting.workspace, '.git/commondir'), '../other\n')
    },
    operator: [['status']],
    kind: 'common_folder',
  },
  {
    title: 'the config of a submodule, in .git/modules',
    before: addSubmodule,
    plant: ({ workspace }, program) => appendFile(join(workspace, '.git/modules/library/config'), `[core]\n\tfsmonitor = ${program}\n`),
    operator: [['status']],
    kind: 'config',
  },
  {
    title: 'commondir of a linked worktree elsewhere',
    before: ({ folder, mustGit }) => mustGit(['worktree', 'add', '-q', join(folder, 'linked'), '-b', 'topic']),
    plant: async (setting, program) => {
      await plantGitFolder(setting, 'other', fsmonitor(program))
      await writeFile(join(setting.workspace, '.git/worktrees/linked/commondir'), join(setting.workspace, 'other'))
    },
    operator: [['status']],
    cwd: '../linked',
    kind: 'common_folder',
  },
  {
    title: 'config.worktree of a linked worktree elsewhere',
    before: async ({ folder, mustGit }) => {
      await mustGit(['config', 'extensions.worktreeConfig', 'true'])
      await mustGit(['worktree', 'add', '-q', join(folder, 'linked'), '-b', 'topic'])
    },
    plant: ({ workspace }, program) =>
      writeFile(join(workspace, '.git/worktrees/linked/config.worktree'), `[core]\n\tfsmonitor = ${program}\n`),
    operator: [['status']],
    cwd: '../linked',
    kind: 'config',
  },
  {
    title: 'config.worktree, where extensions.worktreeConfig is on',
    before: ({ mustGit }) => mustGit(['config', 'extensions.worktreeConfig', 'true']),
    plant: ({ workspace }, program) => writeFile(join(workspace, '.git/config.worktree'), `[core]\n\tfsmonitor = ${program}\n`),
    operator: [['status']],
    kind: 'config',
  },
  {
    title: 'a nested repository',
    plant: (setting, program) => plantGitFolder(setting, 'sub/.git', fsmonitor(program)),
    operator: [['status']],
    cwd: 'sub',
    kind: 'repository',
  },
  {
    title: 'a .git file in a subfolder',
    plant: async (setting, program) => {
      await plantGitFolder(setting, 'deep/down', fsmonitor(program))
      await mkdir(join(setting.workspace, 'sub'))
      await writeFile(join(setting.workspace, 'sub/.git'), 'gitdir: ../deep/down\n')
    },
    operator: [['status']],
    cwd: 'sub',
    kind: 'git_file',
  },
  {
    title: 'a .git file that names a folder in .git',
    plant: async (setting, program) => {
      await plantGitFolder(setting, '.git/evil', fsmonitor(program))
      await mkdir(join(setting.workspace, 'sub'))
      await writeFile(join(setting.workspace, 'sub/.git'), 'gitdir: ../.git/evil\n')
    },
    operator: [['status']],
    cwd: 'sub',
    kind: 'git_file',
  },
  {
    title: 'a .git link in a subfolder',
    plant: async (setting, program) => {
      await plantGitFolder(setting, 'other', fsmonitor(program))
      await mkdir(join(setting.workspace, 'sub'))
      await symlink('../other', join(setting.workspace, 'sub/.git'))
    },
    operator: [['status']],
    cwd: 'sub',
    kind: 'git_link',
  },
  {
    title: 'a folder that is a bare repository',
    plant: (setting, program) => plantGitFolder(setting, 'sub', fsmonitor(program, '\tworktree = ..\n')),
    operator: [['status']],
    cwd: 'sub',
    kind: 'bare_repository',
  },
  {
    title: 'a HEAD that is none, and a bare repository around .git',
    plant: async (setting, program) => {
      await plantGitFolder(setting, '.', fsmonitor(program, '\tworktree = .\n'))
      await writeFile(join(setting.workspace, '.git/HEAD'), 'none\n')
    },
    operator: [['status']],
    kind: 'broken_repository',
  },
  {
    title: 'no refs, and a bare repository around .git',
    plant: async (setting, program) => {
      await plantGitFolder(setting, '.', fsmonitor(program, '\tworktree = .\n'))
      await rename(join(setting.workspace, '.git/refs'), join(setting.workspace, '.git/kept'))
    },
    operator: [['status']],
    kind: 'broken_repository',
  },
  {
    title: 'a repository that is embedded like a submodule',
    plant: (setting, program) => embed(setting, Buffer.from('inner'), program),
    operator: [['status']],
    kind: 'repository',
  },
  {
    title: 'the same in a folder whose name is no UTF-8',
    plant: (setting, program) => embed(setting, Buffer.from('inner\xff', 'latin1'), program),
    operator: [['status']],
    kind: 'repository',
  },
  {
    title: 'a hook',
    plant: async ({ workspace }, program) => {
      await rm(join(workspace, '.git/hooks/post-checkout'), { force: true })
      await symlink(program, join(workspace, '.git/hooks/post-checkout'))
    },
    operator: [['checkout', '-qb', 'other']],
    kind: 'hook',
  },
  {
    title: 'a hook in the folder of the workspace that core.hooksPath names',
    before: async ({ workspace, mustGit }) => {
      await mkdir(join(workspace, '.husky'))
      await mustGit(['config', 'core.hooksPath', '.husky'])
    },
    plant: ({ workspace }, program) => rename(program, join(workspace, '.husky/post-checkout')),
    operator: [['checkout', '-qb', 'other']],
    kind: 'hook',
  },
  {
    title: 'a filter by .git/info/attributes',
    before: ({ workspace, mustGit }) =>
      Promise.all([mkdir(join(workspace, 'tools')), mustGit(['config', 'filter.own.clean', `sh ${join(workspace, 'evil')}`])]),
    plant: async ({ workspace }) => {
      await writeFile(join(workspace, '.git/info/attributes'), '* filter=own\n')
      await writeFile(join(workspace, 'file'), 'two\n')
    },
    operator: [['diff']],
    kind: 'attributes',
  },
  {
    title: 'a filter by .gitattributes',
    before: ({ workspace, mustGit }) => mustGit(['config', 'filter.own.clean', `sh ${join(workspace, 'evil')}`]),
    plant: async ({ workspace }) => {
      await writeFile(join(workspace, '.gitattributes'), 'file filter=own\n')
      await writeFile(join(workspace, 'file'), 'two\n')
    },
    operator: [['diff']],
    kind: 'attributes',
  },
  {
    title: 'a program of the workspace that the operator’s config names',
    before: async ({ workspace, mustGit }) => {
      await writeFile(join(workspace, 'watch'), '#!/bin/sh\n')
      await chmod(join(workspace, 'watch'), 0o755)
      await mustGit(['config', 'core.fsmonitor', './watch'])
    },
    plant: ({ workspace }, program) => rename(program, join(workspace, 'watch')),
    operator: [['status']],
    kind: 'program',
  },
  {
    title: 'a file of the workspace that the operator’s config includes',
    before: async ({ workspace, mustGit }) => {
      await writeFile(join(workspace, 'team.gitconfig'), '')
      await mustGit(['config', 'include.path', '../team.gitconfig'])
    },
    plant: ({ workspace }, program) => writeFile(join(workspace, 'team.gitconfig'), `[core] fsmonitor = ${program}\n`),
    operator: [['status']],
    kind: 'config',
  },
  {
    title: 'an unfinished rebase with a script of its own',
    plant: async ({ workspace, mustGit }, program) => {
      await writeFile(join(workspace, 'file'), 'two\n')
      await mustGit(['commit', '-qam', 'two'])
      await mustGit(['-c', 'sequence.editor=sed -i s/pick/edit/', 'rebase', '-q', '-i', 'HEAD~1'])
      await appendFile(join(workspace, '.git/rebase-merge/git-rebase-todo'), `exec ${program}\n`)
    },
    operator: [['rebase', '--continue']],
    kind: 'unfinished',
  },
]

for (const { title, before, plant, operator, cwd = '.', kind } of BYPASSES) {
  test(`I36 planted and found before the operator's git runs it: ${title}`, async () => {
    await using setting = await openWorkspace()
    await before?.(setting)
    const session = await setting.open()
    await plant(setting, await setting.plantProgram())
    await setting.forgetRun()
    const findings = await lookAgain(session)
    assert.ok(
      findings.some((finding) => finding.kind === kind),
      JSON.stringify(findings),
    )
    assert.throws(() => refuseSuspect(findings), { code: 'workspace_suspect' })
    // The scan itself ran nothing of it.
    assert.equal(setting.ran(), false)
    // And it is no straw man: the operator's git would have.
    for (const args of operator) await setting.git(args, join(setting.workspace, cwd))
    assert.equal(setting.ran(), true, 'the planted program runs when nobody looks')
  })
}

test('objects of another repository that alternates bring in are found', async () => {
  await using setting = await openWorkspace()
  const session = await setting.open()
  await writeFile(join(setting.workspace, '.git/objects/info/alternates'), '/srv/private/.git/objects\n')
  assert.deepEqual(
    (await lookAgain(session)).map(({ kind, path }) => [kind, path]),
    [['alternates', '.git/objects/info/alternates']],
  )
})

test('a config that the operator changes on the host is found, as that takes its cover away in the container', async () => {
  await using setting = await openWorkspace()
  const session = await setting.open()
  await setting.mustGit(['config', 'branch.main.description', 'harmless'])
  assert.deepEqual(await lookAgain(session), [])
  assert.deepEqual(
    (await lostCovers(session.covers)).map(({ kind, path }) => [kind, path]),
    [['cover_lost', join(setting.workspace, '.git/config')]],
  )
})

test('a config with a second name from before is refused: it could be written through that', async () => {
  await using setting = await openWorkspace()
  await link(join(setting.workspace, '.git/config'), join(setting.workspace, 'second'))
  await assert.rejects(setting.open(), { code: 'workspace_refused', message: /hard link/ })
})

test('a hook of a submodule with a second name is refused', async () => {
  await using setting = await openWorkspace()
  await addSubmodule(setting)
  await mkdir(join(setting.workspace, '.git/modules/library/hooks'), { recursive: true })
  await writeFile(join(setting.workspace, '.git/modules/library/hooks/pre-commit'), '')
  await link(join(setting.workspace, '.git/modules/library/hooks/pre-commit'), join(setting.workspace, 'second'))
  await assert.rejects(setting.open(), { code: 'workspace_refused', message: /hard link/ })
})

for (const name of ['config', 'hooks', 'info', 'modules', 'commondir', 'worktrees']) {
  test(`.git/${name} as a symbolic link is refused: a mount would follow it`, async () => {
    await using setting = await openWorkspace()
    await rm(join(setting.workspace, '.git', name), { recursive: true, force: true })
    await symlink(setting.folder, join(setting.workspace, '.git', name))
    await assert.rejects(setting.open(), { code: 'workspace_refused' })
  })
}

test('a .git file that names a repository of the host gets the agent nothing of it', async () => {
  await using setting = await openWorkspace()
  await using other = await openWorkspace()
  await rm(join(setting.workspace, '.git'), { recursive: true })
  await other.mustGit(['worktree', 'add', '-q', join(other.folder, 'linked'), '-b', 'topic'])
  for (const named of [join(other.workspace, '.git'), join(other.workspace, '.git/worktrees/linked')]) {
    await writeFile(join(setting.workspace, '.git'), `gitdir: ${named}\n`)
    const session = await setting.open()
    const sources = session.mounts.map((mount) => (mount.kind === 'bind' ? mount.source : ''))
    assert.equal(
      sources.some((source) => source.startsWith(other.folder)),
      false,
    )
    assert.deepEqual(session.scan.gitFolders, [])
    assert.equal(session.problems.length, 1)
    await session.cleanUp()
  }
})

test('FIFOs, devices and folders in the place of git’s files neither hang the scan nor pass for looked at', async () => {
  await using setting = await openWorkspace()
  const session = await setting.open()
  await mkdir(join(setting.workspace, 'sub/.git/hooks'), { recursive: true })
  for (const name of ['sub/.git/config', 'sub/.git/HEAD', 'sub/.git/hooks/x', '.gitmodules', '.gitattributes', 'inner/.git']) {
    await mkdir(join(setting.workspace, 'inner'), { recursive: true })
    execFileSync('mkfifo', [join(setting.workspace, name)])
  }
  await mkdir(join(setting.workspace, '.git/objects/info/alternates'), { recursive: true })
  await symlink('/dev/zero', join(setting.workspace, 'sub/.git/config.worktree'))
  const kinds = new Set((await lookAgain(session)).map(({ kind }) => kind))
  for (const kind of ['repository', 'broken_repository', 'hook', 'unread', 'config'] as const) assert.ok(kinds.has(kind), kind)
})

test('a file that is too long to read is told to be unread', async () => {
  await using setting = await openWorkspace()
  const session = await setting.open()
  await writeFile(join(setting.workspace, '.gitmodules'), '#'.repeat(1024 * 1024))
  assert.deepEqual(
    (await lookAgain(session)).map(({ kind }) => kind),
    ['unread'],
  )
})

test('a scan that has no time left says so, and that is a finding', async () => {
  await using setting = await openWorkspace()
  const session = await setting.open()
  let now = 0
  const late = await scanGit(session.scan, { elapsed: () => (now += 60_000) })
  assert.ok(session.baseline !== undefined)
  assert.ok(compareGitScans(session.baseline, late).some(({ kind }) => kind === 'unread'))
})

test('links out of the workspace are not followed by the scan', async () => {
  await using setting = await openWorkspace()
  await using other = await openWorkspace()
  const session = await setting.open()
  await symlink(other.folder, join(setting.workspace, 'elsewhere'))
  assert.deepEqual(await lookAgain(session), [])
})

test('names of the agent’s cannot write on the operator’s terminal through findings', async () => {
  await using setting = await openWorkspace()
  const session = await setting.open()
  await mkdir(join(setting.workspace, 'a\u001b]52;c;eA==\u0007', '.git'), { recursive: true })
  const findings = await lookAgain(session)
  assert.ok(findings.length > 0)
  for (const { path, what, why } of findings) assert.match(path + what + why, /^[ -~’]*$/)
})

async function lookAgain(session: Workspace): Promise<Finding[]> {
  assert.ok(session.baseline !== undefined)
  // As the daemon keeps it: plain data.
  return compareGitScans(JSON.parse(JSON.stringify(session.baseline)), await scanGit(session.scan, system))
}
