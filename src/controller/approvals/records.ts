import type { QuestionEvent } from '../../audit/audit.ts'
import type { PresenceEvidence, Question, Subject } from '../../wire/question.ts'
import type { Settlement } from './questions-file.ts'

/** What the audit says of questions. */
export function askedRecord(question: Question): QuestionEvent {
  const { id, digest, asker, subject, reason, risk, tier, rule, expiresAt } = question
  return {
    event: 'question_asked',
    question: id,
    digest,
    kind: subject.kind,
    of: asker.session,
    name: asker.sessionName,
    place: asker.workspace,
    asker_role: asker.role,
    asker_agent: asker.agent,
    what: inOneLine(subject),
    reason,
    risk: risk.level,
    tier,
    rule,
    expires: new Date(expiresAt).toISOString(),
  }
}

export function settledRecord(question: Question, settlement: Settlement, evidence?: PresenceEvidence): QuestionEvent {
  const { state, answer, note, rule } = settlement
  return {
    event: 'question_settled',
    ...namesOf(question),
    state,
    scope: answer?.scope,
    by: answer?.by,
    tier: answer?.tier,
    means: evidence?.means,
    proven: evidence && new Date(evidence.at).toISOString(),
    message: answer?.message,
    remembered: rule?.rule,
    remembered_until: rule && new Date(rule.expiresAt).toISOString(),
    note,
  }
}

export function consumedRecord(question: Question): QuestionEvent {
  return { event: 'question_consumed', ...namesOf(question) }
}

export function finishedRecord(question: Question, { code, exitCode }: { code?: string; exitCode?: number }): QuestionEvent {
  return { event: 'question_finished', ...namesOf(question), code, exit_code: exitCode }
}

function namesOf({ id, digest, asker }: Question): { question: string; digest: string; of: string } {
  return { question: id, digest, of: asker.session }
}

function inOneLine(subject: Subject): string {
  switch (subject.kind) {
    case 'command':
      return JSON.stringify(subject.argv)
    case 'secret':
      return `${subject.name} (${subject.scope})`
    case 'secret_use':
      return `${JSON.stringify(subject.argv)} with ${subject.secrets.map(({ name }) => name).join(', ')}`
    case 'domain':
      return `${subject.method} ${subject.scheme ?? subject.lane}://${subject.host}:${subject.port}${subject.path ?? ''}`
    case 'proposal':
      return `${subject.of} ${subject.target}`
  }
}
