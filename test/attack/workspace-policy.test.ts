import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { policyCommand } from '../../src/cli/policy.ts'
import { trustCommand } from '../../src/cli/trust.ts'
import { inputsOf } from '../../src/controller/sessions/session-layers.ts'
import { readWorkspaceFile } from '../../src/controller/sessions/workspace-file.ts'
import { contentDigest } from '../../src/controller/sessions/workspace-trust.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { loadPolicy, type Policy } from '../../src/policy/policy.ts'
import { cleanEnvironment, runCommand, runProgram } from '../support/command.ts'
import { layerSetting, ruleText, type LayerSetting } from '../support/layers.ts'
import { MAIN } from '../support/main-file.ts'
import { factsOf, hostname, verdict } from '../support/policy.ts'

const OPERATOR = ruleText('api', 'api.example.com', 'allow')
const OWN = 'workspace/.sallyport/policy.yaml'

async function load(setting: LayerSetting): Promise<Policy> {
  const { files, restricted } = inputsOf(await setting.layers())
  return loadPolicy(files, { policyDirs: [join(setting.home, 'policies')], restricted })
}

/** Every way to want more than to deny and ask, each with a word of what is said about it. */
const WISHES: Readonly<Record<string, { text: string; line: number; names: string }>> = {
  'an allowance': { text: ruleText('mine', 'evil.example.com', 'allow'), line: 4, names: 'rule "mine" allows "evil.example.com"' },
  'the mode': { text: 'version: 1\nnetwork:\n  mode: open\n', line: 3, names: 'network.mode: open' },
  'a harness': { text: 'version: 1\nnetwork:\n  harness: claude\n', line: 3, names: 'network.harness: claude' },
  'the lease': { text: 'version: 1\nnetwork: {lease: optional}\n', line: 2, names: 'network.lease: optional' },
  'a base': { text: 'version: 1\nextends:\n  - service/npm\n', line: 3, names: 'extends "service/npm"' },
  'a secret of a command': {
    text: 'version: 1\nsecrets:\n  - {name: S, source: "exec:touch PWNED"}\n',
    line: 3,
    names: 'secret "S" is read from "exec:touch PWNED"',
  },
  'a secret of a file': {
    text: 'version: 1\nsecrets:\n  - {name: S, source: "file:/etc/shadow"}\n',
    line: 3,
    names: 'secret "S" is read from "file:/etc/shadow"',
  },
  'a credential': {
    text: 'version: 1\ncredentials:\n  - {id: c, secret: TOKEN, inject: {domains: [evil.example.com], header: X}}\n',
    line: 3,
    names: 'credential "c" writes secret "TOKEN" for evil.example.com',
  },
  'a route': {
    text: 'version: 1\nroutes:\n  - {name: r, upstream: "https://evil.example.com"}\n',
    line: 3,
    names: 'route "r" leads to "https://evil.example.com"',
  },
  'an image': { text: 'version: 1\nsession: {image: evil}\n', line: 2, names: 'session: image' },
  'an empty section': { text: 'version: 1\nsession: {}\n', line: 2, names: 'session: empty' },
  'a mount': {
    text: 'version: 1\nfilesystem: {workspace: rw, git_metadata: writable}\n',
    line: 2,
    names: 'filesystem: workspace, git_metadata',
  },
  'private addresses behind a question': {
    text: 'version: 1\nnetwork:\n  rules:\n    - {id: a, host: api.example.com, action: ask, addresses: ["10.0.0.0/8"]}\n',
    line: 4,
    names: 'rule "a" has addresses',
  },
  'clear text behind a question': {
    text: 'version: 1\nnetwork:\n  rules:\n    - {id: a, host: api.example.com, action: ask, plaintext: accept}\n',
    line: 4,
    names: 'rule "a" has plaintext',
  },
  'no search of answers behind a question': {
    text: 'version: 1\nnetwork:\n  rules:\n    - {id: a, host: api.example.com, action: ask, scrub: "off"}\n',
    line: 4,
    names: 'rule "a" has scrub',
  },
}

