import { LIMITS } from '../kernel/limits.ts'
import { visible } from '../kernel/visible.ts'
import type { Question } from '../wire/question.ts'
import { isArmed, listed, openedQuestion, waits, type Measure, type Size, type View } from './approve-view.ts'
import { cellsOf, clipped, wrapped } from './cells.ts'

/** One row of the screen: text without any control, and how it is marked. */
export type Row = { readonly text: string; readonly style: 'plain' | 'title' | 'chosen' | 'warning' | 'faint' }

/** What is shown under one label. Its lines are text of anybody, made visible. */
export type Section = { readonly label: string; readonly lines: readonly string[]; readonly isWarning?: boolean }

/** How questions are put into words. `unicode`: whether the terminal shows more than ASCII. */
export type Wording = {
  summary(question: Question): string
  sections(question: Question): readonly Section[]
  readonly isUtf8: boolean
}

/** Below this nothing can be looked at, so nothing can be allowed either. */
const SMALLEST: Size = { columns: 12, rows: 3 }

/**
 * The whole screen: as many rows as it has, none wider than it is, no control character in any, and a mark wherever something is cut off.
 * The title is the first row and the keys are the last. Text that is not ours never begins at the left edge: it cannot look like a label
 * or a line of ours.
 */
export function rowsOf(view: View, wording: Wording): Row[] {
  const { columns, rows } = view.size
  const fit = (row: Row): Row => ({ ...row, text: clipped(ascii(row.text, wording), columns, markOf(wording)) })
  if (isTooSmall(view.size)) return Array.from({ length: Math.max(0, rows) }, (_, at) => fit(plain(at === 0 ? 'too small' : '')))
  const body = bodyOf(view, wording).map(fit)
  const filled = [...body, ...Array.from({ length: rows - 2 - body.length }, () => plain(''))]
  return [fit({ text: titleOf(view), style: 'title' }), ...filled, fit(footerOf(view, wording))]
}

/** For `step`. */
export function measureWith(wording: Wording): Measure {
  return (view) => {
    const question = openedQuestion(view)
    if (question === undefined || isTooSmall(view.size)) return { lines: [], room: 0 }
    return { lines: questionRows(view, question, wording).map(({ text }) => text), room: view.size.rows - 2 }
  }
}

function isTooSmall({ columns, rows }: Size): boolean {
  return columns < SMALLEST.columns || rows < SMALLEST.rows
}

function bodyOf(view: View, wording: Wording): Row[] {
  const room = view.size.rows - 2
  if (view.isHelp) return HELP.slice(0, room).map((text) => plain(text))
  const question = openedQuestion(view)
  if (view.opened === undefined || question === undefined) return listRows(view, wording, room)
  return questionRows(view, question, wording).slice(view.opened.scroll, view.opened.scroll + room)
}

function listRows(view: View, wording: Wording, room: number): Row[] {
  const questions = listed(view)
  if (questions.length === 0) return [plain(view.list === 'pending' ? 'nothing waits' : 'nothing was asked')]
  const at = Math.max(
    0,
    questions.findIndex(({ id }) => id === view.selected),
  )
  // Whole pages, so that what comes last moves nothing that is on the screen.
  const from = at - (at % room)
  return questions.slice(from, from + room).map((question) => listRow(view, question, wording))
}

function listRow(view: View, question: Question, wording: Wording): Row {
  const { id, risk, tier, asker } = question
  const alike = alikeOf(view, question)
  const words = [
    stateOf(view, question),
    tier,
    { safe: ' ', caution: '~', dangerous: '!' }[risk.level],
    ...(view.size.columns >= 60 ? [clipped(oneLine(asker.sessionName), 16, markOf(wording)).padEnd(16)] : []),
    ...(alike > 1 ? [`(${alike} alike)`] : []),
    wording.summary(question),
  ]
  const isChosen = id === view.selected
  const style = isChosen ? 'chosen' : risk.level === 'dangerous' ? 'warning' : waits(question) ? 'plain' : 'faint'
  return { text: `${isChosen ? '>' : ' '}${words.join(' ')}`, style }
}

/** How many equal ones wait, with it. */
function alikeOf({ questions }: View, { bundle }: Question): number {
  return bundle === undefined ? 0 : [...questions.values()].filter((one) => one.bundle === bundle && waits(one)).length
}

/** How much time is left, or how it ended. */
function stateOf({ now }: View, { state, expiresAt, answer, claimedBy }: Question): string {
  if (state === 'pending') return leftOf(expiresAt - now)
  if (state === 'claimed') return `${leftOf(expiresAt - now)} [${oneLine(claimedBy ?? 'claimed')}]`
  return answer?.scope === 'session' || answer?.scope === 'remember' ? `${state} (${answer.scope})` : state
}

function leftOf(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1_000))
  return seconds < 100 ? `${seconds}s`.padStart(3) : `${Math.ceil(seconds / 60)}m`.padStart(3)
}

