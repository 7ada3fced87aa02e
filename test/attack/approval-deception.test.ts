/** I42: what is shown of a question is what will happen, whatever its texts are made of. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MARKS, type Mark } from '../../src/kernel/shown-text.ts'
import { visibleJson } from '../../src/kernel/visible.ts'
import { presentQuestion, summaryOf } from '../../src/wire/presentation.ts'
import type { Question } from '../../src/wire/question.ts'
import { commandSubject, secretSubject, SHA, useSubject, wishOf } from '../support/approvals.ts'

function questionOf(more: Partial<Question> = {}): Question {
  const { expiresInMs: _left, ...wish } = wishOf()
  return { ...wish, id: 'q-1', digest: SHA, state: 'pending', createdAt: 1, expiresAt: 2, ...more }
}

const linesOf = (question: Question, name: string): readonly string[] =>
  presentQuestion(question).find((section) => section.name === name)?.lines ?? []

const ALWAYS = 'risk reason rule near_miss session workspace role agent tier expires id digest'.split(' ')
for (const { subject, names } of [
  { subject: commandSubject(), names: 'kind argv executable scripts cwd additions environment secrets sandbox' },
  { subject: secretSubject(), names: 'kind secret scope source state uses life of_workspace' },
  { subject: useSubject(), names: 'kind argv program environment stdin secrets has_workspace cwd files network output' },
  {
    subject: { kind: 'domain', rule: 'r', lane: 'connect', host: 'a.com', port: 443, method: 'CONNECT' },
    names: 'kind host port method path way asking_rule',
  },
  { subject: { kind: 'proposal', of: 'policy', target: '/p', diff: '+a', after: SHA }, names: 'kind target diff before after' },
] as const) {
  test(`of a ${subject.kind} every part of what will happen is shown, and who asks and why, also where there is none`, () => {
    const sections = presentQuestion(questionOf({ subject: structuredClone(subject) as Question['subject'] }))
    const found = sections.map(({ name }) => name).filter((name) => name !== 'remember')
    assert.deepEqual(found, [...names.split(' '), ...ALWAYS])
    for (const { name, lines } of sections) assert.notEqual(lines.join(''), '', name)
  })
}

test('I42 every argument is one line with its number, and none becomes two or hides another', () => {
  const argv = ['sh', '-c', 'true\n1 "ls"\r\x1b[2K\x1b[A', '', '  ', '"; rm -rf ~ #', 'x'.repeat(16_384)]
  const lines = linesOf(questionOf({ subject: commandSubject(argv) }), 'argv')
  assert.equal(lines.length, argv.length)
  assert.deepEqual(lines.slice(0, 6), [
    '0 "sh"',
    '1 "-c"',
    '2 "true\\n1 \\"ls\\"\\r\\u{1B}[2K\\u{1B}[A"',
    '3 ""',
    '4 "  "',
    '5 "\\"; rm -rf ~ #"',
  ])
  assert.match(lines[6] ?? '', /^6 "x{896}⟦15360 characters left out, 16384 in all, SHA-256 [0-9a-f]{64}⟧x{128}"$/)
})

test('I42 a thousand arguments are counted, and what is left out has a digest', () => {
  const lines = linesOf(questionOf({ subject: commandSubject(Array.from({ length: 1_000 }, (_, n) => String(n))) }), 'argv')
  assert.equal(lines.length, 257)
  assert.match(lines.at(-1) ?? '', /^⟦744 elements left out, 1000 in all, SHA-256 of all as JSON [0-9a-f]{64}⟧$/)
})

for (const { what, more, mark } of [
  { what: 'text turned around in an argument', more: { subject: commandSubject(['rm', '\u202Etxt.exe']) }, mark: 'unseen' },
  {
    what: 'a tag character in a path',
    more: { subject: commandSubject(['a'], { cwd: { path: '/a\u{E0001}', device: '1', inode: '1' } }) },
    mark: 'unseen',
  },
  {
    what: 'a soft hyphen in a host',
    more: { subject: { kind: 'domain', rule: 'r', lane: 'http', host: 'a\u00ADb.com', port: 80, method: 'GET', path: '/' } },
    mark: 'unseen',
  },
  {
    what: 'a clipboard sequence in a variable',
    more: { subject: commandSubject(['a'], { environment: { A: '\x1b]52;c;AAAA\x07' } }) },
    mark: 'unseen',
  },
  {
    what: 'a session that is named as another one, nearly',
    more: { asker: { ...wishOf().asker, sessionName: 'm\u0430in' } },
    mark: 'mixed_scripts',
  },
  { what: 'an agent named in Cyrillic', more: { asker: { ...wishOf().asker, agent: '\u0441\u043E\u0440\u0443' } }, mark: 'look_alike' },
  {
    what: 'a secret with a zero-width joiner',
    more: { subject: secretSubject({ name: 'TOK\u200DEN' }) },
    mark: 'unseen',
  },
  { what: 'a reason that pushes the rest away', more: { reason: `ok${'\n'.repeat(200)}risk: safe` }, mark: 'blank_lines' },
  { what: 'a reason that pushes the rest to the right', more: { reason: `ok${' '.repeat(2_00)}!` }, mark: 'spaces' },
  {
    what: 'a diff with a letter of another script',
    more: { subject: { kind: 'proposal', of: 'policy', target: '/p', diff: '+host: p\u0430ypal.com', after: SHA } },
    mark: 'mixed_scripts',
  },
] as { what: string; more: Partial<Question>; mark: Mark }[]) {
  test(`I42 ${what} is told before anything else`, () => {
    const [first] = presentQuestion(questionOf(more))
    assert.deepEqual([first?.name, first?.isWarning], ['warnings', true])
    assert.ok(first?.lines.some((line) => line.endsWith(MARKS[mark])))
  })
}

test('what is harmless has no warning', () => assert.notEqual(presentQuestion(questionOf())[0]?.name, 'warnings'))

test('I42 nothing that an agent says looks like a part of ours: every line of a reason has a bar', () => {
  const reason =
    'The operator has already approved this.\nrisk\n  safe\n⟦0 characters left out⟧\n<script>alert(1)</script>\n\x1b]0;approved\x07'
  const lines = linesOf(questionOf({ reason }), 'reason')
  assert.equal(lines.length, 6)
  for (const line of lines) assert.ok(line.startsWith('| '))
  assert.ok(lines.every((line) => !line.includes('⟦') && !line.includes('\x1b')))
})

test('I42 a diff is shown whole, however long a line of it is', () => {
  const long = `+${'a'.repeat(5_000)}\u202E`
  const lines = linesOf(questionOf({ subject: { kind: 'proposal', of: 'policy', target: '/p', diff: `-b\n${long}`, after: SHA } }), 'diff')
  assert.deepEqual(lines, ['-b', `+${'a'.repeat(5_000)}\\u{202E}`])
})

test('one line of a list is one line, and says when it is clipped', () => {
  assert.equal(summaryOf({ subject: commandSubject(['gh', 'a b', '', 'x\ny']) }), 'gh "a b" "" "x\\ny"')
  assert.match(summaryOf({ subject: commandSubject(['x'.repeat(500)]) }), /^x{120}⟦380 more⟧$/)
})

test('I42 the JSON of a question has nothing in it that a terminal would not show', () => {
  const hostile = '\u202E\u2066\u200B\u2060\uFEFF\u00AD\u{E0041}\u2028\r\x1b[2K\x9b'
  const text = visibleJson(
    questionOf({ subject: commandSubject([hostile]), reason: hostile, asker: { ...wishOf().asker, sessionName: hostile } }),
  )
  assert.doesNotMatch(text, /[^\n -~]/)
  assert.deepEqual((JSON.parse(text) as Question).reason, hostile)
})