for (const [wish, { text, line, names }] of Object.entries(WISHES)) {
  test(`I29 a workspace's own policy that wants ${wish} is refused by name and line, and nothing of it is done`, async () => {
    using setting = layerSetting({ 'home/policies/global.yaml': OPERATOR, [OWN]: text })
    await assert.rejects(load(setting), (error: unknown) => {
      assert.ok(error instanceof SallyportError)
      assert.equal(error.code, 'policy_untrusted')
      assert.ok(error.message.includes(`${setting.own}:${line}: ${names}: a workspace's own policy may only deny or ask`), error.message)
      assert.match(error.hint ?? '', /sallyport trust/)
      return true
    })
    assert.equal(existsSync(join(setting.workspace, 'PWNED')), false)
  })
}

test('I29 what it denies is denied and what it asks about is asked about, within what the operator allows', async () => {
  using setting = layerSetting({
    'home/policies/global.yaml': `version: 1\nnetwork:\n  rules:\n    - {id: all, host: "*.example.com", action: allow}\n    - {id: db, host: db.example.net, ports: [5432], protocol: tcp, action: allow}\n    - {id: pinned, host: pinned.example.org, action: allow, tls: passthrough}\n`,
    [OWN]: `version: 1\nnetwork:\n  rules:\n    - {id: d, host: d.example.com, action: deny}\n    - {id: a, host: a.example.com, action: ask}\n    - {id: x, host: evil.example.org, action: ask}\n    - {id: h, host: db.example.net, ports: [5432], action: ask, methods: [GET]}\n    - {id: p, host: pinned.example.org, action: deny, methods: [DELETE]}\n`,
  })
  const policy = await load(setting)
  assert.equal(verdict(policy.decide(factsOf('GET https://d.example.com/'))), 'denied_by_rule workspace:d')
  assert.equal(verdict(policy.decide(factsOf('GET https://a.example.com/'))), 'ask workspace:a')
  assert.equal(verdict(policy.decideTunnel(hostname('a.example.com'), 443)), 'ask workspace:a')
  assert.equal(verdict(policy.decide(factsOf('GET https://b.example.com/'))), 'allow all')
  // A question is none for what was never allowed: else the agent could have the operator asked about any host, and its name looked up.
  assert.equal(verdict(policy.decide(factsOf('GET https://evil.example.org/'))), 'host_not_allowed')
  assert.equal(policy.knowsName(hostname('evil.example.org')), false)
  assert.equal(policy.knowsName(hostname('d.example.com')), false)
  // Nor does a question about requests turn a connection of bytes into one of the web.
  assert.equal(verdict(policy.decideTunnel(hostname('db.example.net'), 5432)), 'ask workspace:h')
  assert.equal(verdict(policy.decide(factsOf('GET http://db.example.net:5432/'))), 'host_not_allowed')
  // And nobody is made to look into, and to write credentials into, what passes by.
  assert.equal(verdict(policy.decideTunnel(hostname('pinned.example.org'), 443)), 'denied_by_rule workspace:p')
})

test('names of the operator’s rules are not the agent’s to take: neither to break the policy nor to be mistaken for one', async () => {
  using setting = layerSetting({ 'home/policies/global.yaml': OPERATOR, [OWN]: ruleText('api', 'api.example.com', 'deny') })
  assert.equal(verdict((await load(setting)).decide(factsOf('GET https://api.example.com/'))), 'denied_by_rule workspace:api')
  setting.write(OWN, ruleText('open', 'api.example.com', 'ask'))
  assert.equal(verdict((await load(setting)).decide(factsOf('GET https://api.example.com/'))), 'ask workspace:open')
})

