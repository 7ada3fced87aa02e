import { shown } from '../kernel/shown.ts'
import { system } from '../kernel/system.ts'
import { visibleJson, visibleJsonLine } from '../kernel/visible.ts'
import type { QuestionLine } from '../wire/operator.ts'
import type { Question } from '../wire/question.ts'
import { homeOf, parseFlags, type Command } from './command.ts'
import { daemonClient } from './daemon-client.ts'
import { wordingFor } from './question-wording.ts'

const PENDING = 'sallyport pending [--json] [--recent] [--session ID] [--watch]'

export const pendingCommand: Command = {
  summary: 'list the questions that wait for an answer',
  usage: `usage: ${PENDING}

What agents ask and nobody has answered yet: id, time left, tier, risk, session, and what it is about.

  --json         one JSON array with all of each question, its digest too; with --watch one JSON object a line
  --recent       those that were answered or ended, the latest first
  --session ID   those of one session
  --watch        goes on with what comes, until it is ended. Who runs this counts as somebody who watches
`,
  async run(argv, io) {
    const { values } = parseFlags(
      argv,
      {
        json: { type: 'boolean', default: false },
        recent: { type: 'boolean', default: false },
        session: { type: 'string' },
        watch: { type: 'boolean', default: false },
      },
      { min: 0, max: 0, usage: PENDING },
    )
    const daemon = daemonClient(homeOf(io.env), `pending ${process.pid}`)
    const wording = wordingFor(io.env)
    const summary = (question: Question): string => wording.summary(question)
    const isMeant = ({ asker }: Question): boolean => values.session === undefined || asker.session === values.session
    const tell = (question: Question): void => io.out(values.json ? visibleJsonLine(question) : lineOf(question, summary))
    if (values.watch) {
      await daemon.follow('GET', '/v1/questions/events', undefined, (line) => {
        const told = line as unknown as QuestionLine
        if ('pending' in told) {
          io.err('watching: what is asked comes here, a line each; Ctrl-C ends it\n')
          told.pending.filter(isMeant).forEach(tell)
        } else if ('event' in told && isMeant(told.event.question)) tell(told.event.question)
      })
      return 0
    }
    const query = new URLSearchParams({
      state: values.recent ? 'recent' : 'pending',
      ...(values.session !== undefined && { session: values.session }),
    })
    const questions = (await daemon.request('GET', `/v1/questions?${query.toString()}`)) as Question[]
    if (values.json) io.out(visibleJson(questions))
    else if (questions.length === 0) io.out(values.recent ? 'nothing was asked\n' : 'nothing waits\n')
    else questions.forEach(tell)
    return 0
  },
}

function lineOf(question: Question, summary: (question: Question) => string): string {
  const { id, state, tier, risk, asker, expiresAt } = question
  const waits = state === 'pending' || state === 'claimed'
  const when = waits ? `${Math.max(0, Math.ceil((expiresAt - system.now()) / 1_000))}s` : state
  return `${[id, when.padStart(4), tier, risk.level.padEnd(9), shown(asker.sessionName).padEnd(16), summary(question)].join('  ')}\n`
}
