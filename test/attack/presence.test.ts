import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { test } from 'node:test'
import { identityOf } from '../../src/controller/presence/presence.ts'
import { checkProcess } from '../../src/controller/presence/process-identity.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { PresenceProof, type PresenceEvidence, type Tier } from '../../src/wire/question.ts'
import { never, noPrompt, PASSWORD, password, presenceHome, purpose, secret } from '../support/presence.ts'

const system: PresenceProof = { kind: 'system', pid: process.pid, startTime: '1' }
const CANARY = 'canary-3f1d-presence'
const wrong = (text = 'wrong and wrong') => password(text)

/** A prompt that counts how often somebody was asked. */
function counting() {
  const prompt = { asked: 0, problem: () => undefined, confirm: () => Promise.resolve((prompt.asked++, 'polkit')) }
  return prompt
}

for (const { tier, proof } of [
  { tier: 'T1', proof: { kind: 'key' } },
  { tier: 'T2', proof: { kind: 'key' } },
  { tier: 'T3', proof: { kind: 'key' } },
  { tier: 'T2', proof: password() },
  { tier: 'T3', proof: password() },
  { tier: 'T3', proof: system },
  // None of ours: nothing is high enough for it.
  { tier: 'T9' as Tier, proof: password() },
  { tier: '' as Tier, proof: { kind: 'key' } },
] as const satisfies { tier: Tier; proof: PresenceProof }[])
  test(`I49 a question of ${tier || 'no tier'} is not answered by ${proof.kind}, which nobody is asked for`, async () => {
    await using setting = await presenceHome()
    const prompt = counting()
    const presence = await setting.open(prompt)
    await presence.setPassword(undefined, secret(PASSWORD))
    await assert.rejects(presence.prove(tier, proof, purpose(), never), { code: 'presence_failed' })
    assert.equal(prompt.asked, 0)
    assert.equal((JSON.parse(await readFile(setting.file, 'utf8')) as { failures: number }).failures, 0, 'nor is it a guess')
  })

for (const fake of [
  { kind: 'key', tier: 'T3' },
  { kind: 'password' },
  { kind: 'password', password: PASSWORD, tier: 'T3' },
  { kind: 'password', password: 'x'.repeat(1_025) },
  { kind: 'password', password: { length: 1 } },
  { kind: 'system', pid: 0, startTime: '1' },
  { kind: 'system', pid: -1, startTime: '1' },
  { kind: 'system', pid: '1', startTime: '1' },
  { kind: 'root' },
  { kind: '__proto__' },
  ['key'],
  'key',
  null,
])
  test(`I49 ${JSON.stringify(fake).slice(0, 60)} is no proof`, () => assert.equal(PresenceProof.safeParse(fake).success, false))

for (const kind of ['root', '__proto__', 'constructor', 'KEY', ''])
  test(`I49 a proof of kind "${kind}" that came past the door proves nothing`, async () => {
    await using setting = await presenceHome()
    const presence = await setting.open(counting())
    const fake = { kind } as unknown as PresenceProof
    for (const tier of ['T0', 'T1', 'T2', 'T3'] as const)
      await assert.rejects(presence.prove(tier, fake, purpose(), never), { code: 'presence_failed' })
  })

test('I49 evidence is good once, for its own digest, decision, scope and tier, while it is fresh, and only as the object it is', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open(noPrompt)
  const fresh = (): Promise<PresenceEvidence> => presence.prove('T0', { kind: 'key' }, purpose(), never)
  const refused = (evidence: PresenceEvidence, tier: Tier = 'T0', of = purpose()): void =>
    assert.throws(() => presence.redeem(evidence, tier, of), { code: 'presence_failed' })

  const used = await fresh()
  presence.redeem(used, 'T0', purpose())
  refused(used)
  refused(await fresh(), 'T0', purpose({ digest: 'b'.repeat(64) }))
  refused(await fresh(), 'T0', purpose({ decision: 'deny' }))
  refused(await fresh(), 'T0', purpose({ scope: 'session' }))
  refused(await fresh(), 'T1')
  const copied = await fresh()
  refused({ ...copied })
  refused(JSON.parse(JSON.stringify(copied)) as PresenceEvidence)
  assert.throws(() => Object.assign(copied, { tier: 'T3' }), TypeError)
  const ofAnother = await (await setting.open(noPrompt)).prove('T0', { kind: 'key' }, purpose(), never)
  refused(ofAnother)
  const old = await fresh()
  setting.clock.pass(LIMITS.presenceEvidenceMs + 1)
  refused(old)
  const denial = await presence.prove('T3', { kind: 'key' }, purpose({ decision: 'deny' }), never)
  refused(denial, 'T0', purpose())
})

