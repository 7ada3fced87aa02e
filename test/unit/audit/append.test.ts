import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { openAudit, verifyAudit } from '../../../src/audit/audit.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { decided, finished, NOW, openTestAudit, readEvents, recordingLog, temporaryFolder } from '../../support/audit.ts'

test('every line carries number, time, who, what, the hash of the line before and its own hash last', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  const who = { session: 's-1', workspace: 'shop', role: 'developer', agent: 'claude' }
  await using audit = await openAudit({ file, ...who }, { now: () => NOW }, recordingLog().log)
  await audit.append({ event: 'started', version: '0.1.0', policy: 'ab12' })
  await audit.append(finished('r1'))
  const [first = {}, second = {}] = await readEvents(file)
  const { hash, ...rest } = first
  const time = '2026-01-02T03:04:05.678Z'
  assert.deepEqual(rest, { seq: 1, time, ...who, event: 'started', version: '0.1.0', policy: 'ab12', prev: '0'.repeat(64) })
  assert.equal(Object.keys(first).at(-1), 'hash')
  assert.equal(second['seq'], 2)
  assert.equal(second['prev'], hash)
})

test('the hash is SHA-256 over the bytes of the line before ,"hash":, so that any tool can check it', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await using audit = await openTestAudit(file)
  await audit.append(decided('r1', { path: '/ä\u202e"\\' }))
  const [line = ''] = (await readFile(file, 'latin1')).split('\n')
  const cut = line.lastIndexOf(',"hash":"')
  assert.equal(line.slice(cut), `,"hash":"${createHash('sha256').update(line.slice(0, cut)).digest('hex')}"}`)
})

test('what was not said is not in the line', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await using audit = await openTestAudit(file)
  await audit.append({
    event: 'decided',
    request: 'r1',
    lane: 'http',
    plane: 'agent',
    decision: 'deny',
    host: undefined,
    code: 'host_not_allowed',
  })
  const [event = {}] = await readEvents(file)
  assert.deepEqual(Object.keys(event), ['seq', 'time', 'session', 'event', 'request', 'lane', 'plane', 'decision', 'code', 'prev', 'hash'])
})

for (const { name, text } of [
  { name: 'a right-to-left override', text: '/\u202egpj.exe' },
  { name: 'line and paragraph separators', text: '/a\u2028b\u2029c' },
  { name: 'zero-width characters', text: '/a\u200b\u2060\ufeffb' },
  { name: 'C0, DEL and C1 controls', text: '/\u001b[2K\u007f\u009b31m\r' },
  { name: 'a line feed that would begin a line of its own', text: '/a\n{"seq":9}' },
  { name: 'tag characters and letters that look alike', text: '/\u{e0041}\u0430pi' },
]) {
  test(`${name} in a path is in the file as an escape, and comes back from JSON as it was`, async () => {
    await using folder = await temporaryFolder()
    const file = join(folder.path, 'audit.jsonl')
    await using audit = await openTestAudit(file)
    await audit.append(decided('r1', { path: text }))
    assert.match(await readFile(file, 'latin1'), /^[ -~]*\n$/)
    assert.equal((await readEvents(file))[0]?.['path'], text)
  })
}

test('a path longer than the limit is cut, and the line says so and how long it was', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await using audit = await openTestAudit(file)
  await audit.append(decided('r1', { path: `/${'a'.repeat(60_000)}` }))
  await audit.append(decided('r2', { path: `/${'a'.repeat(LIMITS.auditPathCharsMax - 1)}` }))
  const [long = {}, exact = {}] = await readEvents(file)
  assert.equal(long['path'], `/${'a'.repeat(LIMITS.auditPathCharsMax - 1)}[cut: 60001 characters]`)
  assert.equal(exact['path'], `/${'a'.repeat(LIMITS.auditPathCharsMax - 1)}`)
})

test('the longest line that any event can make is one that verify still reads', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  const long = '\u{10ffff}'.repeat(LIMITS.auditPathCharsMax)
  const fields = { scheme: long, host: long, method: long, path: long, code: long, rule: long, credential: long, secret: long, note: long }
  const who = { session: long, workspace: long, role: long, agent: long }
  await using audit = await openAudit({ file, ...who }, { now: () => NOW }, recordingLog().log)
  await audit.append(decided(long, fields))
  assert.equal((await verifyAudit(file)).events, 1)
})

test('an append that resolved is in the file, at once', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await using audit = await openTestAudit(file)
  for (const request of ['r1', 'r2', 'r3']) {
    await audit.append(decided(request))
    assert.equal((await readEvents(file)).at(-1)?.['request'], request)
  }
})

test('64 appenders at once give one unbroken chain with every event in it once', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  const audit = await openTestAudit(file)
  const one = async (appender: number): Promise<void> => {
    for (let n = 0; n < 50; n += 1) await audit.append(decided(`${appender}-${n}`))
  }
  await Promise.all(Array.from({ length: 64 }, (_, n) => one(n)))
  await audit[Symbol.asyncDispose]()
  assert.equal((await verifyAudit(file)).events, 3_200)
  assert.equal(new Set((await readEvents(file)).map(({ request }) => request)).size, 3_200)
})

test('events beyond the queue limit are refused with audit_unavailable, the others are written', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  const audit = await openTestAudit(file)
  const answers = await Promise.allSettled(Array.from({ length: LIMITS.auditQueueMax + 5 }, (_, n) => audit.append(decided(`r${n}`))))
  const refused = answers.filter(({ status }) => status === 'rejected')
  assert.equal(refused.length, 5)
  for (const answer of refused) assert.equal((answer as PromiseRejectedResult).reason.code, 'audit_unavailable')
  await audit[Symbol.asyncDispose]()
  assert.equal((await verifyAudit(file)).events, LIMITS.auditQueueMax)
})

test('what was appended before the end is written by the end, and nothing after it', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  const audit = await openTestAudit(file)
  const before = Promise.all([audit.append(decided('r1')), audit.append({ event: 'stopped' })])
  await audit[Symbol.asyncDispose]()
  await before
  await assert.rejects(audit.append(decided('r2')), { code: 'audit_unavailable' })
  assert.deepEqual(
    (await readEvents(file)).map(({ event }) => event),
    ['decided', 'stopped'],
  )
})
