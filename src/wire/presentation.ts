import { LIMITS } from '../kernel/limits.ts'
import { MARKS, showExact, showProse, type ShownText } from '../kernel/shown-text.ts'
import { subjectSections } from './presented-subject.ts'
import type { Question, Subject } from './question.ts'
import { plain, shown, type Section } from './section.ts'

export type { Section } from './section.ts'

/** The words that a question is shown in, the same in every surface. Nothing in it is left out without a word. I42 */
export function presentQuestion(question: Question): Section[] {
  const { subject, reason, risk, tier, rule, nearMiss, asker, remember, id, digest, expiresAt } = question
  const sections = [
    ...subjectSections(subject),
    plain('risk', 'risk', [risk.level, ...risk.reasons.flatMap(proseLines)], risk.level === 'dangerous'),
    shown('reason', 'the agent says (nobody checked it)', [['', showProse(reason)]]),
    shown('rule', 'rule', [['', rule === undefined ? NONE : showExact(rule)]]),
    shown('near_miss', 'nearly allowed by', [['', nearMiss === undefined ? NONE : showExact(nearMiss)]]),
    shown('session', 'session', [
      ['name ', showExact(asker.sessionName)],
      ['id ', showExact(asker.session)],
    ]),
    shown('workspace', 'workspace', [['', showExact(asker.workspace)]]),
    shown('role', 'role', [['', asker.role === undefined ? NONE : showExact(asker.role)]]),
    shown('agent', 'agent, by its lease', [['', showExact(asker.agent)]]),
    plain('tier', 'proof that it needs', [TIERS[tier]]),
    ...(remember ? [shown('remember', 'the rule that "remember" makes of it', [['', showExact(remember.rule)]])] : []),
    ...(question.bundle === undefined
      ? []
      : [plain('bundle', 'bundle', ['one of several that are equal and wait: each is answered by itself'])]),
    ...(question.offer === undefined ? [] : [plain('offer', 'offer', [OFFERS[question.offer]])]),
    plain('expires', 'no by itself at', [new Date(expiresAt).toISOString()]),
    plain('id', 'question', [id]),
    plain('digest', 'SHA-256 of all of it', [digest]),
  ]
  return [...warnings(sections), ...sections]
}

/** One line for a list. It is clipped visibly: nothing is answered by it. */
export function summaryOf({ subject }: Pick<Question, 'subject'>): string {
  const whole = Array.from(inOneLine(subject))
  const more = whole.length - LIMITS.summaryCharsMax
  return more <= 0 ? whole.join('') : `${whole.slice(0, LIMITS.summaryCharsMax).join('')}⟦${more} more⟧`
}

const NONE: ShownText = { lines: ['none'], marks: [] }
const TIERS = { T0: 'a key or a click (T0)', T1: 'the password (T1)', T2: 'the operating system (T2)', T3: 'a passkey (T3)' } as const
const OFFERS = {
  allow: `the last ${LIMITS.offerAllowAnswersMin} like it were allowed: it can be allowed for the session`,
  deny: `the last ${LIMITS.offerDenyAnswersMin} like it were denied: it can be denied for the session`,
} as const

/** What is hostile is said first, by the section that it is in. */
function warnings(sections: readonly Section[]): Section[] {
  const lines = sections.flatMap(({ label, marks = [] }) =>
    marks.filter((mark) => mark !== 'not_ascii').map((mark) => `${label}: ${MARKS[mark]}`),
  )
  return lines.length === 0 ? [] : [plain('warnings', 'look twice', lines, true)]
}

function proseLines(text: string): readonly string[] {
  return showProse(text).lines
}

function inOneLine(subject: Subject): string {
  switch (subject.kind) {
    case 'command':
      return subject.argv.map(word).join(' ')
    case 'secret':
      return `secret ${word(subject.name)} (${subject.scope})`
    case 'secret_use':
      return `with ${subject.secrets.map(({ name }) => word(name)).join(', ')}: ${subject.argv.map(word).join(' ')}`
    case 'domain':
      return `${word(subject.method)} ${word(`${subject.scheme ?? subject.lane}://${subject.host}:${subject.port}${subject.path ?? ''}`)}`
    case 'proposal':
      return `${subject.of} ${word(subject.target.slice(subject.target.lastIndexOf('/') + 1))}`
  }
}

/** As it is where that can be nothing else, in quotes otherwise. */
function word(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./?&#-]+$/.test(text) ? text : (showExact(text).lines[0] ?? '')
}
