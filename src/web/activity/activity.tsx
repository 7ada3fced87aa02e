import { useEffect, useRef, useState } from 'preact/hooks'
import { matchesActivity, type ActivityLine } from '../../wire/activity.ts'
import { Button } from '../parts/button.tsx'
import { Empty } from '../parts/empty.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { ViewHead } from '../parts/view-head.tsx'
import { VirtualList } from '../parts/virtual-list.tsx'
import { useKeys } from '../shell/keys.ts'
import { close, filter, open, opened } from './address.ts'
import { Charts } from './charts.tsx'
import { Filters, PlaneTabs } from './filters.tsx'
import { LineRow } from './line-row.tsx'
import { heldBack, hold, isHeld, isLoaded, keepLines, lines, loadProblem, missed, release, shownLines } from './lines.ts'
import { Panel } from './panel.tsx'
import './activity.css'

const ROW_PIXELS = 34
/** Of a card of two lines, where there is no room for a row. */
const CARD_PIXELS = 62
const NARROW = '(max-width: 1023px)'

/** What sessions do in the network, as it happens. */
export function Activity() {
  useEffect(keepLines, [])
  const isNarrow = useNarrow()
  const list = useRef<HTMLDivElement>(null)
  const [active, setActive] = useState<number | undefined>()
  const [isPaused, setPaused] = useState(false)
  const found = shownLines.value.filter((line) => matchesActivity(line, filter.value))
  const index = found.findIndex(({ n }) => n === active)
  const at = opened.value
  const shown = at && lines.value.find((line) => line.session === at.session && line.request === at.request)

  const activate = (next: number): void => {
    const line = found[Math.min(found.length - 1, Math.max(0, next))]
    // What is looked at stays where it is.
    hold()
    setActive(line?.n)
  }
  const openAt = (next: number): void => {
    const line = found[next]
    if (line === undefined) return
    activate(next)
    open(line.session, line.request)
  }
  const goOn = (): void => {
    setPaused(false)
    release()
    if (list.current !== null) list.current.scrollTop = 0
  }
  const leave = (): void => {
    close()
    list.current?.focus()
  }
  useKeys({
    j: { does: 'the next line', press: () => activate(index + 1) },
    k: { does: 'the line before', press: () => activate(index - 1) },
    Enter: { does: 'open the line', press: () => openAt(index) },
    Escape: { does: 'close what is open, or go on with the newest', press: () => (at === undefined ? goOn() : leave()) },
    p: { does: 'pause, or go on', press: () => (isHeld.value ? goOn() : (setPaused(true), hold())) },
  })

  return (
    <div class={`activity${at === undefined ? '' : ' activity-with-panel'}`}>
      <Above isNarrow={isNarrow} />
      <div class="activity-body">
        <div class="activity-feed">
          <State isPaused={isPaused} count={found.length} onPause={() => (setPaused(true), hold())} onGoOn={goOn} />
          {found.length === 0 ? (
            <Nothing />
          ) : (
            <VirtualList<ActivityLine>
              element={list}
              class="activity-list"
              label="Requests and connections"
              items={found}
              rowPixels={isNarrow ? CARD_PIXELS : ROW_PIXELS}
              keyOf={({ n }) => n}
              row={(line) => <LineRow line={line} isOpen={line.n === shown?.n} />}
              choice={{ active: index, onActive: activate, onOpen: openAt }}
              onTop={(isAtTop) => {
                if (!isAtTop) hold()
                else if (!isPaused && active === undefined) release()
              }}
            />
          )}
        </div>
        {at !== undefined && <Panel session={at.session} request={at.request} state={shown?.state ?? ''} onClose={leave} />}
      </div>
    </div>
  )
}

function Above({ isNarrow }: { isNarrow: boolean }) {
  return (
    <>
      <ViewHead title="Activity" about="What sessions do in the network, newest first.">
        <PlaneTabs />
      </ViewHead>
      <details class="activity-fold" open={!isNarrow}>
        <summary>Over time</summary>
        <Charts />
      </details>
      <Filters />
    </>
  )
}

function State(props: { readonly isPaused: boolean; readonly count: number; readonly onPause: () => void; readonly onGoOn: () => void }) {
  const { isPaused, count, onPause, onGoOn } = props
  const waiting = heldBack.value
  return (
    <div class="activity-state">
      {loadProblem.value !== undefined && <ProblemNote problem={loadProblem.value} />}
      <span class="quiet">
        {count === 1 ? '1 line' : `${count.toLocaleString('en')} lines`}
        <span role="status">{isPaused ? ', paused' : isHeld.value ? ', standing still' : ''}</span>
        {missed.value > 0 && `, ${missed.value.toLocaleString('en')} came too fast to be shown: load the page anew to read them`}
      </span>
      {isHeld.value ? (
        <Button kind="main" onPress={onGoOn}>
          {waiting === 0 ? 'Go on' : `Show ${waiting.toLocaleString('en')} new`}
        </Button>
      ) : (
        <Button onPress={onPause}>Pause</Button>
      )}
    </div>
  )
}

function Nothing() {
  if (!isLoaded.value) return <p class="quiet">…</p>
  return filter.value.isNarrow || lines.value.length > 0 ? (
    <Empty title="No line is like that">
      <p>Other filters, or the traffic of the agents’ own services, may have some.</p>
    </Empty>
  ) : (
    <Empty title="Nothing has happened yet">
      <p>What a session does in the network appears here at once: allowed, denied or asked about.</p>
    </Empty>
  )
}

function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => matchMedia(NARROW).matches)
  useEffect(() => {
    const media = matchMedia(NARROW)
    const look = (): void => setNarrow(media.matches)
    look()
    media.addEventListener('change', look)
    return () => media.removeEventListener('change', look)
  }, [])
  return isNarrow
}
