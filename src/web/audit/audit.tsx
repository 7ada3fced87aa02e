import { useEffect, useState } from 'preact/hooks'
import type { AuditEntryView, AuditPage } from '../../wire/audit-views.ts'
import { call, Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Empty } from '../parts/empty.tsx'
import { Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { At } from '../parts/time.tsx'
import { ViewHead } from '../parts/view-head.tsx'
import { VirtualList } from '../parts/virtual-list.tsx'
import { hrefOf, route } from '../shell/route.ts'
import { AuditFilters, askedOf } from './audit-filters.tsx'
import { AuditExport } from './audit-export.tsx'
import { StandingCard } from './standing-card.tsx'
import { Story } from './story.tsx'
import './audit.css'

const ROW_PIXELS = 46

type Found = {
  readonly entries: readonly AuditEntryView[]
  /** What older events are asked for with. */
  readonly next?: string | undefined
  readonly problem?: Problem | undefined
  readonly isLoading: boolean
}

/** All that was asked and decided, and whether the record of it holds. */
export function Audit() {
  const { rest, query } = route.value
  const asked = new URLSearchParams(askedOf(query)).toString()
  const [found, setFound] = useState<Found>({ entries: [], isLoading: true })
  const [round, setRound] = useState(0)
  useEffect(() => {
    const stop = new AbortController()
    setFound((before) => ({ ...before, isLoading: true }))
    ask(asked, undefined, stop.signal).then(
      ({ entries, next }) => setFound({ entries, next, isLoading: false }),
      (problem: unknown) => {
        if (!stop.signal.aborted && problem instanceof Problem) setFound({ entries: [], problem, isLoading: false })
      },
    )
    return () => stop.abort()
  }, [asked, round])
  const older = async (): Promise<void> => {
    const { entries, next } = await ask(asked, found.next)
    setFound({ ...found, entries: [...found.entries, ...entries], next })
  }
  const [story] = rest
  return (
    <>
      <ViewHead title="Audit" about="What was asked, decided, answered and done: chained, signed, and never changed.">
        <Button onPress={() => setRound(round + 1)}>Refresh</Button>
        <AuditExport asked={asked} />
      </ViewHead>
      <div class="stack">
        <StandingCard />
        <AuditFilters key={asked} events={EVENTS} />
        {found.problem !== undefined && <ProblemNote problem={found.problem} />}
        <div class={story === undefined ? 'audit-panes' : 'audit-panes audit-panes-two'}>
          <section class="card audit-list" aria-label="Events">
            <p class="small quiet" role="status">
              {found.isLoading
                ? 'reading …'
                : `${found.entries.length === 1 ? '1 event' : `${found.entries.length} events`}${found.next === undefined ? '' : ', and older ones'}`}
            </p>
            {!found.isLoading && found.entries.length === 0 && found.problem === undefined && (
              <Empty title="Nothing like that is recorded" />
            )}
            {found.entries.length > 0 && (
              <VirtualList
                items={found.entries}
                rowPixels={ROW_PIXELS}
                keyOf={idOf}
                label="Events, the latest first"
                class="audit-rows"
                row={(entry) => <Row entry={entry} isOpen={idOf(entry) === story} query={query} />}
              />
            )}
            {found.next !== undefined && <Button onPress={older}>Older events</Button>}
          </section>
          {story !== undefined && <Story key={story} id={story} />}
        </div>
      </div>
    </>
  )
}

/** Kinds of events, for the field that asks for one: those of docs/AUDIT.md. */
const EVENTS = [
  'decided',
  'finished',
  'question_asked',
  'question_settled',
  'question_consumed',
  'question_finished',
  'command_decided',
  'command_finished',
  'secret_requested',
  'secret_granted',
  'use_decided',
  'use_finished',
  'tool_called',
  'tool_started',
  'tool_ended',
  'session',
  'config_changed',
  'operator',
  'reloaded',
  'reload_failed',
  'secrets_ended',
  'countersigned',
  'checkpoint',
  'started',
  'stopped',
] as const

function ask(asked: string, before: string | undefined, stop?: AbortSignal): Promise<AuditPage> {
  const query = new URLSearchParams(asked)
  if (before !== undefined) query.set('before', before)
  return call<AuditPage>('GET', `/v1/audit?${query.toString()}`, undefined, stop)
}

function idOf({ chain, seq }: AuditEntryView): string {
  return `${chain}:${seq}`
}

function Row({ entry, isOpen, query }: { entry: AuditEntryView; isOpen: boolean; query: URLSearchParams }) {
  const { time, event, chain, summary, fields } = entry
  return (
    <a
      class="audit-row"
      href={hrefOf('audit', [idOf(entry)], Object.fromEntries(query))}
      aria-current={isOpen ? 'true' : undefined}
      data-decision={fields['decision'] === 'deny' ? 'deny' : undefined}
    >
      <span class="audit-row-head">
        <span class="mono">
          <At at={Date.parse(time)} />
        </span>
        <strong>
          <Name text={event} />
        </strong>
        <span class="quiet">
          <Name text={chain} />
        </span>
      </span>
      <span class="audit-row-text">
        <Name text={summary} />
      </span>
    </a>
  )
}
