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

/** What the policy above would allow, and something with it. */
for (const line of [
  'git log; id',
  'git log && id',
  'git log || id',
  'git log | sh',
  'git log |& sh',
  'git log & id',
  'git log &',
  'git log $(id)',
  'git log "$(id)"',
  'git log `id`',
  'git log <(id)',
  'git log >(sh)',
  'git log\nid',
  'git log\rid',
  "git log 'a\nb'",
  'git log > file',
  'git log >> file',
  'git log 2>file',
  'git log < file',
  '{git,log}',
  'git {log,x}',
  "git log $'\\x3b' id",
  'git \\\nlog',
  `${'true;'.repeat(60)} id`,
  'cat <<E\n$(id)\nE',
  'cat <<<x',
  'export PAGER=x; git log',
  'PAGER=x git log',
  'git log $HOME',
  'git log ${x:-$(id)}',
  'git log ~/x',
  'git log *',
  'git log ?',
  'git log [a]',
  '! git log',
  '(git log)',
  'time git log',
  'coproc git log',
  'if git log; then id; fi',
  'git log # $(id)',
  'function git { id; }; git log',
  'git log $((1+1))',
  "git log 'x",
  'git log "x',
  'git log \\',
  'git(){ id; }',
])
  test(`a line with something for a shell is allowed by no rule: ${JSON.stringify(line.slice(0, 40))}`, async () => {
    const { action, facts } = await decided(READING, line)
    assert.notEqual(action, 'allow')
    assert.equal(facts.argv, undefined)
  })

test('an argument that looks like something for a shell is one argument where no shell reads it', async () => {
  const { action, facts } = await decided(commandPolicy({ allow: ['echo *'] }), ['echo', 'a; id'])
  assert.equal(action, 'allow')
  assert.deepEqual(facts.argv, ['echo', 'a; id'])
})

test('a NUL in a command is refused', async () => {
  for (const wish of ['git log\0id', ['git', 'log\0id']]) await assert.rejects(decided(READING, wish), { code: 'command_invalid' })
})

