import { LIMITS } from '../kernel/limits.ts'
import type { QuestionLine } from '../wire/operator.ts'
import type { Question, Scope, Tier } from '../wire/question.ts'
import type { Key } from './keys.ts'

export type Size = { readonly columns: number; readonly rows: number }

/** The terminal view of the inbox, all of it: what is drawn is a function of this. */
export type View = {
  readonly size: Size
  /** Milliseconds since 1970, for what is shown, and of the clock that nobody sets, for what is waited for. */
  readonly now: number
  readonly elapsedMs: number
  readonly isConnected: boolean
  /** Tiers that can be proven here. */
  readonly available: readonly Tier[]
  readonly questions: ReadonlyMap<string, Question>
  readonly list: 'pending' | 'recent'
  /** Id. What comes and goes never moves it to another question. */
  readonly selected: string | undefined
  readonly opened: Opened | undefined
  readonly prompt: Prompt | undefined
  readonly isHelp: boolean
  /** What the last key came to. */
  readonly notice: string | undefined
}

/** A question that is looked at, or the rule that it would become. */
export type Opened = {
  readonly id: string
  readonly step: 'question' | 'remember'
  readonly scroll: number
  /** Lines from the top that were on the screen, without a gap. */
  readonly seenLines: number
  /** When the last line was on the screen. */
  readonly completeMs: number | undefined
  /** All that there is to see. When that changes, nothing of it was seen. */
  readonly content: string
}

export type Prompt =
  | { readonly kind: 'password'; readonly scope: Scope }
  /** The reason of a denial. */
  | { readonly kind: 'message'; readonly text: string }
  /** An answer is on its way. */
  | { readonly kind: 'sent'; readonly proof: 'key' | 'password' | 'system' }

export type Input =
  /** `isAlone`: nothing else was typed in the same moment. */
  | { readonly kind: 'key'; readonly key: Key; readonly isAlone: boolean }
  | { readonly kind: 'line'; readonly line: QuestionLine }
  | { readonly kind: 'resized'; readonly size: Size }
  | { readonly kind: 'approver'; readonly available: readonly Tier[] }
  | { readonly kind: 'connection'; readonly isConnected: boolean }
  /** Of the password that is typed elsewhere: it never is in here. */
  | { readonly kind: 'password'; readonly isGiven: boolean; readonly why?: string }
  | { readonly kind: 'answered'; readonly question: Question }
  | { readonly kind: 'refused'; readonly id: string; readonly why: string }
  | { readonly kind: 'tick' }

export type Effect =
  | {
      readonly kind: 'answer'
      readonly id: string
      readonly digest: string
      readonly decision: 'allow' | 'deny'
      readonly scope: Scope
      readonly proof: 'key' | 'password' | 'system'
      readonly message?: string
      readonly rule?: string
    }
  | { readonly kind: 'claim' | 'release'; readonly id: string; readonly digest: string }
  | { readonly kind: 'quit' }

export type Step = { readonly view: View; readonly effects: readonly Effect[] }

/** The lines of the opened question at this size, and how many of them are shown at once: 0 when there is no room to look at it. */
export type Measure = (view: View) => { readonly lines: readonly string[]; readonly room: number }

export function openView(size: Size, now: number, elapsedMs: number): View {
  return {
    size,
    now,
    elapsedMs,
    isConnected: false,
    available: ['T0'],
    questions: new Map(),
    list: 'pending',
    selected: undefined,
    opened: undefined,
    prompt: undefined,
    isHelp: false,
    notice: undefined,
  }
}

/** What is in the list, in its order: new ones come last, and the one that is selected stays while it is. */
export function listed({ questions, list, selected }: View): Question[] {
  const all = [...questions.values()]
  if (list === 'recent')
    return all.filter((one) => !waits(one)).toSorted((a, b) => (b.answer?.at ?? b.expiresAt) - (a.answer?.at ?? a.expiresAt))
  return all.filter((one) => waits(one) || one.id === selected).toSorted((a, b) => a.createdAt - b.createdAt)
}

