import assert from 'node:assert/strict'
import { CompactEncrypt, compactDecrypt } from 'jose'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import type { VaultEvent } from '../../../src/vault/vault.ts'
import { PASSPHRASE, secret, valuesOf, vaultHome } from '../../support/vault.ts'

const SEALED_WITH = new Secret('p', 'the passphrase of the file')
const TYPE = 'sallyport-secrets+jwe'

type Row = { key: string; value?: unknown; updatedAt?: number; tags?: string[]; [more: string]: unknown }

/** A sealed file made by hand, with the right passphrase. */
function seal(rows: readonly Row[], { version = 1, typ = TYPE, p2c = 1_000 } = {}): Promise<string> {
  const secrets = rows.map((row) => ({
    name: row.key,
    value: 'value',
    scope: 'global',
    tags: [],
    version: 1,
    createdAt: 1,
    updatedAt: 1,
    ...row,
  }))
  return new CompactEncrypt(Buffer.from(JSON.stringify({ version, secrets })))
    .setProtectedHeader({ alg: 'PBES2-HS512+A256KW', enc: 'A256GCM', typ })
    .setKeyManagementParameters({ p2c, p2s: Buffer.alloc(16, 1) })
    .encrypt(Buffer.from(SEALED_WITH.reveal()))
}

test('what one vault exported another imports: values, names, scopes, tags, versions and dates', async () => {
  let now = 1_000
  await using home = await vaultHome({ now: () => now })
  await using vault = await home.create()
  vault.set('A', secret('one'), { tags: ['x'], scope: 'role:ci', name: 'Ä' })
  now = 2_000
  vault.set('A', secret('one\nand more \u{1f511}'))
  vault.set('B', secret('two'))
  const text = await vault.exportSealed(SEALED_WITH)
  now = 9_000
  await using other = await vaultHome({ now: () => now })
  await using imported = await other.create('key-file')
  assert.equal(await imported.importSealed(text, SEALED_WITH), 2)
  assert.deepEqual(valuesOf(imported), valuesOf(vault))
  const withoutId = (rows: ReturnType<typeof vault.list>) => rows.map(({ id: _id, ...row }) => row)
  assert.deepEqual(withoutId(imported.list()), withoutId(vault.list()))
  assert.equal(await imported.importSealed(text, SEALED_WITH), 0, 'the second time there is nothing to store')
  assert.equal(imported.version, 1)
})

test('an exported file is a JWE that any JOSE library opens, and has neither values nor names in clear', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  vault.set('GITHUB_TOKEN', secret('canary-value'))
  const text = await vault.exportSealed(SEALED_WITH)
  for (const part of [text, Buffer.from(text, 'base64url').toString('latin1')]) assert.doesNotMatch(part, /canary|GITHUB/)
  const { plaintext, protectedHeader } = await compactDecrypt(text.trim(), Buffer.from(SEALED_WITH.reveal()), {
    keyManagementAlgorithms: ['PBES2-HS512+A256KW'],
    maxPBES2Count: LIMITS.pbkdf2RoundsMax,
  })
  assert.deepEqual([protectedHeader.alg, protectedHeader.enc, protectedHeader.typ], ['PBES2-HS512+A256KW', 'A256GCM', TYPE])
  assert.match(Buffer.from(plaintext).toString(), /"key":"GITHUB_TOKEN".*"value":"canary-value"/)
})

test('a wrong passphrase is sealed_invalid, and so is any altered part', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  const text = (await seal([{ key: 'A' }])).trim()
  const parts = text.split('.')
  const altered = parts.map((part, at) => {
    const flipped = part.length === 0 ? 'AAAA' : `${part.startsWith('A') ? 'B' : 'A'}${part.slice(1)}`
    return parts.with(at, flipped).join('.')
  })
  await assert.rejects(vault.importSealed(text, new Secret('p', PASSPHRASE)), { code: 'sealed_invalid' })
  for (const bad of [...altered, text.slice(0, -5), `${text}A`, '', 'x', parts.slice(1).join('.')]) {
    await assert.rejects(vault.importSealed(bad, SEALED_WITH), { code: 'sealed_invalid' })
  }
  assert.equal(vault.version, 0)
  assert.equal(await vault.importSealed(text, SEALED_WITH), 1)
})

for (const { why, header } of [
  { why: 'PBKDF2 without end', header: { alg: 'PBES2-HS512+A256KW', enc: 'A256GCM', typ: TYPE, p2c: 2 ** 31 - 1, p2s: 'AAAAAAAAAAA' } },
  { why: 'the passphrase itself as the key', header: { alg: 'dir', enc: 'A256GCM', typ: TYPE } },
  { why: 'no encryption', header: { alg: 'none', typ: TYPE } },
  { why: 'a compressed payload', header: { alg: 'PBES2-HS512+A256KW', enc: 'A256GCM', zip: 'DEF', p2c: 1_000, p2s: 'AAAAAAAAAAA' } },
  { why: 'an older way', header: { alg: 'PBES2-HS256+A128KW', enc: 'A128CBC-HS256', p2c: 1_000, p2s: 'AAAAAAAAAAA' } },
]) {
  test(`a file whose header asks for ${why} is sealed_invalid`, async () => {
    await using home = await vaultHome()
    await using vault = await home.create()
    const [, ...parts] = (await seal([{ key: 'A' }])).split('.')
    const text = [Buffer.from(JSON.stringify(header)).toString('base64url'), ...parts].join('.')
    await assert.rejects(vault.importSealed(text, SEALED_WITH), { code: 'sealed_invalid' })
  })
}

