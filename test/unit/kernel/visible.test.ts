import assert from 'node:assert/strict'
import { test } from 'node:test'
import { visibleJson } from '../../../src/kernel/visible.ts'

for (const [what, text] of [
  ['the C1 introducer of terminal sequences', '\u009b31m'],
  ['an escape', '\u001b[2J'],
  ['text that is turned around', '\u202eevil'],
  ['what has no width', '\u200b\u2060\ufeff\u00ad'],
  ['a tag outside of the first plane', '\u{e0041}'],
  ['a line of its own', '\u2028x\ny'],
] as const)
  test(`JSON on a terminal shows ${what} as an escape, and is the same value`, () => {
    const shown = visibleJson({ path: `/workspace/${text}`, [text]: 'é 漢 😀' })
    assert.match(shown, /^[\x20-\x7e\né漢😀]+$/u)
    assert.match(shown, /é 漢 😀/)
    assert.deepEqual(JSON.parse(shown), { path: `/workspace/${text}`, [text]: 'é 漢 😀' })
  })
