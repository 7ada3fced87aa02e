import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { AuditEvent } from '../../../src/audit/audit.ts'
import { openDaemonVault, type DaemonVault } from '../../../src/controller/daemon-vault.ts'
import { openProviders } from '../../../src/controller/providers/providers.ts'
import { createSecretDesk } from '../../../src/controller/secret-desk.ts'
import { mappingsOf } from '../../../src/controller/secret-mappings.ts'
import { createServicePresets } from '../../../src/controller/service-presets.ts'
import { createSessionSecrets } from '../../../src/controller/session-secrets.ts'
import { codeOf, SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { system } from '../../../src/kernel/system.ts'
import { recordingLog } from '../../support/audit.ts'
import { policyOf } from '../../support/policy.ts'
import { PRESETS, readPreset } from '../../support/service-presets.ts'
import { ROOT } from '../../support/tree.ts'
import { unlockWith, vaultHome, type VaultHome } from '../../support/vault.ts'

const CANARY = 'canary-desk-77d1'
const NEVER = new AbortController().signal

type DeskOptions = {
  readonly audit?: (event: AuditEvent) => Promise<void>
  readonly passphrase?: string
  readonly clock?: { now: number }
}

async function openDesk(home: VaultHome, options: DeskOptions = {}) {
  const unlock = unlockWith(join(home.path, 'vault.key'), options.passphrase)
  const { log } = recordingLog()
  const kept = await openDaemonVault(home.path, unlock, system, log as unknown as Parameters<typeof openDaemonVault>[3])
  const audited: AuditEvent[] = []
  const append = options.audit ?? (async (event: AuditEvent) => void audited.push(event))
  const desk = createSecretDesk({
    ...kept,
    home: home.path,
    workspaces: () => [],
    audit: { append },
    system: { elapsed: () => options.clock?.now ?? 0 },
  })
  return { kept, desk, audited, [Symbol.asyncDispose]: () => kept[Symbol.asyncDispose]() }
}

const value = (text = CANARY): Secret => new Secret('KEY', text)

test('I1 what is listed and what is recorded of a secret is its name and version, and a copy is recorded before it is given', async () => {
  await using home = await vaultHome()
  await (await home.create())[Symbol.asyncDispose]()
  await using setting = await openDesk(home)
  const { desk, audited } = setting
  await desk.set('KEY', value(), { tags: ['ci'], seen: 0 }, 'a test')
  await desk.describe('KEY', { scope: 'role:ci' }, 'a test')
  assert.equal((await desk.copy('KEY', 'a test')).reveal(), CANARY)
  await desk.remove('KEY', 'a test')
  assert.doesNotMatch(JSON.stringify([await desk.list(), audited]), /canary/)
  assert.deepEqual(
    audited.map((event) => ('what' in event ? [event.what, 'did' in event && event.did] : 'details' in event && event.details)),
    [['KEY', 'set'], ['KEY', 'described'], 'KEY version 2 by a test', ['KEY', 'removed']],
  )
})

test('I82 a copy that cannot be recorded is not given', async () => {
  await using home = await vaultHome()
  {
    await using vault = await home.create()
    vault.set('KEY', value())
  }
  await using setting = await openDesk(home, { audit: () => Promise.reject(new SallyportError('audit_unavailable', 'the disk is full')) })
  await assert.rejects(setting.desk.copy('KEY', 'a test'), { code: 'audit_unavailable' })
})

test('a value is not replaced when the secret is another version than the operator saw', async () => {
  await using home = await vaultHome()
  await (await home.create())[Symbol.asyncDispose]()
  await using setting = await openDesk(home)
  const { desk } = setting
  await desk.set('KEY', value(), { seen: 0 }, 'a test')
  for (const seen of [0, 2]) await assert.rejects(desk.set('KEY', value('another'), { seen }, 'a test'), { code: 'secret_outdated' })
  assert.equal((await desk.copy('KEY', 'a test')).reveal(), CANARY)
  assert.equal((await desk.set('KEY', value('another'), { seen: 1 }, 'a test')).version, 2)
})

async function bundleFrom(kept: DaemonVault): Promise<unknown> {
  const policy = policyOf({
    rules: [{ id: 'api', host: 'api.example.com' }],
    credentials: [{ id: 'api', secret: 'KEY', inject: { domains: ['api.example.com'], header: 'X-Key' } }],
    secrets: [{ name: 'KEY', source: 'vault:KEY' }],
  })
  await using providers = openProviders({ env: {}, vault: kept.vault })
  const holder = { session: 's-1', workspace: '/srv/one', role: 'ci' }
  return await createSessionSecrets(providers, () => ({ policy, holder }), system).bundle('s-1', NEVER)
}

test('what was given out last to whom is known to the next daemon too; a look is no use, and one of before the secret is none', async () => {
  await using home = await vaultHome()
  await (await home.create())[Symbol.asyncDispose]()
  {
    await using setting = await openDesk(home)
    await setting.desk.set('KEY', value(), {}, 'a test')
    await setting.kept.vault.get('KEY', { session: 's-1' })
    await setting.desk.look('KEY')
    assert.equal((await setting.desk.list()).secrets[0]?.used, undefined)
    await bundleFrom(setting.kept)
  }
  const file = join(home.path, 'secret-uses.json')
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.doesNotMatch(readFileSync(file, 'utf8'), /canary/)
  await using setting = await openDesk(home)
  const { at, ...used } = (await setting.desk.list()).secrets[0]?.used ?? { at: 0 }
  assert.ok(at > 0)
  assert.deepEqual(used, { use: 'credential:api', session: 's-1', workspace: '/srv/one', role: 'ci' })
  await setting.desk.remove('KEY', 'a test')
  await setting.desk.set('KEY', value('another'), {}, 'a test')
  assert.equal((await setting.desk.list()).secrets[0]?.used, undefined)
})

test('a file of uses that is no such file is begun anew, and nothing else fails', async () => {
  await using home = await vaultHome()
  await (await home.create())[Symbol.asyncDispose]()
  writeFileSync(join(home.path, 'secret-uses.json'), '{"version":1,"uses":{"KEY":{"at":"soon"}}}', { mode: 0o600 })
  await using setting = await openDesk(home)
  await setting.desk.set('KEY', value(), {}, 'a test')
  await bundleFrom(setting.kept)
  assert.equal((await setting.desk.list()).secrets[0]?.used?.use, 'credential:api')
})

test('a locked vault gives nothing until its passphrase comes, and a wrong one closes none that is open', async () => {
  await using home = await vaultHome()
  {
    await using vault = await home.create('passphrase')
    vault.set('KEY', value())
  }
  await using setting = await openDesk(home, { passphrase: 'not the one that it has' })
  const { desk, kept } = setting
  const state = await desk.state()
  assert.ok(state.state === 'closed')
  assert.deepEqual([state.method, state.code], ['passphrase', 'vault_key_wrong'])
  await assert.rejects(kept.vault.get('KEY'), { code: 'secret_unavailable' })
  await assert.rejects(desk.unlock(new Secret('passphrase', 'another wrong one'), 'a test'), { code: 'vault_key_wrong' })
  await desk.unlock(new Secret('passphrase', 'five words by sheer chance'), 'a test')
  await assert.rejects(desk.unlock(new Secret('passphrase', 'another wrong one'), 'a test'), { code: 'vault_key_wrong' })
  assert.equal((await kept.vault.get('KEY')).reveal(), CANARY)
})

test('guesses at the passphrase are recorded, one at a time, and wait longer and longer; the right one is not looked at before', async () => {
  await using home = await vaultHome()
  await (await home.create('passphrase'))[Symbol.asyncDispose]()
  const clock = { now: 0 }
  await using setting = await openDesk(home, { passphrase: 'not the one that it has', clock })
  const { desk, audited } = setting
  const guess = (text = 'another wrong one') => desk.unlock(new Secret('passphrase', text), 'a test')
  const [first, second] = await Promise.allSettled([guess(), guess()])
  assert.deepEqual(
    [first, second].map((one) => one.status === 'rejected' && codeOf(one.reason)),
    ['vault_key_wrong', 'vault_locked'],
  )
  for (let wrong = 2; wrong <= LIMITS.unlockGuessesFreeMax + 1; wrong += 1) await assert.rejects(guess(), { code: 'vault_key_wrong' })
  await assert.rejects(guess('five words by sheer chance'), { code: 'vault_locked' })
  assert.equal(audited.length, LIMITS.unlockGuessesFreeMax + 1)
  clock.now += LIMITS.approverWaitMinMs
  assert.equal((await guess('five words by sheer chance')).state, 'open')
  assert.doesNotMatch(JSON.stringify(audited), /wrong one|sheer/)
})

test('who uses a secret is told from every layer of the operator’s, and a layer that cannot be read is told', async () => {
  await using home = await vaultHome()
  const policies = join(home.path, 'policies')
  const write = (path: string, content: object | string): void => {
    mkdirSync(join(policies, path, '..'), { recursive: true })
    writeFileSync(join(policies, path), typeof content === 'string' ? content : JSON.stringify({ version: 1, ...content }))
  }
  const inject = { domains: ['api.example.com'], header: 'X-Key' }
  const rule = { id: 'api', host: 'api.example.com', ports: [443], action: 'allow' }
  write('roles/ci.yaml', {
    network: { rules: [rule] },
    credentials: [{ id: 'ci-api', secret: 'GH', inject }],
  })
  write('global.yaml', { secrets: [{ name: 'GH', source: 'vault:KEY', resources: ['inject'] }] })
  write('roles/broken.yaml', 'version: 1\nnetwork: [')
  writeFileSync(join(home.path, 'mcp.json'), JSON.stringify({ mcpServers: { issues: { command: 'x', env: { T: '${secret:KEY}' } } } }))
  const found = mappingsOf('KEY', { home: home.path, packageRoot: ROOT, livePolicies: () => [] })
  assert.deepEqual(
    found.credentials.map(({ id, layer, place }) => [id, layer, place]),
    [['ci-api', 'role ci', 'header X-Key']],
  )
  assert.deepEqual(
    found.declarations.map(({ secret, layer }) => [secret, layer]),
    [['GH', 'global']],
  )
  assert.deepEqual(found.servers, [{ name: 'issues', where: 'mcp.json' }])
  assert.equal(found.problems.length, 1)
  assert.match(found.problems[0] ?? '', /^role broken: /)
})

test('every preset with a credential can be picked, with its hosts and the names that it looks for', () => {
  const presets = createServicePresets([join(ROOT, 'policies')])()
  const withCredentials = PRESETS.filter((name) => /^credentials:\n/m.test(readPreset(name)))
  assert.deepEqual(presets.map(({ preset }) => preset).toSorted(), withCredentials.map((name) => `service/${name}`).toSorted())
  for (const { preset, secrets, credentials } of presets) {
    assert.ok(secrets.length > 0, preset)
    for (const { domains, place } of credentials) assert.ok(domains.length > 0 && place !== '', preset)
  }
  assert.deepEqual(presets.find(({ preset }) => preset === 'service/datadog')?.secrets, ['DD_API_KEY', 'DD_APP_KEY'])
  assert.equal(presets.find(({ preset }) => preset === 'service/aws-s3')?.isTemplate, true)
})
