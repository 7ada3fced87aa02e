import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { verifyAudit } from '../../src/audit/audit.ts'
import { encodeEvent, encodeIdentity, GENESIS, sealLine } from '../../src/audit/line.ts'
import { readLine } from '../../src/audit/read-line.ts'
import { decided, NOW, temporaryFolder, writeAudit } from '../support/audit.ts'

const EVENTS = 12

/** Writes the altered bytes and expects that verify finds them. */
async function assertFound(file: string, altered: Buffer): Promise<void> {
  await writeFile(file, altered)
  await assert.rejects(verifyAudit(file), { code: 'audit_broken' })
}

async function validFile(folder: string): Promise<{ file: string; bytes: Buffer; lines: Buffer[] }> {
  const file = join(folder, 'audit.jsonl')
  await writeAudit(file, EVENTS)
  const bytes = await readFile(file)
  const lines = bytes
    .toString('latin1')
    .split(/(?<=\n)/)
    .map((line) => Buffer.from(line, 'latin1'))
  assert.equal(lines.length, EVENTS)
  return { file, bytes, lines }
}

test('I15 any one byte changed anywhere in a valid file is found', async () => {
  await using folder = await temporaryFolder()
  const { file, bytes } = await validFile(folder.path)
  const change = fc.tuple(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }))
  await fc.assert(
    fc.asyncProperty(change, async ([at, mask]) => {
      const altered = Buffer.from(bytes)
      altered[at] = (altered[at] ?? 0) ^ mask
      await assertFound(file, altered)
    }),
    { numRuns: 400 },
  )
})

test('I15 any bytes put in, and any run of bytes taken out before the last line, are found', async () => {
  await using folder = await temporaryFolder()
  const { file, bytes, lines } = await validFile(folder.path)
  const lastLine = bytes.length - (lines.at(-1)?.length ?? 0)
  await fc.assert(
    fc.asyncProperty(fc.nat(bytes.length), fc.uint8Array({ minLength: 1, maxLength: 20 }), async (at, put) => {
      await assertFound(file, Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at)]))
    }),
  )
  await fc.assert(
    fc.asyncProperty(fc.nat(lastLine - 1), fc.integer({ min: 1, max: 600 }), async (at, count) => {
      // A cut that reaches the end of the file at the end of a line is the one that a chain alone can't show.
      fc.pre(at + count < bytes.length)
      await assertFound(file, Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + count)]))
    }),
  )
})

test('I15 any line removed, repeated or put elsewhere is found; of the last ones removed only the head tells', async () => {
  await using folder = await temporaryFolder()
  const { file, bytes, lines } = await validFile(folder.path)
  const nth = fc.nat(EVENTS - 1)
  await fc.assert(fc.asyncProperty(fc.nat(EVENTS - 2), (n) => assertFound(file, Buffer.concat(lines.toSpliced(n, 1)))))
  await fc.assert(
    fc.asyncProperty(nth, nth, (from, to) => assertFound(file, Buffer.concat(lines.toSpliced(to, 0, lines[from] ?? Buffer.alloc(0))))),
  )
  await fc.assert(
    fc.asyncProperty(nth, nth, async (a, b) => {
      fc.pre(a !== b)
      await assertFound(file, Buffer.concat(lines.with(a, lines[b] ?? Buffer.alloc(0)).with(b, lines[a] ?? Buffer.alloc(0))))
    }),
  )
  await writeFile(file, bytes)
  const { head } = await verifyAudit(file)
  await writeFile(file, Buffer.concat(lines.slice(0, -1)))
  assert.notEqual((await verifyAudit(file)).head, head)
})

test('I15 any cut that is not at the end of a line is found', async () => {
  await using folder = await temporaryFolder()
  const { file, bytes } = await validFile(folder.path)
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: bytes.length - 1 }), async (length) => {
      fc.pre(bytes[length - 1] !== 0x0a)
      await assertFound(file, bytes.subarray(0, length))
    }),
  )
})

test('whatever the texts of an event are, its line is one line of printable ASCII from which they come back', () => {
  const text = fc.string({ unit: 'binary', maxLength: 200 })
  fc.assert(
    fc.property(text, text, text, (session, host, path) => {
      const { line } = sealLine(1, encodeEvent(encodeIdentity({ session }), decided('r', { host, path }), NOW), GENESIS)
      assert.match(line, /^[ -~]*\n$/)
      assert.notEqual(typeof readLine(Buffer.from(line.slice(0, -1))), 'string')
      const parsed = JSON.parse(line) as Record<string, unknown>
      assert.deepEqual([parsed['session'], parsed['host'], parsed['path']], [session, host, path])
    }),
  )
})

test('no bytes make the reader of a line throw', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => typeof readLine(Buffer.from(bytes)) === 'string'))
})
