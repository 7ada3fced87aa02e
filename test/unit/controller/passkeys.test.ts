import assert from 'node:assert/strict'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Presence } from '../../../src/controller/presence/presence.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { softwarePasskey, type SoftwarePasskey } from '../../support/authenticator.ts'
import { never, PASSWORD, presenceHome, purpose, secret } from '../../support/presence.ts'

const PAGE = 'http://localhost:7270'

async function registered(presence: Presence, name: string): Promise<SoftwarePasskey> {
  const passkey = softwarePasskey(PAGE)
  await presence.passkeys.register('login', name, passkey.make(presence.passkeys.creation('login', PAGE)))
  return passkey
}

const proven = (presence: Presence, passkey: SoftwarePasskey, of = purpose()) =>
  presence.prove('T3', { kind: 'passkey', response: passkey.use(presence.passkeys.challenge(of, PAGE)) }, of, never)

test('two passkeys are registered, each proves every tier, and is recorded by its name', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  assert.equal(presence.available.includes('T3'), false)
  const [laptop, key] = [await registered(presence, 'laptop'), await registered(presence, 'blue key')]
  assert.deepEqual(presence.available, ['T0', 'T3'])
  for (const tier of ['T0', 'T1', 'T2', 'T3'] as const)
    for (const [passkey, name] of [
      [laptop, 'laptop'],
      [key, 'blue key'],
    ] as const) {
      const of = purpose({ question: 'q-1', scope: 'remember', rule: 'ls', expiresAt: 5 })
      const response = passkey.use(presence.passkeys.challenge(of, PAGE))
      const evidence = await presence.prove(tier, { kind: 'passkey', response }, of, never)
      assert.deepEqual(evidence, { tier: 'T3', means: `passkey "${name}"`, at: setting.clock.now(), digest: of.digest })
      presence.redeem(evidence, tier, of)
    }
  assert.deepEqual(setting.audited, [])
})

test('what is asked of the authenticator names this machine, wants the user verified and no word of its maker', async () => {
  await using setting = await presenceHome()
  const { passkeys } = await setting.open()
  const creation = passkeys.creation('login', PAGE)
  assert.equal(creation.rp.id, 'localhost')
  assert.equal(creation.attestation, 'none')
  assert.deepEqual(creation.authenticatorSelection, {
    residentKey: 'preferred',
    requireResidentKey: false,
    userVerification: 'required',
  })
  const passkey = softwarePasskey(PAGE)
  await passkeys.register('login', 'one', passkey.make(creation))
  const request = passkeys.challenge(purpose(), PAGE)
  assert.equal(request.rpId, 'localhost')
  assert.equal(request.userVerification, 'required')
  assert.deepEqual(request.allowCredentials, [{ id: passkey.id, type: 'public-key', transports: ['internal'] }])
  assert.deepEqual(passkeys.creation('login', PAGE).excludeCredentials, request.allowCredentials)
  // Who is not let in yet is told of none.
  assert.equal(passkeys.challenge('login', PAGE).allowCredentials, undefined)
})

test('passkeys outlive the daemon, with their counters, in a file that only its owner reads', async () => {
  await using setting = await presenceHome()
  const before = await setting.open()
  const passkey = await registered(before, 'laptop')
  setting.clock.pass(1_000)
  await proven(before, passkey)
  const file = join(setting.home, 'passkeys.json')
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  const after = await setting.open()
  assert.deepEqual(after.passkeys.view(), before.passkeys.view())
  assert.equal(after.passkeys.view().passkeys[0]?.usedAt, setting.clock.now())
  await assert.rejects(
    after.prove(
      'T3',
      { kind: 'passkey', response: passkey.use(after.passkeys.challenge(purpose(), PAGE), { counter: 2 }) },
      purpose(),
      never,
    ),
    { code: 'presence_failed', message: /does not rise \(2 after 2\)/ },
  )
  await proven(after, passkey)
})

test('an authenticator that does not count is taken each time', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  const passkey = softwarePasskey(PAGE)
  await presence.passkeys.register('login', 'phone', passkey.make(presence.passkeys.creation('login', PAGE), { counter: 0 }))
  for (let times = 0; times < 3; times += 1) {
    const response = passkey.use(presence.passkeys.challenge(purpose(), PAGE), { counter: 0 })
    await presence.prove('T3', { kind: 'passkey', response }, purpose(), never)
  }
})

test('a passkey is renamed and removed; then it proves nothing, and the others go on', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  const [lost, kept] = [await registered(presence, 'lost'), await registered(presence, 'kept')]
  await presence.passkeys.rename(kept.id, 'new name')
  assert.equal((await proven(presence, kept)).means, 'passkey "new name"')
  const challenge = presence.passkeys.challenge(purpose(), PAGE)
  await presence.passkeys.remove(lost.id)
  await assert.rejects(presence.prove('T3', { kind: 'passkey', response: lost.use(challenge) }, purpose(), never), {
    code: 'presence_failed',
    message: /not registered/,
  })
  await proven(presence, kept)
  await presence.passkeys.remove(kept.id)
  assert.deepEqual(presence.available, ['T0'])
  for (const id of [lost.id, 'AAAA']) {
    await assert.rejects(presence.passkeys.remove(id), { code: 'passkey_not_found' })
    await assert.rejects(presence.passkeys.rename(id, 'x'), { code: 'passkey_not_found' })
  }
})