/** `plain` is allowed by an open tail of the same program, the others are not. */
const ARGUMENTS: readonly { program: string; plain: string[]; hostile: string[][] }[] = [
  {
    program: 'git',
    plain: ['git', 'log', '--oneline', '-n', '5'],
    hostile: [
      ['git', 'log', '--output=F'],
      ['git', 'log', '--outp=F'],
      ['git', 'grep', '-Oid', 'x'],
      ['git', 'grep', '-nOid', 'x'],
      ['git', 'grep', '--open-files=id', 'x'],
      ['git', 'fetch', '--upload-pack=id'],
      ['git', 'clone', '-uid', 'x'],
      ['git', 'ls-remote', 'ext::sh -c id'],
      ['git', '-c', 'alias.x=!id', 'x'],
      ['git', '-calias.x=!id', 'x'],
      ['git', '--exec-path=.', 'log'],
      ['git', '-C', 'sub', 'status'],
      ['git', '--git-dir', 'x', 'log'],
      ['git', '--config-env=core.pager=X', 'log'],
      ['git', '--no-pager', 'config', '-l'],
      ['git', 'diff', '--no-index', 'a', '/etc/hostname'],
      ['git', 'log', '--ext-diff', '-p'],
      ['git', 'rebase', '-x', 'id'],
      ['git', 'bisect', 'run', 'id'],
      ['git', 'submodule', 'foreach', 'id'],
    ],
  },
  {
    program: 'find',
    plain: ['find', '.', '-name', 'x', '-executable'],
    hostile: [
      ['find', '.', '-exec', 'id', ';'],
      ['find', '.', '-fprint', 'F'],
      ['find', '.', '-delete'],
      ['find', '/', '-name', 'x'],
      ['find', '.', '-okdir', 'id', ';'],
    ],
  },
  {
    program: 'sort',
    plain: ['sort', '-rn', 'a.txt'],
    hostile: [
      ['sort', '--compress-program=id', 'a'],
      ['sort', '--compress-prog=id', 'a'],
      ['sort', '--comp', 'id', 'a'],
      ['sort', '-o', 'F', 'a'],
      ['sort', '-noF', 'a'],
      ['sort', '--out=F', 'a'],
    ],
  },
  {
    program: 'tar',
    plain: ['tar', '-tf', 'a.tar'],
    hostile: [
      ['tar', '-cf', 'a', '--checkpoint-action=exec=id', 'x'],
      ['tar', 'tf', 'a', '--checkpoint-act=exec=id'],
      ['tar', '-tIid', '-f', 'a'],
      ['tar', 'xf', 'a.tar'],
      ['tar', '-xf', 'a.tar'],
      ['tar', 'tf', 'a', '--to-com=id'],
      ['tar', '-tf', 'host:a'],
      ['tar', 'tf', 'a', '-T', 'l'],
    ],
  },
  {
    program: 'sed',
    plain: ['sed', '--sandbox', '-n', '1p', 'a'],
    hostile: [
      ['sed', '1e id', 'a'],
      ['sed', '1w F', 'a'],
      ['sed', 's/a/b/e', 'a'],
      ['sed', '--sandbox', '-i', 's/a/b/', 'a'],
      ['sed', '-n', '1p', 'a'],
    ],
  },
  {
    program: 'ssh',
    plain: ['ssh', '-V'],
    hostile: [
      ['ssh', '-oProxyCommand=id', 'h'],
      ['ssh', '-voProxyCommand=id', 'h'],
      ['ssh', 'h', 'id'],
      ['ssh', '-F', 'f', 'h'],
    ],
  },
  {
    program: 'curl',
    plain: ['curl', '--version'],
    hostile: [
      ['curl', '-K', 'f'],
      ['curl', '-o', 'F', 'example.com'],
      ['curl', 'file:///etc/passwd'],
      ['curl', 'example.com'],
      ['curl', '--unix-socket', 'x', 'y'],
    ],
  },
  { program: 'uniq', plain: ['uniq', '-c', 'in'], hostile: [['uniq', 'in', 'out']] },
  {
    program: 'make',
    plain: [],
    hostile: [['make', '--eval', 'x:;id'], ['make', '--ev=x'], ['make', '-f', 'F'], ['make', 'SHELL=id'], ['make']],
  },
  {
    program: 'npm',
    plain: ['npm', 'view', 'x', 'version'],
    hostile: [
      ['npm', 'view', 'x', '--script-shell=id'],
      ['npm', '--script-shell', 'id', 'view', 'x'],
      ['npm', 'exe', 'x'],
      ['npm', 'exec', 'x'],
      ['npm', 'x', 'y'],
      ['npm', 'test'],
      ['npm', 'tes'],
      ['npm', 'publish'],
    ],
  },
  {
    program: 'docker',
    plain: ['docker', 'ps', '-a'],
    hostile: [
      ['docker', 'run', '-v', '/:/h', 'x'],
      ['docker', 'run', 'x'],
      ['docker', '--host', 'h', 'ps'],
      ['docker', '-H', 'h', 'ps'],
      ['docker', '--foo', 'bar', 'run', 'x'],
      ['docker', 'compose', 'up'],
      ['docker', 'exec', 'c', 'id'],
    ],
  },
  {
    program: 'gh',
    plain: ['gh', 'pr', 'view', '12'],
    hostile: [
      ['gh', 'api', '-f', 'a=b', 'x'],
      ['gh', 'api', '-fa=b', 'x'],
      ['gh', 'api', 'x', '--method', 'DELETE'],
      ['gh', 'api', '--fie=a=b', 'x'],
      ['gh', 'alias', 'set', 'x', '!id'],
      ['gh', '-R', 'x', 'alias', 'set', 'a', 'b'],
      ['gh', 'pr', 'view', '--web'],
      ['gh', 'auth', 'token'],
      ['gh', 'extension', 'exec', 'x'],
    ],
  },
  {
    program: 'kubectl',
    plain: ['kubectl', 'get', 'pods', '-o', 'wide'],
    hostile: [
      ['kubectl', 'get', 'secrets'],
      ['kubectl', 'get', 'pods,secrets'],
      ['kubectl', '--kubeconfig', 'f', 'get', 'pods'],
      ['kubectl', '-n', 'x', 'exec', 'p', '--', 'id'],
      ['kubectl', 'get', 'secret/x', '-o', 'yaml'],
    ],
  },
  {
    program: 'rg',
    plain: ['rg', '-n', 'x', 'src'],
    hostile: [
      ['rg', '--pre', 'id', 'x'],
      ['rg', '--pr=id', 'x'],
      ['rg', '-zn', 'x'],
      ['rg', 'x', '/etc'],
    ],
  },
  {
    program: 'psql',
    plain: ['psql', '-X', '-A', '-t', '-c', 'select 1'],
    hostile: [
      ['psql', '-X', '-c', '\\! id'],
      ['psql', '-X', '-c', "copy x to program 'id'"],
      ['psql', '-c', 'select 1'],
      ['psql', '-X', '-f', 'x'],
      ['psql', '-X', '-c', 'drop table x'],
    ],
  },
  {
    program: 'aws',
    plain: ['aws', 'sts', 'get-caller-identity'],
    hostile: [
      ['aws', 'secretsmanager', 'get-secret-value', '--secret-id', 'x'],
      ['aws', '--endpoint-url', 'https://x', 'sts', 'get-caller-identity'],
      ['aws', '--profile', 'p', 'ec2', 'describe-instances'],
      ['aws', 's3', 'cp', 'a', 's3://b'],
      ['aws', 'ec2', 'run-instances'],
    ],
  },
  {
    program: 'terraform',
    plain: ['terraform', 'version'],
    hostile: [
      ['terraform', 'plan'],
      ['terraform', '-chdir=x', 'version'],
      ['terraform', 'fmt'],
      ['terraform', 'show'],
    ],
  },
  {
    program: 'cat',
    plain: ['cat', 'src/a.ts'],
    hostile: [
      ['cat', '/etc/passwd'],
      ['cat', '../x'],
      ['cat', 'a/../../x'],
      ['cat', '.env'],
      ['cat', 'sub/.env.local'],
      ['cat', '.git/config'],
      ['cat', '/proc/self/environ'],
      ['cat', '~/.ssh/id_rsa'],
      ['cat', 'x\u202ey'],
      ['cat', 'x\u001by'],
      ['cat', 'y'.repeat(5_000)],
    ],
  },
]

