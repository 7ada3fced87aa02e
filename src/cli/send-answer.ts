import { setTimeout as delay } from 'node:timers/promises'
import { identityOf } from '../controller/presence/presence.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Secret } from '../kernel/secret.ts'
import { system } from '../kernel/system.ts'
import type { AnswerRequest } from '../wire/operator.ts'
import type { PresenceProof, Question } from '../wire/question.ts'
import type { DaemonClient } from './daemon-client.ts'

export type AnswerToSend = Omit<AnswerRequest, 'proof'> & { readonly id: string; readonly proof: 'key' | 'password' | 'system' }

/**
 * Answers a question, and gives it back as it is then. With the proof `system` the operating system asks its user meanwhile.
 * @param password of the proof `password`
 * @throws what the daemon says
 */
export async function sendAnswer(daemon: DaemonClient, answer: AnswerToSend, password?: Secret): Promise<Question> {
  const { id, proof: kind, digest, decision, scope, message, rule, expiresAt } = answer
  const body: AnswerRequest = {
    digest,
    decision,
    scope,
    ...(message !== undefined && { message }),
    ...(rule !== undefined && { rule }),
    ...(expiresAt !== undefined && { expiresAt }),
    proof: proofOf(kind, password),
  }
  const bounds = { ms: LIMITS.presencePromptMs + LIMITS.daemonRequestMs, bytes: LIMITS.daemonAnswerBytesMax }
  return (await daemon.request('POST', `/v1/questions/${encodeURIComponent(id)}/answer`, body, bounds)) as Question
}

/**
 * The same for a command that names its question: what the debounce is against is a key that was meant for something else, so a command that is
 * faster than that waits before it answers, and before anybody is asked for a proof.
 */
export async function sendNamedAnswer(
  daemon: DaemonClient,
  answer: AnswerToSend,
  { createdAt }: Pick<Question, 'createdAt'>,
  password?: Secret,
): Promise<Question> {
  const leftMs = createdAt + LIMITS.debounceMs - system.now()
  await delay(Math.min(Math.max(leftMs, 0), LIMITS.debounceMs) + CLOCKS_APART_MS)
  return await sendAnswer(daemon, answer, password)
}

/** The daemon counts by another clock than the one that the question's time is of. */
const CLOCKS_APART_MS = 50

function proofOf(kind: AnswerToSend['proof'], password: Secret | undefined): PresenceProof {
  switch (kind) {
    case 'key':
      return { kind }
    case 'password':
      return { kind, password: password?.reveal() ?? '' }
    case 'system':
      // macOS asks whoever sits there, whatever process it is.
      return process.platform === 'linux' ? { kind, ...identityOf(process.pid) } : { kind, pid: process.pid, startTime: '0' }
  }
}
