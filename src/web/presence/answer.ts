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
  const { message, ...meant } = answer
  const path = `/v1/questions/${encodeURIComponent(id)}`
  const send = (proof: PresenceProof): Promise<Question> =>
    call<Question>('POST', `${path}/answer`, { digest, ...meant, ...(message !== undefined && { message }), proof })
  if (answer.decision === 'deny' || tier === 'T0') return await send({ kind: 'key' })
  return await prove<Question>({
    does: ALLOWS[answer.scope],
    command: `sallyport approve ${id}`,
    ways: () => call('POST', `${path}/challenge`, { digest, ...meant }),
    send,
  })
}
