import assert from 'node:assert/strict'
import { chmodSync, readFileSync, renameSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { openApprovals } from '../../src/controller/approvals/approvals.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { system } from '../../src/kernel/system.ts'
import { allow, evidenceFor, openDesk, wishOf, type Desk } from '../support/approvals.ts'
import { recordingLog } from '../support/audit.ts'

function raw(file: string, sql: string): void {
  const db = new DatabaseSync(file)
  try {
    db.exec(sql)
  } finally {
    db.close()
  }
}

const DAMAGES: readonly { what: string; damage: (file: string) => void }[] = [
  { what: 'is cut to nothing', damage: (file) => truncateSync(file, 0) },
  { what: 'is cut in the middle', damage: (file) => truncateSync(file, 5_000) },
  { what: 'is something else', damage: (file) => writeFileSync(file, 'no database at all, but as long as a page has to be'.repeat(100)) },
  { what: 'is another program’s database', damage: (file) => raw(file, 'PRAGMA application_id = 1') },
  { what: 'is of a newer version', damage: (file) => raw(file, 'PRAGMA user_version = 99') },
  { what: 'can be read by others', damage: (file) => chmodSync(file, 0o644) },
  {
    what: 'is a link',
    damage(file) {
      renameSync(file, `${file}.real`)
      symlinkSync(`${file}.real`, file)
    },
  },
  {
    what: 'has pages that were overwritten',
    damage(file) {
      const bytes = readFileSync(file)
      bytes.fill(0xff, 4_096, bytes.length - 100)
      writeFileSync(file, bytes)
    },
  },
]

for (const { what, damage } of DAMAGES) {
  test(`a file that ${what} is refused with a code and left as it is`, async () => {
    await using desk = await openDesk()
    await desk.ask()
    await desk.approvals[Symbol.asyncDispose]()
    damage(desk.file)
    const before = readFileSync(desk.file)
    const { mode } = statSync(desk.file)
    const parts = { file: desk.file, audit: () => Promise.resolve(), system, log: recordingLog().log }
    await assert.rejects(
      openApprovals(parts),
      (error) => error instanceof SallyportError && error.code === 'approvals_invalid' && error.message.includes(desk.file),
    )
    assert.deepEqual([readFileSync(desk.file).equals(before), statSync(desk.file).mode], [true, mode])
  })
}

test('a row that was written over by somebody is a coded error, and no question', async () => {
  await using desk = await openDesk()
  const { question } = await desk.ask()
  await desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest))
  raw(desk.file, "UPDATE questions SET record = '{'")
  assert.throws(() => desk.approvals.list(), { code: 'approvals_invalid' })
})

test('I41 a row that somebody set to approved past the controller is never used', async () => {
  await using desk = await openDesk()
  const { question, outcome } = await desk.ask()
  raw(desk.file, "UPDATE questions SET state = 'approved'")
  assert.equal(await desk.approvals.consume(question.id, question.digest), false)
  await desk.reopen()
  assert.equal((await outcome).decision, 'deny')
  raw(desk.file, "UPDATE questions SET state = 'approved', settled_at = 1")
  assert.equal(await desk.approvals.consume(question.id, question.digest), false)
  await desk.reopen()
  assert.equal(desk.approvals.get(question.id).state, 'cancelled')
})

const FAULTS: readonly { what: string; at: number; harm: (desk: Desk) => Promise<void> }[] = [
  {
    what: 'the question',
    at: 1,
    async harm(desk) {
      await assert.rejects(desk.approvals.ask(wishOf(), new AbortController().signal), { code: 'audit_unavailable' })
      assert.deepEqual(desk.approvals.list({ state: 'pending' }), [])
    },
  },
  {
    what: 'the approval',
    at: 2,
    async harm(desk) {
      const { question } = await desk.ask()
      await assert.rejects(desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest)), { code: 'audit_unavailable' })
      assert.equal(desk.approvals.get(question.id).state, 'pending')
      assert.equal(await desk.approvals.consume(question.id, question.digest), false)
    },
  },
  {
    what: 'the use',
    at: 3,
    async harm(desk) {
      const { question } = await desk.ask()
      await desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest))
      await assert.rejects(desk.approvals.consume(question.id, question.digest), { code: 'audit_unavailable' })
      assert.equal(await desk.approvals.consume(question.id, question.digest), false)
    },
  },
]
for (const { what, at, harm } of FAULTS) {
  test(`I41 where the audit cannot record ${what}, the answer is no`, async () => {
    let lines = 0
    const audit = (): Promise<void> =>
      ++lines === at ? Promise.reject(new SallyportError('audit_unavailable', 'it cannot be written')) : Promise.resolve()
    await using desk = await openDesk({ audit })
    await harm(desk)
  })
}
