import assert from 'node:assert/strict'
import { chown, mkdir, readFile, readdir, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { capture } from '../../scripts/steps.ts'
import { openSession, type Session } from '../support/session.ts'

let session: Session
before(async () => {
  session = await openSession(async (workspace) => {
    const git = (...args: string[]) => capture('git', ['-C', workspace, '-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args])
    await git('init', '-q', '-b', 'main', '.')
    await writeFile(join(workspace, 'file'), 'one\n')
    await git('add', '.')
    await git('commit', '-q', '-m', 'one')
    await mkdir(join(workspace, 'sub'))
    if (process.getuid?.() === 0) await giveAway(workspace, 10_001)
  })
})
after(() => session[Symbol.asyncDispose]())

async function giveAway(path: string, uid: number): Promise<void> {
  await chown(path, uid, uid)
  for (const entry of await readdir(path, { recursive: true })) await chown(join(path, entry), uid, uid)
}

/** Runs a shell script in the workspace as the agent. */
const attempt = (script: string) => session.agent(['sh', '-c', `cd /workspace && ${script}`])

for (const script of [
  'git config core.fsmonitor /workspace/evil',
  'echo "[core] fsmonitor = /workspace/evil" >> .git/config',
  'echo "[core] fsmonitor = /workspace/evil" > .git/config.worktree',
  'echo x > .git/hooks/post-checkout',
  'rm -rf .git/hooks/.. ; mv .git/hooks .git/old',
  'mv .git x',
  'rm .git/config',
  'mv .git/config .git/c',
  'ln -f file .git/config',
  'echo "* filter=evil" > .git/info/attributes',
  'mkdir .git/modules/evil',
  'echo /workspace/evil > .git/commondir',
  'rm .git/commondir',
  'mount --bind /tmp .git',
]) {
  test(`the agent cannot: ${script}`, async () => {
    assert.notEqual((await attempt(script)).code, 0)
  })
}

test('the operator’s git runs nothing of the agent’s after all that', async () => {
  await attempt('printf "#!/bin/sh\\ntouch /workspace/ran\\n" > evil; chmod +x evil')
  for (const args of [['status'], ['diff'], ['log', '-1'], ['checkout', '-q', '-b', 'other'], ['checkout', '-q', 'main']]) {
    const { code, stderr } = await capture('git', ['-c', 'safe.directory=*', '-C', session.workspace, ...args])
    assert.equal(code, 0, stderr)
  }
  assert.equal(existsSync(join(session.workspace, 'ran')), false)
  assert.doesNotMatch(await readFile(join(session.workspace, '.git/config'), 'utf8'), /evil/)
})

test('git still works in the agent: status, commit, branch, log', async () => {
  const script =
    'echo two >> file && git -c user.name=a -c user.email=a@example.com commit -qam two && git switch -q -c topic main && git status --short && git log --format=%s'
  const { code, stdout, stderr } = await attempt(script)
  assert.equal(code, 0, stderr)
  assert.match(stdout, /two\none\n$/)
})