function questionRows({ size, opened }: View, question: Question, wording: Wording): Row[] {
  const sections = opened?.step === 'remember' ? ruleSections(question) : wording.sections(question)
  return sections.flatMap(({ label, lines, isWarning }) => [
    { text: label, style: isWarning === true ? ('warning' as const) : ('title' as const) },
    ...lines.flatMap((line) => gutter(ascii(line, wording), size.columns)),
  ])
}

/** A bar before each line, another one where it goes on from the row above. */
function gutter(line: string, columns: number): Row[] {
  return wrapped(line, columns - 2).map((text, at) => plain(`${at === 0 ? '|' : '\\'} ${text}`))
}

function ruleSections({ remember }: Question): Section[] {
  const days = Math.round(LIMITS.rememberMs / 86_400_000)
  return [
    { label: 'the rule that it becomes', lines: visible(remember?.rule ?? '').split('\n') },
    { label: 'for', lines: [remember?.kind === 'network' ? 'requests of this workspace' : 'host commands of this workspace'] },
    { label: 'until', lines: [`${days} days from now, or until it is taken back; a deny rule still wins`] },
    { label: 'key', lines: ['y allows it now and remembers the rule; q goes back'] },
  ]
}

function titleOf(view: View): string {
  const question = openedQuestion(view)
  if (!view.isConnected) return 'waiting for the daemon'
  if (view.isHelp) return 'keys'
  if (question !== undefined) {
    const by = question.answer === undefined ? '' : ` by ${oneLine(question.answer.by)}`
    const state = waits(question) ? stateOf(view, question).trim() : `${question.state.toUpperCase()}${by}`
    const alike = alikeOf(view, question)
    return `${state} ${question.tier} ${question.risk.level}${alike > 1 ? ` (${alike} alike)` : ''} ${question.subject.kind} ${question.id}`
  }
  const all = [...view.questions.values()]
  const pending = all.filter(waits).length
  return view.list === 'pending'
    ? `${pending} waiting, ${all.length - pending} recent`
    : `recent: ${all.length - pending} (${pending} waiting)`
}

function footerOf(view: View, wording: Wording): Row {
  const { prompt, notice, opened, size } = view
  const say = (text: string, style: Row['style'] = 'chosen'): Row => ({ text, style })
  if (prompt !== undefined) {
    switch (prompt.kind) {
      case 'password':
        return say('password: ')
      case 'message':
        return say(
          lastOf(size.columns >= 60 ? 'deny, for the agent (enter sends): ' : 'why: ', oneLine(prompt.text), size.columns, markOf(wording)),
        )
      case 'sent':
        return say(prompt.proof === 'system' ? 'confirm it at the prompt of the system' : 'sending')
    }
  }
  if (notice !== undefined) return say(oneLine(notice), 'warning')
  if (view.isHelp) return say('any key goes back')
  const isWide = size.columns >= 60
  if (opened === undefined) return say(isWide ? 'j k move  enter look  tab pending/recent  ? keys  q quit' : 'enter ? q')
  const question = openedQuestion(view)
  if (question === undefined || !waits(question)) return say('settled: q goes back')
  const left = measureWith(wording)(view).lines.length - opened.seenLines
  if (left > 0) return say(isWide ? `${left} more lines: space shows them  d deny  q back` : `${left} more: space`, 'warning')
  if (!isArmed(view)) return say('look')
  if (opened.step === 'remember') return say('y remember  q back')
  return say(isWide ? `${answersOf(question)}  d deny  q back` : 'a s r d q ?')
}

function answersOf({ subject, remember, offer }: Question): string {
  const words = ['a allow once', ...(subject.kind === 'proposal' ? [] : ['s allow in this session']), ...(remember ? ['r remember'] : [])]
  return `${words.join('  ')}${offer === 'allow' ? '  (often allowed: s?)' : offer === 'deny' ? '  (often denied)' : ''}`
}

/** What is being typed, by its end. */
function lastOf(label: string, text: string, columns: number, mark: string): string {
  const room = columns - cellsOf(label) - 1
  if (cellsOf(text) <= room) return `${label}${text}`
  let kept = ''
  for (const char of Array.from(text).toReversed()) {
    if (cellsOf(char + kept) + cellsOf(mark) > room) break
    kept = char + kept
  }
  return `${label}${mark}${kept}`
}

const HELP = [
  'j k arrows   move, scroll',
  'enter        look at it',
  'space        a page further',
  'a            allow once',
  's            allow for the session',
  'r            remember as a rule',
  'd            deny, with a reason if you like',
  'tab          what waits, what was',
  'g G          begin, end',
  'q escape     back, quit',
  'A yes is taken when all of the question was on the screen.',
  'T0 a key  T1 your password  T2 the system asks you',
]

function plain(text: string): Row {
  return { text, style: 'plain' }
}

function markOf({ isUtf8 }: Wording): string {
  return isUtf8 ? '…' : '>'
}

function oneLine(text: string): string {
  return visible(text).replaceAll('\n', '\\n')
}

/** What a terminal that reads no UTF-8 would show as something else. */
function ascii(text: string, { isUtf8 }: Wording): string {
  return isUtf8 ? text : text.replace(/[^\x20-\x7e]/gu, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`)
}
