import type { FastifyInstance } from 'fastify'
import { QuestionQuery } from '../../wire/operator.ts'
import { presentQuestion, summaryOf } from '../../wire/presentation.ts'
import type { Question } from '../../wire/question.ts'
import type { PresentedQuestion, QuestionCard } from '../../wire/question-card.ts'
import type { Approvals } from '../approvals/approvals.ts'
import { read } from './session-routes.ts'

/** Questions as the page shows them: the words are made here, where the terminal's are, and never in the browser. */
export function addInboxRoutes(app: FastifyInstance, approvals: Pick<Approvals, 'get' | 'list'>): void {
  app.get('/v1/questions/cards', ({ query }) => ({ cards: approvals.list(read(QuestionQuery, query)).map(cardOf) }))
  app.get<{ Params: { id: string } }>('/v1/questions/:id/presented', ({ params }): PresentedQuestion => {
    const question = approvals.get(params.id)
    const { remember } = question
    return {
      card: cardOf(question),
      sections: presentQuestion(question),
      summary: summaryOf(question),
      ...(remember !== undefined && { remember }),
    }
  })
}

export function cardOf(question: Question): QuestionCard {
  const { subject, risk, remember, reason: _reason, rule: _rule, nearMiss: _nearMiss, ...rest } = question
  return { ...rest, kind: subject.kind, level: risk.level, summary: summaryOf(question), canRemember: remember !== undefined }
}
