import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Answer, Question } from '../../wire/question.ts'
import type { ApprovalsParts } from './model.ts'
import type { QuestionsFile, RememberedRule } from './questions-file.ts'
import { createRemembered } from './remembered.ts'

/** The remembered rules while a controller runs: one change after the other, and none outlives its end. */
export type Rules = AsyncDisposable & {
  open(): Promise<void>
  /** Stores what `approve` has approved with this rule. @throws answer_invalid, approvals_write_failed */
  remember(question: Question, answer: Answer, now: number, approve: (rule: RememberedRule) => Promise<Question>): Promise<Question>
  forget(id: string): Promise<boolean>
}

export function createRules(file: QuestionsFile, { remember: door, system, log, audit }: ApprovalsParts): Rules {
  const remembered = door && createRemembered(file, door, system, log)
  let turn: Promise<unknown> = Promise.resolve()
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  /** Each writes the whole layer of a workspace: two at once would lose a rule. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = turn.then(work)
    turn = mine.catch(() => undefined)
    return mine
  }

  async function look(isFirst: boolean): Promise<void> {
    const ended = (await remembered?.settle(system.now(), isFirst)) ?? []
    for (const { id, rule } of ended) await audit({ event: 'operator', did: 'rule_ended', details: `${id} ${rule}` })
    schedule()
  }

  function schedule(): void {
    clearTimeout(timer)
    if (isClosed || remembered === undefined) return
    const soonest = Math.min(...file.rules().map(({ expiresAt }) => expiresAt - system.now()), LIMITS.rememberLookMs)
    timer = setTimeout(
      () => {
        void inTurn(() => look(false)).catch((error: unknown) => {
          log.error({ cause: codeOf(error) }, 'remembered rules could not be looked over')
          schedule()
        })
      },
      Math.max(1_000, soonest),
    )
    timer.unref()
  }

  return {
    open: () => inTurn(() => look(true)),
    remember: (question, answer, now, approve) =>
      inTurn(async () => {
        if (remembered === undefined) throw new SallyportError('answer_invalid', 'nothing is remembered here')
        const { row, staged } = await remembered.prepare(question, answer, now)
        await using layer = staged ?? null
        const approved = await approve(row)
        if (approved.state !== 'approved') return approved
        file.remember(row)
        if (layer !== null) {
          await layer.put()
          door?.changed(row.workspace)
        }
        schedule()
        return approved
      }),
    forget: (id) =>
      inTurn(async () => {
        const rule = file.forget(id)
        if (rule === undefined) return false
        await remembered?.write(rule.workspace)
        await audit({ event: 'operator', did: 'rule_forgotten', details: `${id} ${rule.rule}` })
        return true
      }),
    async [Symbol.asyncDispose]() {
      isClosed = true
      clearTimeout(timer)
      await turn
    },
  }
}
