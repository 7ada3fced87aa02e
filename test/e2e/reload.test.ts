/** A policy that changes under a running process: by SIGHUP, and by what happens to its files. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { readEvents, temporaryFolder } from '../support/audit.ts'
import { startProxy, type RunningProxy } from '../support/command.ts'
import { headerOf } from '../support/http2-upstream.ts'
import { bodyOf, exchangeRaw } from '../support/raw-client.ts'
import { API, OTHER } from '../support/setting.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'

type Text = { readonly rules?: string; readonly extends?: string; readonly secret?: string; readonly more?: string }

type Reloading = AsyncDisposable & {
  readonly proxy: RunningProxy
  readonly upstream: Upstream
  readonly policy: string
  readonly secret: string
  policyText(text?: Text): string
  /** What a request to the host comes to: the credential that arrived, or the code of the refusal. */
  ask(host?: string): Promise<string | undefined>
  /** Has it read all anew, and waits until a request comes to this. */
  become(outcome: string, host?: string): Promise<void>
  /** Waits until the process has printed this. */
  printed(text: RegExp): Promise<void>
  events(event: string): Promise<Record<string, unknown>[]>
}

async function openReloading(): Promise<Reloading> {
  await using parts = new AsyncDisposableStack()
  const folder = parts.use(await temporaryFolder())
  const secret = join(folder.path, 'secret')
  await writeFile(secret, 'first-5d2f\n')
  const upstream = parts.use(await openUpstream())
  const policyText = ({ rules, extends: bases, secret: path = secret, more = '' }: Text = {}): string => `version: 1
${bases === undefined ? '' : `extends: [${bases}]\n`}network:
  rules:
    - {id: api, host: ${API}, ports: [${upstream.port}], action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
${rules ?? ''}credentials:
  - {id: token, secret: TOKEN, inject: {domains: [${API}], header: Authorization}}
secrets:
  - {name: TOKEN, source: "file:${path}"}
${more}`
  const proxy = parts.use(
    await startProxy({ policy: policyText(), args: [API, OTHER].flatMap((host) => ['--resolve', `${host}=127.0.0.1`]) }),
  )
  const ask = async (host = API): Promise<string | undefined> => {
    const authority = `${host}:${upstream.port}`
    const answer = await exchangeRaw(proxy.port, `GET http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)
    if (bodyOf(answer).startsWith('{')) return (JSON.parse(bodyOf(answer)) as { code: string }).code
    return headerOf(upstream.requests.at(-1), 'authorization') ?? 'no credential'
  }
  const all = parts.move()
  return {
    proxy,
    upstream,
    policy: join(proxy.home, 'policy.yaml'),
    secret,
    policyText,
    ask,
    async become(outcome, host) {
      proxy.child.kill('SIGHUP')
      while ((await ask(host)) !== outcome);
    },
    async printed(text) {
      const stderr = proxy.child.stderr ?? proxy.child
      while (!text.test(proxy.output())) await once(stderr, 'data')
    },
    events: async (event) => (await readEvents(proxy.ready.audit)).filter((entry) => entry['event'] === event),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

const OTHER_RULE = (port: number): string =>
  `    - {id: other, host: ${OTHER}, ports: [${port}], action: allow, addresses: ["127.0.0.0/8"]}\n`

let gate: Reloading
before(async () => (gate = await openReloading()))
after(() => gate[Symbol.asyncDispose]())

test('I18 SIGHUP puts policy and secrets in force as they are on disk, and the audit says which policy', async () => {
  assert.equal(await gate.ask(), 'first-5d2f')
  assert.equal(await gate.ask(OTHER), 'host_not_allowed')
  await writeFile(gate.secret, 'second-81bc')
  await writeFile(gate.policy, gate.policyText({ rules: OTHER_RULE(gate.upstream.port) }))
  await gate.become('second-81bc')
  assert.equal(await gate.ask(OTHER), 'no credential')
  const [started] = await gate.events('started')
  const [reloaded] = await gate.events('reloaded')
  assert.match(String(reloaded?.['policy']), /^[0-9a-f]{64}$/)
  assert.notEqual(reloaded?.['policy'], started?.['policy'])
})

for (const [how, change] of [
  ['is written', (text: string) => writeFile(gate.policy, text)],
  [
    'has another renamed over it',
    async (text: string) => {
      await writeFile(`${gate.policy}.new`, text)
      await rename(`${gate.policy}.new`, gate.policy)
    },
  ],
  [
    'becomes a link that is swapped',
    async (text: string) => {
      await writeFile(`${gate.policy}.other`, text)
      await symlink(`${gate.policy}.other`, `${gate.policy}.link`)
      await rename(`${gate.policy}.link`, gate.policy)
    },
  ],
] as const) {
  test(`I18 a policy file that ${how} comes into force by itself`, async () => {
    const isAllowed = (await gate.ask(OTHER)) === 'no credential'
    await change(gate.policyText(isAllowed ? {} : { rules: OTHER_RULE(gate.upstream.port) }))
    while ((await gate.ask(OTHER)) === (isAllowed ? 'no credential' : 'host_not_allowed'));
    assert.equal(await gate.ask(OTHER), isAllowed ? 'host_not_allowed' : 'no credential')
  })
}

test('I18 the file of a secret that changes is a new value by itself', async () => {
  const old = await gate.ask()
  await writeFile(gate.secret, 'alone-42aa')
  let now = old
  while (now === old) now = await gate.ask()
  assert.equal(now, 'alone-42aa')
})

test('I18 a file that the policy extends since a reload comes into force by itself when it changes', async () => {
  const folder = join(gate.proxy.home, '.sallyport', 'policies')
  await mkdir(folder, { recursive: true })
  const base = (rules: string): string => `version: 1\nnetwork:\n  rules:\n${rules || '    []\n'}`
  await writeFile(join(folder, 'base.yaml'), base(''))
  await writeFile(gate.policy, gate.policyText({ extends: 'base' }))
  await gate.become('host_not_allowed', OTHER)
  await writeFile(join(folder, 'base.yaml'), base(OTHER_RULE(gate.upstream.port)))
  while ((await gate.ask(OTHER)) === 'host_not_allowed');
  assert.equal(await gate.ask(OTHER), 'no credential')
})

let turn = 0
for (const [what, code, damage] of [
  ['is not YAML', 'policy_invalid', () => writeFile(gate.policy, 'version: 1\n  network: [')],
  ['has a key that nobody knows', 'policy_invalid', () => writeFile(gate.policy, gate.policyText({ more: 'extra: 1\n' }))],
  ['is empty', 'policy_invalid', () => writeFile(gate.policy, '')],
  ['is gone', 'policy_not_found', () => rm(gate.policy)],
  ['extends one that is not there', 'policy_not_found', () => writeFile(gate.policy, gate.policyText({ extends: 'nobody' }))],
  ['names a secret whose file is not there', 'secret_missing', () => rm(gate.secret)],
  ['names a secret that no header takes', 'secret_invalid', () => writeFile(gate.secret, 'third-c0ff\r\nX: y')],
  [
    'requires a lease where there is none',
    'config_invalid',
    () => writeFile(gate.policy, gate.policyText().replace('network:', 'network:\n  lease: required')),
  ],
] as const) {
  test(`I18 a policy that ${what} changes nothing, is logged and audited as ${code}, and what mends it comes into force`, async () => {
    turn += 1
    const value = `value-${turn}`
    await writeFile(gate.secret, value)
    await writeFile(gate.policy, gate.policyText())
    await gate.become(value)
    const failures = (await gate.events('reload_failed')).length
    await damage()
    // What is right does not come into force either, as long as anything is wrong.
    if (!code.startsWith('secret')) await writeFile(gate.secret, `${value}-new`)
    gate.proxy.child.kill('SIGHUP')
    while ((await gate.events('reload_failed')).length === failures) assert.equal(await gate.ask(), value)
    assert.equal((await gate.events('reload_failed')).at(-1)?.['code'], code)
    await gate.printed(new RegExp(`"code":"${code}","reason":"[^"]`))
    assert.equal(await gate.ask(), value)
    assert.equal(await gate.ask(OTHER), 'host_not_allowed')
  })
}

test('I18 a file that was missing comes into force by itself when it is there, and its lack was told once', async () => {
  await writeFile(gate.secret, 'value-9')
  await writeFile(gate.policy, gate.policyText())
  await gate.become('value-9')
  const failures = (await gate.events('reload_failed')).length
  const late = join(gate.proxy.home, '.sallyport', 'policies', 'late.yaml')
  await writeFile(gate.policy, gate.policyText({ extends: 'late' }))
  while ((await gate.events('reload_failed')).length === failures) assert.equal(await gate.ask(OTHER), 'host_not_allowed')
  await writeFile(late, `version: 1\nnetwork:\n  rules:\n${OTHER_RULE(gate.upstream.port)}`)
  while ((await gate.ask(OTHER)) === 'host_not_allowed');
  assert.equal(await gate.ask(OTHER), 'no credential')
  assert.equal((await gate.events('reload_failed')).length, failures + 1)
})

test('I1 what was said of all that is no word of a secret', async () => {
  const said = gate.proxy.output() + JSON.stringify([await gate.events('reloaded'), await gate.events('reload_failed')])
  assert.doesNotMatch(said, /first-5d2f|second-81bc|third-c0ff|alone-42aa|value-\d/)
})
