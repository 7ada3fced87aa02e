import type { Answer, PresenceProof, Question } from '../../wire/question.ts'
import { call } from '../api/client.ts'
import { prove } from './prove.ts'

const ALLOWS: Readonly<Record<Answer['scope'], string>> = {
  once: 'Allow it once',
  session: 'Allow it, and its equals for this session',
  remember: 'Allow it, and remember that as a rule',
}

/**
 * Answers a question as it was shown, with the proof that its tier wants: the dialog asks for it where a click is not enough. A no needs none.
 * @throws Problem; DOMException `AbortError` when the operator leaves the dialog
 */
export async function answerQuestion(
  question: Pick<Question, 'id' | 'digest' | 'tier'>,
  answer: Omit<Answer, 'digest'>,
): Promise<Question> {
  const { id, digest, tier } = question
  const whole: Answer = { digest, ...answer }
  const send = (proof: PresenceProof): Promise<Question> =>
    call<Question>('POST', `/v1/questions/${encodeURIComponent(id)}/answer`, { ...whole, proof })
  if (answer.decision === 'deny' || tier === 'T0') return await send({ kind: 'key' })
  return await prove<Question>({ does: ALLOWS[answer.scope], tier, digest, command: `sallyport approve ${id}`, send })
}