for (const [what, text] of [
  ['cut off', '{"version": 1, "user": "AAAA", "pass'],
  ['empty', ''],
  ['of another version', '{"version": 2, "user": "AAAA", "passkeys": []}'],
  ['with a passkey twice', JSON.stringify({ version: 1, user: 'AA', passkeys: [recordOf('AA'), recordOf('AA')] })],
  ['with a counter below zero', JSON.stringify({ version: 1, user: 'AA', passkeys: [{ ...recordOf('AA'), counter: -1 }] })],
  ['with a word that it should not have', JSON.stringify({ version: 1, user: 'AA', passkeys: [], admin: true })],
] as const)
  test(`a file that is ${what} proves nothing, takes nothing, is said to be damaged, and stays as it is`, async () => {
    await using setting = await presenceHome()
    const file = join(setting.home, 'passkeys.json')
    await writeFile(file, text, { mode: 0o600 })
    const presence = await setting.open()
    assert.equal(presence.available.includes('T3'), false)
    // Never taken for none: what wants a proof where there is one goes on wanting it.
    assert.deepEqual(presence.has, { password: false, passkey: true })
    assert.match(presence.passkeys.view().problem ?? '', /passkeys\.json cannot be used/)
    const passkey = softwarePasskey(PAGE)
    const damaged = { code: 'presence_failed', message: /passkeys\.json cannot be used/ }
    assert.throws(() => presence.passkeys.creation('login', PAGE), damaged)
    await assert.rejects(presence.passkeys.remove('AA'), damaged)
    await assert.rejects(proven(presence, passkey), damaged)
    assert.equal(await readFile(file, 'utf8'), text)
    assert.ok(setting.log.lines.some((line) => line.includes('passkeys')))
  })

test('a file that others can write, or that came while the daemon ran, is not used and not written over', async () => {
  await using setting = await presenceHome()
  const file = join(setting.home, 'passkeys.json')
  const presence = await setting.open()
  const text = JSON.stringify({ version: 1, user: 'AA', passkeys: [] })
  await writeFile(file, text, { mode: 0o666 })
  await assert.rejects(registered(presence, 'x'), { code: 'presence_failed', message: /was not when the daemon began/ })
  assert.equal(await readFile(file, 'utf8'), text)
  assert.match((await setting.open()).passkeys.view().problem ?? '', /lets others in/)
})

test('where the file cannot be written a passkey neither is registered nor proves anything', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  const passkey = await registered(presence, 'one')
  const { clock } = setting
  // The file beside it, which takes its place, is there already.
  clock.random = (bytes) => Buffer.alloc(bytes)
  await writeFile(join(setting.home, `.passkeys.json.${'00'.repeat(8)}.tmp`), '')
  await assert.rejects(proven(presence, passkey), { code: 'presence_failed', message: /cannot be written/ })
  await assert.rejects(registered(presence, 'two'), { code: 'presence_failed', message: /cannot be written/ })
  clock.random = (bytes) => Buffer.alloc(bytes, 7)
  await proven(presence, passkey)
  assert.equal(presence.passkeys.view().passkeys.length, 1)
})

test('there are so many passkeys and no more, and none twice', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  const first = await registered(presence, 'first')
  await assert.rejects(presence.passkeys.register('login', 'again', first.make(presence.passkeys.creation('login', PAGE))), {
    code: 'config_invalid',
    message: /registered already/,
  })
  const creation = presence.passkeys.creation('login', PAGE)
  for (let count = 1; count < LIMITS.passkeysMax; count += 1) await registered(presence, `number ${count}`)
  assert.throws(() => presence.passkeys.creation('login', PAGE), { code: 'config_invalid' })
  await assert.rejects(presence.passkeys.register('login', 'late', softwarePasskey(PAGE).make(creation)), { code: 'config_invalid' })
})

test('guesses of strangers at the password wait for themselves, and hold up no proof', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  await assert.rejects(presence.knock(secret(PASSWORD)), { code: 'presence_failed', message: /no password/ })
  await presence.setPassword(undefined, secret(PASSWORD))
  await presence.knock(secret(PASSWORD))
  let wait: number = LIMITS.approverWaitMinMs
  for (let guess = 0; guess < 12; guess += 1) {
    await assert.rejects(presence.knock(secret('wrong and wrong')), { message: 'the password is wrong' })
    setting.clock.pass(wait - 1)
    await assert.rejects(presence.knock(secret(PASSWORD)), { message: /the next is looked at/ })
    await presence.prove('T1', { kind: 'password', password: PASSWORD }, purpose(), never)
    setting.clock.pass(1)
    wait = Math.min(wait * 2, LIMITS.approverWaitMaxMs)
  }
  const many = await Promise.allSettled(Array.from({ length: 50 }, () => presence.knock(secret('wrong and wrong'))))
  assert.equal(many.filter((one) => one.status === 'rejected' && (one.reason as Error).message === 'the password is wrong').length, 1)
  setting.clock.pass(wait)
  await presence.knock(secret(PASSWORD))
})

function recordOf(id: string) {
  return { id, publicKey: 'AA', counter: 0, name: 'x', createdAt: 0, transports: [], isCopied: false }
}
