import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { QuestionCard } from '../../wire/question-card.ts'
import { connection } from '../api/feed.ts'
import { Button } from '../parts/button.tsx'
import { Empty } from '../parts/empty.tsx'
import { ViewHead } from '../parts/view-head.tsx'
import { keyHelp, useKeys } from '../shell/keys.ts'
import { hrefOf, route } from '../shell/route.ts'
import type { Said } from './answering.ts'
import { Detail } from './detail.tsx'
import { beside, groupOf, groupsOf, nextAfter } from './groups.ts'
import { List } from './list.tsx'
import { leaving, pending, pendingCount, select, selected, waits } from './questions.ts'
import { Recent } from './recent.tsx'
import { TellMe } from './tell-me.tsx'
import './inbox.css'

const SCOPES = { once: '', session: ', and its equals of this session', remember: ', and remembered as a rule' } as const

export function Inbox() {
  const isRecent = route.value.rest[0] === 'recent'
  const count = pendingCount.value
  return (
    <div class="inbox">
      <ViewHead
        title="Inbox"
        about={count === 0 ? 'Nothing waits for you' : count === 1 ? 'A question waits for you' : `${count} questions wait for you`}
      >
        <nav class="row" aria-label="Questions">
          <a class="button" href={hrefOf('inbox')} aria-current={isRecent ? undefined : 'page'}>
            Waiting
          </a>
          <a class="button" href={hrefOf('inbox', ['recent'])} aria-current={isRecent ? 'page' : undefined}>
            Recent
          </a>
        </nav>
        <Button kind="plain" onPress={() => void (keyHelp.isOpen.value = true)}>
          Keys <kbd>?</kbd>
        </Button>
      </ViewHead>
      {isRecent ? <Recent /> : <Waiting />}
    </div>
  )
}

function Waiting() {
  const body = useRef<HTMLDivElement>(null)
  const places = useRef(new Map<string, number>())
  const said = useSignal('')
  const hasAnswered = useSignal(false)
  /** Who was in a question, or went into one, is in the next one once it is there. */
  const wantsFocus = useRef(false)
  const all = [...pending.value, ...leaving.value]
  const groups = groupsOf(all, places.current)
  const named = route.value.rest[0]
  useEffect(() => {
    if (named !== undefined) select(named)
  }, [named])
  useEffect(() => {
    // Nothing was looked at: what waits longest is. Never away from something.
    const first = groups[0]?.cards[0].id
    if (first !== undefined && groupOf(groups, selected.value) === undefined) select(first)
  })
  const group = groupOf(groups, selected.value)
  const card = group?.cards.find(({ id }) => id === selected.value)
  const open = (): void => {
    if (body.current === null) wantsFocus.current = true
    else body.current.focus()
  }
  const openRow = (id: string): void => {
    if (id === selected.value) open()
    else wantsFocus.current = true
    select(id)
  }
  const move = (by: 1 | -1): void => select(beside(groups, selected.value, by))
  useKeys({
    j: { does: 'the next question', press: () => move(1) },
    k: { does: 'the question before', press: () => move(-1) },
    Enter: { does: 'into the question: arrows, space and End scroll it', press: open },
  })
  const answered = (done: readonly QuestionCard[], { decision, scope }: Said): void => {
    const [first] = done
    if (first === undefined) return
    const many = done.length === 1 ? '' : `${done.length} times: `
    said.value = `${decision === 'allow' ? 'Allowed' : 'Denied'}${SCOPES[scope]}: ${many}${first.summary}`
    wantsFocus.current = body.current?.closest('.inbox-detail')?.contains(document.activeElement) === true
    const ids = new Set(done.map(({ id }) => id))
    const next = nextAfter(groups, first.id, ids)
    leaving.value = leaving.value.filter(({ id }) => !ids.has(id))
    if (next !== undefined) select(next)
    hasAnswered.value = true
  }
  return (
    <>
      <p class="inbox-said" role="status" aria-live="polite">
        <bdi class="exact">{said.value}</bdi>
      </p>
      <TellMe hasAnswered={hasAnswered.value} />
      {card === undefined || group === undefined ? (
        <NothingWaits />
      ) : (
        <div class="inbox-columns">
          <List groups={groups} onOpen={openRow} />
          <Detail
            key={card.id}
            card={card}
            alike={waits(card) ? group.cards.filter(waits) : [card]}
            body={body}
            wantsFocus={wantsFocus}
            onAnswered={answered}
            onSay={(words) => void (said.value = words)}
          />
        </div>
      )}
    </>
  )
}

function NothingWaits() {
  return (
    <Empty title={connection.value === 'live' ? 'Nothing waits' : '…'}>
      <p>What an agent may do only with your word comes here by itself. Keep this page open, or come back to it.</p>
    </Empty>
  )
}
