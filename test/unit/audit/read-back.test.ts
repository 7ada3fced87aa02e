/** Searches of the audit in the daemon: what they hold, and what lines of somebody else make of them. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { latestEntries, storyOf } from '../../../src/audit/audit.ts'
import { NOW, temporaryFolder } from '../../support/audit.ts'
import { heapBytes, MB } from '../../support/memory.ts'

const line = (seq: number, more: object): string => `${JSON.stringify({ seq, time: new Date(NOW + seq).toISOString(), ...more })}\n`

test('what is found holds its own line, and none of what was read with it', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  const rest = { event: 'decided', details: 'y'.repeat(100_000) }
  writeFileSync(file, Array.from({ length: 200 }, (_, at) => line(2 * at + 1, { event: 'wanted' }) + line(2 * at + 2, rest)).join(''))
  const before = heapBytes()
  const found = await latestEntries([{ file, chain: 'controller' }], { event: ['wanted'] }, 200)
  assert.equal(found.length, 200)
  assert.ok(heapBytes() - before < 2 * MB)
})

test('a story is told of its ids alone: what a gate wrote in their place that is no text leads nowhere, nor does a chain without end', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 's-1.jsonl')
  const chain = Array.from({ length: 50 }, (_, at) => line(at + 10, { event: 'x', request: `r${at}`, question: `r${at + 1}` }))
  const odd = [1, {}, [], null, '', true].map((value, at) => line(at + 1, { event: 'x', request: 'r0', question: value }))
  writeFileSync(file, [...odd, ...odd.map((one) => one.replace('"r0"', '"other"')), ...chain].join(''))
  const { entries } = await storyOf('r0', [{ file, chain: 's-1' }])
  assert.equal(entries.filter(({ fields }) => fields['request'] === 'r0').length, odd.length + 1)
  assert.ok(entries.every(({ fields }) => fields['request'] !== 'other'))
  assert.ok(entries.length < 20)
})
