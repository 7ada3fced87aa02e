import assert from 'node:assert/strict'
import { appendFile, mkdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { verifyAudit } from '../../../src/audit/audit.ts'
import { GENESIS, sealLine } from '../../../src/audit/line.ts'
import { auditCommand } from '../../../src/cli/audit.ts'
import { readEvents, temporaryFolder, writeAudit } from '../../support/audit.ts'

test('a valid file gives the number of events, the times of first and last, and the hash of the last line', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeAudit(file, 5)
  const time = '2026-01-02T03:04:05.678Z'
  assert.deepEqual(await verifyAudit(file), { events: 5, head: (await readEvents(file))[4]?.['hash'], first: time, last: time })
})

test('an empty file has no events, and 64 zeros for a head', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeFile(file, '')
  assert.deepEqual(await verifyAudit(file), { events: 0, head: GENESIS, first: '', last: '' })
})

const body = '"time":"2026-01-02T03:04:05.678Z","session":"s","event":"stopped"'
const [one, two] = [sealLine(1, body, GENESIS), sealLine(2, body, 'a'.repeat(64))]
for (const { name, lines, at, reason } of [
  {
    name: 'a line that is not JSON, with a right hash',
    lines: [sealLine(1, '"time":oops', GENESIS).line],
    at: 1,
    reason: 'it has no sequence number',
  },
  {
    name: 'a first line that is not number 1',
    lines: [sealLine(2, body, one.hash).line],
    at: 1,
    reason: 'its number is 2 where 1 should be',
  },
  {
    name: 'a first line that follows another',
    lines: [sealLine(1, body, one.hash).line],
    at: 1,
    reason: 'it does not follow the line before',
  },
  { name: 'a gap in the numbers', lines: [one.line, sealLine(3, body, one.hash).line], at: 2, reason: 'its number is 3 where 2 should be' },
  { name: 'a line with another predecessor', lines: [one.line, two.line], at: 2, reason: 'it does not follow the line before' },
  { name: 'an empty line', lines: [one.line, '\n'], at: 2, reason: 'it does not end with its hash' },
  { name: 'a line without a time', lines: [sealLine(1, '"session":"s","event":"stopped"', GENESIS).line], at: 1, reason: 'it has no time' },
  {
    name: 'a line without an event',
    lines: [sealLine(1, body.replace('event', 'evil'), GENESIS).line],
    at: 1,
    reason: 'it has no session or no event',
  },
]) {
  test(`${name} is reported by its number`, async () => {
    await using folder = await temporaryFolder()
    const file = join(folder.path, 'audit.jsonl')
    await writeFile(file, lines.join(''))
    await assert.rejects(verifyAudit(file), { code: 'audit_broken', message: `${file}:${at}: ${reason}` })
  })
}

test('a last line without its end is reported as one that was never finished', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeAudit(file, 3)
  await truncate(file, (await readFile(file)).length - 10)
  await assert.rejects(verifyAudit(file), { code: 'audit_broken', message: /:3: it was never finished \(\d+ bytes without a newline\)/ })
})

test('a line of megabytes is reported without reading on to its end', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeAudit(file, 1)
  await appendFile(file, Buffer.alloc(5_000_000, 'x'))
  await assert.rejects(verifyAudit(file), { code: 'audit_broken', message: /:2: it is longer than 262144 bytes/ })
})

test('a file that does not exist, or is a folder, is audit_open_failed', async () => {
  await using folder = await temporaryFolder()
  await mkdir(join(folder.path, 'sub'))
  await assert.rejects(verifyAudit(join(folder.path, 'none')), { code: 'audit_open_failed' })
  await assert.rejects(verifyAudit(join(folder.path, 'sub')), { code: 'audit_open_failed' })
})

async function run(...argv: string[]): Promise<{ code: number; out: string }> {
  let out = ''
  const code = await auditCommand.run(argv, { out: (text) => void (out += text), err: () => undefined, env: {} })
  return { code, out }
}

test('sallyport audit verify exits 0 for a chain that holds and prints its head', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeAudit(file, 2)
  const head = String((await readEvents(file))[1]?.['hash'])
  const text = await run('verify', file)
  assert.equal(text.code, 0)
  assert.match(text.out, new RegExp(`2 events.*\n.*\nhead ${head}\n$`))
  const json = await run('verify', file, '--json')
  assert.equal(json.code, 0)
  assert.equal((JSON.parse(json.out) as { head: string }).head, head)
})

test('sallyport audit verify --json exits 1 for a broken chain and says code and place', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  await writeFile(file, 'x\n')
  const { code, out } = await run('verify', '--json', file)
  assert.equal(code, 1)
  assert.deepEqual(JSON.parse(out), { file, ok: false, code: 'audit_broken', message: `${file}:1: it does not end with its hash` })
  await assert.rejects(run('verify', file), { code: 'audit_broken', exit: 1 })
})

for (const argv of [
  [],
  ['read'],
  ['show'],
  ['verify', 'a', '--checkpoint', 'b'],
  ['verify', 'a', '--yaml'],
  ['export'],
  ['export', '--format', 'xml'],
]) {
  test(`sallyport audit ${argv.join(' ')} is a usage error: exit 2`, async () => {
    await assert.rejects(run(...argv), { code: 'usage', exit: 2 })
  })
}