export function waits({ state }: Question): boolean {
  return state === 'pending' || state === 'claimed'
}

export function openedQuestion({ opened, questions }: View): Question | undefined {
  return opened && questions.get(opened.id)
}

/** Whether a yes is taken: the whole of what is asked was on the screen, and long enough ago that the key was meant for it. */
export function isArmed({ opened, elapsedMs }: View): boolean {
  return opened?.completeMs !== undefined && elapsedMs - opened.completeMs >= LIMITS.viewArmMs
}

/** The next state, and what is to be done. @param at the clocks of this moment */
export function step(before: View, input: Input, at: Pick<View, 'now' | 'elapsedMs'>, measure: Measure): Step {
  const moved = take({ ...before, ...at }, input, measure)
  return { ...moved, view: looked(moved.view, measure) }
}

function take(view: View, input: Input, measure: Measure): Step {
  switch (input.kind) {
    case 'key':
      return press(view, input.key, input.isAlone, measure)
    case 'line':
      return still(told(view, input.line))
    case 'resized':
      // What was seen was laid out otherwise.
      return still({ ...view, size: input.size, opened: view.opened && anew(view.opened.id, view.opened.step) })
    case 'approver':
      return still({ ...view, available: input.available })
    case 'connection':
      return still({ ...view, isConnected: input.isConnected, ...(!input.isConnected && { prompt: undefined }) })
    case 'password':
      return passwordTyped(view, input)
    case 'answered':
      return answered(view, input.question)
    case 'refused':
      return still(view.opened?.id === input.id ? { ...view, prompt: undefined, notice: input.why } : { ...view, notice: input.why })
    case 'tick':
      return still(view)
  }
}

function answered(view: View, question: Question): Step {
  const isOpen = view.opened?.id === question.id
  const known = told(view, { event: { kind: 'settled', question } })
  return isOpen ? closed({ ...known, prompt: undefined, notice: undefined }) : still(known)
}

function still(view: View): Step {
  return { view, effects: [] }
}

/** What is on the screen now counts as seen, if all before it was. */
function looked(view: View, measure: Measure): View {
  const { opened, elapsedMs } = view
  if (opened === undefined || view.isHelp || openedQuestion(view) === undefined) return view
  const { lines, room } = measure(view)
  const content = lines.join('\n')
  const before = content === opened.content ? opened : { ...anew(opened.id, opened.step), scroll: opened.scroll, content }
  const count = lines.length
  const scroll = Math.max(0, Math.min(before.scroll, count - room))
  const seenLines = scroll <= before.seenLines && room > 0 ? Math.max(before.seenLines, Math.min(count, scroll + room)) : before.seenLines
  const completeMs = before.completeMs ?? (seenLines >= count && room > 0 ? elapsedMs : undefined)
  return { ...view, opened: { ...before, scroll, seenLines, completeMs } }
}

function told(view: View, line: QuestionLine): View {
  if ('pending' in line) {
    // What waited and is not there any more ended while nobody told.
    const kept = [...view.questions.values()].filter((one) => !waits(one) || one.id === view.selected || one.id === view.opened?.id)
    const gone = kept.map((one) => (waits(one) ? { ...one, state: 'cancelled' as const } : one))
    return select({ ...view, questions: bounded([...gone, ...line.pending], view) })
  }
  const { question } = line.event
  const wasOpen = view.opened?.id === question.id && !waits(question)
  const prompt = wasOpen && view.prompt?.kind !== 'sent' ? undefined : view.prompt
  return select({ ...view, prompt, questions: bounded([...view.questions.values(), question], view) })
}

/** Later ones replace earlier ones of the same id; of those that are settled the last are kept. */
function bounded(questions: readonly Question[], { selected, opened }: View): Map<string, Question> {
  const all = new Map(questions.map((one) => [one.id, one]))
  const settled = [...all.values()].filter((one) => !waits(one) && one.id !== selected && one.id !== opened?.id)
  const over = settled.toSorted((a, b) => b.createdAt - a.createdAt).slice(LIMITS.viewRecentMax)
  for (const { id } of over) all.delete(id)
  return all
}