const PLACED: Readonly<Record<string, (setting: LayerSetting, elsewhere: string) => void>> = {
  'a link to a file of the host': ({ own }, elsewhere) => symlinkSync(elsewhere, own),
  'a link to itself': ({ own }) => symlinkSync('policy.yaml', own),
  'a folder that is a link': ({ workspace, dir }) => {
    rmSync(join(workspace, '.sallyport'), { recursive: true })
    mkdirSync(join(dir, 'there'))
    writeFileSync(join(dir, 'there/policy.yaml'), OPERATOR)
    symlinkSync('../there', join(workspace, '.sallyport'))
  },
  'a file in the place of the folder': ({ workspace }) => {
    rmSync(join(workspace, '.sallyport'), { recursive: true })
    writeFileSync(join(workspace, '.sallyport'), OPERATOR)
  },
  'a FIFO': ({ own }) => void execFileSync('mkfifo', [own]),
  'a folder': ({ own }) => mkdirSync(own),
  'a file without an end': ({ own }) => symlinkSync('/dev/zero', own),
  'more than is read': ({ own }) => writeFileSync(own, `version: 1\n#${'x'.repeat(LIMITS.workspacePolicyBytesMax)}\n`),
  'bytes that are no text': ({ own }) => writeFileSync(own, Buffer.from([0xff, 0xfe, 0x00])),
  'a hole of a terabyte': ({ own }) => {
    writeFileSync(own, '')
    truncateSync(own, 2 ** 40)
  },
}

for (const [what, place] of Object.entries(PLACED)) {
  test(`in the place of the policy, ${what}: reported at once, and no session starts with half a policy`, { timeout: 10_000 }, async () => {
    using setting = layerSetting({ 'home/policies/global.yaml': OPERATOR, 'elsewhere.yaml': OPERATOR, [OWN]: '' })
    unlinkSync(setting.own)
    place(setting, join(setting.dir, 'elsewhere.yaml'))
    const layers = await setting.layers()
    assert.deepEqual(layers.restricted, [])
    assert.throws(() => inputsOf(layers), { code: 'workspace_refused' })
  })
}

test(
  'a file that is swapped for a link again and again is read as what it is or refused, never the link’s',
  { timeout: 60_000 },
  async () => {
    using setting = layerSetting({
      'operator/policy.yaml': ruleText('other', 'other.example.com', 'deny'),
      [OWN]: ruleText('own', 'own.example.com', 'deny'),
    })
    const folder = join(setting.workspace, '.sallyport')
    const stop = new Int32Array(new SharedArrayBuffer(8))
    const worker = new Worker(
      `const { renameSync, symlinkSync, unlinkSync } = require('node:fs'); const { workerData: [folder, target, stop] } = require('node:worker_threads')
     symlinkSync(target, folder + '.link')
     Atomics.store(stop, 1, 1); Atomics.notify(stop, 1)
     while (Atomics.load(stop, 0) === 0) { renameSync(folder, folder + '.real'); renameSync(folder + '.link', folder); renameSync(folder, folder + '.link'); renameSync(folder + '.real', folder) }`,
      { eval: true, workerData: [folder, join(setting.dir, 'operator'), stop] },
    )
    Atomics.wait(stop, 1, 0)
    const seen = new Set<string>()
    for (let i = 0; i < 5_000; i++) {
      const found = readWorkspaceFile(setting.workspace)
      seen.add(found === undefined ? 'none' : 'text' in found ? found.text : 'refused')
    }
    Atomics.store(stop, 0, 1)
    await worker.terminate()
    assert.equal(seen.has(readFileSync(join(setting.dir, 'operator/policy.yaml'), 'utf8')), false)
  },
)

