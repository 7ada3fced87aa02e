import { useEffect, useState } from 'preact/hooks'
import type { PresentedQuestion, QuestionCard } from '../../wire/question-card.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Empty } from '../parts/empty.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Ago } from '../parts/time.tsx'
import { useResource } from '../parts/use-resource.ts'
import { Asker } from './list.tsx'
import { pending } from './questions.ts'
import { Sections } from './sections.tsx'
import { runWords, stateWords } from './words.ts'
import { Table } from '../parts/table.tsx'

const LISTED_MAX = 100
/** What runs is looked at so often: its end is no event of a question. */
const LOOK_MS = 3_000

/** What was asked and is over, the latest first. */
export function Recent() {
  const { value, problem, reload } = useResource<{ readonly cards: readonly QuestionCard[] }>(
    `/v1/questions/cards?state=recent&limit=${LISTED_MAX}`,
  )
  const [opened, setOpened] = useState<string>()
  const cards = value?.cards ?? []
  const isGoingOn = cards.some(({ state, run }) => state === 'approved' && run?.finishedAt === undefined)
  const waiting = pending.value
  useEffect(reload, [reload, waiting])
  useEffect(() => {
    if (!isGoingOn) return undefined
    const timer = setInterval(reload, LOOK_MS)
    return () => clearInterval(timer)
  }, [isGoingOn, reload])
  if (problem !== undefined) return <ProblemNote problem={problem} />
  if (value === undefined) return <p class="quiet">…</p>
  if (cards.length === 0) return <Empty title="Nothing was asked yet" />
  return (
    <>
      <Table label="What was asked" heads={['When', 'What', 'Session', 'Ended', 'By', 'Run']} class="inbox-recent" around="card">
        {cards.map((card) => (
          <Line key={card.id} card={card} onOpen={() => setOpened(card.id)} />
        ))}
      </Table>
      {opened !== undefined && <Shown id={opened} onClose={() => setOpened(undefined)} />}
    </>
  )
}

const TONES: Readonly<Record<QuestionCard['state'], Tone>> = {
  pending: 'quiet',
  claimed: 'quiet',
  approved: 'ok',
  denied: 'bad',
  expired: 'warn',
  cancelled: 'quiet',
}

function Line({ card, onOpen }: { card: QuestionCard; onOpen: () => void }) {
  const { summary, settledAt, createdAt, state, answer } = card
  return (
    <tr>
      <td>
        <Ago at={settledAt ?? createdAt} />
      </td>
      <td>
        <button type="button" class="inbox-link mono" onClick={onOpen}>
          <Name text={summary} />
        </button>
      </td>
      <td>
        <Asker card={card} />
      </td>
      <td>
        <Badge tone={TONES[state]}>{state}</Badge> <span class="small">{stateWords(card)}</span>
        {answer?.message !== undefined && (
          <p class="small quiet">
            “<Exact text={answer.message} />”
          </p>
        )}
      </td>
      <td class="small">
        {answer !== undefined && (
          <>
            {answer.by}, by {answer.tier}
          </>
        )}
      </td>
      <td class="small">{runWords(card)}</td>
    </tr>
  )
}

function Shown({ id, onClose }: { id: string; onClose: () => void }) {
  const { value, problem } = useResource<PresentedQuestion>(`/v1/questions/${encodeURIComponent(id)}/presented`)
  return (
    <Dialog title="What was asked" wide onClose={onClose}>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {value !== undefined && <Sections sections={value.sections} />}
      <div class="dialog-foot">
        <Button onPress={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}
