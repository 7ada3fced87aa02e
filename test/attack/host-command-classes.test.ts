import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkPolicy, loadPolicy } from '../../src/policy/policy.ts'
import { isForbiddenVariable } from '../../src/wire/variables.ts'
import { commandPolicy, decided, open } from '../support/host-commands.ts'

const READING = commandPolicy({ allow: [open('git', 'log'), 'gh pr view <int>', open('echo'), open('true'), open('cat')] })

const HOME = '/home/operator/.sallyport'
for (const argv of [
  ['sallyport', 'approve', 'x'],
  ['/usr/local/bin/sallyport', 'pending'],
  ['node', '/opt/x/bin/sallyport.mjs', 'approve'],
  ['env', 'sallyport', 'approve'],
  ['sh', '-c', 'sallyport approve x'],
  ['cp', 'x', `${HOME}/policies/a.yaml`],
  ['cat', `${HOME}/vault.db`],
  ['cat', `/home/operator/x/../.sallyport/vault.db`],
  ['cat', `/home//operator/./.sallyport/vault.db`],
  ['tee', `--append`, `${HOME}/audit.jsonl`],
  ['curl', 'http://localhost:7878/v1/questions'],
  ['curl', 'http://127.0.0.1:7878/'],
  ['curl', 'http://127.1:7878/'],
  ['curl', 'http://0:7878/'],
  ['curl', 'http://0x7f000001:7878/'],
  ['curl', 'http://2130706433:7878/'],
  ['curl', 'http://[::1]:7878/'],
  ['curl', 'http://[::ffff:127.0.0.1]:7878/'],
  ['curl', 'http://LOCALHOST:7878/'],
  ['curl', '--connect-to', 'x:1:localhost:7878', 'x:1'],
  ['nc', 'localhost', '7878'],
  ['curl', '--unix-socket', `${HOME}/daemon.sock`, 'http://x/'],
  ['curl', '--unix-socket', '/var/run/docker.sock', 'http://x/'],
  ['docker', 'run', '-v', '/var/run/docker.sock:/s', 'x'],
  ['docker', 'run', '-v', `${HOME}:/h`, 'x'],
  ['cp', 'x', '/home/operator/.bashrc'],
  ['cp', 'x', '/home/operator/.ssh/authorized_keys'],
  ['cp', 'x', '/home/operator/Library/LaunchAgents/x.plist'],
  ['cp', 'x', '/home/operator/.config/systemd/user/x.service'],
  ['pkill', 'sallyport'],
  ['pkill', '-f', 'sallyport daemon'],
  ['killall', 'node'],
  ['kill', '-9', '-1'],
  ['secret-tool', 'lookup', 'service', 'sallyport'],
])
  test(`what would answer for the operator is denied, whatever the rules say: ${argv.join(' ')}`, async () => {
    const programs = ['cp', 'cat', 'curl', 'docker', 'pkill', 'killall', 'kill', 'secret-tool']
    const { action, code, facts } = await decided(commandPolicy({ allow: programs.map((program) => open(program)) }), argv)
    assert.equal(action, 'deny')
    assert.equal(code, 'command_not_allowed')
    assert.notEqual(facts.laundering, undefined)
  })

test('lines for a shell that would answer for the operator are denied too', async () => {
  for (const line of [
    'true; sallyport approve x',
    'echo x > ~/.sallyport/policies/a.yaml',
    'echo x >> $HOME/.bashrc',
    'cat </dev/tcp/localhost/7878 $(sallyport pending)',
    'x=$SALLYPORT_HOME; ls $x',
  ])
    assert.equal((await decided(READING, line)).action, 'deny', line)
})

test('the workspace of a session may have a policy of its own, and commands may name it', async () => {
  const { action } = await decided(commandPolicy({ allow: ['cat *'] }), ['cat', 'src/sallyport.ts'])
  assert.equal(action, 'allow')
})

for (const argv of [
  ['npm', 'test'],
  ['make'],
  ['cargo', 'test'],
  ['cargo', '--locked', 'build'],
  ['swift', 'build'],
  ['go', 'test', './...'],
  ['pytest'],
  ['./run.sh'],
  ['node_modules/.bin/eslint', '.'],
  ['/home/operator/project/run.sh'],
  ['npm', '--silent', 'run', 'build'],
]) {
  test(`${argv.join(' ')} runs code of the workspace: it is allowed with workspace_code: accept alone, and then needs the sandbox`, async () => {
    const pattern = argv.join(' ')
    const accepted = await decided(commandPolicy({ allow: [{ pattern, workspace_code: 'accept' }] }), argv)
    assert.equal(accepted.facts.runsWorkspaceCode, true)
    assert.equal(accepted.action, 'allow', accepted.why)
    assert.equal(accepted.workspaceCode, true)
    assert.notEqual(accepted.tier, 'T0')
    const text = JSON.stringify({ version: 1, host_commands: { mode: 'allowlist', allow: [pattern] } })
    if (checkPolicy([{ file: 'p', text }], { policyDirs: [] }).errors.length > 0) return
    const plain = await decided(commandPolicy({ allow: [pattern] }), argv)
    assert.equal(plain.action, 'ask')
    assert.notEqual(plain.tier, 'T0')
  })
}

