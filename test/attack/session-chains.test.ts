/** What a gate says of itself, at times and in words that would make it another's record. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import type { AuditEvent } from '../../src/audit/audit.ts'
import { createChainGuard } from '../../src/controller/links/chain-guard.ts'
import { createSessionChains } from '../../src/controller/session-chains.ts'

const SESSION = 'a'.repeat(16)
const line = (seq: number): string => `{"seq":${seq},"event":"x","hash":"${String(seq).padStart(64, '0')}"}`

let folder: string
let events: AuditEvent[]
let flushing: PromiseWithResolvers<void>
const audit = {
  append: async (event: AuditEvent) => void events.push(event),
  flush: () => flushing.promise,
}
const open = () => createSessionChains(folder, audit, { elapsed: () => 0 })
const kept = (): Promise<string> => readFile(join(folder, `${SESSION}.jsonl`), 'utf8')

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sallyport-chains-'))
  events = []
  flushing = Promise.withResolvers()
})
afterEach(() => rm(folder, { recursive: true }))

test('I15 lines that are on their way while their session ends are never written into a file that was opened meanwhile', async () => {
  const victim = join(folder, 'victim')
  await writeFile(victim, 'another file')
  const chains = open()
  // Waits for the disk of the controller's own record.
  const appended = chains.append(SESSION, [line(1)])
  await new Promise((resolve) => setImmediate(resolve))
  const ended = chains.end(SESSION)
  await new Promise((resolve) => setImmediate(resolve))
  // The kernel gives the lowest number that is free.
  const descriptor = openSync(victim, 'r+')
  flushing.resolve()
  await Promise.allSettled([appended, ended])
  closeSync(descriptor)
  assert.equal(await readFile(victim, 'utf8'), 'another file')
  assert.equal(await kept(), `${line(1)}\n`)
  assert.deepEqual(
    events.map(({ event }) => event),
    ['chain_begun', 'countersigned'],
  )
  await chains[Symbol.asyncDispose]()
})

test('I15 lines that come behind the end of their session are not kept: nobody would countersign them', async () => {
  flushing.resolve()
  await using chains = open()
  await chains.append(SESSION, [line(1)])
  await chains.end(SESSION)
  await assert.rejects(chains.append(SESSION, [line(2)]), { code: 'audit_unavailable' })
  assert.equal(await kept(), `${line(1)}\n`)
})

test('I15 lines that come behind the end of the controller are not kept', async () => {
  flushing.resolve()
  const chains = open()
  await chains.append(SESSION, [line(1)])
  await chains[Symbol.asyncDispose]()
  await assert.rejects(chains.append(SESSION, [line(2)]), { code: 'audit_unavailable' })
  assert.equal(await kept(), `${line(1)}\n`)
})

/** A line that begins a chain, with these members between its time and its link. */
function beginning(members: string): string {
  const text = `{"seq":1,"time":"2026-01-01T00:00:00.000Z",${members},"prev":"${'0'.repeat(64)}"`
  return `${text},"hash":"${createHash('sha256').update(text).digest('hex')}"}`
}

for (const { what, members, isKept } of [
  { what: 'its own session', members: `"session":"${SESSION}","event":"stopped"`, isKept: true },
  { what: 'words that look like a member', members: `"session":"${SESSION}","event":"x","note":"a,\\"session\\":\\"b\\","`, isKept: true },
  { what: 'the controller', members: '"session":"controller","event":"question_settled","state":"approved"' },
  { what: 'another session', members: `"session":"${'b'.repeat(16)}","event":"stopped"` },
  { what: 'its own session, and the controller behind it', members: `"session":"${SESSION}","session":"controller","event":"stopped"` },
  { what: 'the controller in the end', members: `"session":"${SESSION}","event":"stopped","session":"controller"` },
  { what: 'two events', members: `"session":"${SESSION}","event":"stopped","event":"question_settled"` },
  { what: 'a member in another spelling', members: `"session":"${SESSION}","event":"stopped","sessio\\u006e":"controller"` },
  { what: 'members with space around them', members: `"session":"${SESSION}","event":"stopped", "session" :"controller"` },
])
  test(`I15 a line of a gate that names ${what} ${isKept ? 'is kept' : 'is refused: a copy of it would be taken for the other’s'}`, async () => {
    const lines: string[] = []
    const guard = createChainGuard({ id: SESSION, onLines: async (more) => void lines.push(...more) })
    guard.begin()
    const accepted = guard.accept([beginning(members)])
    if (isKept) await accepted
    else await assert.rejects(accepted, { code: 'control_broken' })
    assert.equal(lines.length, isKept ? 1 : 0)
  })
