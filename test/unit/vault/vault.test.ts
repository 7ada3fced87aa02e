import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import type { VaultEvent } from '../../../src/vault/vault.ts'
import { secret, valuesOf, vaultHome } from '../../support/vault.ts'

const CANARY = 'canary-7f3a-value'

test('what was stored is there after the vault was closed, with its name, scope, tags, version and times', async () => {
  let now = 1_000
  await using home = await vaultHome({ now: () => now })
  {
    await using vault = await home.create()
    vault.set('GITHUB_TOKEN', secret('first'), { tags: ['git', 'ci', 'git'], scope: 'role:ci', name: 'GitHub, für CI' })
    now = 2_000
    vault.set('GITHUB_TOKEN', secret(CANARY))
  }
  await using vault = await home.open()
  assert.equal(vault.get('GITHUB_TOKEN').reveal(), CANARY)
  const [row] = vault.list()
  assert.deepEqual(
    { ...row, id: typeof row?.id },
    {
      id: 'string',
      name: 'GitHub, für CI',
      key: 'GITHUB_TOKEN',
      scope: 'role:ci',
      tags: ['ci', 'git'],
      version: 2,
      createdAt: 1_000,
      updatedAt: 2_000,
    },
  )
  assert.deepEqual(vault.problems(), [])
})

test('a clock that was put back makes no value look older than the one that it replaced', async () => {
  let now = 5_000
  await using home = await vaultHome({ now: () => now })
  await using vault = await home.create()
  vault.set('A', secret('one'))
  now = 1
  assert.equal(vault.set('A', secret('two')).updatedAt, 5_000)
})

test('I1 a value prints as its name: in a row, an error and what get gives', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  const row = vault.set('TOKEN', secret(CANARY))
  assert.doesNotMatch(JSON.stringify([row, vault.list(), vault.get('TOKEN'), String(vault.get('TOKEN'))]), new RegExp(CANARY))
})

test('I32 no value is in clear in any file of the home, while the vault is open and after', async () => {
  await using home = await vaultHome()
  const search = async (): Promise<void> => {
    for (const [name, bytes] of await home.bytes()) assert.equal(bytes.includes(CANARY), false, name)
  }
  {
    await using vault = await home.create()
    vault.set('TOKEN', secret(CANARY))
    vault.set('TOKEN', secret(`${CANARY}2`))
    vault.tag('TOKEN', ['a'])
    await vault.rotateKey()
    await search()
  }
  await search()
})

test('the vault, its log and its key file are 0600', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  vault.set('A', secret('value'))
  for (const name of (await home.bytes()).keys()) assert.equal(statSync(join(home.path, name)).mode & 0o777, 0o600, name)
  assert.deepEqual([...(await home.bytes()).keys()], ['vault.db', 'vault.db-shm', 'vault.db-wal', 'vault.key'])
})

test('remove forgets a secret, its version begins anew, and removing what is not there names the nearest', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  vault.set('NPM_TOKEN', secret('one'))
  vault.set('NPM_TOKEN', secret('two'))
  vault.set('OTHER', secret('three'))
  vault.remove('NPM_TOKEN')
  assert.deepEqual(valuesOf(vault), { OTHER: 'three' })
  assert.throws(() => vault.get('NPM_TOKEN'), { code: 'secret_missing' })
  assert.throws(() => vault.remove('OTHR'), { code: 'secret_missing', hint: 'did you mean OTHER?' })
  assert.equal(vault.set('NPM_TOKEN', secret('four')).version, 1)
})

test('tag changes tags and version, and leaves the value', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  vault.set('A', secret('value'), { tags: ['old'] })
  assert.deepEqual(vault.tag('A', ['new', 'b']).tags, ['b', 'new'])
  assert.deepEqual([vault.get('A').reveal(), vault.list()[0]?.version], ['value', 2])
  assert.throws(() => vault.tag('B', []), { code: 'secret_missing' })
})

for (const { why, key = 'A', value = 'value', options = {}, code } of [
  { why: 'an empty value', value: '', code: 'secret_invalid' },
  { why: 'half of a character', value: 'a\ud800', code: 'secret_invalid' },
  { why: 'a value of one byte too many', value: 'x'.repeat(LIMITS.secretBytesMax + 1), code: 'secret_invalid' },
  { why: 'a key with a space', key: 'A B', code: 'config_invalid' },
  { why: 'a key that a policy could not name', key: '1A', code: 'config_invalid' },
  { why: 'a key of 129 characters', key: 'A'.repeat(129), code: 'config_invalid' },
  { why: 'a scope with a line break', options: { scope: 'a\nb' }, code: 'config_invalid' },
  { why: 'a tag with an escape sequence', options: { tags: ['\x1b[2K'] }, code: 'config_invalid' },
  { why: 'a name with a direction override', options: { name: 'a\u202eb' }, code: 'config_invalid' },
  { why: 'too many tags', options: { tags: Array.from({ length: LIMITS.secretTagsMax + 1 }, (_, n) => `t${n}`) }, code: 'config_invalid' },
]) {
  test(`${why} is ${code}, and nothing is stored`, async () => {
    await using home = await vaultHome()
    await using vault = await home.create()
    assert.throws(() => vault.set(key, secret(value), options), { code })
    assert.deepEqual([vault.list(), vault.version], [[], 0])
  })
}