test('I29 trust is of one content in one workspace: any change takes it away, and a copy elsewhere has none', async () => {
  const text = ruleText('mine', 'mine.example.com', 'allow')
  using setting = layerSetting({ [OWN]: text })
  using other = layerSetting({ [OWN]: text })
  await setting.trust.add(setting.workspace, contentDigest(text))
  assert.equal(verdict((await load(setting)).decide(factsOf('GET https://mine.example.com/'))), 'allow mine')
  for (const changed of [
    `${text}\n`,
    `${text} `,
    text.replaceAll('\n', '\r\n'),
    `\ufeff${text}`,
    text.replace('mine.example.com', 'm1ne.example.com'),
  ]) {
    setting.write(OWN, changed)
    await assert.rejects(load(setting), SallyportError, JSON.stringify(changed))
  }
  setting.write(OWN, text)
  await load(setting)
  // Whoever can write trust.json of one home has not written that of another; and the same content elsewhere is another's.
  writeFileSync(join(other.home, 'trust.json'), readFileSync(join(setting.home, 'trust.json')), { mode: 0o600 })
  await assert.rejects(load(other), { code: 'policy_untrusted' })
  renameSync(setting.workspace, `${setting.workspace}.moved`)
  symlinkSync(other.workspace, setting.workspace)
  await assert.rejects(load(setting), { code: 'policy_untrusted' })
})

test('trusted once, taken back: the next reading has none', async () => {
  const text = ruleText('mine', 'mine.example.com', 'allow')
  using setting = layerSetting({ [OWN]: text })
  await setting.trust.add(setting.workspace, contentDigest(text))
  await load(setting)
  assert.equal(await setting.trust.remove(setting.workspace), true)
  assert.equal(await setting.trust.remove(setting.workspace), false)
  await assert.rejects(load(setting), { code: 'policy_untrusted' })
})

const TRUST_FAULTS: Readonly<Record<string, (path: string, text: string) => void>> = {
  'readable by others': (path) => chmodSync(path, 0o644),
  'writable by others': (path) => chmodSync(path, 0o602),
  'a link': (path) => {
    renameSync(path, `${path}.real`)
    symlinkSync(`${path}.real`, path)
  },
  'cut off': (path, text) => writeFileSync(path, text.slice(0, -10)),
  empty: (path) => writeFileSync(path, ''),
  'of another form': (path) => writeFileSync(path, '{"version":1,"workspaces":[{"workspace":"*","digest":"*"}]}'),
  'a FIFO': (path) => {
    unlinkSync(path)
    execFileSync('mkfifo', ['-m', '600', path])
  },
}

for (const [fault, damage] of Object.entries(TRUST_FAULTS)) {
  test(`a list of what is trusted that is ${fault} trusts nothing, says so, and is not replaced`, { timeout: 10_000 }, async () => {
    const text = ruleText('mine', 'mine.example.com', 'allow')
    using setting = layerSetting({ [OWN]: text })
    await setting.trust.add(setting.workspace, contentDigest(text))
    const path = join(setting.home, 'trust.json')
    assert.equal(statSync(path).mode & 0o777, 0o600)
    damage(path, readFileSync(path, 'utf8'))
    const before = statSync(path).ino
    await assert.rejects(setting.layers(), { code: 'trust_invalid' })
    await assert.rejects(setting.trust.add(setting.workspace, contentDigest('x')), { code: 'trust_invalid' })
    assert.equal(statSync(path).ino, before)
  })
}

test('a hard link to a file of the operator’s gives nothing that its content does not', async () => {
  using setting = layerSetting({ 'home/policies/global.yaml': OPERATOR, 'mine.yaml': ruleText('mine', 'mine.example.com', 'allow') })
  mkdirSync(join(setting.workspace, '.sallyport'))
  linkSync(join(setting.dir, 'mine.yaml'), setting.own)
  await assert.rejects(load(setting), { code: 'policy_untrusted' })
})

