// Escape sequences are what this is about.
/* oxlint-disable no-control-regex */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createTerminalFilter } from '../../src/controller/terminal/filter.ts'
import { createRedaction, openOutput } from '../../src/controller/terminal/redacted.ts'
import { REMOVED } from '../../src/controller/terminal/sequences.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { filtered, inChunks } from '../support/filtered.ts'
import { firstForbidden, firstForbiddenInLines } from '../support/terminal-grammar.ts'

const bytesOf = (...numbers: number[]): Buffer => Buffer.from(numbers)
const control = fc.integer({ min: 0, max: 0x1f }).map((byte) => bytesOf(byte))
const parameter = fc.oneof(
  fc.constantFrom('', '0', '1', '2', '3', '4', '6', '25', '1049', '47', '2004', '2026', '1000', '99999', '123456789'),
  fc.nat(2100).map(String),
)
const parameters = fc.array(parameter, { maxLength: 4 }).chain((list) => fc.constantFrom(';', ':').map((between) => list.join(between)))
const final = fc.integer({ min: 0x40, max: 0x7e }).map((code) => String.fromCharCode(code))
const intermediate = fc.string({ unit: fc.integer({ min: 0x20, max: 0x2f }).map((code) => String.fromCharCode(code)), maxLength: 2 })
const introducer = fc.constantFrom('\x1b[', '\u009b')
const csi = fc
  .tuple(introducer, fc.constantFrom('', '', '?', '>', '<', '='), parameters, fc.oneof(fc.constant(''), intermediate), final)
  .map((all) => Buffer.from(all.join('')))
const escape = fc
  .tuple(intermediate, fc.integer({ min: 0x30, max: 0x7e }))
  .map(([between, code]) => Buffer.from(`\x1b${between}${String.fromCharCode(code)}`))
const text = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.string({ unit: 'binary', maxLength: 6 }),
  fc.constantFrom('é', '日本', '😀', '\u202e', '\u0085', '\u009d', '\ufeff'),
)
const string = fc
  .tuple(
    fc.constantFrom('\x1b]', '\x1bP', '\x1b_', '\x1b^', '\x1bX', '\x1bk', '\u009d', '\u0090'),
    fc.constantFrom('52;c;', '0;', '8;;', '11;?', '$q', '+q', 'G', ''),
    text,
    fc.constantFrom('\x07', '\x1b\\', '\u009c', '\x18', ''),
  )
  .map((all) => Buffer.from(all.join('')))
const piece = fc.oneof(
  { weight: 4, arbitrary: csi },
  { weight: 2, arbitrary: escape },
  { weight: 2, arbitrary: string },
  { weight: 3, arbitrary: text.map((one) => Buffer.from(one)) },
  control,
  fc.uint8Array({ maxLength: 6 }).map((bytes) => Buffer.from(bytes)),
  fc.constantFrom(...REMOVED.map(({ example }) => Buffer.from(example))),
  fc.constantFrom('\x1b', '\x1b[', '\x1b[?', '\x1b[1;').map((one) => Buffer.from(one)),
)
const hostile = fc.array(piece, { maxLength: 20 }).map((all) => Buffer.concat(all))
const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 8 })

test('I26 whatever a program prints, only listed sequences and text in valid UTF-8 come out of the filter', () => {
  fc.assert(
    fc.property(hostile, sizes, (bytes, cuts) => {
      assert.equal(firstForbidden(filtered(bytes, { sizes: cuts })), undefined)
      assert.equal(firstForbiddenInLines(filtered(bytes, { sizes: cuts, profile: 'lines' })), undefined)
    }),
    { numRuns: 5_000 },
  )
})

test('what comes out does not depend on how the stream is cut', () => {
  fc.assert(
    fc.property(hostile, sizes, (bytes, cuts) => assert.deepEqual(filtered(bytes, { sizes: cuts }), filtered(bytes))),
    { numRuns: 3_000 },
  )
})

test('a second filter behind the first changes nothing', () => {
  fc.assert(
    fc.property(hostile, (bytes) => {
      const once = filtered(bytes)
      assert.deepEqual(filtered(once), once)
    }),
    { numRuns: 3_000 },
  )
})