test('the version of the vault goes up by one with every change, and by none without', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  const versions = [vault.version]
  const note = (): void => void versions.push(vault.version)
  vault.set('A', secret('value'))
  note()
  vault.tag('A', ['x'])
  note()
  assert.throws(() => vault.remove('B'))
  note()
  await vault.rotateKey()
  note()
  vault.remove('A')
  note()
  assert.deepEqual(versions, [0, 1, 2, 2, 3, 4])
})

test('each change is told with names and versions, and no value', async () => {
  await using home = await vaultHome()
  const events: VaultEvent[] = []
  await using vault = await home.create('key-file', { onChange: (event) => void events.push(event) })
  vault.set('A', secret(CANARY))
  vault.tag('A', ['x'])
  await vault.rotateKey()
  await vault.rewrap('passphrase')
  vault.remove('A')
  assert.deepEqual(events, [
    { kind: 'set', key: 'A', secretVersion: 1, version: 1 },
    { kind: 'tagged', key: 'A', secretVersion: 2, version: 2 },
    { kind: 'key_rotated', method: 'key-file', version: 3 },
    { kind: 'locked_anew', method: 'passphrase', version: 4 },
    { kind: 'removed', key: 'A', secretVersion: 2, version: 5 },
  ])
  assert.doesNotMatch(JSON.stringify(events), new RegExp(CANARY))
})

test('I33 a change that could not be told is undone: set, tag, remove and a new key', async () => {
  await using home = await vaultHome()
  let isDeaf = false
  const onChange = (): void => {
    if (isDeaf) throw new Error('the audit cannot be written')
  }
  await using vault = await home.create('key-file', { onChange })
  vault.set('A', secret('value'), { tags: ['x'] })
  isDeaf = true
  assert.throws(() => vault.set('A', secret('other')), /audit/)
  assert.throws(() => vault.set('B', secret('other')), /audit/)
  assert.throws(() => vault.tag('A', []), /audit/)
  assert.throws(() => vault.remove('A'), /audit/)
  await assert.rejects(vault.rotateKey(), /audit/)
  await assert.rejects(vault.rewrap('passphrase'), /audit/)
  assert.deepEqual([valuesOf(vault), vault.version, vault.list()[0]?.tags], [{ A: 'value' }, 1, ['x']])
  await using again = await home.open()
  assert.deepEqual(valuesOf(again), { A: 'value' })
})

test('two open vaults see at once what the other one stored', async () => {
  await using home = await vaultHome()
  await using one = await home.create()
  await using two = await home.open()
  one.set('A', secret('one'))
  assert.equal(two.get('A').reveal(), 'one')
  two.set('A', secret('two'))
  assert.deepEqual([one.get('A').reveal(), one.version], ['two', 2])
})

test('a vault is never made where there is one', async () => {
  await using home = await vaultHome()
  {
    await using vault = await home.create()
    vault.set('A', secret('value'))
  }
  const before = readFileSync(home.file)
  await assert.rejects(home.create('passphrase'), { code: 'vault_exists' })
  assert.deepEqual(readFileSync(home.file), before)
})

test('of several that make a vault at the same moment one does, and the others are told', async () => {
  await using home = await vaultHome()
  const made = await Promise.allSettled(Array.from({ length: 8 }, () => home.create()))
  const [vault, ...more] = made.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  assert.equal(more.length, 0)
  for (const result of made) if (result.status === 'rejected') assert.equal((result.reason as { code: string }).code, 'vault_exists')
  vault?.set('A', secret('value'))
  await vault?.[Symbol.asyncDispose]()
  await using again = await home.open()
  assert.deepEqual(valuesOf(again), { A: 'value' })
  assert.deepEqual(
    [...(await home.bytes()).keys()].filter((name) => name.endsWith('.tmp')),
    [],
  )
})

test('a vault that is not there is vault_missing, and opening makes nothing', async () => {
  await using home = await vaultHome()
  await assert.rejects(home.open(), { code: 'vault_missing' })
  assert.equal((await home.bytes()).size, 0)
})
