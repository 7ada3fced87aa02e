import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { visibleJson } from '../../kernel/visible.ts'
import type { PresentedQuestion, QuestionCard } from '../../wire/question-card.ts'
import { call } from '../api/client.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { useAnswerKeys, useAnswering, type Answering, type Asked, type Tell } from './answering.ts'
import { Answers } from './answers.tsx'
import { Bundle } from './bundle.tsx'
import { claimedByOther, letGo, takeUp } from './claim.ts'
import { Asker, Countdown } from './list.tsx'
import { waits } from './questions.ts'
import { Remember } from './remember.tsx'
import { Sections } from './sections.tsx'
import { KINDS, PROOFS, RISKS, runWords, stateWords } from './words.ts'

type Props = Omit<Asked, 'shown'> &
  Tell & {
    readonly body: RefObject<HTMLDivElement | null>
    /** Whether the focus goes into it once it is there. */
    readonly wantsFocus: { current: boolean }
  }

/** One question whole, and its answers. */
export function Detail({ card: heard, alike, body, wantsFocus, onAnswered, onSay }: Props) {
  const { value: shown, problem, reload } = useResource<PresentedQuestion>(`/v1/questions/${encodeURIComponent(heard.id)}/presented`)
  const isWaiting = waits(heard)
  // What it came to, where the feed did not say it.
  useEffect(() => {
    if (!isWaiting) reload()
  }, [isWaiting, reload])
  const card = isWaiting || shown === undefined || waits(shown.card) ? heard : shown.card
  const answering = useAnswering({ card, alike, shown }, { onAnswered, onSay })
  useAnswerKeys(card, answering)
  useEffect(() => {
    if (wantsFocus.current) body.current?.focus()
    wantsFocus.current = false
  }, [body, wantsFocus])
  return (
    <article ref={useClaim(heard)} class="inbox-detail card" aria-label="Question">
      <header class="inbox-head">
        <div class="row">
          <h2>{KINDS[card.kind]}</h2>
          <Badge tone={RISKS[card.level].tone}>{RISKS[card.level].words}</Badge>
          <span class="grow" />
          <Countdown card={card} />
        </div>
        <p class="small quiet">
          <Asker card={card} /> · needs {PROOFS[card.tier]}
        </p>
      </header>
      <Body {...{ card, alike, shown, body, answering }} />
      <footer class="inbox-foot">
        {(answering.problem ?? problem) !== undefined && (
          <ProblemNote problem={(answering.problem ?? problem) as NonNullable<typeof problem>} />
        )}
        {isWaiting ? <Answers card={card} answering={answering} /> : <Over card={card} />}
      </footer>
    </article>
  )
}

function Body({ card, alike, shown, body, answering }: Asked & Pick<Props, 'body'> & { answering: Answering }) {
  const { panel, remembering, setRemembering, chosen, choose, others, problem, end } = answering
  return (
    <div ref={body} class="inbox-body" tabIndex={0} role="region" aria-label="What is asked">
      {shown === undefined ? (
        <p class="quiet">…</p>
      ) : (
        <>
          <Sections sections={shown.sections} />
          <Whole id={card.id} />
          {alike.length > 1 && <Bundle opened={shown} cards={alike} presented={others} chosen={chosen} onChoose={choose} />}
          {panel === 'remember' && shown.remember !== undefined && remembering !== undefined && (
            <Remember offered={shown.remember} value={remembering} problem={problem?.message} onChange={setRemembering} />
          )}
        </>
      )}
      <div ref={end} class="inbox-end" />
    </div>
  )
}

function Over({ card }: { card: QuestionCard }) {
  return (
    <p class="note">
      It is over: {stateWords(card)}
      {card.answer !== undefined && `, by ${card.answer.by}`}
      {card.state === 'approved' && `; ${runWords(card)}`}.{card.state === 'expired' && ' The agent was told no.'}
    </p>
  )
}

/** Whoever does something in a question has it in hand, until it is left. */
function useClaim(card: QuestionCard): RefObject<HTMLElement | null> {
  const element = useRef<HTMLElement>(null)
  const latest = useRef(card)
  latest.current = card
  useEffect(() => {
    const stop = new AbortController()
    const atIt = (): void => {
      if (waits(latest.current) && claimedByOther(latest.current) === undefined) takeUp(latest.current)
    }
    for (const name of ['pointerdown', 'keydown']) element.current?.addEventListener(name, atIt, { signal: stop.signal })
    return () => {
      stop.abort()
      letGo()
    }
  }, [card.id])
  return element
}

/** What long texts and lists leave out is here: the question as the digest is over it. */
function Whole({ id }: { id: string }) {
  const [text, setText] = useState<string>()
  const load = async (): Promise<void> => setText(visibleJson(await call<unknown>('GET', `/v1/questions/${encodeURIComponent(id)}`)))
  if (text === undefined)
    return (
      <div>
        <Button onPress={load}>Show all of it, with nothing folded</Button>
      </div>
    )
  return (
    <pre class="inbox-whole" tabIndex={0} role="region" aria-label="All of it, as JSON">
      <bdi class="exact">{text}</bdi>
    </pre>
  )
}
