import assert from 'node:assert/strict'
import { copyFile, cp, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { openControllerAudit, verifyAuditFolder, type ControllerAudit } from '../../src/audit/audit.ts'
import { createSessionChains } from '../../src/controller/session-chains.ts'
import { sealLine } from '../../src/audit/line.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system } from '../../src/kernel/system.ts'
import { NOW, recordingLog } from '../support/audit.ts'
import { gateLines, keepChains, openAuditPlace, record, SESSION, type AuditPlace } from '../support/controller-audit.ts'

const DAY_MS = 86_400_000

async function linesOf(file: string): Promise<string[]> {
  return (await readFile(file, 'latin1')).split('\n').slice(0, -1)
}

/** The same lines with a chain that holds, as somebody makes it who has no key. */
async function resealed(file: string, lines: readonly string[]): Promise<void> {
  let prev = '0'.repeat(64)
  const sealed = lines.map((line, at) => {
    const body = line.slice(line.indexOf(',') + 1, line.lastIndexOf(',"prev":"'))
    const made = sealLine(at + 1, body, prev)
    prev = made.hash
    return made.line
  })
  await writeFile(file, sealed.join(''))
}

async function closed(place: AuditPlace, work: (audit: ControllerAudit) => Promise<void>, rotateBytes?: number): Promise<void> {
  await using audit = await place.open(rotateBytes === undefined ? {} : { rotateBytes })
  await work(audit)
}

const isBroken = (pattern: RegExp) => ({ code: 'audit_broken', message: pattern })

test('a signed audit with chains of a session holds, and says with which key', async () => {
  await using place = await openAuditPlace()
  await closed(place, async (audit) => {
    await record(audit, 3)
    await keepChains(place, audit, gateLines(3), gateLines(2, 'again'))
  })
  const found = await verifyAuditFolder(place.folder)
  assert.equal(found.chains, 2)
  assert.equal(found.sessionEvents, 5)
  assert.equal(found.uncountersigned, 0)
  assert.equal(found.unsigned, 0)
  assert.equal(found.keyFrom, 'folder')
  assert.equal((await stat(join(place.home, 'audit.key'))).mode & 0o777, 0o600)
  await copyFile(join(place.folder, 'checkpoint.pub'), join(place.home, 'kept.pub'))
  assert.equal((await verifyAuditFolder(place.folder, { keyFile: join(place.home, 'kept.pub') })).keyFrom, 'given')
})

test('I15 the audit of a gate that was killed and began anew holds, also under the next controller', async () => {
  await using place = await openAuditPlace()
  await closed(place, (audit) => keepChains(place, audit, gateLines(3), gateLines(1, 'again')))
  await closed(place, async (audit) => {
    await using chains = createSessionChains(join(place.folder, 'sessions'), audit, { elapsed: () => 0 })
    await chains.append(SESSION, gateLines(4, 'again').slice(1))
    await chains.append(SESSION, gateLines(2, 'third'))
  })
  const found = await verifyAuditFolder(place.folder)
  assert.deepEqual([found.chains, found.sessionEvents], [3, 9])
})

for (const { name, alter, reason } of [
  {
    name: 'a chain of a session that is dropped',
    alter: (folder: string) => rm(join(folder, 'sessions', `${SESSION}.2.jsonl`)),
    reason: /2\.jsonl: the controller signed lines of it, and it is gone/,
  },
  {
    name: 'a chain of a session that is put in',
    alter: (folder: string) => writeFile(join(folder, 'sessions', `${SESSION}.3.jsonl`), `${gateLines(1, 'new').join('\n')}\n`),
    reason: /3\.jsonl: the controller did not begin it/,
  },
  {
    name: 'a session that never was',
    alter: (folder: string) => writeFile(join(folder, 'sessions', 'bbbb.jsonl'), `${gateLines(1, 'new').join('\n')}\n`),
    reason: /bbbb\.jsonl: the controller did not begin it/,
  },
  {
    name: 'chains of a session that changed their places',
    async alter(folder: string) {
      const [first, second] = [join(folder, 'sessions', `${SESSION}.jsonl`), join(folder, 'sessions', `${SESSION}.2.jsonl`)]
      await rename(first, `${folder}/x`)
      await rename(second, first)
      await rename(`${folder}/x`, second)
    },
    reason: /it is not the line that the controller/,
  },
  {
    name: 'lines cut off the end of a session’s chain',
    alter: async (folder: string) => writeFile(join(folder, 'sessions', `${SESSION}.jsonl`), `${gateLines(2).join('\n')}\n`),
    reason: /it ends with line 2, and the controller signed line 3: it was cut/,
  },
  {
    name: 'a session’s chain that was written anew',
    alter: async (folder: string) => writeFile(join(folder, 'sessions', `${SESSION}.jsonl`), `${gateLines(3, 'other').join('\n')}\n`),
    reason: /it is not the line that the controller/,
  },
  {
    name: 'a stranger’s file among the sessions',
    alter: (folder: string) => writeFile(join(folder, 'sessions', 'notes.txt'), 'x'),
    reason: /no file of the audit has that name/,
  },
])
  test(`I15 ${name} is found`, async () => {
    await using place = await openAuditPlace()
    await closed(place, (audit) => keepChains(place, audit, gateLines(3), gateLines(2, 'again')))
    await alter(place.folder)
    await assert.rejects(verifyAuditFolder(place.folder), isBroken(reason))
  })

test('I15 lines behind the last countersignature are counted, and refused once the session is over', async () => {
  await using place = await openAuditPlace()
  const over = async (isOver: boolean): Promise<void> =>
    closed(place, async (audit) => {
      await keepChains(place, audit, gateLines(3))
      if (isOver) await audit.append({ event: 'session', state: 'ended', of: SESSION, name: 's', place: '/w' })
    })
  await over(false)
  await writeFile(join(place.folder, 'sessions', `${SESSION}.jsonl`), `${gateLines(5).join('\n')}\n`)
  assert.equal((await verifyAuditFolder(place.folder)).uncountersigned, 2)
  await closed(place, (audit) => audit.append({ event: 'session', state: 'ended', of: SESSION, name: 's', place: '/w' }))
  await assert.rejects(
    verifyAuditFolder(place.folder),
    isBroken(/2 lines behind the last one that the controller signed, of a session that is over/),
  )
})

test('I15 a controller’s chain that is written anew, whole and without a fault, is found: nobody else can sign it', async () => {
  await using place = await openAuditPlace()
  await closed(place, (audit) => record(audit, 20))
  const file = join(place.folder, 'controller.jsonl')
  const lines = await linesOf(file)
  await rm(join(place.folder, 'checkpoint.json'))
  for (const { altered, reason } of [
    { altered: lines.with(3, (lines[3] ?? '').replace('number', 'Number')), reason: /its signature does not hold/ },
    { altered: lines.toSpliced(4, 1), reason: /its signature does not hold/ },
    { altered: lines.with(4, lines[5] ?? '').with(5, lines[4] ?? ''), reason: /its signature does not hold/ },
    { altered: lines.filter((line) => !line.includes('"checkpoint"')), reason: /no checkpoint of the key/ },
    { altered: lines.map((line) => line.replace(/"key":"[^"]{43}"/, `"key":"${'A'.repeat(43)}"`)), reason: /signed with another key/ },
    { altered: lines.map((line) => line.replace(/,"signature":"[^"]*"/, '')), reason: /it is no checkpoint of ours/ },
    {
      altered: [...lines, ...Array.from({ length: LIMITS.auditCheckpointLinesMax + 1 }, () => lines[1] ?? '')],
      reason: /more than 1000 lines behind the last checkpoint/,
    },
  ]) {
    await resealed(file, altered)
    await assert.rejects(verifyAuditFolder(place.folder), isBroken(reason))
  }
})

test('I15 another’s audit with another’s key in the folder is refused with the key that was kept', async () => {
  await using place = await openAuditPlace()
  await using other = await openAuditPlace()
  await closed(place, (audit) => record(audit, 3))
  await closed(other, (audit) => record(audit, 3))
  const keyFile = join(place.folder, 'checkpoint.pub')
  await verifyAuditFolder(other.folder)
  await assert.rejects(verifyAuditFolder(other.folder, { keyFile }), isBroken(/signed with another key/))
  await rm(join(other.folder, 'checkpoint.json'))
  await assert.rejects(verifyAuditFolder(other.folder, { keyFile }), isBroken(/signed with another key/))
})

test('I15 an end that was cut off is found by the checkpoint beside it, by one that was kept elsewhere, and by the next start', async () => {
  await using place = await openAuditPlace()
  const [file, beside, elsewhere] = [
    join(place.folder, 'controller.jsonl'),
    join(place.folder, 'checkpoint.json'),
    join(place.home, 'kept'),
  ]
  await closed(place, (audit) => record(audit, 5))
  const early = await readFile(file)
  const earlyCheckpoint = await readFile(beside)
  await closed(place, (audit) => record(audit, 5))
  await copyFile(beside, elsewhere)
  await writeFile(file, early)
  await assert.rejects(
    verifyAuditFolder(place.folder),
    isBroken(/checkpoint\.json: it signs line \d+, and the chain ends with line \d+: it was cut/),
  )
  await assert.rejects(place.open(), { code: 'audit_open_failed', message: /it was cut/ })
  // With an older checkpoint beside it, what is there is whole: only what was kept elsewhere tells.
  await writeFile(beside, earlyCheckpoint)
  await verifyAuditFolder(place.folder)
  await assert.rejects(verifyAuditFolder(place.folder, { checkpointFile: elsewhere }), isBroken(/kept: it signs line/))
})

test('I15 a chain that forked, as behind an old copy, is found by a checkpoint of the other branch and by the next start', async () => {
  await using place = await openAuditPlace()
  const [beside, elsewhere] = [join(place.folder, 'checkpoint.json'), join(place.home, 'kept')]
  await closed(place, (audit) => record(audit, 5))
  await cp(place.folder, join(place.home, 'copy'), { recursive: true })
  await closed(place, (audit) => record(audit, 5))
  await copyFile(beside, elsewhere)
  await rm(place.folder, { recursive: true })
  await rename(join(place.home, 'copy'), place.folder)
  await closed(place, (audit) => record(audit, 9))
  await verifyAuditFolder(place.folder)
  await assert.rejects(verifyAuditFolder(place.folder, { checkpointFile: elsewhere }), isBroken(/the chain was forked/))
  await copyFile(elsewhere, beside)
  await assert.rejects(place.open(), { code: 'audit_open_failed', message: /it is another chain/ })
})

test('a key that is gone, open to others, damaged or another’s is not replaced', async () => {
  await using place = await openAuditPlace()
  await using other = await openAuditPlace()
  await closed(place, (audit) => record(audit, 1))
  await closed(other, (audit) => record(audit, 1))
  const key = join(place.home, 'audit.key')
  const good = await readFile(key, 'utf8')
  for (const content of [undefined, 'x', good.slice(0, 60), await readFile(join(other.home, 'audit.key'), 'utf8')]) {
    await rm(key)
    if (content !== undefined) await writeFile(key, content, { mode: 0o600 })
    const opened = place.open()
    await assert.rejects(opened, (error: Error & { code: string }) => {
      assert.equal(error.code, 'audit_key_invalid')
      return !error.message.includes(good.split('\n')[1] ?? '?') && error.cause === undefined
    })
    if (content === undefined) await writeFile(key, good, { mode: 0o600 })
  }
})

test('an audit of before there were checkpoints goes on, and its lines are signed by the first one', async () => {
  await using place = await openAuditPlace()
  await closed(place, (audit) => record(audit, 5))
  const file = join(place.folder, 'controller.jsonl')
  await resealed(
    file,
    (await linesOf(file)).filter((line) => !line.includes('"checkpoint"')),
  )
  await rm(join(place.folder, 'checkpoint.json'))
  await closed(place, (audit) => record(audit, 1))
  assert.equal((await verifyAuditFolder(place.folder)).unsigned, 0)
})

/** Segments of some kilobytes each. */
async function rotated(place: AuditPlace, count: number): Promise<void> {
  await using audit = await place.open({ rotateBytes: 4_000 })
  for (let n = 0; n < count; n += 1) {
    await record(audit, 20)
    await audit.flush()
  }
}

test('a chain goes on over its segments, and a segment that is altered, cut, exchanged or gone is found', async () => {
  await using place = await openAuditPlace()
  await rotated(place, 5)
  await rotated(place, 1)
  const names = (await readdir(place.folder)).filter((name) => name.startsWith('controller.')).toSorted()
  assert.deepEqual(names, [...[1, 2, 3, 4, 5, 6].map((n) => `controller.00000${n}.jsonl`), 'controller.jsonl'])
  const { events, segments } = await verifyAuditFolder(place.folder)
  assert.equal(segments, 7)
  assert.ok(events > 120)
  const second = join(place.folder, 'controller.000002.jsonl')
  const third = join(place.folder, 'controller.000003.jsonl')
  const kept = await readFile(second)
  for (const alter of [
    () => rm(second),
    () => writeFile(second, kept.toString('latin1').split('\n').slice(0, -3).join('\n') + '\n'),
    () => copyFile(third, second),
    () => writeFile(second, kept.toString('latin1').replace('number 3', 'number 4')),
    () => rm(join(place.folder, 'controller.000001.jsonl')),
  ]) {
    await alter()
    await assert.rejects(verifyAuditFolder(place.folder), { code: 'audit_broken' })
    await writeFile(second, kept)
  }
})

test('what is old is deleted with a signed record, and what is left holds: sessions, then segments, never the last ones', async () => {
  await using place = await openAuditPlace()
  await rotated(place, 3)
  const olderThanMs = NOW + 1
  await closed(place, (audit) => keepChains(place, audit, gateLines(3), gateLines(2, 'again')))
  const old = new Date(NOW - DAY_MS)
  for (const name of ['controller.000001.jsonl', 'controller.000002.jsonl', 'controller.000003.jsonl', `sessions/${SESSION}.jsonl`])
    await utimes(join(place.folder, name), old, old)
  {
    await using audit = await place.open()
    assert.equal(await audit.retire({ olderThanMs, isLive: () => true }), 2)
    assert.equal(await audit.retire({ olderThanMs, isLive: () => false }), 1)
    assert.equal(await audit.retire({ olderThanMs, isLive: () => false }), 0)
  }
  const left = (await readdir(place.folder, { recursive: true })).filter((name) => name.endsWith('.jsonl')).toSorted()
  assert.deepEqual(left, ['controller.000003.jsonl', 'controller.jsonl', `sessions/${SESSION}.2.jsonl`])
  const found = await verifyAuditFolder(place.folder)
  assert.deepEqual([found.retired, found.chains, found.unsigned], [3, 1, 0])
  await closed(place, (audit) => record(audit, 3))
  await verifyAuditFolder(place.folder)
  await rm(join(place.folder, 'controller.000003.jsonl'))
  await assert.rejects(verifyAuditFolder(place.folder), isBroken(/nothing says that what was before was deleted/))
})

test('where the record of a deletion cannot be written nothing is deleted', async () => {
  await using place = await openAuditPlace()
  await rotated(place, 3)
  await using audit = await place.open()
  const before = await readdir(place.folder)
  await writeFile(join(place.folder, 'controller.jsonl'), 'x', { flag: 'a' })
  await assert.rejects(audit.retire({ olderThanMs: Number.POSITIVE_INFINITY, isLive: () => false }), { code: 'audit_unavailable' })
  assert.deepEqual(await readdir(place.folder), before)
})

test('an audit that has reached its limit over all segments takes nothing more', async () => {
  await using place = await openAuditPlace()
  await rotated(place, 2)
  const handle = join(place.folder, 'controller.000001.jsonl')
  const { truncate } = await import('node:fs/promises')
  await truncate(handle, LIMITS.auditFileBytesMax)
  await using audit = await openControllerAudit(
    { folder: place.folder, keyFile: join(place.home, 'audit.key') },
    { ...system, now: () => NOW },
    recordingLog().log,
  )
  await assert.rejects(record(audit, 1), { code: 'audit_unavailable' })
})
