import { LIMITS } from '../../kernel/limits.ts'
import { visible } from '../../kernel/visible.ts'
import type { Question, Subject } from '../../wire/question.ts'

/** What is told of questions that wait: no more than the settings let out, in one line each, with nothing in it that is not seen. */
export type Notice = {
  readonly title: string
  readonly text: string
  /** What exactly is asked, where that is shown. */
  readonly subject?: string
  /** Nothing of the subject was cut. */
  readonly isWhole: boolean
  readonly link?: string
  readonly isUrgent: boolean
  /** How many wait that were not told of before. */
  readonly questions: number
  /** Where it is one. */
  readonly question?: {
    readonly id: string
    readonly digest: string
    readonly kind: Subject['kind']
    readonly session: string
    readonly tier: Question['tier']
    readonly risk: Question['risk']['level']
    readonly expiresAt: number
  }
}

export type NoticeOptions = {
  readonly show: 'kind' | 'subject'
  readonly link: string | undefined
  /** Takes the secrets of a session out of a text. */
  readonly redact: (session: string, text: string) => string
}

const KINDS: Readonly<Record<Subject['kind'], string>> = {
  command: 'a host command',
  secret: 'a secret',
  secret_use: 'a command with secrets',
  domain: 'a request',
  proposal: 'a proposal',
}

export function noticeOf(questions: readonly [Question, ...Question[]], more: number, options: NoticeOptions): Notice {
  const count = questions.length + more
  const [question] = questions
  const shared = { questions: count, ...(options.link !== undefined && { link: options.link }) }
  if (count > 1) {
    const sessions = [...new Set(questions.map(({ asker }) => name(asker.sessionName)))]
    const named = sessions.length > 5 ? `${sessions.slice(0, 5).join(', ')} and ${sessions.length - 5} more` : sessions.join(', ')
    const isUrgent = questions.some(({ risk }) => risk.level === 'dangerous')
    return { ...shared, title: `Sallyport: ${count} questions wait`, text: `Sessions: ${named}`, isWhole: false, isUrgent }
  }
  const { id, digest, subject, asker, risk, tier, expiresAt } = question
  const shown = options.show === 'subject' ? bounded(line(options.redact(asker.session, subjectText(subject)))) : undefined
  return {
    ...shared,
    title: `Sallyport: ${KINDS[subject.kind]}`,
    text: `${name(asker.agent)} in session ${name(asker.sessionName)} asks for ${KINDS[subject.kind]}: ${risk.level}, ${tier}, ${digest.slice(0, 16)}`,
    ...(shown !== undefined && { subject: shown.text }),
    isWhole: shown?.isWhole ?? false,
    isUrgent: risk.level === 'dangerous',
    question: { id, digest: digest.slice(0, 16), kind: subject.kind, session: asker.session, tier, risk: risk.level, expiresAt },
  }
}

function subjectText(subject: Subject): string {
  switch (subject.kind) {
    case 'command':
      return subject.argv.map(word).join(' ')
    case 'secret':
      return `${subject.name} (${subject.scope})`
    case 'secret_use':
      return `${subject.argv.map(word).join(' ')} (with ${subject.secrets.map(({ name: secret }) => secret).join(', ')})`
    case 'domain':
      return `${subject.method} ${subject.host}:${subject.port}${subject.path ?? ''}`
    case 'proposal':
      return `${subject.of}: ${subject.target}`
  }
}

/** An argument that could be read as more than one, or as none, stands in quotes. */
function word(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : JSON.stringify(text)
}

/** One line of seen characters. */
function line(text: string): string {
  return visible(text).replaceAll('\n', '\\n')
}

/** The name of a session or agent, which may be chosen to mislead. */
function name(text: string): string {
  const seen = line(text)
  return seen.length > LIMITS.noticeNameCharsMax ? `${cut(seen, LIMITS.noticeNameCharsMax)}…` : seen
}

function bounded(text: string): { readonly text: string; readonly isWhole: boolean } {
  const max = LIMITS.noticeSubjectCharsMax
  if (text.length <= max) return { text, isWhole: true }
  return { text: `${cut(text, max)}… (${text.length - max} more characters)`, isWhole: false }
}

/** Never between the halves of a character. */
function cut(text: string, max: number): string {
  return text.slice(0, max).replace(/[\ud800-\udbff]$/, '')
}
