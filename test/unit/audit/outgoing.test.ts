import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { pino } from 'pino'
import { openForwardedAudit, readAuditLine, type ForwardedAudit } from '../../../src/audit/audit.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { system } from '../../../src/kernel/system.ts'
import { decided, temporaryFolder } from '../../support/audit.ts'
import { AuditChain } from '../../support/control-audit.ts'

const open = (file: string | undefined): Promise<ForwardedAudit> =>
  openForwardedAudit({ file, session: 'test' }, system, pino({ level: 'silent' }))
const never = new AbortController().signal

/** Takes all that is there, a few at a time. */
async function drained(audit: ForwardedAudit): Promise<string[]> {
  const lines: string[] = []
  for (;;) {
    const next = await audit.outgoing.next(AbortSignal.abort())
    if (next.length === 0) return lines
    lines.push(...next)
    audit.outgoing.acknowledge(next.length)
  }
}

function markOf(line: string | undefined): { seq: number; hash: string } {
  const link = readAuditLine(Buffer.from(line ?? ''))
  if (typeof link === 'string') throw new Error(link)
  return { seq: link.seq, hash: link.hash }
}

for (const where of ['memory', 'a file'] as const) {
  const inFolder = async (run: (file: string | undefined) => Promise<void>): Promise<void> => {
    await using folder = await temporaryFolder()
    await run(where === 'memory' ? undefined : join(folder.path, 'audit.jsonl'))
  }

  test(`from ${where} the lines come in order, and the same again until they are acknowledged`, () =>
    inFolder(async (file) => {
      await using audit = await open(file)
      await Promise.all(Array.from({ length: 20 }, (_, n) => audit.append(decided(`r${n}`))))
      const first = await audit.outgoing.next(never)
      assert.deepEqual(await audit.outgoing.next(never), first)
      audit.outgoing.acknowledge(3)
      assert.deepEqual(await audit.outgoing.next(never), first.slice(3))
      const all = [...first.slice(0, 3), ...(await drained(audit))]
      assert.equal(all.length, 20)
      assert.equal(AuditChain.problemOf(all), undefined)
    }))

  test(`from ${where} a wait for lines ends with the next one, and with its signal`, () =>
    inFolder(async (file) => {
      await using audit = await open(file)
      const waited = audit.outgoing.next(never)
      await audit.append(decided('late'))
      assert.match((await waited)[0] ?? '', /"late"/)
      audit.outgoing.acknowledge(1)
      const ending = new AbortController()
      const ended = audit.outgoing.next(ending.signal)
      ending.abort()
      assert.deepEqual(await ended, [])
    }))

  test(`from ${where} no frame has more lines or bytes than fit, and a long one goes alone`, () =>
    inFolder(async (file) => {
      await using audit = await open(file)
      await Promise.all(
        Array.from({ length: LIMITS.controlLinesMax + 50 }, (_, n) => audit.append(decided(`r${n}`, { path: `/${'x'.repeat(1_000)}` }))),
      )
      const sizes: number[] = []
      for (
        let next = await audit.outgoing.next(AbortSignal.abort());
        next.length > 0;
        next = await audit.outgoing.next(AbortSignal.abort())
      ) {
        sizes.push(next.length)
        assert.ok(next.join('').length <= LIMITS.controlLinesBytesMax + LIMITS.auditLineBytesMax)
        audit.outgoing.acknowledge(next.length)
      }
      assert.equal(
        sizes.reduce((sum, size) => sum + size, 0),
        LIMITS.controlLinesMax + 50,
      )
      assert.ok(sizes.every((size) => size <= LIMITS.controlLinesMax))
    }))

  test(`from ${where} a keeper that has lines whose acknowledgement was lost goes on behind them`, () =>
    inFolder(async (file) => {
      await using audit = await open(file)
      await Promise.all(Array.from({ length: 9 }, (_, n) => audit.append(decided(`r${n}`))))
      const lines = await audit.outgoing.next(never)
      audit.outgoing.acknowledge(2)
      await audit.outgoing.resumeAfter(markOf(lines[4]))
      assert.deepEqual(await drained(audit), lines.slice(5))
      await audit.outgoing.resumeAfter({ seq: 3, hash: 'f'.repeat(64) })
      assert.deepEqual(await drained(audit), [])
    }))
}

test('I3 memory that is full refuses, and takes again when the keeper has had some of it', async () => {
  await using audit = await open(undefined)
  let written = 0
  const fill = async (): Promise<void> => {
    for (;;) {
      await Promise.all(Array.from({ length: 500 }, (_, n) => audit.append(decided(`r${n}`, { path: `/${'x'.repeat(1_000)}` }))))
      written += 500
    }
  }
  await assert.rejects(fill(), { code: 'audit_unavailable' })
  assert.ok(written * 1_000 < LIMITS.auditSegmentBytesMax + 2 * 1024 * 1024)
  await assert.rejects(audit.append(decided('no')), { code: 'audit_unavailable' })
  const lines = await drained(audit)
  assert.equal(AuditChain.problemOf(lines), undefined)
  await audit.append(decided('again'))
  assert.match((await drained(audit)).at(-1) ?? '', /"again"/)
})

test('an audit in a file that is opened again goes on behind what its keeper has', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  const sent: string[] = []
  for (const turn of [1, 2]) {
    await using audit = await open(file)
    if (turn === 2) await audit.outgoing.resumeAfter(markOf(sent.at(-1)))
    await Promise.all(Array.from({ length: 5 }, (_, n) => audit.append(decided(`turn-${turn}-${n}`))))
    sent.push(...(await drained(audit)))
  }
  assert.equal(AuditChain.problemOf(sent), undefined)
  assert.equal(`${sent.join('\n')}\n`, await readFile(file, 'utf8'))
})
