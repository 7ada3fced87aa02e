import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { canonicalJson, digestOf } from '../../src/controller/approvals/approvals.ts'
import { showExact, showProse } from '../../src/kernel/shown-text.ts'
import { presentQuestion, summaryOf } from '../../src/wire/presentation.ts'
import { CommandSubject, type Question, type Subject } from '../../src/wire/question.ts'
import { commandSubject, secretSubject, SHA, useSubject, wishOf } from '../support/approvals.ts'

const anyText = fc.string({ unit: 'binary', maxLength: 60 })

/** The same value, with the members of its objects in another order. */
function shuffled(value: unknown, order: (names: string[]) => string[]): unknown {
  if (Array.isArray(value)) return value.map((one) => shuffled(one, order))
  if (typeof value !== 'object' || value === null) return value
  const members = order(Object.keys(value)).map((name): [string, unknown] => [
    name,
    shuffled((value as Record<string, unknown>)[name], order),
  ])
  return Object.fromEntries(members)
}

test('canonical JSON is the same value, has one spelling whatever the order of its members, and is its own canonical form', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5, stringUnit: 'binary' }), (value) => {
      const text = canonicalJson(value)
      assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)))
      assert.equal(canonicalJson(JSON.parse(text)), text)
      assert.equal(canonicalJson(shuffled(value, (names) => names.toReversed())), text)
    }),
  )
})

test('two values have the same canonical JSON only if they are equal', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 3 }), fc.jsonValue({ maxDepth: 3 }), (one, other) => {
      // -0 and 0 are one number of JSON.
      const [first, second] = [one, other].map((value) => JSON.parse(JSON.stringify(value)) as unknown)
      assert.equal(canonicalJson(first) === canonicalJson(second), isEqual(first, second))
    }),
  )
})

function isEqual(one: unknown, other: unknown): boolean {
  try {
    assert.deepStrictEqual(one, other)
    return true
  } catch {
    return false
  }
}

const anyFile = fc.record({
  path: anyText.map((text) => `/${text}`),
  device: fc.nat().map(String),
  inode: fc.bigInt({ min: 0n, max: 2n ** 64n }).map(String),
  sizeBytes: fc.nat(),
  sha256: fc.stringMatching(/^[0-9a-f]{64}$/),
})
const anyCommand: fc.Arbitrary<CommandSubject> = fc.record({
  kind: fc.constant('command' as const),
  argv: fc.array(anyText, { minLength: 1, maxLength: 4 }),
  executable: anyFile,
  scripts: fc.array(anyFile, { maxLength: 2 }),
  cwd: fc.record({ path: anyText.map((text) => `/${text}`), device: fc.nat().map(String), inode: fc.nat().map(String) }),
  environment: fc.dictionary(fc.stringMatching(/^[A-Z]{1,4}$/), anyText, { maxKeys: 3, noNullPrototype: true }),
  secrets: fc.array(fc.stringMatching(/^[A-Z]{1,4}$/), { maxLength: 2 }),
  sandbox: fc.constantFrom('none', 'bubblewrap', 'seatbelt'),
})
const SUBJECTS: readonly Subject[] = [
  commandSubject(['gh', 'pr', 'view'], {
    scripts: [{ path: '/s', device: '1', inode: '2', sizeBytes: 3, sha256: SHA }],
    secrets: ['TOKEN'],
  }),
  secretSubject({ scope: 'persisted', uses: 1, change: { target: '/p.yaml', diff: '+a', before: SHA, after: SHA.replace('a', 'b') } }),
  useSubject(),
  { kind: 'domain', rule: 'r', lane: 'http', scheme: 'https', host: 'example.com', port: 443, method: 'GET', path: '/' },
  { kind: 'proposal', of: 'policy', target: '/p.yaml', diff: '+a', before: SHA, after: SHA.replace('a', 'b') },
]

function questionOf(more: Partial<Question>): Question {
  const { expiresInMs: _left, ...wish } = wishOf({ asker: { ...wishOf().asker, role: 'reviewer' } })
  return { ...wish, id: 'q-1', digest: SHA, state: 'pending', createdAt: 1, expiresAt: 2, ...more }
}

/** Every value within, changed one at a time; every member left out, one at a time; every list with one element more. */
function* changed(value: unknown): Generator {
  if (typeof value === 'string') yield* [`${value} `, `${value}\u200b`, value.toUpperCase() === value ? `${value}x` : value.toUpperCase()]
  else if (typeof value === 'number') yield value + 1
  else if (Array.isArray(value)) {
    yield [...value, value[0] ?? 'one more']
    if (value.length > 0) yield value.slice(1)
    if (value.length > 1 && !isEqual(value[0], value[1])) yield value.toSpliced(0, 2, value[1], value[0])
    for (const [index, one] of value.entries()) for (const other of changed(one)) yield value.with(index, other)
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, one] of Object.entries(value)) {
      for (const other of changed(one)) yield { ...value, [name]: other }
      yield Object.fromEntries(Object.entries(value).filter(([each]) => each !== name))
    }
  }
}

