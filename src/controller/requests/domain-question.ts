import { LIMITS } from '../../kernel/limits.ts'
import type { AskAnswer } from '../../wire/control.ts'
import type { DomainSubject, QuestionWish } from '../../wire/question.ts'
import type { Approvals } from '../approvals/approvals.ts'
import type { System } from '../../kernel/system.ts'
import type { RequestPlace } from './host-run.ts'
import { coversRequest, ruleOfRequest } from './remember.ts'

/** Methods that change nothing, where a server keeps to RFC 9110 §9.2.1. */
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS'])

/** @throws approver_absent, too_many_questions */
export async function askAboutDomain(
  approvals: Pick<Approvals, 'ask' | 'consume' | 'finished' | 'remembered'>,
  { asker, policy }: RequestPlace,
  subject: DomainSubject,
  signal: AbortSignal,
  system: Pick<System, 'now'>,
): Promise<AskAnswer> {
  const remembered = approvals.remembered(asker.workspace).filter(({ kind, expiresAt }) => kind === 'network' && expiresAt > system.now())
  if (remembered.some(({ rule }) => coversRequest(rule, subject))) return { decision: 'allow', scope: 'once' }
  const isSafe = SAFE_METHODS.has(subject.method)
  const risk: QuestionWish['risk'] = {
    level: isSafe ? 'safe' : 'caution',
    reasons: [isSafe ? 'a request that only reads' : `${subject.method} may change something there, or send something`],
  }
  const outcome = await approvals.ask(
    {
      asker,
      subject,
      reason: '',
      risk,
      tier: policy().effective.hostCommands.presence[risk.level].value,
      rule: subject.rule,
      remember: { kind: 'network', rule: ruleOfRequest(subject) },
      expiresInMs: LIMITS.askExpiryMs,
    },
    signal,
  )
  if (outcome.decision === 'deny') return { decision: 'deny' }
  const { id, digest } = outcome.question
  if (!(await approvals.consume(id, digest))) return { decision: 'deny' }
  await approvals.finished(id, {})
  return { decision: 'allow', scope: outcome.scope === 'once' ? 'once' : 'session' }
}
