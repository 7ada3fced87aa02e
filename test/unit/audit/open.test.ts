import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { appendFile, chmod, chown, link, mkdir, readFile, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { verifyAudit } from '../../../src/audit/audit.ts'
import { GENESIS, sealLine } from '../../../src/audit/line.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { decided, openTestAudit, readEvents, recordingLog, temporaryFolder, writeAudit } from '../../support/audit.ts'

test('a new file has mode 0600, and an existing one gets it', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeAudit(file, 1)
  assert.equal((await stat(file)).mode & 0o777, 0o600)
  await chmod(file, 0o644)
  await writeAudit(file, 1)
  assert.equal((await stat(file)).mode & 0o777, 0o600)
})

test('a second start continues number and hash of the first', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeAudit(file, 3)
  await writeAudit(file, 2)
  assert.equal((await verifyAudit(file)).events, 5)
})

for (const { name, cut } of [
  { name: 'in its middle', cut: 40 },
  { name: 'before its newline', cut: 1 },
]) {
  test(`a last line cut ${name} is removed, the event recovered says how many bytes, and the chain holds`, async () => {
    await using folder = await temporaryFolder()
    const file = join(folder.path, 'audit.jsonl')
    await writeAudit(file, 2)
    const whole = await readFile(file, 'latin1')
    await truncate(file, whole.length - cut)
    const torn = whole.length - cut - (whole.indexOf('\n') + 1)
    const recorded = recordingLog()
    await using audit = await openTestAudit(file, recorded)
    await audit.append(decided('r9'))
    const events = await readEvents(file)
    assert.deepEqual(
      events.map(({ event, bytes }) => [event, bytes]),
      [
        ['decided', undefined],
        ['recovered', torn],
        ['decided', undefined],
      ],
    )
    assert.equal((await verifyAudit(file)).events, 3)
    assert.equal(recorded.lines.filter(({ level }) => level === 'warn').length, 1)
  })
}

test('zeros at the end, as a crash of the machine leaves them, are removed', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeAudit(file, 2)
  await truncate(file, (await stat(file)).size + 4_096)
  await using audit = await openTestAudit(file)
  await audit.append(decided('r9'))
  assert.equal((await readEvents(file))[2]?.['bytes'], 4_096)
  assert.equal((await verifyAudit(file)).events, 4)
})

test('a broken chain is not continued: audit_open_failed names the line and how to look at it, the file stays', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeAudit(file, 3)
  const altered = (await readFile(file, 'latin1')).replace('"request":"r2"', '"request":"rX"')
  await writeFile(file, altered)
  await assert.rejects(openTestAudit(file), { code: 'audit_open_failed', message: /: line 2 does not hold/, hint: /audit verify/ })
  assert.equal(await readFile(file, 'latin1'), altered)
})

for (const content of ['hello', '{"seq":7,"time":"', '\0\0hello', '\0\0\0', 'one line\n']) {
  test(`a file of somebody else (${JSON.stringify(content)}) is refused, and keeps every byte and its mode`, async () => {
    await using folder = await temporaryFolder()
    const file = join(folder.path, 'notes')
    await writeFile(file, content, { mode: 0o644 })
    await assert.rejects(openTestAudit(file), { code: 'audit_open_failed' })
    assert.equal(await readFile(file, 'latin1'), content)
    assert.equal((await stat(file)).mode & 0o777, 0o644)
  })
}

for (const { name, make } of [
  { name: 'a symbolic link', make: (file: string) => symlink(join(file, '..', 'target'), file) },
  { name: 'a folder', make: (file: string) => mkdir(file) },
  { name: 'a FIFO, without waiting for its other end', make: async (file: string) => void execFileSync('mkfifo', [file]) },
]) {
  test(`${name} in the place of the file is refused`, async () => {
    await using folder = await temporaryFolder()
    await writeFile(join(folder.path, 'target'), '')
    const file = join(folder.path, 'audit.jsonl')
    await make(file)
    await assert.rejects(openTestAudit(file), { code: 'audit_open_failed' })
    assert.equal(await readFile(join(folder.path, 'target'), 'utf8'), '')
  })
}

test('a missing folder is refused with the command that makes it, and not made', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'no', 'audit.jsonl')
  await assert.rejects(openTestAudit(file), { code: 'audit_open_failed', hint: `mkdir -p ${join(folder.path, 'no')}` })
  await assert.rejects(stat(join(folder.path, 'no')), { code: 'ENOENT' })
})

test('a file that belongs to another user is refused', async (t) => {
  if (process.geteuid?.() !== 0) return t.skip('only root can give a file away')
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeFile(file, '')
  await chown(file, 12_345, 12_345)
  await assert.rejects(openTestAudit(file), { code: 'audit_open_failed', message: /belongs to user 12345/ })
})

test('a hard link beside it changes nothing', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeAudit(file, 1)
  await link(file, join(folder.path, 'backup'))
  await writeAudit(file, 1)
  assert.equal((await verifyAudit(join(folder.path, 'backup'))).events, 2)
})

test('of a file longer than the limit only the tail is verified at the start, and number and hash go on', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  const body = `"time":"2026-01-02T03:04:05.678Z","session":"s-1","event":"decided","path":"/${'a'.repeat(8_000)}"`
  let [seq, head, text] = [0, GENESIS, '']
  for (let bytes = 0; bytes <= LIMITS.auditContinueBytesMax + 100_000; bytes += 8_200) {
    seq += 1
    const sealed = sealLine(seq, body, head)
    head = sealed.hash
    // Number 2 lies before the tail and is damaged: the start does not see it, verify does.
    text += seq === 2 ? sealed.line.replace('/aaa', '/bbb') : sealed.line
  }
  await writeFile(file, text)
  await using audit = await openTestAudit(file)
  await audit.append(decided('next'))
  const added = JSON.parse((await readFile(file, 'latin1')).slice(text.length)) as Record<string, unknown>
  assert.equal(added['seq'], seq + 1)
  assert.equal(added['prev'], head)
  await assert.rejects(verifyAudit(file), { code: 'audit_broken', message: `${file}:2: its hash does not match its bytes` })
})

test('in a long file damage in the tail is found at the start', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeFile(file, `${'x'.repeat(1_000)}\n`.repeat(LIMITS.auditContinueBytesMax / 1_000))
  await appendFile(file, 'x\n')
  await assert.rejects(openTestAudit(file), { code: 'audit_open_failed' })
})