test('/tmp/x/git is not the git of a rule', async () => {
  const policy = commandPolicy({ allow: ['git status'] })
  assert.equal((await decided(policy, ['git', 'status'])).action, 'allow')
  for (const program of ['/tmp/x/git', './git', 'x/git', 'GIT', '/workspace/git'])
    assert.notEqual((await decided(policy, [program, 'status'])).action, 'allow', program)
})

for (const name of `NODE_OPTIONS BASH_ENV LD_PRELOAD DYLD_INSERT_LIBRARIES GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT PYTHONSTARTUP PERL5OPT PAGER EDITOR BROWSER PATH HOME
  npm_config_script_shell https_proxy SALLYPORT_HOME GIT_EDITOR MANPAGER LESSOPEN`.split(/\s+/))
  test(`no rule sets ${name}`, () => {
    assert.equal(isForbiddenVariable(name), true)
    const text = JSON.stringify({ version: 1, host_commands: { allow: [{ pattern: 'git status', env: { [name]: 'x' } }] } })
    assert.throws(() => loadPolicy([{ file: 'p', text }], { policyDirs: [] }), { code: 'policy_invalid', message: new RegExp(name) })
  })

const OWN = (section: object) => [{ file: '.sallyport/policy.yaml', text: JSON.stringify({ version: 1, host_commands: section }) }]

test("a workspace's own rules deny and ask, and say so", async () => {
  const policy = commandPolicy({ allow: [open('git', 'log'), 'git status'] }, undefined, OWN({ deny: ['git status'], ask: ['git log **'] }))
  assert.equal((await decided(policy, 'git status')).action, 'deny')
  assert.equal((await decided(policy, 'git log -n 1')).action, 'ask')
})

for (const [what, section] of Object.entries({
  'an allowance': { allow: ['git status'] },
  'an allowance by its other name': { always_allow: ['git status'] },
  'the mode': { mode: 'allowlist' },
  'a variable': { ask: [{ pattern: 'git status', env: { FOO: 'x' } }] },
  'workspace code': { ask: [{ pattern: 'npm test', workspace_code: 'accept' }] },
  'an open tail': { ask: [{ pattern: 'git **', open_tail: 'accept' }] },
}))
  test(`a workspace's own policy may not say ${what}`, () => {
    const load = () => commandPolicy({}, undefined, OWN(section))
    assert.throws(load, { code: 'policy_untrusted' })
  })

test("a workspace's own policy may not lower the presence that is asked for", () => {
  assert.throws(() => commandPolicy({}, undefined, [{ file: 'own.yaml', text: 'version: 1\npresence: {dangerous: T0}\n' }]), {
    code: 'policy_untrusted',
  })
})

test('git that only shows something runs nothing that the repository configures, with the options that it is given', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-commands-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const environment = { PATH: process.env['PATH'] ?? '', HOME: folder, GIT_CONFIG_NOSYSTEM: '1' }
  const git = (...argv: string[]): string =>
    execFileSync('git', argv, { cwd: folder, env: environment, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  git('init', '-q')
  writeFileSync(join(folder, 'a.txt'), 'one\n')
  git('add', 'a.txt')
  git('-c', 'user.name=x', '-c', 'user.email=x@example.com', 'commit', '-qm', 'one')
  writeFileSync(join(folder, 'a.txt'), 'two\n')
  mkdirSync(join(folder, '.git/info'), { recursive: true })
  writeFileSync(join(folder, '.git/info/attributes'), '*.txt diff=evil\n')
  for (const [key, mark] of [
    ['core.fsmonitor', 'monitor'],
    ['diff.external', 'external'],
    ['diff.evil.textconv', 'textconv'],
    ['core.pager', 'pager'],
  ] as const)
    git('config', key, `touch ${join(folder, `.git/${mark}`)}; true`)
  const marks = (): string[] => ['monitor', 'external', 'textconv', 'pager'].filter((mark) => existsSync(join(folder, '.git', mark)))
  for (const argv of [
    ['git', 'status'],
    ['git', 'diff'],
    ['git', 'log', '-p', '-n', '1'],
    ['git', 'show'],
  ]) {
    const { facts } = await decided(READING, argv)
    const [, ...hardened] = facts.hardened ?? []
    assert.ok(hardened.length > 0, argv.join(' '))
    execFileSync('git', hardened, { cwd: folder, env: { ...environment, ...facts.environment }, stdio: 'ignore' })
    assert.deepEqual(marks(), [], argv.join(' '))
  }
  // The same without them does: what was planted works.
  git('status')
  git('diff')
  assert.deepEqual(marks().includes('monitor') && marks().includes('external'), true)
})
