import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { measureWith, rowsOf, type Wording } from '../../src/cli/approve-screen.ts'
import { listed, openView, step, type Input, type Size, type Step, type View } from '../../src/cli/approve-view.ts'
import { clipped, wrapped } from '../../src/cli/cells.ts'
import { Keys } from '../../src/cli/keys.ts'
import { wordingFor } from '../../src/cli/question-wording.ts'
import type { Question } from '../../src/wire/question.ts'
import { HOSTILE_TEXTS, question, TIERS } from '../support/questions.ts'

const UTF8: Wording = wordingFor({ LANG: 'C.UTF-8' })
const ASCII: Wording = wordingFor({ LANG: 'C' })

/** Columns as terminals with the widest idea of a character have them. */
const WIDE =
  /[\p{Emoji_Presentation}\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u
function columnsOf(text: string): number {
  return Array.from(text).reduce((sum, char) => sum + (/\p{M}/u.test(char) ? 0 : WIDE.test(char) ? 2 : 1), 0)
}

const text = fc.oneof(
  fc.constantFrom(...HOSTILE_TEXTS),
  fc.string({ maxLength: 60 }),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
)
const size: fc.Arbitrary<Size> = fc.oneof(
  fc.constantFrom({ columns: 20, rows: 5 }, { columns: 80, rows: 24 }, { columns: 200, rows: 60 }),
  fc.record({ columns: fc.integer({ min: 1, max: 250 }), rows: fc.integer({ min: 1, max: 70 }) }),
)
const asked: fc.Arbitrary<Question> = fc
  .record({
    id: fc.integer({ min: 1, max: 6 }),
    argv: fc.array(text, { minLength: 1, maxLength: 4 }),
    reason: text,
    name: text,
    claimedBy: text,
    rule: text,
    level: fc.constantFrom('safe', 'caution', 'dangerous'),
    tier: fc.constantFrom(...TIERS),
    state: fc.constantFrom('pending', 'pending', 'pending', 'claimed', 'approved', 'denied', 'expired'),
  })
  .map(({ id, argv, reason, name, claimedBy, rule, level, tier, state }) => {
    const one = question(`q-${id}`, argv, {
      reason,
      tier,
      state,
      risk: { level, reasons: [reason] },
      createdAt: id,
      digest: String(id).repeat(64),
      remember: { rule, kind: 'host_command' },
      ...(state === 'claimed' && { claimedBy }),
    })
    return { ...one, asker: { ...one.asker, sessionName: name, agent: name } }
  })
const key = fc.constantFrom(
  ...'jkasrdyqgGx ?'.split(''),
  'enter',
  'enter',
  'escape',
  'tab',
  'pagedown',
  'pagedown',
  'pageup',
  'up',
  'down',
  'end',
)
const input: fc.Arbitrary<Input> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('key' as const), key, isAlone: fc.constantFrom(true, true, true, false) }) },
  { weight: 3, arbitrary: asked.map((one) => ({ kind: 'line' as const, line: { event: { kind: 'asked' as const, question: one } } })) },
  { weight: 1, arbitrary: fc.array(asked, { maxLength: 4 }).map((pending) => ({ kind: 'line' as const, line: { pending } })) },
  { weight: 1, arbitrary: size.map((to) => ({ kind: 'resized' as const, size: to })) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('password' as const), isGiven: fc.boolean() }) },
  { weight: 1, arbitrary: text.map((why) => ({ kind: 'refused' as const, id: 'q-1', why })) },
  { weight: 1, arbitrary: fc.subarray([...TIERS]).map((available) => ({ kind: 'approver' as const, available })) },
)
const waitedMs = fc.integer({ min: 0, max: 700 })
const press = (one: string): Input => ({ kind: 'key', key: one, isAlone: true })
/** What somebody does who means to answer. */
const look = fc
  .tuple(fc.integer({ min: 0, max: 60 }), fc.constantFrom('a', 'a', 's', 'r', 'd', 'y'), waitedMs, waitedMs)
  .map(([pages, last, before, after]): [Input, number][] => [
    [press('enter'), before],
    ...Array.from({ length: pages }, (): [Input, number] => [press('pagedown'), 1]),
    [press(last), after],
  ])
const story = fc
  .array(fc.oneof({ weight: 5, arbitrary: fc.tuple(input, waitedMs).map((one) => [one]) }, { weight: 2, arbitrary: look }), {
    maxLength: 40,
  })
  .map((parts) => parts.flat())

/** Goes through a story; `each` sees every state with what led to it. */
function play(
  begin: Size,
  steps: readonly (readonly [Input, number])[],
  wording: Wording,
  each: (before: View, input: Input, after: Step, elapsedMs: number) => void,
): void {
  let elapsedMs = 0
  let view = step(openView(begin, 0, 0), { kind: 'connection', isConnected: true }, { now: 0, elapsedMs }, measureWith(wording)).view
  for (const [one, waited] of steps) {
    elapsedMs += waited
    const after = step(view, one, { now: elapsedMs, elapsedMs }, measureWith(wording))
    each(view, one, after, elapsedMs)
    view = after.view
  }
}

