import assert from 'node:assert/strict'
import { appendFile, readFile, stat } from 'node:fs/promises'
import { mock, test, type TestContext } from 'node:test'
import { openAudit, verifyAudit } from '../../src/audit/audit.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { decided, finished, NOW, openTestAudit, readEvents, recordingLog, writeAudit } from '../support/audit.ts'
import { limitedFileSize, smallDisk, type Disk } from '../support/full-disk.ts'

const LONG = `/${'a'.repeat(1_000)}`

/** So many decided events at once that the disk can't take all of them. */
const tooMany = Array.from({ length: 200 }, (_, n) => decided(`many-${n}`, { path: LONG }))

for (const { means, make } of [
  { means: 'a full tmpfs', make: smallDisk },
  { means: 'a limit of the file size', make: limitedFileSize },
]) {
  const onDisk = (title: string, body: (disk: Disk) => Promise<void>): void => {
    test(`${means}: ${title}`, async (t: TestContext) => {
      const disk = await make()
      if ('missing' in disk) return t.skip(disk.missing)
      await using held = disk
      await body(held)
    })
  }

  onDisk('what does not fit is refused and leaves no byte; with space again the same append works', async (disk) => {
    await using audit = await openTestAudit(disk.file)
    await audit.append(decided('before'))
    const before = await readFile(disk.file)
    await disk.fill(0)
    const answers = await Promise.allSettled(tooMany.map((event) => audit.append(event)))
    for (const answer of answers) assert.equal((answer as PromiseRejectedResult).reason?.code, 'audit_unavailable')
    assert.deepEqual(await readFile(disk.file), before)
    await disk.free()
    await audit.append(decided('after'))
    assert.deepEqual(
      (await readEvents(disk.file)).map(({ request }) => request),
      ['before', 'after'],
    )
    assert.equal((await verifyAudit(disk.file)).events, 2)
  })

  onDisk('of a write that the disk takes a part of nothing stays', async (disk) => {
    await using audit = await openTestAudit(disk.file)
    await audit.append(decided('before'))
    const { size } = await stat(disk.file)
    await disk.fill(5_000)
    const answers = await Promise.allSettled(tooMany.map((event) => audit.append(event)))
    assert.ok(answers.at(-1)?.status === 'rejected')
    // The first may have gone alone, in a write of its own; whatever was acknowledged is whole.
    const acknowledged = answers.filter(({ status }) => status === 'fulfilled').length
    assert.equal((await verifyAudit(disk.file)).events, 1 + acknowledged)
    assert.ok((await stat(disk.file)).size >= size)
    await disk.free()
    await audit.append(decided('after'))
    assert.equal((await verifyAudit(disk.file)).events, 2 + acknowledged)
  })

  onDisk('ends of requests are kept and written first, refused decisions are not; the log has one line each way', async (disk) => {
    const recorded = recordingLog()
    await using audit = await openTestAudit(disk.file, recorded)
    await audit.append(decided('r1'))
    await disk.fill(0)
    // A tmpfs hands out pages: the shortest event there is fills up the last one.
    while (
      await audit.append({ event: 'stopped' }).then(
        () => true,
        () => false,
      )
    );
    await assert.rejects(audit.append(finished('r1')), { code: 'audit_unavailable' })
    await assert.rejects(audit.append(decided('r2', { path: LONG })), { code: 'audit_unavailable' })
    await assert.rejects(audit.append(finished('r0')), { code: 'audit_unavailable' })
    await disk.free()
    await audit.append(decided('r3'))
    const told = (await readEvents(disk.file))
      .filter(({ event }) => event !== 'stopped')
      .map(({ event, request }) => `${String(event)} ${String(request)}`)
    assert.deepEqual(told, ['decided r1', 'finished r1', 'finished r0', 'decided r3'])
    assert.deepEqual(
      recorded.lines.map(({ level }) => level),
      ['error', 'info'],
    )
    assert.match(String(recorded.lines[0]?.fields['reason']), /^(ENOSPC|EFBIG)$/)
  })

  onDisk('kept ends of requests are written by the end of the process at the latest', async (disk) => {
    const audit = await openTestAudit(disk.file)
    await audit.append(decided('r1'))
    await disk.fill(0)
    await Promise.allSettled([...tooMany.map((event) => audit.append(event)), audit.append(finished('r1'))])
    await disk.free()
    await audit[Symbol.asyncDispose]()
    assert.equal((await readEvents(disk.file)).at(-1)?.['event'], 'finished')
    assert.equal((await verifyAudit(disk.file)).events, 2)
  })

  onDisk('what could not be written until the end is counted in the log', async (disk) => {
    const recorded = recordingLog()
    const audit = await openTestAudit(disk.file, recorded)
    await audit.append(decided('r1'))
    await disk.fill(0)
    await Promise.allSettled(Array.from({ length: 100 }, (_, n) => audit.append(finished(`r${n}`))))
    await audit[Symbol.asyncDispose]()
    await disk.free()
    assert.deepEqual([recorded.lines.at(-1)?.level, recorded.lines.at(-1)?.fields['events']], ['error', 100])
    assert.equal((await verifyAudit(disk.file)).events, 1)
  })

  onDisk('kept ends of requests are bounded by the queue limit', async (disk) => {
    const recorded = recordingLog()
    const audit = await openTestAudit(disk.file, recorded)
    await audit.append(decided('r1'))
    await disk.fill(0)
    for (let n = 0; n < LIMITS.auditQueueMax + 10; n += 10_000) {
      await Promise.allSettled(Array.from({ length: 10_000 }, () => audit.append(finished('r'))))
    }
    await audit[Symbol.asyncDispose]()
    await disk.free()
    assert.equal(recorded.lines.at(-1)?.fields['events'], 30_000)
  })

  onDisk('no space for the first file is audit_open_failed or a refused first event, never silence', async (disk) => {
    await (await openTestAudit(disk.file))[Symbol.asyncDispose]()
    await disk.fill(0)
    await using audit = await openTestAudit(disk.file)
    const started = { event: 'started', version: '1', policy: LONG } as const
    const answers = await Promise.allSettled(Array.from({ length: 100 }, () => audit.append(started)))
    assert.ok(answers.every(({ status }) => status === 'rejected'))
    await disk.free()
  })
}

