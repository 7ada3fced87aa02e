import { useRef, useState } from 'preact/hooks'
import type { RefObject } from 'preact'
import type { PresentedQuestion, QuestionCard } from '../../wire/question-card.ts'
import { Problem } from '../api/client.ts'
import { answerQuestion } from '../presence/answer.ts'
import { useKeys } from '../shell/keys.ts'
import { ARMED_WORDS, useArming, type Arming } from './arming.ts'
import { usePresentedAll } from './bundle.tsx'
import { claimedByOther } from './claim.ts'
import { waits } from './questions.ts'
import { offeredRule, type Remembering } from './remember.tsx'

/** What is open below a question. */
export type Panel = 'answers' | 'remember' | 'message'

/** What an operator can say. */
export type Said =
  | { readonly decision: 'allow'; readonly scope: 'once' | 'session' | 'remember' }
  | { readonly decision: 'deny'; readonly scope: 'once' | 'session'; readonly message?: string }

export type Asked = {
  /** As the feed has it now. */
  readonly card: QuestionCard
  /** Those that wait with it and ask for the same, with it. */
  readonly alike: readonly QuestionCard[]
  /** As it is shown: none while it is not there. */
  readonly shown: PresentedQuestion | undefined
}

export type Tell = {
  readonly onAnswered: (answered: readonly QuestionCard[], said: Said) => void
  readonly onSay: (words: string) => void
}

export type Answering = {
  readonly isWaiting: boolean
  readonly end: RefObject<HTMLDivElement | null>
  readonly arming: Arming
  readonly panel: Panel
  readonly open: (panel: Panel) => void
  readonly remembering: Remembering | undefined
  readonly setRemembering: (to: Remembering) => void
  readonly chosen: ReadonlySet<string>
  readonly choose: (chosen: ReadonlySet<string>) => void
  /** Those that an answer is for. */
  readonly picked: readonly QuestionCard[]
  readonly others: ReadonlyMap<string, PresentedQuestion>
  readonly isBusy: boolean
  readonly problem: Problem | undefined
  readonly say: (said: Said) => Promise<void>
  /** A yes that was not taken. */
  readonly refused: () => void
}

/** What is chosen and open of one question, and its answers: each by the digest of its own. I79 */
export function useAnswering({ card, alike, shown }: Asked, { onAnswered, onSay }: Tell): Answering {
  const end = useRef<HTMLDivElement>(null)
  const [panel, setPanel] = useState<Panel>('answers')
  const [remembering, setRemembering] = useState<Remembering>()
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set([card.id]))
  const [problem, setProblem] = useState<Problem>()
  const [isBusy, setBusy] = useState(false)
  const isWaiting = waits(card)
  const others = usePresentedAll(alike.length > 1 ? alike : [])
  const picked = alike.length > 1 ? alike.filter(({ id }) => chosen.has(id)) : [card]
  const isWhole = shown !== undefined && picked.every(({ id }) => id === card.id || others.has(id))
  // Whatever is another thing to look at is looked at anew.
  const content = isWhole && isWaiting && !isBusy ? [panel, ...picked.map(({ digest }) => digest)].join(' ') : undefined
  const arming = useArming(content, end)

  const say = async (said: Said): Promise<void> => {
    if (isBusy || !isWaiting || picked.length === 0) return
    setProblem(undefined)
    setBusy(true)
    const done: QuestionCard[] = []
    try {
      for (const one of picked) {
        // What was shown is what is answered: not what the feed says of it by now.
        const { digest, tier } = (one.id === card.id ? shown : others.get(one.id))?.card ?? one
        await answerQuestion({ id: one.id, digest, tier }, { ...said, ...ruleOf(said, shown?.remember, remembering) })
        done.push(one)
      }
    } catch (error) {
      if (error instanceof Problem) setProblem(error)
      else if (!(error instanceof DOMException && error.name === 'AbortError')) throw error
    } finally {
      setBusy(false)
    }
    if (done.length > 0) onAnswered(done, said)
  }
  const refused = (): void => {
    const by = claimedByOther(card)
    onSay(`Not allowed: ${by === undefined ? ARMED_WORDS[arming.state] || 'press it again.' : `${by} has it in hand.`}`)
  }
  const open = (next: Panel): void => {
    if (!isWaiting || (next === 'remember' && (shown?.remember === undefined || picked.length !== 1))) return
    if (next === 'remember' && remembering === undefined && shown?.remember !== undefined) setRemembering(offeredRule(shown.remember))
    setProblem(undefined)
    setPanel(next)
  }
  const state = { isWaiting, end, arming, panel, open, remembering, setRemembering, chosen, choose }
  return { ...state, picked, others, isBusy, problem, say, refused }
}

/** The keys of the answers. */
export function useAnswerKeys(card: QuestionCard, { isWaiting, arming, panel, open, say, refused }: Answering): void {
  const allow = (scope: 'once' | 'session'): void => {
    if (!isWaiting || panel !== 'answers') return
    if (arming.isTaken() && claimedByOther(card) === undefined) void say({ decision: 'allow', scope })
    else refused()
  }
  const deny = (scope: 'once' | 'session'): void => void say({ decision: 'deny', scope })
  const isProposal = card.kind === 'proposal'
  useKeys({
    a: { does: 'allow once', isAnswer: true, press: () => allow('once') },
    ...(!isProposal && { s: { does: 'allow for the session', isAnswer: true, press: () => allow('session') } }),
    ...(card.canRemember && { r: { does: 'remember as a rule', press: () => open('remember') } }),
    d: { does: 'deny', isAnswer: true, press: () => deny('once') },
    m: { does: 'deny with a message', press: () => open('message') },
    ...(!isProposal && { n: { does: 'deny for the session', isAnswer: true, press: () => deny('session') } }),
    Escape: { does: 'back to the answers', press: () => open('answers') },
  })
}

function ruleOf(said: Said, remember: PresentedQuestion['remember'], remembering: Remembering | undefined) {
  if (said.scope !== 'remember' || remember === undefined || remembering === undefined) return {}
  const isAsOffered = remembering.rule === offeredRule(remember).rule
  return { rule: isAsOffered ? remember.rule : remembering.rule, expiresAt: Date.now() + remembering.forMs }
}
