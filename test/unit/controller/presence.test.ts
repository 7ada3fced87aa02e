import assert from 'node:assert/strict'
import { readFile, stat } from 'node:fs/promises'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import type { PresenceProof, Tier } from '../../../src/wire/question.ts'
import { never, noPrompt, PASSWORD, password, presenceHome, purpose, REAL_COST, secret } from '../../support/presence.ts'

const system: PresenceProof = { kind: 'system', pid: 1, startTime: '1' }
const asked = { problem: () => undefined, confirm: () => Promise.resolve('polkit') }

for (const { tier, proof, gives } of [
  { tier: 'T0', proof: { kind: 'key' }, gives: { tier: 'T0', means: 'key' } },
  { tier: 'T0', proof: password(), gives: { tier: 'T1', means: 'password' } },
  { tier: 'T1', proof: password(), gives: { tier: 'T1', means: 'password' } },
  { tier: 'T0', proof: system, gives: { tier: 'T2', means: 'polkit' } },
  { tier: 'T1', proof: system, gives: { tier: 'T2', means: 'polkit' } },
  { tier: 'T2', proof: system, gives: { tier: 'T2', means: 'polkit' } },
] as const satisfies { tier: Tier; proof: PresenceProof; gives: object }[])
  test(`${proof.kind} proves ${tier}, and is recorded as what it is`, async () => {
    await using setting = await presenceHome()
    const presence = await setting.open(asked)
    await presence.setPassword(undefined, secret(PASSWORD))
    const evidence = await presence.prove(tier, proof, purpose(), never)
    assert.deepEqual(evidence, { ...gives, at: setting.clock.now(), digest: purpose().digest })
    presence.redeem(evidence, tier, purpose())
  })

test('a denial needs no more than a key, whatever the tier, and asks nobody', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open(noPrompt)
  for (const proof of [{ kind: 'key' } as const, password('not the one'), system]) {
    const evidence = await presence.prove('T3', proof, purpose({ decision: 'deny' }), never)
    assert.deepEqual([evidence.tier, evidence.means], ['T0', 'key'])
    presence.redeem(evidence, 'T3', purpose({ decision: 'deny' }))
  }
})

test('what is no answer of a passkey is refused for every tier', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open(asked)
  for (const tier of ['T0', 'T1', 'T2', 'T3'] as const)
    await assert.rejects(presence.prove(tier, { kind: 'passkey', response: {} }, purpose(), never), {
      code: 'presence_failed',
      message: /passkey/,
    })
})

test('what is available is what could be proven now', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open(noPrompt)
  assert.deepEqual(presence.available, ['T0'])
  await presence.setPassword(undefined, secret(PASSWORD))
  assert.deepEqual(presence.available, ['T0', 'T1'])
  assert.deepEqual((await setting.open(asked)).available, ['T0', 'T1', 'T2'])
})

test('a password is good in another composition of the same characters, and in no other case', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  await presence.setPassword(undefined, secret('Schl\u00fcssel-bund'))
  await presence.prove('T1', password('Schlu\u0308ssel-bund'), purpose(), never)
  await assert.rejects(presence.prove('T1', password('schl\u00fcssel-bund'), purpose(), never), { code: 'presence_failed' })
})

test('the password is changed with the one before, and then the one before is worth nothing', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  await presence.setPassword(undefined, secret(PASSWORD))
  await presence.setPassword(secret(PASSWORD), secret('another one'))
  const after = await setting.open()
  await after.prove('T1', password('another one'), purpose(), never)
  await assert.rejects(after.prove('T1', password(), purpose(), never), { code: 'presence_failed', message: 'the password is wrong' })
})

for (const { text, why } of [
  { text: 'seven77', why: 'is short' },
  { text: 'x'.repeat(LIMITS.approverPasswordCharsMax + 1), why: 'is long' },
])
  test(`a new password that ${why} is config_invalid, and is not in the message`, async () => {
    await using setting = await presenceHome()
    const presence = await setting.open()
    await assert.rejects(presence.setPassword(undefined, secret(text)), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'config_invalid')
      assert.doesNotMatch(`${error.message}${error.stack}`, /seven77|xxxx/)
      return true
    })
    assert.deepEqual(presence.available, ['T0'])
  })

test('the file is the owner’s alone, has the parameters of scrypt, and no password', async (t) => {
  const { scryptBytes } = LIMITS
  t.after(() => Object.assign(LIMITS, { scryptBytes }))
  Object.assign(LIMITS, { scryptBytes: REAL_COST })
  await using setting = await presenceHome()
  await (await setting.open()).setPassword(undefined, secret(PASSWORD))
  const { n, r, p, salt, key, ...rest } = JSON.parse(await readFile(setting.file, 'utf8')) as Record<string, unknown>
  assert.deepEqual([n, r, p], [2 ** 17, 8, 1])
  assert.match(`${String(salt)} ${String(key)}`, /^[0-9a-f]{32} [0-9a-f]{64}$/)
  assert.deepEqual(rest, { version: 1, failures: 0, attemptAt: setting.clock.now() })
  assert.equal((await stat(setting.file)).mode & 0o777, 0o600)
})

test('an answer that was broken off before its turn looks at no password', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  await presence.setPassword(undefined, secret(PASSWORD))
  await assert.rejects(presence.prove('T1', password('wrong wrong'), purpose(), AbortSignal.abort()), { code: 'presence_failed' })
  await presence.prove('T1', password(), purpose(), never)
})
