import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { KeptOutput, runeEnd } from '../../../src/controller/executor/kept-output.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'

function kept(text: string | Buffer, bytesMax = 1_000): KeptOutput {
  const output = new KeptOutput(bytesMax)
  output.push(Buffer.from(text))
  return output
}

for (const [text, shown] of [
  ['', ''],
  ['a', 'a'],
  ['a\n', 'a\n'],
  ['a\nb', 'a\nb'],
  ['a\na\n', 'a\na\n'],
  ['a\na\nb\n', 'a\na\nb\n'],
  ['a\na\na\n', 'a\n[the line above 3 times]\n'],
  ['a\na\na\na\nb\n', 'a\n[the line above 4 times]\nb\n'],
  ['a\na\na', 'a\n[the line above 3 times]'],
  ['\n\n\n', '\n[the line above 3 times]\n'],
  ['a\nb\na\nb\na\nb\n', 'a\nb\na\nb\na\nb\n'],
  ['ab\na\nab\n', 'ab\na\nab\n'],
] as const)
  test(`${JSON.stringify(text)} is kept as ${JSON.stringify(shown)}`, () => {
    const output = kept(text)
    assert.deepEqual([output.end(), output.isTruncated, output.bytes], [shown, false, text.length])
  })

test('a long line is cut at a character, and says how much is missing', () => {
  const output = kept(`${'€'.repeat(LIMITS.commandLineBytesMax)}\nnext\n`, 1e6)
  const [line = '', more, next] = output.end().split(/(?=\[and)|\n/)
  const characters = Math.floor(LIMITS.commandLineBytesMax / 3)
  assert.equal(line, '€'.repeat(characters))
  assert.equal(more, `[and ${(LIMITS.commandLineBytesMax - characters) * 3} bytes of this line]`)
  assert.equal(next, 'next')
  assert.equal(output.isTruncated, true)
})

test('of what is too long the beginning and the end are kept, cut at characters', () => {
  const text = Array.from({ length: 1_000 }, (_, i) => `${i} äöü€𝄞\n`).join('')
  const output = kept(text, 401)
  const [head = '', tail = ''] = output.end().split(/\n\[\d+ bytes left out\]\n/)
  assert.ok(text.startsWith(head) && text.endsWith(tail) && head.length > 50 && tail.length > 150)
  assert.ok(Buffer.byteLength(head) + Buffer.byteLength(tail) <= 401)
  assert.doesNotMatch(head + tail, /\ufffd/)
})

test('what is kept does not depend on how it came in pieces', () => {
  fc.assert(
    fc.property(
      fc.array(fc.stringMatching(/^[ab€]{0,3}\n?$/), { maxLength: 200 }),
      fc.array(fc.nat(9), { minLength: 1, maxLength: 20 }),
      fc.integer({ min: 16, max: 500 }),
      (parts, cuts, bytesMax) => {
        const bytes = Buffer.from(parts.join(''))
        const whole = kept(bytes, bytesMax)
        const pieces = new KeptOutput(bytesMax)
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const length = 1 + (cuts[i % cuts.length] ?? 0)
          pieces.push(bytes.subarray(at, at + length))
          at += length
        }
        assert.equal(pieces.end(), whole.end())
        assert.equal(pieces.isTruncated, whole.isTruncated)
      },
    ),
  )
})

test('lines that are told once come out again as they were', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom('', 'a', 'b', 'ab'), { maxLength: 60 }), (lines) => {
      const text = lines.map((line) => `${line}\n`).join('')
      const shown = kept(text, 1e6).end().split('\n')
      const again = shown.flatMap((line, i) => {
        const times = /^\[the line above (\d+) times\]$/.exec(line)?.[1]
        return times === undefined ? [line] : Array.from({ length: Number(times) - 1 }, () => shown[i - 1] ?? '')
      })
      assert.equal(again.join('\n'), text)
    }),
  )
})

test('an end never splits a character, and is never beyond the bound', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.nat(100), (text, max) => {
      const bytes = Buffer.from(text)
      const end = runeEnd(bytes, max)
      assert.ok(end <= max || end === bytes.length)
      assert.ok(text.startsWith(bytes.subarray(0, end).toString()))
      assert.ok(end === bytes.length || max - end < 4)
    }),
  )
})
