import assert from 'node:assert/strict'
import { appendFile, mkdtemp, readdir, readFile, rm, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { chainFileName, type AuditEvent } from '../../src/audit/audit.ts'
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
const mark = (seq: number, kind = '0') => ({ seq, hash: String(seq).padStart(64, kind) })
const line = (seq: number, kind = '0'): string => `{"seq":${seq},"event":"x","hash":"${mark(seq, kind).hash}"}`
const kept = async (where = folder, chain = 1): Promise<string[]> =>
  (await readFile(join(where, chainFileName({ session: SESSION, chain })), 'utf8')).split('\n')
const named = (): string[] => events.map(({ event }) => event)
const countersigned = (): (number | undefined)[] => events.flatMap((event) => (event.event === 'countersigned' ? [event.line] : []))

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
  assert.deepEqual(named(), ['chain_begun', 'countersigned'])
  elapsed = LIMITS.auditCountersignMs
  await chains.append(SESSION, [line(101)])
  await chains.append(SESSION, [line(102)])
  await chains.end(SESSION)
  await chains[Symbol.asyncDispose]()
  assert.deepEqual(countersigned(), [1, 101, 102])
})

test('a gate that begins anew has a file of its own, and the controller has recorded that before a line of it is kept', async () => {
  let isKeptBefore: boolean | undefined
  await using chains = createSessionChains(
    folder,
    {
      append: (event) => audit.append(event),
      async flush() {
        isKeptBefore = (await readdir(folder)).includes(`${SESSION}.2.jsonl`)
      },
    },
    { elapsed: () => elapsed },
  )
  await chains.append(SESSION, [line(1), line(2), line(3)])
  await chains.append(SESSION, [line(1, 'f')])
  assert.equal(isKeptBefore, false)
  assert.deepEqual(await kept(), [line(1), line(2), line(3), ''])
  assert.deepEqual(await kept(folder, 2), [line(1, 'f'), ''])
  assert.deepEqual(chains.last(SESSION), mark(1, 'f'))
  assert.deepEqual(events, [
    { event: 'chain_begun', of: SESSION, chain: 1, digest: mark(1).hash },
    { event: 'countersigned', of: SESSION, line: 3, digest: mark(3).hash },
    { event: 'chain_begun', of: SESSION, chain: 2, digest: mark(1, 'f').hash },
    { event: 'countersigned', of: SESSION, chain: 2, line: 1, digest: mark(1, 'f').hash },
  ])
})

test('the next controller goes on with the newest chain, and countersigns what the one before had no time to', async () => {
  {
    const chains = open()
    await chains.append(SESSION, [line(1), line(2)])
    await chains.append(SESSION, [line(1, 'f')])
    fault = new SallyportError('audit_unavailable', 'the disk is full')
    await chains.append(SESSION, [line(2, 'f')])
    await chains[Symbol.asyncDispose]()
  }
  fault = undefined
  events = []
  {
    await using chains = open()
    assert.deepEqual(chains.last(SESSION), mark(2, 'f'))
    await chains.end(SESSION)
    assert.deepEqual(events, [{ event: 'countersigned', of: SESSION, chain: 2, line: 2, digest: mark(2, 'f').hash }])
  }
  await using chains = open()
  await chains.append(SESSION, [line(3, 'f')])
  assert.deepEqual(await kept(folder, 2), [line(1, 'f'), line(2, 'f'), line(3, 'f'), ''])
})

test('a beginning that could not be recorded is not kept, and the chain before goes on', async () => {
  await using chains = open()
  await chains.append(SESSION, [line(1)])
  fault = new SallyportError('audit_unavailable', 'the disk is full')
  await assert.rejects(chains.append(SESSION, [line(1, 'f')]), { code: 'audit_unavailable' })
  assert.deepEqual(await readdir(folder), [`${SESSION}.jsonl`])
  assert.deepEqual(chains.last(SESSION), mark(1))
  fault = undefined
  await chains.append(SESSION, [line(2)])
  assert.deepEqual(await kept(), [line(1), line(2), ''])
})

test('a further chain that a crash left without a line is begun again under the same number', async () => {
  {
    await using chains = open()
    await chains.append(SESSION, [line(1)])
  }
  await appendFile(join(folder, `${SESSION}.2.jsonl`), '{"seq":1,"ti')
  await using chains = open()
  assert.deepEqual(chains.last(SESSION), mark(1))
  await chains.append(SESSION, [line(1, 'f')])
  assert.deepEqual(await kept(folder, 2), [line(1, 'f'), ''])
})

test('a gate that begins again and again has no more room for it than one that goes on', async () => {
  const file = join(folder, `${SESSION}.jsonl`)
  await appendFile(
    file,
    `${line(1)}
`,
  )
  await truncate(file, LIMITS.auditFileBytesMax - 10)
  await appendFile(file, '\n')
  await using chains = open()
  await assert.rejects(chains.append(SESSION, [line(1, 'f')]), { code: 'audit_unavailable', message: /EFBIG/ })
  await appendFile(
    join(folder, `${'b'.repeat(16)}.${LIMITS.auditSessionChainsMax}.jsonl`),
    `${line(1)}
`,
  )
  await assert.rejects(chains.append('b'.repeat(16), [line(1, 'f')]), { code: 'audit_unavailable', message: /EFBIG/ })
})
