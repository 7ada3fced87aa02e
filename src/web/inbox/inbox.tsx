import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { QuestionCard } from '../../wire/question-card.ts'
import { connection } from '../api/feed.ts'
import { Button } from '../parts/button.tsx'
import { Empty } from '../parts/empty.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { ViewHead } from '../parts/view-head.tsx'
import { keyHelp, useKeys } from '../shell/keys.ts'
import { hrefOf, route } from '../shell/route.ts'
import type { Said } from './answering.ts'
import { Detail } from './detail.tsx'
import { beside, groupOf, groupsOf, nextAfter, type Group } from './groups.ts'
import { List } from './list.tsx'
import { leaving, pending, pendingCount, putAway, select, selected, waits } from './questions.ts'
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
        <Button kind="plain" onPress={() => void (keyHelp.isOpen.value = true)}>
          Keys <kbd>?</kbd>
        </Button>
      </ViewHead>
      <Tabs
        label="Questions"
        tabs={[
          { label: 'Waiting', href: hrefOf('inbox'), isShown: !isRecent },
          { label: 'Recent', href: hrefOf('inbox', ['recent']), isShown: isRecent },
        ]}
      />
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
  useLook(groups)
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
  const move = (by: 1 | -1): void => {
    const to = beside(groups, selected.value, by)
    // What is over and has nothing beside it is put away.
    if (to === selected.value && card !== undefined && !waits(card)) putAway(new Set([card.id]), undefined)
    else select(to)
  }
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
    putAway(ids, nextAfter(groups, first.id, ids))
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
            onPutAway={() => putAway(new Set([card.id]), nextAfter(groups, card.id, new Set([card.id])))}
            onAnswered={answered}
            onSay={(words) => void (said.value = words)}
          />
        </div>
      )}
    </>
  )
}

/** What the address names is looked at; where nothing is, what waits longest. Never away from something. */
function useLook(groups: readonly Group[]): void {
  const named = route.value.rest[0]
  useEffect(() => {
    if (named !== undefined) select(named)
  }, [named])
  useEffect(() => {
    const first = groups[0]?.cards[0].id
    if (first !== undefined && groupOf(groups, selected.value) === undefined) select(first)
  })
}

function NothingWaits() {
  return (
    <Empty title={connection.value === 'live' ? 'Nothing waits' : '…'}>
      <p>What an agent may do only with your word comes here by itself. Keep this page open, or come back to it.</p>
    </Empty>
  )
}
