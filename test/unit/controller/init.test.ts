import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, readdirSync, realpathSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createHash } from 'node:crypto'
import { remoteHost } from '../../../src/controller/init/detect.ts'
import { KINDS } from '../../../src/controller/init/kinds.ts'
import { parse } from 'yaml'
import { runCommand } from '../../support/command.ts'
import { temporaryFolder } from '../../support/audit.ts'

async function place() {
  const folder = await temporaryFolder()
  const [workspace, home] = [join(folder.path, 'work'), join(folder.path, 'home')]
  mkdirSync(workspace)
  return {
    workspace,
    home,
    file: join(home, 'policies/workspaces', createHash('sha256').update(realpathSync(workspace)).digest('hex'), 'policy.yaml'),
    put: (name: string, text = '') => {
      mkdirSync(join(workspace, name, '..'), { recursive: true })
      writeFileSync(join(workspace, name), text)
    },
    init: (...args: string[]) => runCommand(['init', '--workspace', workspace, ...args], { SALLYPORT_HOME: home }),
    check: (file: string) => runCommand(['policy', 'check', file, '--json'], { SALLYPORT_HOME: home }),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

test('the policy lies under SALLYPORT_HOME by the hash of the real path, with the path beside it, for nobody else to read', async () => {
  await using at = await place()
  assert.equal((await at.init()).code, 0)
  assert.equal(readFileSync(join(at.file, '../workspace'), 'utf8'), `${realpathSync(at.workspace)}\n`)
  assert.equal(statSync(at.file).mode & 0o777, 0o600)
  assert.equal(statSync(join(at.file, '..')).mode & 0o777, 0o700)
  assert.deepEqual(readdirSync(join(at.file, '..')).toSorted(), ['policy.yaml', 'workspace'])
})

for (const kind of KINDS) {
  test(`${kind.files[0]} is found as ${kind.what}, and its policy passes policy check`, async () => {
    await using at = await place()
    at.put(kind.files[0]?.replace('*', 'acme') ?? '')
    const { stdout } = await at.init()
    assert.ok(stdout.includes(kind.what), stdout)
    const policy = parse(readFileSync(at.file, 'utf8')) as { extends?: string[] }
    assert.deepEqual(policy.extends ?? [], kind.extends)
    assert.equal((await at.check(at.file)).code, 0)
  })
}

for (const { name, harness, secret } of [
  { name: 'CLAUDE.md', harness: 'claude', secret: 'ANTHROPIC_API_KEY' },
  { name: 'GEMINI.md', harness: 'gemini', secret: 'GEMINI_API_KEY' },
  { name: 'opencode.json', harness: 'opencode', secret: 'ANTHROPIC_API_KEY' },
  { name: 'AGENTS.md', harness: 'codex', secret: 'OPENAI_API_KEY' },
]) {
  test(`${name} makes the policy one for ${harness}, whose key comes from the vault`, async () => {
    await using at = await place()
    at.put(name)
    const { stdout } = await at.init()
    assert.ok(stdout.includes(`sallyport secret set ${secret}`))
    const policy = parse(readFileSync(at.file, 'utf8')) as { network: { harness: string }; secrets: unknown }
    assert.equal(policy.network.harness, harness)
    assert.deepEqual(policy.secrets, [{ name: secret, source: `vault:${secret}`, resources: ['inject'] }])
    assert.equal((await at.check(at.file)).code, 0)
  })
}

test('a remote at GitHub brings its preset and its token', async () => {
  await using at = await place()
  at.put(
    '.git/config',
    '[core]\n\tbare = false\n[remote "origin"]\n\turl = git@github.com:acme/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
  )
  await at.init()
  const policy = parse(readFileSync(at.file, 'utf8')) as { extends: string[]; secrets: { name: string }[] }
  assert.deepEqual(policy.extends, ['service/github'])
  assert.deepEqual(
    policy.secrets.map(({ name }) => name),
    ['GITHUB_TOKEN'],
  )
  assert.equal((await at.check(at.file)).code, 0)
})

test('the remote of a linked worktree is that of its repository', async () => {
  await using at = await place()
  at.put('.git', 'gitdir: ../repository/.git/worktrees/w\n')
  const repository = join(at.workspace, '../repository/.git')
  mkdirSync(join(repository, 'worktrees/w'), { recursive: true })
  writeFileSync(join(repository, 'worktrees/w/commondir'), '../..\n')
  writeFileSync(join(repository, 'config'), '[remote "origin"]\n\turl = https://gitlab.com/acme/x.git\n')
  assert.match((await at.init()).stdout, /git {7}gitlab\.com/)
})

for (const { url, host } of [
  { url: 'https://github.com/acme/x.git', host: 'github.com' },
  { url: 'https://user:token@github.com/acme/x.git', host: 'github.com' },
  { url: 'ssh://git@GitHub.com:22/acme/x.git', host: 'github.com' },
  { url: 'git@github.com:acme/x.git', host: 'github.com' },
  { url: 'git.example.com:x', host: 'git.example.com' },
  { url: '/srv/git/x.git', host: undefined },
  { url: '../x.git', host: undefined },
  { url: 'file:///srv/git/x.git', host: undefined },
  { url: 'C:/x.git', host: undefined },
  { url: 'work:acme/x.git', host: undefined },
  { url: 'https://192.0.2.1/x.git', host: undefined },
  { url: 'ext::sh -c id', host: undefined },
  { url: 'git@evil\u202e.com:x', host: undefined },
])
  test(`the remote ${JSON.stringify(url)} is ${host === undefined ? 'none with a host' : `at ${host}`}`, () =>
    assert.equal(remoteHost(url), host))

test('a policy that is there is left as it is, and the same one is no complaint', async () => {
  await using at = await place()
  await at.init()
  assert.equal((await at.init()).code, 0)
  writeFileSync(at.file, 'version: 1\n# mine\n')
  const { code, stderr } = await at.init()
  assert.equal(code, 1)
  assert.match(stderr, /^policy_exists: /)
  assert.match(stderr, /diff/)
  assert.equal(readFileSync(at.file, 'utf8'), 'version: 1\n# mine\n')
})

test('--force keeps a copy of each that was there', async () => {
  await using at = await place()
  for (const text of ['# one\n', '# two\n']) {
    mkdirSync(join(at.file, '..'), { recursive: true })
    writeFileSync(at.file, text)
    assert.equal((await at.init('--force')).code, 0)
  }
  assert.equal(readFileSync(`${at.file}.before-1`, 'utf8'), '# one\n')
  assert.equal(readFileSync(`${at.file}.before-2`, 'utf8'), '# two\n')
})

test('--print writes nothing', async () => {
  await using at = await place()
  assert.match((await at.init('--print')).stdout, /^version: 1$/m)
  assert.throws(() => statSync(at.home), { code: 'ENOENT' })
})

test('what the global policy declares already is not declared again: both together pass', async () => {
  await using at = await place()
  at.put('CLAUDE.md')
  at.put('.git/config', '[remote "origin"]\n\turl = git@github.com:acme/x.git\n')
  mkdirSync(join(at.home, 'policies'), { recursive: true })
  const global = join(at.home, 'policies/global.yaml')
  writeFileSync(
    global,
    'version: 1\nextends: [service/github]\nsecrets:\n  - {name: GITHUB_TOKEN, source: "vault:GITHUB_TOKEN", resources: [inject]}\n',
  )
  await at.init()
  const { code, stdout } = await runCommand(['policy', 'check', global, at.file], { SALLYPORT_HOME: at.home })
  assert.equal(code, 0, stdout)
})

test('a harness of the operator’s own is taken, an unknown one refused with the nearest', async () => {
  await using at = await place()
  mkdirSync(join(at.home, 'policies/harness'), { recursive: true })
  writeFileSync(join(at.home, 'policies/harness/mine.yaml'), 'version: 1\nnetwork: {rules: []}\n')
  assert.equal((await at.init('--harness', 'mine')).code, 0)
  assert.equal((await at.check(at.file)).code, 0)
  const { code, stderr } = await at.init('--harness', 'cluade')
  assert.equal(code, 2)
  assert.match(stderr, /did you mean "claude"/)
  assert.equal((await at.init('--harness', '../../etc/passwd')).code, 2)
})

test('a workspace that holds SALLYPORT_HOME is refused: the agent would write its own policy', async () => {
  await using at = await place()
  const inside = join(at.workspace, 'home')
  mkdirSync(inside)
  for (const home of [inside, join(at.workspace, 'not-yet'), at.workspace]) {
    assert.equal((await runCommand(['init', '--workspace', at.workspace], { SALLYPORT_HOME: home })).code, 2, home)
  }
  symlinkSync(inside, join(at.workspace, '../link'))
  assert.equal((await runCommand(['init', '--workspace', at.workspace], { SALLYPORT_HOME: join(at.workspace, '../link') })).code, 2)
})
