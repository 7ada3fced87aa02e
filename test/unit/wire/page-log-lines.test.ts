import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createLogLines, createRows, LOG_LINES_MAX } from '../../../src/web/sessions/log-lines.ts'

const textsOf = (log: ReturnType<typeof createLogLines>): string[] => log.lines().map(({ text }) => text)

test('the lines of a log do not depend on how it came in pieces', () => {
  const piece = fc.stringMatching(/^[a-c\n]{0,12}$/)
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const [whole, cut] = [createLogLines(), createLogLines()]
      whole.push(pieces.join(''))
      for (const one of pieces) cut.push(one)
      assert.deepEqual(textsOf(cut), textsOf(whole))
    }),
  )
})

test('what colours a line or writes it anew is not shown, and a line that is too long says how much is left out', () => {
  const log = createLogLines()
  log.push('\u001b[1;31mred\u001b[0m\r\n10 %\r100 %\r\n')
  log.push('x'.repeat(5_000))
  assert.deepEqual(textsOf(log), ['red', '100 %', `${'x'.repeat(4_096)} … (904 more characters)`])
})

test('of lines without end the last are kept, with their numbers, and it is said how many are left out', () => {
  const log = createLogLines()
  log.push('a\n'.repeat(LOG_LINES_MAX + 5))
  assert.equal(log.lines().length, LOG_LINES_MAX)
  assert.equal(log.lines()[0]?.number, 6)
  assert.equal(log.left, 5)
})

test('rows are as wide as there are columns, what could not be seen is written out first, and wide characters take two', () => {
  const rows = createRows(4)([
    { number: 7, text: 'ab\u202Ec' },
    { number: 8, text: '漢字x' },
  ])
  assert.deepEqual(
    rows.map(({ number, text }) => [number, text]),
    [
      [7, 'ab\\u'],
      [undefined, '{202'],
      [undefined, 'E}c'],
      [8, '漢字'],
      [undefined, 'x'],
    ],
  )
})