/** Something is selected as soon as there is something. */
function select(view: View): View {
  const rows = listed(view)
  return rows.some(({ id }) => id === view.selected) ? view : { ...view, selected: rows[0]?.id }
}

function press(view: View, key: Key, isAlone: boolean, measure: Measure): Step {
  if (key === 'ctrl-c') return { view, effects: [...releaseOf(view), { kind: 'quit' }] }
  if (view.prompt !== undefined) return pressInPrompt(view, view.prompt, key)
  const fresh = { ...view, notice: undefined }
  if (view.isHelp) return still({ ...fresh, isHelp: false })
  if (key === '?') return still({ ...fresh, isHelp: true })
  return view.opened === undefined ? pressInList(fresh, key) : pressInQuestion(fresh, view.opened, key, isAlone, measure)
}

function pressInList(view: View, key: Key): Step {
  const rows = listed(view)
  const at = rows.findIndex(({ id }) => id === view.selected)
  const to = (index: number): Step => still({ ...view, selected: rows[Math.max(0, Math.min(rows.length - 1, index))]?.id })
  const page = Math.max(1, view.size.rows - 2)
  switch (key) {
    case 'j':
    case 'down':
      return to(at + 1)
    case 'k':
    case 'up':
      return to(at - 1)
    case 'pagedown':
    case ' ':
      return to(at + page)
    case 'pageup':
      return to(at - page)
    case 'g':
    case 'home':
      return to(0)
    case 'G':
    case 'end':
      return to(rows.length - 1)
    case 'tab':
      return still(select({ ...view, list: view.list === 'pending' ? 'recent' : 'pending', selected: undefined }))
    case 'q':
      return { view, effects: [{ kind: 'quit' }] }
    // Nothing is answered that was not looked at.
    case 'enter':
    case 'a':
    case 's':
    case 'r':
    case 'd':
      return still(view.selected === undefined ? view : { ...view, opened: anew(view.selected, 'question') })
    default:
      return still(view)
  }
}

function pressInQuestion(view: View, opened: Opened, key: Key, isAlone: boolean, measure: Measure): Step {
  const { room } = measure(view)
  const scrolled = (by: number): Step => still({ ...view, opened: { ...opened, scroll: Math.max(0, opened.scroll + by) } })
  switch (key) {
    case 'j':
    case 'down':
    case 'enter':
      return scrolled(1)
    case 'k':
    case 'up':
      return scrolled(-1)
    case ' ':
    case 'pagedown':
      return scrolled(Math.max(1, room))
    case 'pageup':
      return scrolled(-Math.max(1, room))
    case 'g':
    case 'home':
      return scrolled(-opened.scroll)
    case 'G':
    case 'end':
      return scrolled(Number.MAX_SAFE_INTEGER / 2)
    case 'q':
    case 'escape':
      return opened.step === 'question'
        ? closed(view)
        : { view: { ...view, opened: anew(opened.id, 'question') }, effects: releaseOf(view) }
    case 'a':
    case 's':
    case 'r':
    case 'd':
    case 'y':
      return answerKey(view, opened, key, isAlone)
    default:
      return still(view)
  }
}

function answerKey(view: View, opened: Opened, key: 'a' | 's' | 'r' | 'd' | 'y', isAlone: boolean): Step {
  const question = openedQuestion(view)
  const say = (notice: string): Step => still({ ...view, notice })
  if (question === undefined || !waits(question)) return say('it is settled already')
  if (!view.isConnected) return say('the daemon does not answer')
  if (!isAlone) return say('several keys at once: nothing was answered')
  if (key === 'd') return { view: { ...view, prompt: { kind: 'message', text: '' } }, effects: [] }
  // I52: a yes is only to what was on the screen, all of it.
  if (opened.completeMs === undefined) return say('there is more: scroll to its end first')
  if (!isArmed(view)) return say('too soon: look at it, then press again')
  if (opened.step === 'remember') return key === 'y' ? allow(view, question, 'remember') : say('y remembers it, q goes back')
  if (key === 'a') return allow(view, question, 'once')
  if (key === 's') return question.subject.kind === 'proposal' ? say('a proposal is answered once') : allow(view, question, 'session')
  if (key !== 'r') return still(view)
  return question.remember === undefined
    ? say('it cannot be remembered')
    : { view: { ...view, opened: anew(opened.id, 'remember') }, effects: [{ kind: 'claim', id: question.id, digest: question.digest }] }
}

