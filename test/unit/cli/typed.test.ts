import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Typed } from '../../../src/cli/typed.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'

for (const { why, keys, kind, held } of [
  { why: 'Enter ends it', keys: 'value\r', kind: 'done', held: 'value' },
  { why: 'so does a line feed, and CR LF is one end', keys: 'value\r\n', kind: 'done', held: 'value' },
  { why: 'Ctrl-D ends what was begun', keys: 'value\x04', kind: 'done', held: 'value' },
  { why: 'Ctrl-D before anything breaks it off', keys: '\x04', kind: 'refused' },
  { why: 'backspace takes back a whole character', keys: 'a\u20ac\x7f\x08b\r', kind: 'done', held: 'b' },
  { why: 'backspace at the beginning is nothing', keys: '\x7f\x7fa\r', kind: 'done', held: 'a' },
  { why: 'Ctrl-U takes back all', keys: 'wrong\x15right\r', kind: 'done', held: 'right' },
  { why: 'Ctrl-C is the signal', keys: 'val\x03', kind: 'signal' },
  { why: 'Ctrl-\\ is the signal', keys: 'val\x1c', kind: 'signal' },
  { why: 'an arrow is no part of a value', keys: 'val\x1b[A', kind: 'refused' },
  {
    why: 'lines that are pasted with markers are one value',
    keys: '\x1b[200~one\rtwo\r\nthree\x1b[201~\r',
    kind: 'done',
    held: 'one\ntwo\nthree',
  },
  { why: 'an end within a paste is no end', keys: '\x1b[200~one\r', kind: 'more', held: 'one\n' },
  { why: 'lines that are pasted without markers are refused: the shell would run the second', keys: 'one\rtwo\r', kind: 'refused' },
  { why: 'more than a value can have is refused', keys: `${'x'.repeat(LIMITS.secretBytesMax + 3)}\r`, kind: 'refused' },
]) {
  test(`at the hidden prompt: ${why}`, () => {
    const typed = new Typed()
    const state = typed.take(Buffer.from(keys))
    assert.equal(state.kind, kind)
    if (held !== undefined) assert.equal(typed.bytes().toString(), held)
  })
}
