import assert from 'node:assert/strict'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { openDesk } from '../support/approvals.ts'
import { runChild } from '../support/approvals-child.ts'
import { temporaryFolder } from '../support/audit.ts'

const CASES = [
  { when: 'while it waits', body: 'await ask(); die()', state: 'cancelled', note: /ended while it waited/, run: undefined },
  {
    when: 'while the answer is on its way to the audit',
    body: "const question = await ask(); onAudit = async () => die(); await yes(question); say('answered')",
    state: 'cancelled',
    note: /never ran, and never will/,
    run: undefined,
  },
  {
    when: 'after the approval, before it is used',
    body: 'await yes(await ask()); die()',
    state: 'cancelled',
    note: /never ran, and never will/,
    run: undefined,
  },
  {
    when: 'while its use is on its way to the audit',
    body: 'const question = await ask(); await yes(question); onAudit = async () => die(); await approvals.consume(question.id, question.digest)',
    state: 'approved',
    note: undefined,
    run: 'interrupted',
  },
  {
    when: 'while it runs',
    body: 'const question = await ask(); await yes(question); await approvals.consume(question.id, question.digest); die()',
    state: 'approved',
    note: undefined,
    run: 'interrupted',
  },
  {
    when: 'after it ran',
    body: 'const question = await ask(); await yes(question); await approvals.consume(question.id, question.digest); await approvals.finished(question.id, { exitCode: 3 }); die()',
    state: 'approved',
    note: undefined,
    run: 3,
  },
] as const

for (const { when, body, state, note, run } of CASES) {
  test(`I41 a controller that is killed ${when}: the next one says what became of it, and nothing of it runs again`, async () => {
    await using folder = await temporaryFolder()
    await chmod(folder.path, 0o700)
    const file = join(folder.path, 'approvals.db')
    const { lines, signal } = await runChild(file, body)
    assert.deepEqual([lines.length, signal], [1, 'SIGKILL'])
    const [id = '', digest = ''] = (lines[0] ?? '').split(' ')
    await using desk = await openDesk({ file })
    const found = desk.approvals.get(id)
    assert.deepEqual([found.digest, found.state], [digest, state])
    if (note) assert.match(found.note ?? '', note)
    assert.equal(found.run?.code ?? found.run?.exitCode, run)
    assert.equal(await desk.approvals.consume(id, digest), false)
    const ends = desk.audited.map((event) => ('state' in event ? event.state : 'code' in event ? event.code : event.event))
    assert.deepEqual(ends, run === 3 ? [] : [run ?? 'cancelled'])
    await desk.reopen()
    assert.equal(desk.audited.length, ends.length, 'it is said once')
  })
}

test('where the audit cannot say what was left over, the queue does not open, and nothing is taken for settled', async () => {
  await using folder = await temporaryFolder()
  await chmod(folder.path, 0o700)
  const file = join(folder.path, 'approvals.db')
  await runChild(file, 'await ask(); die()')
  await assert.rejects(openDesk({ file, audit: () => Promise.reject(new Error('no audit')) }), /no audit/)
  await using desk = await openDesk({ file })
  assert.equal(desk.audited.length, 1)
})
