import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { test } from 'node:test'
import { allow, deny, evidenceFor, openDesk, wishOf } from '../../support/approvals.ts'

test('an approval is given to who asked, is used once, and is in the audit with its digest at every step', async () => {
  await using desk = await openDesk()
  const { question, outcome } = await desk.ask()
  assert.deepEqual(
    desk.approvals.list({ state: 'pending' }).map(({ id, state }) => [id, state]),
    [[question.id, 'pending']],
  )
  await desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest), 'pts/1')
  const end = await outcome
  assert.equal(end.decision, 'allow')
  assert.deepEqual(end.question.answer, { decision: 'allow', scope: 'once', by: 'pts/1', tier: 'T0', at: desk.clock.now() })
  assert.equal(await desk.approvals.consume(question.id, question.digest), true)
  assert.equal(await desk.approvals.consume(question.id, question.digest), false)
  await desk.approvals.finished(question.id, { exitCode: 0 })
  assert.deepEqual(
    desk.audited.map((event) => [event.event, 'digest' in event && event.digest]),
    ['question_asked', 'question_settled', 'question_consumed', 'question_finished'].map((event) => [event, question.digest]),
  )
  const { run } = desk.approvals.get(question.id)
  assert.deepEqual([run?.exitCode, desk.approvals.list({ state: 'pending' })], [0, []])
  assert.equal(statSync(desk.file).mode & 0o777, 0o600)
})

test('a denial reaches who asked with the operator’s words, and nothing of it can be used', async () => {
  await using desk = await openDesk()
  const { question, outcome } = await desk.ask()
  await desk.approvals.answer(question.id, deny(question, { message: 'not on a Friday' }), evidenceFor(question.digest))
  const end = await outcome
  assert.ok(end.decision === 'deny')
  assert.deepEqual([end.code, end.message, end.question.state], ['approval_denied', 'not on a Friday', 'denied'])
  assert.equal(await desk.approvals.consume(question.id, question.digest), false)
})

test('where nobody watches the question is refused at once, and nothing of it is kept', async () => {
  await using desk = await openDesk({ isWatched: false })
  await assert.rejects(desk.approvals.ask(wishOf(), new AbortController().signal), { code: 'approver_absent' })
  assert.deepEqual([desk.approvals.list(), desk.audited], [[], []])
})
