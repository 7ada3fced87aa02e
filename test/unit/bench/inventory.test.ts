import assert from 'node:assert/strict'
import { test } from 'node:test'
import { added } from '../../../bench/inventory.ts'
import { parseOptions } from '../../../bench/options.ts'

test('what was there before is not what was left, and what went is not either', () => {
  assert.deepEqual(added(new Set(['network a', 'volume b']), new Set(['network a', 'file sessions/x'])), ['file sessions/x'])
})

test('the story of sessions is told when it is asked for, and written down unless somebody forbids it', () => {
  assert.deepEqual([parseOptions(['--sessions']).story, parseOptions(['--sessions']).isWriting], ['sessions', true])
  assert.equal(parseOptions(['--sessions', '--no-write']).isWriting, false)
})
