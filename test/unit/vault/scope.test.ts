import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Secret } from '../../../src/kernel/secret.ts'
import { system } from '../../../src/kernel/system.ts'
import { sealSecrets } from '../../../src/vault/sealed.ts'
import { scopeOfWorkspace } from '../../../src/vault/vault.ts'
import { vaultHome } from '../../support/vault.ts'

const SCOPES = { GLOBAL: 'global', HERE: scopeOfWorkspace('/projects/here'), CI: 'role:ci' }

for (const { who, holder, has } of [
  { who: 'a session of the workspace', holder: { workspace: '/projects/here' }, has: ['GLOBAL', 'HERE'] },
  { who: 'one with the role', holder: { workspace: '/projects/there', role: 'ci' }, has: ['GLOBAL', 'CI'] },
  { who: 'one with both', holder: { workspace: '/projects/here', role: 'ci' }, has: ['GLOBAL', 'HERE', 'CI'] },
  { who: 'one of another workspace and role', holder: { workspace: '/projects/here/below', role: 'ci2' }, has: ['GLOBAL'] },
  { who: 'the daemon itself', holder: {}, has: ['GLOBAL'] },
  { who: 'the operator', holder: undefined, has: ['GLOBAL', 'HERE', 'CI'] },
])
  test(`I30 ${who} gets of the vault ${has.join(', ')}, and the rest is secret_not_permitted`, async () => {
    await using home = await vaultHome()
    await using vault = await home.create()
    for (const [key, scope] of Object.entries(SCOPES)) vault.set(key, new Secret(key, `value of ${key}`), { scope })
    for (const key of Object.keys(SCOPES)) {
      const get = (): string => vault.get(key, holder).reveal()
      if (has.includes(key)) assert.equal(get(), `value of ${key}`)
      else assert.throws(get, { code: 'secret_not_permitted', message: new RegExp(`"${key}".*"${SCOPES[key as 'CI']}"`), hint: /--scope/ })
    }
  })

for (const scope of [
  'build',
  'session:abc',
  'workspace:',
  'workspace:abc',
  'workspace:/projects',
  'role:',
  'role:A',
  'globals',
  'role:a b',
])
  test(`a secret cannot be given the scope "${scope}", which would be nobody's`, async () => {
    await using home = await vaultHome()
    await using vault = await home.create()
    assert.throws(() => vault.set('A', new Secret('A', 'value'), { scope }), { code: 'config_invalid', message: new RegExp(scope) })
    assert.deepEqual(vault.list(), [])
  })

test('a scope that was stored before there were rules for it is for nobody but the operator', async () => {
  await using home = await vaultHome()
  await using vault = await home.create()
  const old = { key: 'A', name: 'A', value: 'old value', scope: 'build', tags: [], version: 1, createdAt: 1, updatedAt: 1 }
  const passphrase = new Secret('passphrase', 'five words by sheer chance')
  await vault.importSealed(await sealSecrets([old], passphrase, system), passphrase)
  assert.throws(() => vault.get('A', { workspace: '/projects', role: 'build' }), { code: 'secret_not_permitted' })
  assert.equal(vault.get('A').reveal(), 'old value')
})