for (const [name, wording] of [
  ['that reads UTF-8', UTF8],
  ['that does not', ASCII],
] as const)
  test(`on a terminal ${name} no row of the inbox is wider than the screen or has a control or format character, at any size, whatever is asked`, () => {
    fc.assert(
      fc.property(size, story, (begin, steps) => {
        play(begin, steps, wording, (_before, _input, { view }) => {
          const rows = rowsOf(view, wording)
          assert.equal(rows.length, view.size.rows)
          for (const row of rows) {
            assert.ok(
              columnsOf(row.text) <= view.size.columns,
              `${columnsOf(row.text)} > ${view.size.columns}: ${JSON.stringify(row.text)}`,
            )
            assert.doesNotMatch(row.text, /\p{C}|\p{Zl}|\p{Zp}|\p{Default_Ignorable_Code_Point}/u)
            if (wording === ASCII) assert.match(row.text, /^[ -~]*$/)
          }
        })
      }),
      { numRuns: 150 },
    )
  })

test('I52 a yes is sent only when every row of its question was on the screen at this size, and for 400 ms', () => {
  let allowed = 0
  const seen = { id: '', step: '', size: '', rows: new Set<number>(), completeMs: Number.NaN }
  fc.assert(
    fc.property(size, story, (begin, steps) => {
      seen.id = ''
      play(begin, steps, UTF8, (before, one, { view, effects }, elapsedMs) => {
        for (const effect of effects) {
          if (effect.kind !== 'answer' || effect.decision !== 'allow') continue
          allowed += 1
          assert.equal(effect.id, seen.id)
          assert.equal(effect.digest, before.questions.get(effect.id)?.digest)
          assert.ok(elapsedMs - seen.completeMs >= 400, 'too soon')
          if (effect.scope === 'remember') assert.equal(seen.step, 'remember')
          if (effect.proof === 'key') assert.equal(before.questions.get(effect.id)?.tier, 'T0')
          assert.ok(one.kind === 'password' || (one.kind === 'key' && one.isAlone))
        }
        const { opened, isHelp } = view
        const { lines, room } = measureWith(UTF8)(view)
        const at = JSON.stringify([view.size, lines])
        if (opened === undefined || seen.id !== opened.id || seen.step !== opened.step || seen.size !== at) {
          Object.assign(seen, { id: opened?.id ?? '', step: opened?.step ?? '', size: at, rows: new Set(), completeMs: Number.NaN })
        }
        if (opened === undefined || isHelp) return
        for (let row = opened.scroll; row < Math.min(lines.length, opened.scroll + room); row += 1) seen.rows.add(row)
        if (Number.isNaN(seen.completeMs) && seen.rows.size >= lines.length && lines.length > 0) seen.completeMs = elapsedMs
      })
    }),
    { numRuns: 300 },
  )
  assert.ok(allowed > 0, 'some were allowed')
})

test('what is asked, claimed or answered elsewhere never moves the selection, and never opens or closes what is looked at', () => {
  fc.assert(
    fc.property(size, story, (begin, steps) => {
      play(begin, steps, UTF8, (before, one, { view }) => {
        if (one.kind !== 'line') return
        if (before.selected !== undefined && listed(before).some(({ id }) => id === before.selected) && before.list === 'pending')
          assert.equal(view.selected, before.selected)
        assert.equal(view.opened?.id, before.opened?.id)
      })
    }),
    { numRuns: 200 },
  )
})

test('all of a text is in its rows, in order, and each is marked as a beginning or as what goes on', () => {
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 3 }), fc.integer({ min: 12, max: 120 }), (argv, columns) => {
      const one = question('q-1', argv)
      const lines = UTF8.sections(one).flatMap((section) => section.lines)
      const view = { ...openView({ columns, rows: 100_000 }, 0, 0), questions: new Map([['q-1', one]]) }
      const rows = rowsOf(
        { ...view, opened: { id: 'q-1', step: 'question', scroll: 0, seenLines: 0, completeMs: undefined, content: '' } },
        UTF8,
      ).slice(1, -1)
      const put = rows.filter(({ text: row }) => /^[|\\] /.test(row))
      let whole = ''
      for (const { text: row } of put) whole += row.startsWith('|') ? `\n${row.slice(2)}` : row.slice(2)
      assert.equal(whole, lines.map((line) => `\n${line}`).join(''))
    }),
    { numRuns: 200 },
  )
})

test('what is clipped has the mark at its end, and what fits is whole', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 2, max: 60 }), (whole, columns) => {
      const short = clipped(whole, columns, '…')
      if (short !== whole) assert.ok(short.endsWith('…') && whole.startsWith(short.slice(0, -1)))
      assert.ok(columnsOf(short) <= columns)
      assert.equal(wrapped(whole, columns).join(''), whole)
    }),
  )
})

test('keys do not depend on where a chunk ends inside of a paste, and what is pasted is none', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme-ascii' }), fc.integer({ min: 1, max: 7 }), (pasted, length) => {
      const clean = pasted.replaceAll('\x1b', '')
      const keys = new Keys()
      const bytes = Buffer.from(`${clean}\x1b[201~j`)
      const found = keys.push(Buffer.from('k\x1b[200~'))
      for (let at = 0; at < bytes.length; at += length) found.push(...keys.push(bytes.subarray(at, at + length)))
      // A mark that is cut is whole again: nothing of it is a key.
      assert.deepEqual(found, ['k', 'j'])
    }),
  )
})
