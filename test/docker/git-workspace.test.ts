import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { appendFile, lstat, mkdir, readFile, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { capture, type Outcome } from '../../scripts/steps.ts'
import { compareGitScans, scanGit, type Finding } from '../../src/controller/sessions/git-scan.ts'
import type { Filesystem, Workspace } from '../../src/controller/sessions/workspace.ts'
import { system } from '../../src/kernel/system.ts'
import { AGENT, giveToAgent, runWorkspace, type WorkspaceContainer } from '../support/workspace-container.ts'
import { openWorkspace, OPERATOR, type WorkspaceSetting } from '../support/workspace-setting.ts'

type Session = AsyncDisposable & { readonly setting: WorkspaceSetting; readonly workspace: Workspace; readonly agent: WorkspaceContainer }

/** An agent's container over a workspace that `fill` has prepared. */
async function openSession(
  fill: (setting: WorkspaceSetting) => Promise<unknown> = async () => undefined,
  filesystem: Partial<Filesystem> = {},
  place: (setting: WorkspaceSetting) => string = ({ workspace }) => workspace,
): Promise<Session> {
  await using parts = new AsyncDisposableStack()
  const setting = parts.use(await openWorkspace())
  await fill(setting)
  await giveToAgent(setting.folder)
  const workspace = await setting.open(filesystem, { workspace: place(setting), owner: AGENT })
  const agent = parts.use(await runWorkspace(workspace))
  const running = parts.move()
  return { setting, workspace, agent, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

async function lookAgain({ workspace }: Session): Promise<Finding[]> {
  assert.ok(workspace.baseline !== undefined)
  return compareGitScans(workspace.baseline, await scanGit(workspace.scan, system))
}

/** A program of the operator's, whom the workspace belongs to: where the tests run as root, that is the agent's uid. */
function operator(session: Session, argv: readonly string[], folder = '.'): Promise<Outcome> {
  const become = process.getuid?.() === 0 ? ['setpriv', '--reuid', String(AGENT.uid), '--regid', String(AGENT.gid), '--clear-groups'] : []
  const [program = '', ...args] = [...become, ...argv]
  return capture(program, args, {
    cwd: join(session.setting.workspace, folder),
    env: { ...OPERATOR, HOME: join(session.setting.folder, 'user') },
  })
}

/** With a submodule, a linked worktree elsewhere, a nested repository and a bare one to fetch from. */
async function fillWhole({ folder, workspace, mustGit }: WorkspaceSetting): Promise<void> {
  await mustGit(['clone', '-q', '--bare', workspace, join(workspace, 'upstream.git')])
  await writeFile(join(workspace, '.gitignore'), 'upstream.git/\nvendor/\nRAN\nevil\n')
  await mustGit(['add', '.'])
  await mustGit(['commit', '-qm', 'ignore'])
  await mustGit(['clone', '-q', join(workspace, 'upstream.git'), join(workspace, 'vendor/deep')])
  await mustGit(['submodule', '--quiet', 'add', join(workspace, 'upstream.git'), 'library'])
  await mustGit(['commit', '-qm', 'library'])
  await mustGit(['remote', 'add', 'origin', 'upstream.git'])
  await mustGit(['worktree', 'add', '-q', join(folder, 'linked'), '-b', 'linked'])
}

let whole: Session
before(async () => {
  whole = await openSession(fillWhole)
  await whole.agent.must(`printf '#!/bin/sh\\ntouch "${whole.setting.workspace}/RAN"\\ncat\\n' > evil; chmod +x evil`)
})
after(() => whole[Symbol.asyncDispose]())

/** What plants `core.fsmonitor` somewhere. */
const EVIL = 'printf "[core]\\n\\tfsmonitor = ./evil\\n"'
/** A folder with a config of the agent's that git would take for a repository. */
const makeFolder = (path: string): string =>
  `mkdir -p ${path}/objects ${path}/refs && echo "ref: refs/heads/main" > ${path}/HEAD && ${EVIL} > ${path}/config`

for (const script of [
  'git config core.fsmonitor ./evil',
  `${EVIL} >> .git/config`,
  `${EVIL} > .git/config.worktree`,
  'rm .git/config',
  'mv .git/config .git/c',
  'ln .git/config second',
  'ln -f file .git/config',
  'chmod 666 .git/config',
  'mv .git x',
  `mv .git x && ${makeFolder('.git')}`,
  `${makeFolder('other')} && echo ../other > .git/commondir`,
  'rm .git/commondir',
  'echo x > .git/hooks/post-checkout',
  'mv .git/hooks .git/old',
  'rmdir .git/info || rm -r .git/info',
  'echo "* filter=evil" > .git/info/attributes',
  `${EVIL} >> .git/modules/library/config`,
  'mv .git/modules/library .git/modules/x',
  'mkdir .git/modules/evil',
  'echo x > .git/modules/library/hooks/post-checkout',
  'echo ../../../other > .git/modules/library/commondir',
  'echo ../../../other > .git/worktrees/linked/commondir',
  `${EVIL} > .git/worktrees/linked/config.worktree`,
  'mv .git/worktrees/linked .git/worktrees/x',
  'mv .git/worktrees .git/x',
  'rm library/.git',
  'echo "gitdir: ../other" > library/.git',
  'mv library moved',
  `${EVIL} >> vendor/deep/.git/config`,
  'echo x > vendor/deep/.git/hooks/post-checkout',
  'mv vendor/deep/.git vendor/deep/x',
  'mv vendor/deep vendor/x',
  'mv vendor x',
  `${EVIL} >> upstream.git/config`,
  'mv upstream.git x.git',
  'mount --bind /tmp .git',
  'umount .git/config',
]) {
  test(`I35 the agent cannot: ${script}`, async () => {
    assert.notEqual((await whole.agent.sh(script)).code, 0)
  })
}

test('after all that the operator’s git runs nothing, in no repository of the workspace nor in the linked worktree', async () => {
  const { setting } = whole
  for (const folder of ['.', 'library', 'vendor/deep', 'upstream.git', '../linked']) {
    const worktree = folder === 'upstream.git' ? [] : [['status'], ['diff']]
    // The remote is named by a path that is one in the workspace only.
    const fetched = folder === '../linked' ? [] : [['fetch', '-q', '--all']]
    for (const args of [...worktree, ...fetched, ['log', '-1'], ['branch', '-a']]) {
      const { code, stderr } = await operator(whole, ['git', ...args], folder)
      assert.equal(code, 0, `${folder}: git ${args[0]}: ${stderr}`)
    }
  }
  assert.equal(setting.ran(), false)
  for (const path of ['.git/config', '.git/modules/library/config', 'vendor/deep/.git/config', 'upstream.git/config']) {
    assert.doesNotMatch(await readFile(join(setting.workspace, path), 'utf8'), /evil/)
  }
})

test('git works in the agent: add, commit, branch, merge, rebase, stash, fetch, submodule status, gc', async () => {
  const { agent, setting } = whole
  const output = await agent.must(`set -e
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
    echo two > second; git add second; git commit -qm two
    git switch -q -c topic main~1; echo three > third; git add third; git commit -qm three
    git rebase -q main; git switch -q main; git merge -q --no-edit topic
    git switch -q -c side main~2; echo four > fourth; git add fourth; git commit -qm four
    git switch -q main; git merge -q --no-edit side
    echo five >> file; git stash -q; git diff --quiet; git stash pop -q; git commit -qam five
    git fetch -q origin; git branch -a | grep -q origin/main; git switch -q -c mine origin/main; git switch -q main
    git submodule status; git -C library status --short; git -C library log --oneline -1; git -C vendor/deep status --short
    git push -q origin main:from-agent
    git gc -q; git fsck --no-progress; git worktree list > /dev/null
    git log --format=%s -6`)
  assert.match(output, /^ [0-9a-f]{40} library/m)
  assert.match(output, /five\nMerge branch 'side'\n/)
  assert.equal(setting.ran(), false)
  // And the operator goes on from there.
  assert.equal((await setting.mustGit(['status', '--porcelain', '-uno'])).trim(), '')
  assert.match(await setting.mustGit(['log', '--format=%an', '-1']), /^a$/m)
})

test('the work of a session without tricks gives no finding', async () => {
  await using session = await openSession()
  await session.agent.must(
    'echo x > new && mkdir -p a/b && git add . && git -c user.name=a -c user.email=a@e commit -qm x && git switch -q -c b',
  )
  assert.deepEqual(await lookAgain(session), [])
})

for (const { script, kind } of [
  { script: makeFolder('sub/.git'), kind: 'repository' },
  { script: 'git init -q sub2', kind: 'repository' },
  { script: makeFolder('bare'), kind: 'bare_repository' },
  { script: 'mkdir s3; echo "gitdir: ../x" > s3/.git', kind: 'git_file' },
  { script: 'mkdir s4; ln -s /workspace/x s4/.git', kind: 'git_link' },
  { script: 'rm -rf .git; git init -q --bare .', kind: 'broken_repository' },
  { script: 'echo none > .git/HEAD', kind: 'broken_repository' },
  { script: 'echo /srv/objects > .git/objects/info/alternates', kind: 'alternates' },
  { script: 'git worktree add -q w', kind: 'worktree' },
  { script: 'echo "* filter=lfs" > .gitattributes', kind: 'attributes' },
  { script: 'echo "[submodule]" > .gitmodules', kind: 'submodules' },
  { script: 'mkdir .git/rebase-merge; echo "exec ./evil" > .git/rebase-merge/git-rebase-todo', kind: 'unfinished' },
] as const) {
  test(`what no mount stands against is found: ${script}`, async () => {
    await using session = await openSession()
    await session.agent.must(script)
    assert.ok((await lookAgain(session)).some((finding) => finding.kind === kind))
  })
}

test('a linked worktree works in the agent, and nothing of its repository that git executes can be changed there', async () => {
  const prepare = async ({ folder, mustGit }: WorkspaceSetting): Promise<void> => {
    await mustGit(['worktree', 'add', '-q', join(folder, 'linked'), '-b', 'topic'])
    await mustGit(['worktree', 'add', '-q', join(folder, 'third'), '-b', 'third'])
    // git rewrites a gitdir that is a day old with the path as it is where it runs.
    await utimes(join(folder, 'project/.git/worktrees/linked/gitdir'), 1, 1)
  }
  await using session = await openSession(prepare, {}, ({ folder }) => join(folder, 'linked'))
  const { agent, setting } = session
  assert.deepEqual(session.workspace.problems, [])
  await agent.must(
    'echo two >> file && git -c user.name=a -c user.email=a@example.com commit -qam two && git switch -q -c more && git status --short && git log -2 && git stash list',
  )
  const own = '/workspace.git/worktrees/linked'
  for (const script of [
    'git config core.fsmonitor ./evil',
    'echo x >> /workspace.git/config',
    'echo x > /workspace.git/hooks/post-checkout',
    'echo x > /workspace.git/commondir',
    `echo /workspace/x > ${own}/commondir`,
    `echo x > ${own}/config.worktree`,
    `echo x > ${own}/gitdir`,
    `mkdir ${own}/modules/x`,
    `mv ${own} /workspace.git/worktrees/x`,
    'mv /workspace.git/worktrees /workspace.git/x',
    'echo /workspace/x > /workspace.git/worktrees/third/commondir',
    'echo "gitdir: x" > .git',
    'rm .git',
    'mv .git x',
  ]) {
    assert.notEqual((await agent.sh(script)).code, 0, script)
  }
  assert.match(await setting.mustGit(['log', '-1', '--format=%an'], join(setting.folder, 'linked')), /^a$/m)
  const list = await setting.mustGit(['worktree', 'list', '--porcelain'])
  assert.match(list, new RegExp(`worktree ${join(setting.folder, 'linked')}\n`))
  assert.doesNotMatch(list, /prunable|worktree \/workspace/)
  assert.deepEqual(await lookAgain(session), [])
  await session.workspace.cleanUp()
  assert.equal(existsSync(join(setting.workspace, '.git/commondir')), false)
})

test('filesystem.hide: files and folders are empty and cannot be written, by any of their names', async () => {
  const prepare = async ({ workspace }: WorkspaceSetting): Promise<void> => {
    await mkdir(join(workspace, 'secrets/deep'), { recursive: true })
    await mkdir(join(workspace, 'app/config'), { recursive: true })
    for (const file of ['.env', 'app/.env', 'secrets/deep/key', 'app/server.pem', 'app/config/real'])
      await writeFile(join(workspace, file), 'CANARY')
    await symlink('.env', join(workspace, 'alias'))
    await symlink('config/real', join(workspace, 'app/link.pem'))
    await capture('ln', [join(workspace, '.env'), join(workspace, 'second-name')])
  }
  await using session = await openSession(prepare, { hide: ['.env', 'secrets/**', '**/*.pem'] })
  const { agent, setting, workspace } = session
  const read = await agent.must(
    'cat .env app/.env alias second-name app/server.pem app/link.pem app/config/real; ls -A secrets; grep -r CANARY . || true',
  )
  assert.equal(read, '')
  for (const script of ['echo x > .env', 'echo x > secrets/x', 'rm .env', 'mv secrets x', 'mv .env x', 'ln .env x', 'chmod 777 .env']) {
    assert.notEqual((await agent.sh(script)).code, 0, script)
  }
  // Moved with its folder the cover moves too.
  assert.equal(await agent.must('mv app moved && cat moved/.env moved/server.pem moved/config/real'), '')
  assert.deepEqual(
    workspace.problems.map(({ kind, path }) => [kind, path]),
    [['hidden', 'second-name']],
  )
  assert.equal(await readFile(join(setting.workspace, '.env'), 'utf8'), 'CANARY')
  assert.equal(await readFile(join(setting.workspace, 'secrets/deep/key'), 'utf8'), 'CANARY')
  await writeFile(join(setting.workspace, 'late.pem'), 'CANARY')
  const found = (await lookAgain(session)).map(({ kind, path }) => `${kind} ${path}`)
  assert.deepEqual(new Set(found), new Set(['hidden late.pem', 'hidden moved/.env', 'hidden moved/link.pem', 'hidden moved/server.pem']))
})

test('workspace: ro gives everything to read and nothing to write, and makes nothing', async () => {
  await using session = await openSession(fillWhole, { workspace: 'ro', hide: ['file'] })
  const { agent, setting } = session
  await agent.must('git status --short; git log -1; git diff HEAD --stat; git -C library log -1')
  assert.equal(await agent.must('cat file'), '')
  for (const script of ['touch x', 'touch .git/x', 'touch library/x', 'echo x >> .git/config', 'rm file', 'mv .git x']) {
    assert.notEqual((await agent.sh(script)).code, 0, script)
  }
  assert.deepEqual(session.workspace.made, [])
  assert.equal(existsSync(join(setting.workspace, '.git/commondir')), false)
})

test('workspace: ro of a linked worktree can be read with git', async () => {
  await using session = await openSession(
    ({ folder, mustGit }) => mustGit(['worktree', 'add', '-q', join(folder, 'linked'), '-b', 'topic']),
    { workspace: 'ro' },
    ({ folder }) => join(folder, 'linked'),
  )
  assert.match(await session.agent.must('git status && git log -1'), /On branch topic/)
  assert.notEqual((await session.agent.sh('touch /workspace.git/x')).code, 0)
})

test('workspace: none gives nothing of the host, and a folder to work in', async () => {
  await using session = await openSession(fillWhole, { workspace: 'none' })
  assert.equal(await session.agent.must('ls -A && echo x > y && rm y && git init -q . && git status --short'), '')
  assert.equal(session.workspace.mounts.filter(({ kind }) => kind === 'bind').length, 0)
})

test('HOME is writable, the agent’s own, and empty', async () => {
  const { agent } = whole
  assert.equal(await agent.must('ls -A ~ && git config --global user.name a && echo x > ~/y && stat -c %u ~'), `${AGENT.uid}\n`)
})

test('files of either side are usable by both', async () => {
  await using session = await openSession()
  const { agent, setting } = session
  await agent.must('mkdir made && echo agent > made/file && echo "#!/bin/sh" > made/run && chmod +x made/run')
  assert.equal((await lstat(join(setting.workspace, 'made/file'))).uid, AGENT.uid)
  const asOwner = (script: string) => operator(session, ['sh', '-c', script])
  assert.equal(
    (
      await asOwner(
        'echo operator >> made/file && rm made/run && mkdir own && echo operator > own/file && git add made own && git commit -qm both',
      )
    ).code,
    0,
  )
  assert.equal(
    await agent.must('cat made/file && echo agent >> own/file && git -c user.name=a -c user.email=a@e commit -qam again && rm own/file'),
    'agent\noperator\n',
  )
  await appendFile(join(setting.workspace, 'made/file'), 'root\n')
  assert.match(await agent.must('tail -1 made/file'), /^root$/m)
  assert.equal((await asOwner('git log --oneline | wc -l')).stdout.trim(), '3')
})

test('git_metadata: writable leaves the settings to the agent', async () => {
  await using session = await openSession(undefined, { git_metadata: 'writable' })
  await session.agent.must('git config core.fsmonitor ./evil && echo x > .git/hooks/post-checkout')
  assert.equal(session.workspace.audit.gitMetadata, 'writable')
  assert.deepEqual(await lookAgain(session), [])
  assert.deepEqual(session.workspace.made, [])
})

test('a repository of another uid is usable in the agent', async () => {
  await using setting = await openWorkspace()
  if (process.getuid?.() !== 0) return
  const workspace = await setting.open({}, { owner: AGENT })
  assert.deepEqual(
    workspace.problems.map(({ kind }) => kind),
    ['not_writable'],
  )
  await using agent = await runWorkspace(workspace)
  assert.match(await agent.must('git status && git log -1'), /On branch main/)
})
