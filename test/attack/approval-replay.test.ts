/** I41: an answer is for one question as it was shown, and is given once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { Answer, PresenceEvidence, Question } from '../../src/wire/question.ts'
import { allow, commandSubject, deny, evidenceFor, openDesk, wishOf, type Desk } from '../support/approvals.ts'

const OTHER = wishOf({ subject: commandSubject(['gh', 'repo', 'delete', 'acme/site']) })

async function nothingOf(desk: Desk, question: Question): Promise<void> {
  assert.equal(desk.approvals.get(question.id).state, 'pending')
  assert.equal(await desk.approvals.consume(question.id, question.digest), false)
  assert.deepEqual(
    desk.audited.filter((event) => event.event === 'question_settled' && event.question === question.id),
    [],
  )
}

test('I41 a decision that was taken once settles nothing when it is sent again, to the same question or to its twin', async () => {
  await using desk = await openDesk()
  const first = await desk.ask()
  const decision = allow(first.question)
  const proof = evidenceFor(first.question.digest)
  await desk.approvals.answer(first.question.id, decision, proof)
  assert.equal(await desk.approvals.consume(first.question.id, first.question.digest), true)
  await assert.rejects(desk.approvals.answer(first.question.id, decision, proof), { code: 'question_settled' })
  const twin = await desk.ask()
  assert.notEqual(twin.question.digest, first.question.digest)
  await assert.rejects(desk.approvals.answer(twin.question.id, decision, proof), { code: 'digest_mismatch' })
  await nothingOf(desk, twin.question)
  assert.equal(await desk.approvals.consume(first.question.id, first.question.digest), false)
})

const BOTH: readonly { what: string; of: (a: Question, b: Question) => [string, Answer, PresenceEvidence] }[] = [
  { what: 'the id of B with the digest and proof of A', of: (a, b) => [b.id, allow(a), evidenceFor(a.digest)] },
  { what: 'the digest of B with the proof for A', of: (a, b) => [b.id, allow(b), evidenceFor(a.digest)] },
  { what: 'the digest of A with the proof for B', of: (a, b) => [b.id, allow(a), evidenceFor(b.digest)] },
  { what: 'a digest that is nobody’s', of: (_a, b) => [b.id, allow({ digest: '0'.repeat(64) }), evidenceFor(b.digest)] },
]
for (const { what, of } of BOTH) {
  test(`I41 what was meant for A does not settle B: ${what}`, async () => {
    await using desk = await openDesk()
    const a = await desk.ask()
    const b = await desk.ask(OTHER)
    const [id, answer, evidence] = of(a.question, b.question)
    await assert.rejects(desk.approvals.answer(id, answer, evidence), { code: 'digest_mismatch' })
    await nothingOf(desk, b.question)
    await nothingOf(desk, a.question)
  })
}

test('I41 what A was approved for is not used with the digest of B, or by the id of B', async () => {
  await using desk = await openDesk()
  const a = await desk.ask()
  const b = await desk.ask(OTHER)
  await desk.approvals.answer(a.question.id, allow(a.question), evidenceFor(a.question.digest))
  assert.equal(await desk.approvals.consume(a.question.id, b.question.digest), false)
  assert.equal(await desk.approvals.consume(b.question.id, a.question.digest), false)
  assert.equal(await desk.approvals.consume(b.question.id, b.question.digest), false)
  assert.equal(await desk.approvals.consume(a.question.id, a.question.digest), true)
})

test('I41 who keeps the wish and changes it after it was shown changes nothing of what is asked', async () => {
  await using desk = await openDesk()
  const argv = ['gh', 'pr', 'view', '12']
  const wish = wishOf({ subject: { ...commandSubject(), argv } })
  const { question, outcome } = await desk.ask(wish)
  argv.push('--web')
  await desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest))
  const { subject } = (await outcome).question
  assert.deepEqual(subject.kind === 'command' && subject.argv, ['gh', 'pr', 'view', '12'])
})

for (const { what, ms } of [
  { what: 'its time is over, though no timer has said so yet', ms: LIMITS.questionExpiryMs },
  { what: 'the clock was set forward', ms: 10 * LIMITS.questionExpiryMs },
]) {
  test(`I41 an answer that comes late is none, and the question expires: ${what}`, async () => {
    await using desk = await openDesk()
    const { question, outcome } = await desk.ask()
    desk.clock.pass(ms)
    await assert.rejects(desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest)), { code: 'question_settled' })
    const end = await outcome
    assert.ok(end.decision === 'deny' && end.code === 'approval_expired')
    assert.equal(await desk.approvals.consume(question.id, question.digest), false)
    assert.equal(desk.approvals.get(question.id).state, 'expired')
  })
}

test('a question that nobody answers is expired by itself, which is a denial with a code of its own', async () => {
  await using desk = await openDesk()
  const { question, outcome } = await desk.ask(wishOf({ expiresInMs: 20 }))
  const end = await outcome
  assert.ok(end.decision === 'deny' && end.code === 'approval_expired')
  assert.deepEqual(
    desk.audited.map((event) => ('state' in event ? event.state : event.event)),
    ['question_asked', 'expired'],
  )
  await assert.rejects(desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest)), { code: 'question_settled' })
})

test('I41 what waited when the controller ended is withdrawn, and its answer settles nothing with the next one', async () => {
  await using desk = await openDesk()
  const waiting = await desk.ask()
  const approved = await desk.ask(OTHER)
  await desk.approvals.answer(approved.question.id, allow(approved.question), evidenceFor(approved.question.digest))
  await desk.reopen()
  const end = await waiting.outcome
  assert.ok(end.decision === 'deny' && end.code === 'approval_cancelled')
  for (const { question } of [waiting, approved]) {
    assert.equal(desk.approvals.get(question.id).state, 'cancelled')
    assert.match(desk.approvals.get(question.id).note ?? '', /the controller ends/)
    assert.equal(await desk.approvals.consume(question.id, question.digest), false)
    await assert.rejects(desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest)), { code: 'question_settled' })
  }
  assert.deepEqual(desk.approvals.list({ state: 'pending' }), [])
})

test('another session cannot see, withdraw or use a question, and is not told that it exists', async () => {
  await using desk = await openDesk()
  const { question, outcome } = await desk.ask()
  assert.deepEqual(desk.approvals.list({ session: 's-2' }), [])
  assert.throws(() => desk.approvals.cancel(question.id, 's-2'), { code: 'request_not_found' })
  assert.throws(() => desk.approvals.cancel('q-0000000000000000', 's-2'), { code: 'request_not_found' })
  desk.approvals.endSession('s-2')
  await nothingOf(desk, question)
  desk.approvals.cancel(question.id, 's-1')
  const end = await outcome
  assert.ok(end.decision === 'deny' && end.code === 'approval_cancelled')
})

test('I41 the same command of another session, role or agent is another question with another key', async () => {
  await using desk = await openDesk()
  const base = wishOf().asker
  const first = await desk.ask()
  await desk.approvals.answer(first.question.id, allow(first.question, { scope: 'session' }), evidenceFor(first.question.digest))
  for (const asker of [
    { ...base, session: 's-2' },
    { ...base, agent: 'codex' },
    { ...base, agent: 'claude ' },
    { ...base, role: 'reviewer' },
    { ...base, workspace: '/home/op/project/' },
    { ...base, sessionName: 'another' },
  ]) {
    const { question } = await desk.ask(wishOf({ asker }))
    await nothingOf(desk, question)
  }
})

test('a denial with a tier below is heard, an allowance is not', async () => {
  await using desk = await openDesk()
  const { question, outcome } = await desk.ask(wishOf({ tier: 'T1' }))
  await assert.rejects(desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest, 'T0')), {
    code: 'presence_required',
  })
  await nothingOf(desk, question)
  await desk.approvals.answer(question.id, deny(question), evidenceFor(question.digest, 'T0'))
  assert.equal((await outcome).decision, 'deny')
  const again = await desk.ask(wishOf({ tier: 'T1' }))
  await desk.approvals.answer(again.question.id, allow(again.question), evidenceFor(again.question.digest, 'T2'))
  assert.equal((await again.outcome).decision, 'allow')
})

test('what somebody else has claimed is not allowed past them, and can be denied', async () => {
  await using desk = await openDesk()
  const { question, outcome } = await desk.ask()
  assert.throws(() => desk.approvals.claim(question.id, '0'.repeat(64), 'pts/1'), { code: 'digest_mismatch' })
  const claim = desk.approvals.claim(question.id, question.digest, 'pts/1')
  assert.deepEqual([desk.approvals.get(question.id).state, desk.approvals.get(question.id).claimedBy], ['claimed', 'pts/1'])
  assert.throws(() => desk.approvals.claim(question.id, question.digest, 'pts/2'), { code: 'question_claimed' })
  await assert.rejects(desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest), 'pts/2'), {
    code: 'question_claimed',
  })
  claim[Symbol.dispose]()
  assert.equal(desk.approvals.get(question.id).state, 'pending')
  using again = desk.approvals.claim(question.id, question.digest, 'pts/1')
  await desk.approvals.answer(question.id, deny(question), evidenceFor(question.digest), 'pts/2')
  again[Symbol.dispose]()
  assert.equal((await outcome).decision, 'deny')
})