function allow(view: View, question: Question, scope: Scope): Step {
  const proof = proofFor(question.tier, view.available)
  if (proof === undefined) return still({ ...view, notice: `it needs ${question.tier}, which nothing here can prove` })
  if (proof === 'password')
    return {
      view: { ...view, prompt: { kind: 'password', scope } },
      effects: [{ kind: 'claim', id: question.id, digest: question.digest }],
    }
  return send(view, question, { decision: 'allow', scope, proof })
}

/** How a tier is proven at a terminal; a higher one is good for a lower. */
export function proofFor(tier: Tier, available: readonly Tier[]): 'key' | 'password' | 'system' | undefined {
  if (tier === 'T0') return 'key'
  if (tier === 'T1' && available.includes('T1')) return 'password'
  if (tier !== 'T3' && available.includes('T2')) return 'system'
  return undefined
}

type Said = { decision: 'allow' | 'deny'; scope: Scope; proof: 'key' | 'password' | 'system'; message?: string }

function send(view: View, { id, digest, remember }: Question, said: Said): Step {
  const rule = said.scope === 'remember' ? remember?.rule : undefined
  return {
    view: { ...view, prompt: { kind: 'sent', proof: said.proof } },
    effects: [{ kind: 'answer', id, digest, ...said, ...(rule !== undefined && { rule }) }],
  }
}

function pressInPrompt(view: View, prompt: Prompt, key: Key): Step {
  if (prompt.kind !== 'message') return still(view)
  const { text } = prompt
  const write = (next: string): Step => still({ ...view, prompt: { kind: 'message', text: next } })
  if (key === 'escape') return still({ ...view, prompt: undefined })
  if (key === 'backspace') return write(Array.from(text).slice(0, -1).join(''))
  if (key === 'enter') {
    const question = openedQuestion(view)
    if (question === undefined || !waits(question)) return still({ ...view, prompt: undefined, notice: 'it is settled already' })
    return send(view, question, { decision: 'deny', scope: 'once', proof: 'key', ...(text.trim() !== '' && { message: text.trim() }) })
  }
  return Array.from(key).length === 1 && Array.from(text).length < LIMITS.viewMessageCharsMax ? write(text + key) : still(view)
}

function passwordTyped(view: View, { isGiven, why }: { readonly isGiven: boolean; readonly why?: string }): Step {
  const question = openedQuestion(view)
  if (view.prompt?.kind !== 'password' || question === undefined) return still(view)
  const { scope } = view.prompt
  if (isGiven) return send(view, question, { decision: 'allow', scope, proof: 'password' })
  return { view: { ...view, prompt: undefined, notice: why ?? 'not answered' }, effects: releaseOf(view) }
}

/** Back to the list, at the next that waits. */
function closed(view: View): Step {
  const effects = releaseOf(view)
  const question = openedQuestion(view)
  const after = listed({ ...view, selected: undefined }).find((one) => question !== undefined && one.createdAt > question.createdAt)
  const isOver = question !== undefined && !waits(question) && view.list === 'pending'
  return { view: select({ ...view, opened: undefined, prompt: undefined, ...(isOver && { selected: after?.id }) }), effects }
}

function releaseOf(view: View): Effect[] {
  const question = openedQuestion(view)
  const isHeld = view.opened?.step === 'remember' || view.prompt?.kind === 'password'
  return isHeld && question !== undefined && waits(question) ? [{ kind: 'release', id: question.id, digest: question.digest }] : []
}

function anew(id: string, at: Opened['step']): Opened {
  return { id, step: at, scroll: 0, seenLines: 0, completeMs: undefined, content: '' }
}
