import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { QuestionCard } from '../../wire/question-card.ts'
import { Badge } from '../parts/badge.tsx'
import { Name } from '../parts/exact.tsx'
import { now } from '../parts/time.tsx'
import { claimedByOther } from './claim.ts'
import type { Group } from './groups.ts'
import { arrivals, selected, waits } from './questions.ts'
import { leftWords, RISKS, stateWords } from './words.ts'

/** Lines that are drawn, however many wait. */
const DRAWN = 100
const EDGE_PIXELS = 8

/** All that waits, the oldest first. What arrives comes last: it moves neither the selection nor what is on the screen. */
export function List({ groups, onOpen }: { groups: readonly Group[]; onOpen: (id: string) => void }) {
  const scroller = useRef<HTMLDivElement>(null)
  const { from, turn } = useDrawn(groups)
  const rest = Math.max(0, groups.length - from - DRAWN)
  const fresh = useUnseen(scroller, rest === 0)
  const looked = selected.value
  useLayoutEffect(() => {
    if (looked !== undefined) scroller.current?.querySelector('[aria-current="true"]')?.scrollIntoView({ block: 'nearest' })
  }, [looked, from])
  const turnTo = (next: number): void => {
    turn(next)
    scroller.current?.scrollTo({ top: 0 })
  }
  return (
    <div class="inbox-list card">
      <div ref={scroller} class="inbox-scroll" onScroll={fresh.look}>
        {from > 0 && (
          <button type="button" class="button button-plain inbox-more" onClick={() => turnTo(from - DRAWN)}>
            The {DRAWN} before
          </button>
        )}
        <ol aria-label="Questions that wait, the oldest first" start={from + 1}>
          {groups.slice(from, from + DRAWN).map((group) => (
            <Row key={group.key} group={group} onOpen={onOpen} />
          ))}
        </ol>
        {rest > 0 && (
          <button type="button" class="button button-plain inbox-more" onClick={() => turnTo(from + DRAWN)}>
            The next {Math.min(rest, DRAWN)} of {rest}
          </button>
        )}
      </div>
      {fresh.count > 0 && (
        <button
          type="button"
          class="button inbox-new"
          onClick={() => {
            turn(groups.length - 1)
            fresh.show()
          }}
        >
          {fresh.count} new
        </button>
      )}
    </div>
  )
}

/** Where the part of a long list that is drawn begins: the one that the selection is in, or was turned to since it was selected. */
function useDrawn(groups: readonly Group[]) {
  const [turned, setTurned] = useState<{ readonly from: number; readonly looked: string | undefined }>()
  const looked = selected.value
  const isTurned = turned !== undefined && turned.looked === looked
  const at = isTurned ? turned.from : groups.findIndex(({ cards }) => cards.some(({ id }) => id === looked))
  return { from: partOf(Math.min(at, groups.length - 1)), turn: (to: number) => setTurned({ from: partOf(to), looked }) }
}

/** Where the part begins that a line is in. */
function partOf(at: number): number {
  return Math.max(0, Math.floor(at / DRAWN) * DRAWN)
}

/** How many came while the end of the list was out of sight. */
function useUnseen(scroller: RefObject<HTMLDivElement | null>, hasEnd: boolean) {
  const came = arrivals.value
  const [seen, setSeen] = useState(came)
  const wantsEnd = useRef(false)
  const look = (): void => {
    const { scrollTop = 0, clientHeight = 0, scrollHeight = 0 } = scroller.current ?? {}
    if (hasEnd && scrollTop + clientHeight >= scrollHeight - EDGE_PIXELS) setSeen(came)
  }
  const scroll = (): void => scroller.current?.scrollTo({ top: scroller.current.scrollHeight })
  useEffect(() => {
    if (wantsEnd.current && hasEnd) {
      wantsEnd.current = false
      scroll()
    }
    look()
  })
  return {
    count: came - seen,
    look,
    show: () => {
      wantsEnd.current = !hasEnd
      scroll()
    },
  }
}

function Row({ group: { cards }, onOpen }: { group: Group; onOpen: (id: string) => void }) {
  const [first] = cards
  const isSelected = cards.some(({ id }) => id === selected.value)
  const by = claimedByOther(first)
  return (
    <li>
      <button
        type="button"
        class={`inbox-row${waits(first) ? '' : ' inbox-over'}`}
        aria-current={isSelected ? 'true' : undefined}
        onClick={() => onOpen(isSelected ? (selected.value ?? first.id) : first.id)}
      >
        <span class="inbox-row-top">
          <Badge tone={RISKS[first.level].tone}>{RISKS[first.level].words}</Badge>
          {cards.length > 1 && <Badge tone="quiet">{cards.length} alike</Badge>}
          {first.offer !== undefined && <Badge tone="quiet">offer</Badge>}
          <Countdown card={first} />
        </span>
        <span class="inbox-summary mono">
          <Name text={first.summary} />
        </span>
        <span class="small quiet inbox-asker">
          <Asker card={first} />
          {by !== undefined && <span> · {by} has it</span>}
        </span>
      </button>
    </li>
  )
}

export function Asker({ card: { asker } }: { card: QuestionCard }) {
  return (
    <>
      <Name text={asker.sessionName} />
      {asker.role !== undefined && (
        <>
          {' · '}
          <Name text={asker.role} />
        </>
      )}
      {' · '}
      <Name text={asker.agent} />
    </>
  )
}

/** How long it waits before it is a no, or how it ended. */
export function Countdown({ card }: { card: QuestionCard }) {
  if (!waits(card)) return <span class="small inbox-left">{stateWords(card)}</span>
  const whole = Math.max(1, card.expiresAt - card.createdAt)
  const left = Math.min(whole, Math.max(0, card.expiresAt - now.value))
  const share = left / whole
  return (
    <span class="small inbox-left">
      <span class="inbox-bar" aria-hidden="true">
        <span style={{ inlineSize: `${share * 100}%` }} />
      </span>
      {leftWords(left)}
    </span>
  )
}