test('what puts the terminal back is made of listed sequences too, and leaves nothing to put back', () => {
  fc.assert(
    fc.property(hostile, (bytes) => {
      const filter = createTerminalFilter('screen')
      filtered(bytes, { filter })
      const restored = filter.restore()
      assert.equal(restored[0], 0x18)
      assert.equal(
        firstForbidden(
          restored
            .subarray(1)
            .toString()
            .replace(/\x1b\[0 q/u, '') === ''
            ? Buffer.alloc(0)
            : restored.subarray(1),
        ),
        undefined,
      )
      assert.deepEqual(filter.restore(), createTerminalFilter('screen').restore())
    }),
  )
})

test('for a terminal that does not read UTF-8 nothing but ASCII comes out', () => {
  fc.assert(
    fc.property(hostile, sizes, (bytes, cuts) => {
      const filter = createTerminalFilter('screen', { isUtf8: false })
      assert.ok(filtered(bytes, { sizes: cuts, filter }).every((byte) => byte < 0x80))
    }),
  )
})

const SECRET = 'k7Fq-2mZ_x9Wc4R-t8Yp'
const joining = fc.constantFrom(
  '\x1b[31m',
  '\x1b[0m',
  '\x1b[K',
  '\x1b[?25l',
  '\x1b[?2026h',
  '\x1b]52;c;aGk=\x07',
  '\x1b[5n',
  '\x1b]8;;https://a.test\x1b\\',
  '\x00',
)
/** The secret, coloured anywhere in it. */
const coloured = fc
  .array(fc.tuple(fc.integer({ min: 0, max: SECRET.length }), joining), { maxLength: 6 })
  .map((list) =>
    list.toSorted(([a], [b]) => b - a).reduce((whole, [at, sequence]) => whole.slice(0, at) + sequence + whole.slice(at), SECRET),
  )
const around = fc.array(fc.oneof(joining, fc.lorem({ maxCount: 3 }), fc.constant(`${SECRET.slice(0, 9)} `), fc.constant('\x1b[2;3H')), {
  maxLength: 5,
})

function shownBy(bytes: string, steps: readonly (readonly [number, boolean])[], shownOn: 'screen' | 'lines' | 'pipe'): Buffer {
  const output = openOutput(REDACTION, shownOn)
  const parts: Buffer[] = []
  let i = 0
  for (const chunk of inChunks(
    Buffer.from(bytes),
    steps.map(([size]) => size),
  )) {
    parts.push(output.push(chunk))
    if (steps[i++ % steps.length]?.[1] === true) parts.push(output.release())
  }
  parts.push(output.end())
  return Buffer.concat(parts)
}
const SECRETS = [new Secret('TOKEN', SECRET)]
const REDACTION = createRedaction(() => SECRETS)
const steps = fc.array(fc.tuple(fc.integer({ min: 1, max: 9 }), fc.boolean()), { minLength: 1, maxLength: 8 })
const SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))|\x00/g

test('I27 however a secret is coloured and cut, and however often what is held back is asked for, it is not shown on a terminal', () => {
  fc.assert(
    fc.property(around, coloured, around, steps, (before, secret, after, cuts) => {
      const shown = shownBy([...before, secret, ...after].join(''), cuts, 'screen')
      const visible = shown.toString().replaceAll(SEQUENCES, '')
      assert.ok(!visible.includes(SECRET), visible)
      assert.ok(!visible.includes(SECRET.slice(5)), visible)
      assert.ok(visible.includes('*'.repeat(SECRET.length - 4)))
      assert.equal(firstForbidden(shown), undefined)
    }),
    { numRuns: 3_000 },
  )
})

test('what is held back and redacted is as long as it was, with every sequence that passes in its place', () => {
  fc.assert(
    fc.property(around, around, steps, (before, after, cuts) => {
      const given = [...before, ...after].join('')
      const bare = filtered(given).toString().replaceAll(SECRET, '*'.repeat(SECRET.length))
      assert.equal(shownBy(given, cuts, 'screen').toString(), bare)
    }),
    { numRuns: 2_000 },
  )
})

test('a pipe gets every byte as it came but for the secret', () => {
  fc.assert(
    fc.property(hostile, coloured, hostile, steps, (before, secret, after, cuts) => {
      const given = Buffer.concat([
        before,
        Buffer.from(` ${secret.replaceAll(/\x00|\x1b\[\?[\d]+[hl]|\x1b\[5n|\x1b\].*?(?:\x07|\x1b\\)/g, '')} `),
        after,
      ])
      const output = openOutput(REDACTION, 'pipe')
      const parts: Buffer[] = []
      for (const chunk of inChunks(
        given,
        cuts.map(([size]) => size),
      ))
        parts.push(output.push(chunk))
      parts.push(output.end())
      const shown = Buffer.concat(parts)
      assert.equal(shown.length, given.length)
      for (let i = 0; i < given.length; i++) assert.ok(shown[i] === given[i] || shown[i] === 0x2a, `byte ${i}`)
      assert.ok(!shown.toString().replaceAll(SEQUENCES, '').includes(SECRET))
    }),
    { numRuns: 2_000 },
  )
})
