import { presentQuestion, summaryOf } from '../wire/presentation.ts'
import type { Question } from '../wire/question.ts'
import type { Section, Wording } from './approve-screen.ts'
import type { Io } from './command.ts'
import { isUtf8 } from './terminal.ts'

/** Questions in the words that every surface has, for this terminal. */
export function wordingFor(env: Io['env']): Wording {
  // A question that was put into words is drawn many times.
  const known = new WeakMap<Question, readonly Section[]>()
  return {
    isUtf8: isUtf8(env),
    summary: summaryOf,
    sections(question) {
      const found = known.get(question)
      if (found !== undefined) return found
      // How many are equal changes while one looks: the list says that.
      const sections = presentQuestion(question).filter(({ name }) => name !== 'bundle')
      known.set(question, sections)
      return sections
    },
  }
}