for (const { program, plain, hostile } of ARGUMENTS) {
  const policy = commandPolicy({ allow: [open(program)] })
  if (plain.length > 0)
    test(`${plain.join(' ')} is allowed by an open tail: it only shows something`, async () => {
      const { action, why } = await decided(policy, plain)
      assert.equal(action, 'allow', why)
    })
  for (const argv of hostile)
    test(`${argv.join(' ').slice(0, 60)} is asked about, whatever the rule allows`, async () => {
      const { action, why } = await decided(policy, argv)
      assert.equal(action === 'ask' || action === 'deny', true, `${action}: ${why}`)
    })
}

const NEVER =
  `sh bash zsh fish dash python python3 python3.12 node perl ruby awk gawk sqlite3 env sudo timeout nice nohup stdbuf xargs tee busybox script watch flock
  setsid npx bunx uvx strace systemd-run vim nano less ed sallyport osascript open docker-less`.split(/\s+/)

for (const program of NEVER.filter((name) => name !== 'docker-less'))
  test(`no rule can allow ${program}: the file is refused when it is loaded`, () => {
    const text = JSON.stringify({ version: 1, host_commands: { mode: 'allowlist', allow: [open(program), `/usr/bin/${program} x`] } })
    const { errors } = checkPolicy([{ file: 'p.yaml', text }], { policyDirs: [] })
    assert.equal(errors.filter(({ message }) => message.includes('no rule can allow')).length, 2, JSON.stringify(errors))
  })

for (const line of [
  'env rm -rf x',
  'env -S "rm -rf x"',
  'timeout 5 rm -rf x',
  'nice -n 5 rm -fr x',
  'nohup /bin/rm -r -f x',
  'stdbuf -o0 rm -rf x',
  'xargs rm -rf x',
  'busybox rm -rf x',
  'sudo -u root rm -rf x',
  'sh -c "rm -rf x"',
  'bash -lc "true; rm --recursive --force x"',
  'watch "rm -rf x"',
  'flock f rm -rf x',
  'setsid rm -rf x',
  'script -c "rm -rf x"',
  'find . -exec rm -rf x {} +',
  'true && rm -rf x',
  'echo $(rm -rf x)',
  'RM -rf x',
  '/usr/bin/rm -rfv x',
  "eval 'rm -rf x'",
  'if true; then rm -rf x; fi',
])
  test(`a denial of rm -rf is one of ${line}`, async () => {
    const { action, rule } = await decided(commandPolicy({ allow: [open('true')], deny: ['rm -rf **'] }), line)
    assert.equal(action, 'deny')
    assert.match(rule ?? '', /rm -rf \*\*$/)
  })

for (const [line, denied] of [
  ['git -C x push', true],
  ['git push origin main', true],
  ['git -c a=b --no-pager push', true],
  ['/usr/local/bin/git push', true],
  ['git log push', false],
  ['git log -n 5 push', false],
] as const)
  test(`a denial of git push is ${denied ? '' : 'not '}one of ${line}`, async () => {
    const { action } = await decided(commandPolicy({ allow: [open('git')], deny: ['git push **'] }), line)
    assert.equal(action === 'deny', denied)
  })

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
