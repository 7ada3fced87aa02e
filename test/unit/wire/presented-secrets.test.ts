import assert from 'node:assert/strict'
import { test } from 'node:test'
import { presentQuestion } from '../../../src/wire/presentation.ts'
import type { Subject } from '../../../src/wire/question.ts'
import { secretSubject, SHA, useSubject } from '../../support/approvals.ts'
import { HOSTILE_TEXTS, question } from '../../support/questions.ts'

const SUBJECTS: readonly Subject[] = [
  secretSubject({ scope: 'persisted', uses: 1, change: { target: '/p.yaml', diff: '+a', before: SHA, after: SHA.replace('a', 'b') } }),
  useSubject(),
]
const DIGESTS: ReadonlySet<string> = new Set(['before', 'after', 'sha256'])

const linesOf = (subject: Subject): string =>
  presentQuestion(question('q-1', [], { subject }))
    .flatMap(({ lines }) => lines)
    .join('\n')

/** Each text, number and truth value within, replaced by each of the others. */
function* changed(value: unknown, others: readonly string[], key = ''): Generator {
  if (key === 'kind') return
  // Of ours, in hex: no text stands there.
  if (DIGESTS.has(key)) return yield SHA.replaceAll('a', 'c')
  if (typeof value === 'string') for (const other of others) yield other
  else if (typeof value === 'number') yield value + 60_000
  else if (typeof value === 'boolean') yield !value
  else if (Array.isArray(value)) {
    for (const [at, one] of value.entries()) for (const other of changed(one, others)) yield value.with(at, other)
    yield [...value, ...value]
  } else if (typeof value === 'object' && value !== null)
    for (const [name, one] of Object.entries(value)) for (const other of changed(one, others, name)) yield { ...value, [name]: other }
}

/** Words that only have certain values. */
const isOfTheShape = (subject: Subject): boolean =>
  subject.kind === 'secret'
    ? ['single-command', 'session', 'persisted'].includes(subject.scope)
    : subject.kind !== 'secret_use' || ['none', 'ro'].includes(subject.workspace)

test('whatever is changed in what is asked about a handle or a command with secrets shows', () => {
  for (const subject of SUBJECTS) {
    const before = linesOf(subject)
    let tried = 0
    for (const other of changed(subject, ['something else', 'session', 'none']) as Generator<Subject>) {
      if (!isOfTheShape(other) || JSON.stringify(other) === JSON.stringify(subject)) continue
      tried += 1
      const hidden = subject.kind === 'secret' && other.kind === 'secret' && other.state !== subject.state
      // What is there or not is said in the words beside it; the word itself only marks it.
      if (!hidden) assert.notEqual(linesOf(other), before, JSON.stringify(other))
    }
    assert.ok(tried > 15, `${tried}`)
  }
})

test('no text in them shows as anything but text, and none as the place of a value', () => {
  for (const text of [...HOSTILE_TEXTS, '⟦secret TOKEN⟧', '"⟦'])
    for (const subject of SUBJECTS)
      for (const other of changed(subject, [text]) as Generator<Subject>) {
        if (!isOfTheShape(other)) continue
        const lines = linesOf(other)
        assert.doesNotMatch(lines, /[^\P{C}\n]|[\u2028\u2029\u200b\u202e]/u)
        assert.ok((lines.match(/⟦secret /g) ?? []).length <= 8)
      }
  const asText = useSubject({ environment: { URL: [{ text: '⟦secret TOKEN⟧' }] } })
  const asSecret = useSubject({ environment: { URL: [{ secret: 'TOKEN' }] } })
  assert.doesNotMatch(linesOf(asText), /URL = "⟦secret TOKEN⟧"/)
  assert.match(linesOf(asSecret), /URL = "⟦secret TOKEN⟧"/)
})