test('I41 whatever is changed, added, left out or reordered in a subject, an asker, an id or a time: the digest is another one', () => {
  for (const subject of SUBJECTS) {
    const question = questionOf({ subject })
    const digest = digestOf(question)
    for (const part of ['subject', 'asker', 'id', 'createdAt', 'expiresAt', 'reason', 'risk', 'tier', 'remember'] as const) {
      let tried = 0
      for (const other of changed(question[part])) {
        tried++
        assert.notEqual(digestOf({ ...question, [part]: other }), digest, `${subject.kind}: ${part} as ${JSON.stringify(other)}`)
      }
      assert.ok(tried > 0, part)
    }
  }
})

test('I41 two commands that differ in anything have different digests', () => {
  fc.assert(
    fc.property(anyCommand, anyCommand, (one, other) => {
      assert.ok(CommandSubject.safeParse(one).success)
      assert.equal(digestOf(questionOf({ subject: one })) === digestOf(questionOf({ subject: other })), isEqual(one, other))
      const argv = [...one.argv, ...other.argv]
      // The border between arguments is a part of it.
      assert.notEqual(
        digestOf(questionOf({ subject: { ...one, argv: [argv.join(' ')] } })),
        digestOf(questionOf({ subject: { ...one, argv } })),
      )
    }),
  )
})

/** What must never reach a terminal or a reader: controls, formats, odd spaces, what reorders. */
const HOSTILE = /[\p{C}\u2028\u2029\u2800]|(?! )\p{Z}|\p{Default_Ignorable_Code_Point}/u

test('I42 whatever a question holds, no line of it has anything but text that is seen', () => {
  const hostile = fc.string({
    unit: fc.oneof(
      fc.constantFrom(...Array.from('\u202e\u2066\u200b\u2060\ufeff\u00ad\u2028\r\n\t\x1b\x07\x9b⟦⟧\\"{} ')),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    ),
    maxLength: 80,
  })
  fc.assert(
    fc.property(hostile, hostile, anyCommand, (name, value, subject) => {
      const question = questionOf({
        asker: { session: name, sessionName: value, workspace: name, role: value, agent: name },
        subject: { ...subject, argv: [name, value], environment: { [name]: value }, secrets: [name], cwd: { ...subject.cwd, path: value } },
        reason: value,
        rule: name,
        nearMiss: value,
        risk: { level: 'safe', reasons: [value] },
      })
      for (const { lines } of presentQuestion(question)) for (const line of lines) assert.doesNotMatch(line, HOSTILE)
      assert.doesNotMatch(summaryOf(question), HOSTILE)
    }),
  )
})

test('I42 an exact text that is not folded can be read back from what is shown: no two texts are shown alike', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 80 }), (text) => {
      const { lines } = showExact(text)
      assert.equal(lines.length, 1)
      assert.equal(readBack(lines[0] ?? ''), text)
    }),
  )
})

test('I42 what is shown in ASCII can be read back as well', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 80 }), (text) => {
      const { spelled } = showExact(text)
      if (spelled === undefined) return
      assert.match(spelled, /^[ -~]*$/)
      assert.equal(readBack(spelled), text)
    }),
  )
})

function readBack(line: string): string {
  return line
    .slice(1, -1)
    .replace(/\\u\{([0-9A-F]+)\}|\\?[⟦{](\d+) spaces[⟧}]|\\(.)/gu, (whole, code?: string, spaces?: string, char?: string) => {
      if (code !== undefined) return String.fromCodePoint(Number.parseInt(code, 16))
      if (spaces !== undefined) return whole.startsWith('⟦') || whole.startsWith('\\') ? ' '.repeat(Number(spaces)) : whole
      return { n: '\n', r: '\r', t: '\t' }[char ?? ''] ?? char ?? ''
    })
}

test('I42 of a long text nothing is left out without its length and its digest', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1_025, maxLength: 3_000 }), (text) => {
      for (const { lines, marks, folded } of [showExact(text), showProse(text)]) {
        const characters = Array.from(text.replace(/\r\n/g, '\n')).length
        if (characters <= 1_024) continue
        assert.ok(marks.includes('folded'))
        assert.ok(folded && lines.join('').includes(`${folded.characters} in all, SHA-256 ${folded.sha256}`))
      }
    }),
    { numRuns: 20 },
  )
})