for (const { why, make, code } of [
  { why: 'another type', make: () => seal([{ key: 'A' }], { typ: 'JWT' }), code: 'sealed_invalid' },
  { why: 'a version of tomorrow', make: () => seal([{ key: 'A' }], { version: 2 }), code: 'sealed_invalid' },
  { why: 'a value that is no text', make: () => seal([{ key: 'B' }, { key: 'A', value: 5 }]), code: 'sealed_invalid' },
  { why: 'an unknown field', make: () => seal([{ key: 'B' }, { key: 'A', owner: 'x' }]), code: 'sealed_invalid' },
  { why: 'one key that is none', make: () => seal([{ key: 'B' }, { key: '../A' }]), code: 'config_invalid' },
  { why: 'one tag that is none', make: () => seal([{ key: 'B' }, { key: 'A', tags: ['\x1b[2J'] }]), code: 'config_invalid' },
  { why: 'one empty value', make: () => seal([{ key: 'B' }, { key: 'A', value: '' }]), code: 'secret_invalid' },
  {
    why: 'too many secrets with those that are there',
    make: () => seal(Array.from({ length: LIMITS.vaultSecretsMax }, (_, n) => ({ key: `K${n}` }))),
    code: 'vault_full',
  },
]) {
  test(`I33 a sealed file with ${why} is ${code}, and none of it is stored`, async () => {
    await using home = await vaultHome()
    await using vault = await home.create()
    vault.set('OWN', secret('own'))
    await assert.rejects(vault.importSealed(await make(), SEALED_WITH), { code })
    assert.deepEqual([valuesOf(vault), vault.version], [{ OWN: 'own' }, 1])
  })
}

test('the vault is full at its limit: a new secret is vault_full, one that is there can be changed', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  await vault.importSealed(await seal(Array.from({ length: LIMITS.vaultSecretsMax }, (_, n) => ({ key: `K${n}` }))), SEALED_WITH)
  assert.throws(() => vault.set('ONE_MORE', secret('value')), { code: 'vault_full' })
  vault.set('K0', secret('changed'))
  assert.equal(vault.list().length, LIMITS.vaultSecretsMax)
})

test('what is newer in the vault is import_conflict, with all names and no value; with replace the file wins', async () => {
  await using home = await vaultHome({ now: () => 5_000 })
  const events: VaultEvent[] = []
  await using vault = await home.create('key-file', { onChange: (event) => void events.push(event) })
  vault.set('NEWER', secret('canary of the vault'))
  const text = await seal([{ key: 'NEWER', value: 'canary of the file', updatedAt: 4_000 }, { key: 'OTHER' }])
  await assert.rejects(vault.importSealed(text, SEALED_WITH), (error: Error & { code: string }) => {
    assert.equal(error.code, 'import_conflict')
    assert.match(error.message, /NEWER/)
    assert.doesNotMatch(error.message, /canary|OTHER/)
    return true
  })
  assert.deepEqual(valuesOf(vault), { NEWER: 'canary of the vault' })
  assert.equal(await vault.importSealed(text, SEALED_WITH, { replace: true }), 2)
  assert.deepEqual(valuesOf(vault), { NEWER: 'canary of the file', OTHER: 'value' })
  assert.equal(vault.list().find(({ key }) => key === 'NEWER')?.version, 2, 'its version goes up all the same')
  assert.deepEqual(events.at(-1), { kind: 'imported', keys: ['NEWER', 'OTHER'], version: 2 })
})

test('what is older in the vault is replaced without being asked', async () => {
  await using home = await vaultHome({ now: () => 5_000 })
  await using vault = await home.create()
  vault.set('A', secret('older'))
  assert.equal(await vault.importSealed(await seal([{ key: 'A', value: 'newer', updatedAt: 6_000 }]), SEALED_WITH), 1)
  assert.equal(vault.get('A').reveal(), 'newer')
  assert.equal(vault.list()[0]?.updatedAt, 5_000, 'a clock that is ahead does not make it the newest for good')
})

test('an export with a short passphrase, or of a vault with a problem, is refused', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  vault.set('A', secret('value'))
  await assert.rejects(vault.exportSealed(new Secret('p', 'short')), { code: 'config_invalid' })
  home.raw((db) => db.exec(`DELETE FROM secrets`))
  await assert.rejects(vault.exportSealed(SEALED_WITH), { code: 'vault_corrupt', message: /secret A: its row is gone/ })
})

test('an export changes no byte of the vault', async () => {
  await using home = await vaultHome()
  {
    await using vault = await home.create()
    vault.set('A', secret('value'))
  }
  const before = readFileSync(home.file)
  {
    await using vault = await home.open()
    await vault.exportSealed(SEALED_WITH)
  }
  assert.deepEqual(readFileSync(home.file), before)
})
