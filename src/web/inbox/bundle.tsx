import { useEffect, useRef, useState } from 'preact/hooks'
import type { PresentedQuestion, QuestionCard } from '../../wire/question-card.ts'
import type { Section } from '../../wire/section.ts'
import { call, Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { notifyFailure } from '../parts/notices.tsx'
import { Ago } from '../parts/time.tsx'
import { Countdown } from './list.tsx'
import { Lines } from './sections.tsx'

/** What differs between any two questions. */
const OWN: ReadonlySet<string> = new Set(['id', 'digest', 'expires', 'bundle', 'offer', 'warnings'])
const DIGITS_SHOWN = 16

/** Each of these questions as it is presented, by id. What is presented once stays as it was. */
export function usePresentedAll(cards: readonly QuestionCard[]): ReadonlyMap<string, PresentedQuestion> {
  const [all, setAll] = useState<ReadonlyMap<string, PresentedQuestion>>(new Map())
  const known = useRef(all)
  known.current = all
  const ids = cards.map(({ id }) => id).join(' ')
  useEffect(() => {
    const stop = new AbortController()
    for (const id of ids.split(' ').filter((one) => one !== '' && !known.current.has(one)))
      call<PresentedQuestion>('GET', `/v1/questions/${encodeURIComponent(id)}/presented`, undefined, stop.signal).then(
        (one) => setAll((before) => new Map([...before, [id, one]])),
        (error: unknown) => {
          if (!stop.signal.aborted && !(error instanceof Problem && error.code === 'question_not_found')) notifyFailure(error)
        },
      )
    return () => stop.abort()
  }, [ids])
  return all
}

/** Equal questions that wait together: which of them are answered. Each has its own digest, and is answered by that. */
export function Bundle(props: {
  readonly opened: PresentedQuestion
  readonly cards: readonly QuestionCard[]
  readonly presented: ReadonlyMap<string, PresentedQuestion>
  readonly chosen: ReadonlySet<string>
  readonly onChoose: (chosen: ReadonlySet<string>) => void
}) {
  const { opened, cards, presented, chosen, onChoose } = props
  const choose = (id: string, isChosen: boolean): void => {
    const next = new Set(chosen)
    if (isChosen) next.add(id)
    else next.delete(id)
    onChoose(next)
  }
  return (
    <fieldset class="inbox-section inbox-bundle">
      <legend>
        <h3>{cards.length} that ask for the same, word for word: choose which you answer</h3>
      </legend>
      <div class="row">
        <Button onPress={() => onChoose(new Set(cards.map(({ id }) => id)))}>Choose all {cards.length}</Button>
        <Button onPress={() => onChoose(new Set([opened.card.id]))}>Only the one shown</Button>
      </div>
      <ul class="inbox-items">
        {cards.map((card) => (
          <li key={card.id}>
            <label>
              <input
                type="checkbox"
                checked={chosen.has(card.id)}
                onChange={({ currentTarget }) => choose(card.id, currentTarget.checked)}
              />
              <span>
                asked <Ago at={card.createdAt} />, <span class="mono">{card.digest.slice(0, DIGITS_SHOWN)}</span>
                {card.id === opened.card.id && ', shown above'}
              </span>
              <Countdown card={card} />
            </label>
            {card.id !== opened.card.id && <Differences opened={opened} item={presented.get(card.id)} />}
          </li>
        ))}
      </ul>
    </fieldset>
  )
}

/** What this one says otherwise, as its reason: all else is shown above. */
function Differences({ opened, item }: { opened: PresentedQuestion; item: PresentedQuestion | undefined }) {
  if (item === undefined) return <p class="small quiet">…</p>
  const others = differing(opened.sections, item.sections)
  if (others.length === 0) return null
  return (
    <>
      {others.map(({ name, label, lines }) => (
        <div key={name} class="small">
          <span class="quiet">{label}: </span>
          <Lines lines={lines} />
        </div>
      ))}
    </>
  )
}

function differing(opened: readonly Section[], item: readonly Section[]): Section[] {
  const known = new Map(opened.map((section) => [section.name, section.lines.join('\n')]))
  return item.filter(({ name, lines }) => !OWN.has(name) && known.get(name) !== lines.join('\n'))
}