test('with no further event the timer writes what was kept', async () => {
  await using disk = await limitedFileSize()
  mock.timers.enable({ apis: ['setTimeout'] })
  try {
    const recorded = recordingLog()
    await using audit = await openAudit({ file: disk.file, session: 's-1' }, { now: () => NOW }, recorded.log)
    await audit.append(decided('r1'))
    await disk.fill(0)
    await assert.rejects(audit.append(finished('r1')))
    await disk.free()
    const works = recorded.next('info')
    mock.timers.tick(LIMITS.auditSyncMs)
    await works
    assert.equal((await readEvents(disk.file)).at(-1)?.['event'], 'finished')
  } finally {
    mock.timers.reset()
  }
})

test('more kept ends of requests than one write holds are all written before the next event', async () => {
  await using disk = await limitedFileSize()
  await using audit = await openTestAudit(disk.file)
  await audit.append(decided('r1'))
  await disk.fill(0)
  const count = Math.ceil((1.5 * LIMITS.auditWriteBytesMax) / 1_000)
  await Promise.allSettled(Array.from({ length: count }, () => audit.append(finished('r'.repeat(1_000)))))
  await disk.free()
  await audit.append({ event: 'stopped' })
  const events = (await readEvents(disk.file)).map(({ event }) => event)
  assert.deepEqual(events, ['decided', ...Array.from({ length: count }, () => 'finished'), 'stopped'])
})

test('a start that cannot record what it cut off is audit_open_failed, and the chain before it still holds', async () => {
  await using disk = await limitedFileSize()
  await writeAudit(disk.file, 2)
  await appendFile(disk.file, '{"seq":3,"time":"20')
  await disk.fill(0)
  await assert.rejects(openTestAudit(disk.file), { code: 'audit_open_failed' })
  await disk.free()
  assert.equal((await verifyAudit(disk.file)).events, 2)
})

test('the reason that an agent gets names neither the file nor the folder', async () => {
  await using disk = await limitedFileSize()
  await using audit = await openTestAudit(disk.file)
  await audit.append(decided('r1'))
  await disk.fill(0)
  const error: unknown = await audit.append(decided('r2')).catch((reason: unknown) => reason)
  await disk.free()
  assert.ok(error instanceof Error && 'hint' in error)
  assert.doesNotMatch(`${error.message} ${String(error.hint)}`, /audit\.jsonl|sallyport-test/)
})
