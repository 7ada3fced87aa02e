import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { openApprovals } from '../../src/controller/approvals/approvals.ts'
import { system } from '../../src/kernel/system.ts'
import type { Question } from '../../src/wire/question.ts'
import { allow, commandSubject, deny, evidenceFor, openDesk, wishOf, type Desk } from '../support/approvals.ts'
import { recordingLog } from '../support/audit.ts'
import { smallDisk, type Disk } from '../support/full-disk.ts'

const NOBODY = new AbortController().signal
const LONG = 'x'.repeat(20_000)

async function onSmallDisk(t: { skip(message: string): void }, body: (disk: Disk) => Promise<void>): Promise<void> {
  const disk = await smallDisk('approvals.db', 512)
  if ('missing' in disk) return t.skip(disk.missing)
  await using held = disk
  await chmod(dirname(held.file), 0o700)
  await body(held)
}

/** Asks and answers until the file must grow for the next. */
async function answerOn(desk: Desk, question: Question): Promise<unknown> {
  return desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest)).catch((error: unknown) => error)
}

test('I41 on a full disk no question is put, no approval holds, a denial does, and with space again the same works', async (t) => {
  await onSmallDisk(t, async (disk) => {
    await using desk = await openDesk({ file: disk.file })
    const [waiting, other] = [await desk.ask(), await desk.ask(wishOf({ subject: commandSubject(['ls']) }))]
    await disk.fill(0)
    await assert.rejects(desk.approvals.ask(wishOf({ reason: LONG }), NOBODY), { code: 'approvals_write_failed', hint: /space/ })
    const refused = await answerOn(desk, waiting.question)
    assert.ok(refused instanceof Error && 'code' in refused && refused.code === 'approvals_write_failed')
    assert.equal(desk.approvals.get(waiting.question.id).state, 'pending')
    assert.equal(await desk.approvals.consume(waiting.question.id, waiting.question.digest), false)
    assert.equal(desk.audited.filter((event) => event.event === 'question_settled' && event.state === 'approved').length, 0)
    await desk.approvals.answer(other.question.id, deny(other.question), evidenceFor(other.question.digest))
    assert.equal((await other.outcome).decision, 'deny')
    await disk.free()
    await desk.approvals.answer(waiting.question.id, allow(waiting.question), evidenceFor(waiting.question.digest))
    assert.equal((await waiting.outcome).decision, 'allow')
    assert.equal(await desk.approvals.consume(waiting.question.id, waiting.question.digest), true)
    await desk.approvals.finished(waiting.question.id, { exitCode: 0 })
    await desk.reopen()
    assert.notEqual(desk.approvals.get(other.question.id).state, 'approved')
  })
})

test('I41 an approval whose use cannot be written down is not used, now or later', async (t) => {
  await onSmallDisk(t, async (disk) => {
    await using desk = await openDesk({ file: disk.file })
    const { question } = await desk.ask()
    await desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest))
    await disk.fill(0)
    await assert.rejects(desk.approvals.consume(question.id, question.digest), { code: 'approvals_write_failed' })
    await disk.free()
    assert.equal(await desk.approvals.consume(question.id, question.digest), false)
    await desk.reopen()
    assert.equal(await desk.approvals.consume(question.id, question.digest), false)
    assert.equal(desk.audited.filter(({ event }) => event === 'question_consumed').length, 0)
  })
})

test('a rule that the disk has no room for is not remembered, what it was for is not allowed, and no piece of it is left', async (t) => {
  await onSmallDisk(t, async (disk) => {
    await using parts = new AsyncDisposableStack()
    const folder = join(dirname(disk.file), 'remembered')
    await using desk = await openDesk()
    const approvals = parts.use(
      await openApprovals({
        file: join(desk.folder, 'other.db'),
        audit: () => Promise.resolve(),
        system: desk.clock,
        log: recordingLog().log,
        remember: { folder, complaint: () => undefined, changed: () => {} },
      }),
    )
    approvals.watch('terminal', NOBODY)
    const outcome = approvals.ask(wishOf(), NOBODY)
    await new Promise((resolve) => setImmediate(resolve))
    const [question] = approvals.list({ state: 'pending' })
    assert.ok(question)
    desk.clock.pass(1_000)
    await disk.fill(0)
    const answer = allow(question, { scope: 'remember', rule: 'gh pr view 12' })
    await assert.rejects(approvals.answer(question.id, answer, evidenceFor(question.digest)), { code: 'approvals_write_failed' })
    assert.deepEqual([approvals.get(question.id).state, approvals.remembered()], ['pending', []])
    assert.deepEqual(existsSync(folder) ? readdirSync(folder) : [], [])
    await disk.free()
    await approvals.answer(question.id, answer, evidenceFor(question.digest))
    assert.equal((await outcome).decision, 'allow')
    assert.equal(readdirSync(folder).length, 1)
  })
})

test('on a full disk no file is made, no half of one is left, and with space it is', async (t) => {
  await onSmallDisk(t, async (disk) => {
    await disk.fill(0)
    const parts = { file: disk.file, audit: () => Promise.resolve(), system, log: recordingLog().log }
    await assert.rejects(openApprovals(parts), { code: 'approvals_write_failed' })
    assert.deepEqual(readdirSync(dirname(disk.file)), ['ballast'])
    await disk.free()
    await using approvals = await openApprovals(parts)
    assert.deepEqual(approvals.list(), [])
  })
})