test('sallyport trust shows the content with nothing hidden, asks a person only, and takes a script only by the digest of the content', async () => {
  const text = ruleText('mine', 'mine.example.com', 'allow')
  using setting = layerSetting({ [OWN]: text })
  const env = { SALLYPORT_HOME: setting.home }
  const at = ['--workspace', setting.workspace]
  const piped = await runCommand(['trust', ...at], env)
  assert.equal(piped.code, 2)
  assert.match(piped.stderr, /there is no terminal to ask at/)
  for (const [argv, says] of [
    [['trust', ...at, '--yes'], /--yes and --digest go together/],
    [['trust', ...at, '--digest', contentDigest(text)], /--yes and --digest go together/],
    [['trust', ...at, '--yes', '--digest', contentDigest(`${text} `)], /its content has the digest/],
  ] as const) {
    const { code, stderr } = await runCommand(argv, env)
    assert.equal(code, 2)
    assert.match(stderr, says)
  }
  assert.equal(existsSync(join(setting.home, 'trust.json')), false)
  const done = await runCommand(['trust', ...at, '--yes', '--digest', contentDigest(text)], env)
  assert.equal(done.code, 0, done.stderr)
  await load(setting)
  assert.match((await runCommand(['trust', 'ls'], env)).stdout, new RegExp(`^${contentDigest(text)} .*${setting.workspace}\n$`))
  assert.equal((await runCommand(['trust', 'rm', ...at], env)).code, 0)
  assert.equal((await runCommand(['trust', 'rm', ...at], env)).code, 1)
  await assert.rejects(load(setting), { code: 'policy_untrusted' })
})

for (const { answer, isAccepted } of [
  { answer: 'yes\n', isAccepted: true },
  { answer: 'y\n', isAccepted: false },
  { answer: 'YES\n', isAccepted: false },
  { answer: '\n', isAccepted: false },
]) {
  test(`at a terminal the answer ${JSON.stringify(answer)} ${isAccepted ? 'accepts' : 'does not accept'}`, async () => {
    const text = ruleText('mine', 'mine.example.com', 'allow')
    using setting = layerSetting({ [OWN]: text })
    const command = `'${process.execPath}' '${MAIN}' trust --workspace '${setting.workspace}'`
    const env = { ...cleanEnvironment(setting.dir), SALLYPORT_HOME: setting.home, ANSWER: answer, COMMAND: command }
    // The answer is there before it is asked for, as a person may type ahead.
    const { stdout } = await runProgram(['sh', '-c', 'printf "%s" "$ANSWER" | script -qec "$COMMAND" /dev/null'], env)
    assert.ok(stdout.includes(contentDigest(text)), stdout)
    assert.ok(stdout.includes('rule "mine" allows "mine.example.com"'))
    assert.equal(existsSync(join(setting.home, 'trust.json')), isAccepted)
  })
}

test('a policy with hidden characters or errors cannot be accepted, and what is said of it reaches the terminal as plain text', async () => {
  using setting = layerSetting()
  const env = { SALLYPORT_HOME: setting.home }
  for (const text of [
    'version: 1\n# \u202e drow si siht \u202c\n',
    'version: 1\n# \u001b[2J\u001b]52;c;cHduZWQ=\u0007\n',
    'version: 1\n# \u200b\n',
    `version: 1\nnetwork: {rules: [{id: "\\e[31m", host: "\\x1b]0;x\\a", action: allow}]}\n`,
    'version: 1\n"\\e]52;c;x\\a": 1\n',
  ]) {
    setting.write(OWN, text)
    const printed: string[] = []
    const io = { out: (part: string) => void printed.push(part), err: (part: string) => void printed.push(part), env }
    assert.equal(await policyCommand.run(['check', '--workspace', setting.workspace], io), 2)
    await assert.rejects(trustCommand.run(['--workspace', setting.workspace, '--yes', '--digest', contentDigest(text)], io), {
      code: 'policy_invalid',
    })
    const { code, stdout, stderr } = await runCommand(['policy', 'show', '--workspace', setting.workspace], env)
    assert.equal(code, 2)
    // oxlint-disable-next-line no-control-regex
    assert.doesNotMatch([...printed, stdout, stderr].join(''), /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e]/)
  }
  assert.equal(existsSync(join(setting.home, 'trust.json')), false)
})
