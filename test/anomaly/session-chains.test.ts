import assert from 'node:assert/strict'
import { appendFile, mkdtemp, readFile, rm, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import type { AuditEvent } from '../../src/audit/audit.ts'
import { createSessionChains } from '../../src/controller/session-chains.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { limitedFileSize } from '../support/full-disk.ts'

const SESSION = 'a'.repeat(16)

let folder: string
let events: AuditEvent[]
let elapsed: number
let fault: SallyportError | undefined
const audit = {
  async append(event: AuditEvent) {
    if (fault) throw fault
    events.push(event)
  },
}
const open = (where = folder) => createSessionChains(where, audit, { elapsed: () => elapsed })
const line = (seq: number): string => `{"seq":${seq},"event":"x","hash":"${String(seq).padStart(64, '0')}"}`
const mark = (seq: number) => ({ seq, hash: String(seq).padStart(64, '0') })
const kept = async (where = folder): Promise<string[]> => (await readFile(join(where, `${SESSION}.jsonl`), 'utf8')).split('\n')

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sallyport-chains-'))
  events = []
  elapsed = 0
  fault = undefined
})
afterEach(() => rm(folder, { recursive: true }))

test('a piece of a line that a crash left is not the beginning of the next line', async () => {
  {
    await using chains = open()
    await chains.append(SESSION, [line(1), line(2)])
  }
  await appendFile(join(folder, `${SESSION}.jsonl`), line(3).slice(0, 20))
  await using chains = open()
  assert.deepEqual(chains.last(SESSION), mark(2))
  await chains.append(SESSION, [line(3)])
  assert.deepEqual(await kept(), [line(1), line(2), line(3), ''])
})

test('a file of nothing but a piece of a line begins anew', async () => {
  await appendFile(join(folder, `${SESSION}.jsonl`), '{"seq":1')
  await using chains = open()
  assert.equal(chains.last(SESSION), undefined)
  await chains.append(SESSION, [line(1)])
  assert.deepEqual(await kept(), [line(1), ''])
})

test('lines that the disk took half of are not kept, and are kept once when they come again', async () => {
  await using disk = await limitedFileSize()
  const where = dirname(disk.file)
  await using chains = open(where)
  await chains.append(SESSION, [line(1)])
  await appendFile(disk.file, `${line(1)}\n`)
  await disk.fill(40)
  await assert.rejects(chains.append(SESSION, [line(2), line(3)]), { code: 'audit_unavailable' })
  assert.deepEqual(chains.last(SESSION), mark(1))
  await disk.free()
  await chains.append(SESSION, [line(2), line(3)])
  assert.deepEqual(await kept(where), [line(1), line(2), line(3), ''])
})

test('lines that could not be countersigned are not kept, and are kept once when they come again', async () => {
  await using chains = open()
  fault = new SallyportError('audit_unavailable', 'the disk is full')
  await assert.rejects(chains.append(SESSION, [line(1)]), { code: 'audit_unavailable' })
  fault = undefined
  await chains.append(SESSION, [line(1)])
  assert.deepEqual(await kept(), [line(1), ''])
})

test('a session that has reached the bound of its record has no more of it, and another goes on', async () => {
  const file = join(folder, `${SESSION}.jsonl`)
  await appendFile(file, `${line(1)}\n`)
  await truncate(file, LIMITS.auditFileBytesMax - 10)
  await appendFile(file, '\n')
  await using chains = open()
  await assert.rejects(chains.append(SESSION, [line(2)]), { code: 'audit_unavailable', message: /EFBIG/ })
  await chains.append('b'.repeat(16), [line(1)])
})

test('a gate that writes line by line does not fill the record of the controller, which has its last line at the end', async () => {
  const chains = open()
  for (let seq = 1; seq <= 100; seq += 1) await chains.append(SESSION, [line(seq)])
  assert.equal(events.length, 1)
  elapsed = LIMITS.auditCountersignMs
  await chains.append(SESSION, [line(101)])
  await chains.append(SESSION, [line(102)])
  await chains.end(SESSION)
  await chains[Symbol.asyncDispose]()
  assert.deepEqual(
    events.map((event) => (event as { line?: number }).line),
    [1, 101, 102],
  )
})