test('I49 of guesses without a pause one is looked at, and the right one is not told apart from a wrong one', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  await presence.setPassword(undefined, secret(PASSWORD))
  const guesses = [...Array.from({ length: 50 }, (_, at) => wrong(`guess number ${at}`)), password()]
  const answers = await Promise.allSettled(guesses.map((guess) => presence.prove('T1', guess, purpose(), never)))
  assert.ok(answers.every(({ status }) => status === 'rejected'))
  const said = answers.map((answer) => (answer as PromiseRejectedResult).reason as { code: string; message: string })
  assert.ok(said.every(({ code }) => code === 'presence_failed'))
  assert.deepEqual(said.filter(({ message }) => message === 'the password is wrong').length, 1)
  assert.equal((JSON.parse(await readFile(setting.file, 'utf8')) as { failures: number }).failures, 1)
})

test('I49 each wrong password doubles the wait, up to its bound, and a new daemon waits on', async () => {
  await using setting = await presenceHome()
  let presence = await setting.open()
  await presence.setPassword(undefined, secret(PASSWORD))
  const lookedAt = async (): Promise<boolean> => {
    const error = await presence.prove('T1', wrong(), purpose(), never).catch((cause: Error) => cause)
    assert.ok(error instanceof Error)
    return error.message === 'the password is wrong'
  }
  let wait: number = LIMITS.approverWaitMinMs
  for (let guess = 1; guess <= 13; guess++) {
    assert.equal(await lookedAt(), true, `guess ${guess}`)
    setting.clock.pass(wait - 1)
    assert.equal(await lookedAt(), false, `guess ${guess}, before ${wait} ms`)
    presence = await setting.open()
    assert.equal(await lookedAt(), false, `guess ${guess}, with a new daemon`)
    setting.clock.pass(1)
    wait = Math.min(wait * 2, LIMITS.approverWaitMaxMs)
  }
  assert.equal(wait, LIMITS.approverWaitMaxMs)
  setting.clock.pass(wait)
  await presence.prove('T1', password(), purpose(), never)
  assert.equal(await lookedAt(), true, 'the right one begins the count anew')
})

test('I49 turning the clock ends no wait of a running daemon, and lengthens none of a new one beyond its whole', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  await presence.setPassword(undefined, secret(PASSWORD))
  await assert.rejects(presence.prove('T1', wrong(), purpose(), never))
  setting.clock.turn(86_400_000)
  await assert.rejects(presence.prove('T1', password(), purpose(), never), { message: /after a wrong password/ })
  setting.clock.turn(-2 * 86_400_000)
  const after = await setting.open()
  await assert.rejects(after.prove('T1', password(), purpose(), never), { message: /after a wrong password/ })
  setting.clock.pass(LIMITS.approverWaitMinMs)
  await after.prove('T1', password(), purpose(), never)
})

test('I49 changing the password is a guess at the old one, and without it nothing changes', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  await presence.setPassword(undefined, secret(PASSWORD))
  const before = await readFile(setting.file, 'utf8')
  await assert.rejects(presence.setPassword(undefined, secret('taken over')), { code: 'presence_failed' })
  assert.equal(await readFile(setting.file, 'utf8'), before)
  await assert.rejects(presence.setPassword(secret('guess guess'), secret('taken over')), {
    code: 'presence_failed',
    message: 'the password is wrong',
  })
  await assert.rejects(presence.setPassword(secret(PASSWORD), secret('taken over')), { message: /after a wrong password/ })
  setting.clock.pass(LIMITS.approverWaitMinMs)
  await presence.prove('T1', password(), purpose(), never)
})

test('I1 a password that is right, wrong, too short or too long is in no error, log line, evidence or file', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  const seen: string[] = []
  const keep = (value: unknown): void => void seen.push(inspect(value, { depth: 9, showHidden: true }), JSON.stringify(value) ?? '')
  await presence.setPassword(undefined, secret(`${CANARY}-right`))
  keep(await presence.prove('T1', password(`${CANARY}-right`), purpose(), never))
  keep(await presence.prove('T1', password(`${CANARY}-wrong`), purpose(), never).catch((error: unknown) => error))
  keep(await presence.prove('T2', password(`${CANARY}-right`), purpose(), never).catch((error: unknown) => error))
  keep(await presence.setPassword(secret(`${CANARY}-wrong`), secret(`${CANARY}-next`)).catch((error: unknown) => error))
  keep(await presence.setPassword(undefined, secret(CANARY.repeat(100))).catch((error: unknown) => error))
  keep(presence)
  keep(setting.log.lines)
  for (const name of await readdir(setting.home)) seen.push(await readFile(join(setting.home, name), 'utf8'))
  assert.ok(seen.every((text) => !text.includes('canary')))
})

test('I49 a process that ended, began at another time, is another user’s or runs in a container is not asked about', async () => {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  await once(child, 'spawn')
  const own = identityOf(child.pid ?? 0)
  checkProcess(own)
  assert.throws(() => checkProcess({ ...own, startTime: String(Number(own.startTime) + 1) }), {
    code: 'presence_failed',
    message: /another time/,
  })
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.throws(() => checkProcess(own), { code: 'presence_failed' })
  assert.throws(() => identityOf(2 ** 31 - 2), { code: 'presence_failed', message: /is gone/ })
})
