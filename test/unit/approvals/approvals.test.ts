import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { verifyAudit } from '../../../src/audit/audit.ts'
import { openTestAudit, readEvents, temporaryFolder } from '../../support/audit.ts'
import { allow, commandSubject, deny, evidenceFor, openDesk, wishOf } from '../../support/approvals.ts'

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

test('in a real audit each step of a question is a line of the chain, bounded and in ASCII, with who answered and how', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  {
    await using audit = await openTestAudit(file)
    await using desk = await openDesk({ audit: (event) => audit.append(event) })
    const subject = commandSubject(['echo', '\u202E', 'x'.repeat(10_000)])
    const { question } = await desk.ask(wishOf({ subject, reason: '\x1b[2K' }))
    await desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest, 'T2'), 'pts/1')
    await desk.approvals.consume(question.id, question.digest)
    await desk.approvals.finished(question.id, { exitCode: 7 })
  }
  const [asked, settled, consumed, finished] = await readEvents(file)
  assert.match(String(asked?.['what']), /^\["echo",".{1,5}",.*\[cut: 100\d\d characters\]$/s)
  assert.deepEqual(
    [settled?.['state'], settled?.['scope'], settled?.['by'], settled?.['tier'], settled?.['means'], settled?.['proven']],
    ['approved', 'once', 'pts/1', 'T2', 'key', '2026-01-02T03:04:05.000Z'],
  )
  assert.deepEqual([consumed?.['event'], finished?.['exit_code'], finished?.['digest']], ['question_consumed', 7, asked?.['digest']])
  assert.match(await readFile(file, 'latin1'), /^[\n -~]*$/)
  assert.equal((await verifyAudit(file)).events, 4)
})
