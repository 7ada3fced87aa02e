import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { appendFile, chmod, chown, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { lostCovers, watchCovers } from '../../../src/controller/sessions/workspace-covers.ts'
import type { WorkspaceRequest } from '../../../src/controller/sessions/workspace.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { openWorkspace, type WorkspaceSetting } from '../../support/workspace-setting.ts'

const isRoot = process.getuid?.() === 0

for (const { title, place, prepare, message, asRoot = false } of [
  { title: 'the whole host', place: () => '/', message: /whole host/ },
  { title: 'the operator’s home', place: ({ folder }: WorkspaceSetting) => join(folder, 'user'), message: /home folder/ },
  { title: 'a folder that holds the operator’s home', place: ({ folder }: WorkspaceSetting) => folder, message: /home folder/ },
  { title: 'Sallyport’s own state', place: ({ folder }: WorkspaceSetting) => join(folder, 'home'), message: /keeps its state/ },
  {
    title: 'a folder in Sallyport’s own state',
    place: ({ folder }: WorkspaceSetting) => join(folder, 'home/policies'),
    prepare: ({ folder }: WorkspaceSetting) => mkdir(join(folder, 'home/policies')),
    message: /keeps its state/,
  },
  { title: 'a folder of the system', place: () => '/etc', message: /belongs to the system/ },
  { title: 'a folder of the engine', place: () => '/run', message: /container engine/ },
  {
    title: 'a folder of the engine that the caller knows',
    place: ({ workspace }: WorkspaceSetting) => workspace,
    message: /container engine/,
    more: ({ workspace }: WorkspaceSetting) => ({ engineFolders: [workspace] }),
  },
  {
    title: 'a link to the operator’s home',
    place: ({ folder }: WorkspaceSetting) => join(folder, 'link'),
    prepare: ({ folder }: WorkspaceSetting) => symlink(join(folder, 'user'), join(folder, 'link')),
    message: /home folder/,
  },
  {
    title: 'a link that leads to itself',
    place: ({ folder }: WorkspaceSetting) => join(folder, 'link'),
    prepare: ({ folder }: WorkspaceSetting) => symlink('link', join(folder, 'link')),
    message: /leads nowhere/,
  },
  { title: 'what is not there', place: ({ folder }: WorkspaceSetting) => join(folder, 'none'), message: /does not exist/ },
  { title: 'a file', place: ({ workspace }: WorkspaceSetting) => join(workspace, 'file'), message: /not a folder/ },
  {
    title: 'a folder that everybody may write',
    place: ({ workspace }: WorkspaceSetting) => workspace,
    prepare: ({ workspace }: WorkspaceSetting) => chmod(workspace, 0o777),
    message: /everybody may write/,
  },
  {
    title: 'a folder that everybody may write, sticky or not',
    place: ({ workspace }: WorkspaceSetting) => workspace,
    prepare: ({ workspace }: WorkspaceSetting) => chmod(workspace, 0o1777),
    message: /everybody may write/,
  },
  {
    title: 'a folder below one that everybody may write',
    place: ({ workspace }: WorkspaceSetting) => workspace,
    prepare: ({ folder }: WorkspaceSetting) => chmod(folder, 0o777),
    message: /everybody may write/,
  },
  {
    title: 'a folder below one of somebody else',
    place: ({ workspace }: WorkspaceSetting) => workspace,
    prepare: ({ folder }: WorkspaceSetting) => chown(folder, 4242, 4242),
    message: /uid 4242/,
    asRoot: true,
  },
  {
    title: 'a folder that a group may write',
    place: ({ workspace }: WorkspaceSetting) => workspace,
    prepare: async ({ workspace }: WorkspaceSetting) => {
      await chown(workspace, 0, 4242)
      await chmod(workspace, 0o775)
    },
    message: /group 4242/,
    asRoot: true,
  },
  {
    title: 'a name that no mount can say',
    place: ({ folder }: WorkspaceSetting) => join(folder, 'a\nb'),
    prepare: ({ folder }: WorkspaceSetting) => mkdir(join(folder, 'a\nb')),
    message: /no mount can name/,
  },
] as readonly {
  title: string
  place: (setting: WorkspaceSetting) => string
  prepare?: (setting: WorkspaceSetting) => Promise<unknown>
  more?: (setting: WorkspaceSetting) => Partial<WorkspaceRequest>
  message: RegExp
  asRoot?: boolean
}[]) {
  test(`I37 refused as a workspace: ${title}`, { skip: asRoot && !isRoot }, async () => {
    await using setting = await openWorkspace()
    await prepare?.(setting)
    const engineFolders = title.includes('the caller') ? [setting.workspace] : []
    await assert.rejects(setting.open({}, { workspace: place(setting), engineFolders }), { code: 'workspace_refused', message })
  })
}

test('a workspace that is reached through a link is mounted by its real path', async () => {
  await using setting = await openWorkspace()
  await symlink(setting.workspace, join(setting.folder, 'link'))
  const session = await setting.open({}, { workspace: join(setting.folder, 'link') })
  assert.equal(session.source, setting.workspace)
  for (const mount of session.mounts) assert.ok(mount.kind === 'bind' && mount.source.startsWith(setting.workspace))
})

test('commondir is removed at the end, when it is as it was made', async () => {
  await using setting = await openWorkspace()
  const commondir = join(setting.workspace, '.git/commondir')
  const one = await setting.open()
  assert.equal(await readFile(commondir, 'utf8'), '.\n')
  await one.cleanUp()
  assert.equal(existsSync(commondir), false)
  assert.equal(existsSync(join(setting.workspace, '.git/config.worktree')), false)
  assert.equal(existsSync(join(setting.workspace, '.git/modules')), false)
  const two = await setting.open()
  await appendFile(commondir, '# mine\n')
  await two.cleanUp()
  assert.equal(existsSync(commondir), true)
  const three = await setting.open()
  await three.cleanUp()
  assert.equal(existsSync(commondir), true, 'one that was there before stays')
})

test('what two sessions rely on is removed with the last of them', async () => {
  await using setting = await openWorkspace()
  await setting.mustGit(['worktree', 'add', '-q', join(setting.folder, 'linked'), '-b', 'topic'])
  const commondir = join(setting.workspace, '.git/commondir')
  const one = await setting.open()
  const two = await setting.open(
    {},
    { workspace: join(setting.folder, 'linked'), filesDir: join(setting.folder, 'home/two'), others: [one] },
  )
  await one.cleanUp(two.made)
  assert.equal(existsSync(commondir), true)
  assert.deepEqual(await lostCovers(two.covers), [])
  await two.cleanUp()
  assert.equal(existsSync(commondir), false)
})

test('nothing is mounted that the agent of another session could replace meanwhile', async () => {
  await using setting = await openWorkspace()
  await mkdir(join(setting.workspace, 'sub'))
  const one = await setting.open()
  const filesDir = join(setting.folder, 'home/two')
  await setting.open({}, { filesDir, others: [one] })
  // A worktree that is made while it runs lies in what that agent may write.
  await setting.mustGit(['worktree', 'add', '-q', join(setting.folder, 'linked'), '-b', 'topic'])
  for (const workspace of [join(setting.workspace, 'sub'), join(setting.folder, 'linked')]) {
    await assert.rejects(setting.open({}, { workspace, filesDir, others: [one] }), {
      code: 'workspace_refused',
      message: /another session/,
    })
  }
  await setting.mustGit(['init', '-q', 'sub'])
  await assert.rejects(setting.open({}, { filesDir, others: [one] }), { code: 'workspace_refused', message: /another session/ })
})

test('a refusal half way leaves nothing behind', async () => {
  await using setting = await openWorkspace()
  await rm(join(setting.workspace, '.git/info'), { recursive: true })
  await symlink('/tmp', join(setting.workspace, '.git/info'))
  await assert.rejects(setting.open(), { code: 'workspace_refused' })
  for (const name of ['commondir', 'config.worktree', 'modules'])
    assert.equal(existsSync(join(setting.workspace, '.git', name)), false, name)
})

test('more hidden files than can be covered are refused, with what to do', async () => {
  await using setting = await openWorkspace()
  await mkdir(join(setting.workspace, 'keys'))
  for (let index = 0; index <= LIMITS.workspaceMountsMax; index++) await writeFile(join(setting.workspace, `keys/${index}.pem`), '')
  await assert.rejects(setting.open({ hide: ['*.pem'] }), { code: 'workspace_refused', message: /257 files/ })
  // As a folder it is one mount.
  const session = await setting.open({ hide: ['keys/**'] })
  assert.deepEqual(session.audit.hidden, ['keys'])
})

for (const hide of ['', '/etc', '../x', 'a/../b', 'a//b', '[ab]', '{a,b}', '!x', 'a\\b', '**', '**/', 'a**b', 'x\u0000']) {
  test(`filesystem.hide refuses ${JSON.stringify(hide)}`, async () => {
    await using setting = await openWorkspace()
    await assert.rejects(setting.open({ hide: [hide] }), { code: 'config_invalid' })
  })
}

test('a hidden link that leads to the workspace itself or into .git is refused', async () => {
  for (const to of ['.', '.git/config']) {
    await using setting = await openWorkspace()
    await symlink(to, join(setting.workspace, '.env'))
    await assert.rejects(setting.open({ hide: ['.env'] }), { code: 'workspace_refused' })
  }
})

test('a hidden link that leads out of the workspace needs no cover: the agent cannot follow it', async () => {
  await using setting = await openWorkspace()
  await symlink('/etc/passwd', join(setting.workspace, '.env'))
  assert.deepEqual((await setting.open({ hide: ['.env'] })).audit.hidden, [])
})

test('repositories beyond those that are covered are told', async () => {
  await using setting = await openWorkspace()
  for (let index = 0; index <= LIMITS.coveredRepositoriesMax; index++) await setting.mustGit(['init', '-q', `sub${index}`])
  const session = await setting.open()
  assert.equal(session.audit.repositories.length, 1 + LIMITS.coveredRepositoriesMax)
  assert.deepEqual(
    session.problems.map(({ kind }) => kind),
    ['repository'],
  )
})

test('the watch tells at once of a cover that the operator’s git took away', async () => {
  await using setting = await openWorkspace()
  const session = await setting.open()
  const { promise, resolve } = Promise.withResolvers<string>()
  using watch = watchCovers(session.covers, ([lost]) => resolve(lost?.path ?? ''))
  await setting.mustGit(['config', 'some.key', 'value'])
  assert.ok(watch)
  assert.equal(await promise, join(setting.workspace, '.git/config'))
})

test('a cover is lost also where the new file has the number of the old one', async () => {
  await using setting = await openWorkspace()
  const session = await setting.open()
  const config = join(setting.workspace, '.git/config')
  const text = await readFile(config)
  await rm(config)
  await writeFile(config, text)
  assert.equal((await lostCovers(session.covers)).length, 1)
})
