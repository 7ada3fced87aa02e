import { chainFileName } from '../../audit/audit.ts'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import { matchesActivity, type ActivityBatch, type ActivityFilter, type ActivityLine, type ActivityPage } from '../../wire/activity.ts'
import type { Ask } from '../../wire/control.ts'
import type { KeptAt } from '../session-chains.ts'
import type { EarlierLine } from './read-back.ts'
import { createJoin } from './join.ts'
import { readRecorded } from './read-line.ts'
import { createRing, type Held } from './ring.ts'
import { createSeries, type Series } from './series.ts'
import { createUpdates } from './updates.ts'

/**
 * What sessions do in the network, as it happens: the lines of their chains joined by request, the last `LIMITS.activityLinesMax` of them
 * in memory, and counts over time. It is a view of the audit, which it refers to, and is made anew from it.
 */
export type Activity = {
  /** Lines of a session's chain that are on disk. */
  take(lines: readonly string[], at: KeptAt): void
  /** Lines of an earlier daemon, of any chains, in the order in which they count. */
  takeEarlier(lines: readonly EarlierLine[], isOver: (session: string) => boolean): void
  /** The operator is asked about a request that waits. */
  ask(session: string, ask: Ask): void
  /** Nothing more comes of that session. */
  end(session: string): void
  list(filter: ActivityFilter, before: number | undefined, limit: number): ActivityPage
  find(session: string, request: string): Held | undefined
  /** New and changed lines until the signal. */
  listen(signal: AbortSignal): AsyncGenerator<ActivityBatch, void>
  series: Series['read']
  /** How many requests a session made in the last minute. */
  requestsPerMinute(session: string): number
}

export function createActivity(system: Pick<System, 'now'>, log: Pick<Log, 'warn'>): Activity {
  const ring = createRing(LIMITS.activityLinesMax)
  const series = createSeries(system)
  const updates = createUpdates()
  const join = createJoin(ring, series, (line) => updates.tell(line))

  const takeOne = (text: string, { session, chain, offset }: KeptAt): void => {
    // They are kept already: what is wrong with one must not have them sent again.
    try {
      const found = readRecorded(session, text)
      if (found === undefined) return
      join.record(session, found, {
        chain: chainFileName({ session, chain }).replace(/\.jsonl$/, ''),
        seq: seqOf(text),
        offset,
        bytes: text.length,
      })
    } catch (error) {
      log.warn({ session, cause: codeOf(error) }, 'activity: a line of the audit could not be read')
    }
  }

  return {
    take(lines, at) {
      let { offset } = at
      for (const text of lines) {
        takeOne(text, { ...at, offset })
        offset += text.length + 1
      }
    },
    takeEarlier(lines, isOver) {
      for (const { text, at } of lines) takeOne(text, at)
      for (const session of join.sessions()) if (isOver(session)) join.end(session)
    },
    ask: (session, ask) => join.ask(session, ask, system.now()),
    end: (session) => join.end(session),
    list(filter, before, limit) {
      const lines: ActivityLine[] = []
      for (const { line } of ring.newest(before)) {
        if (!matchesActivity(line, filter)) continue
        if (lines.length === limit) return { lines, before: lines.at(-1)?.n ?? 0, total: ring.size }
        lines.push(line)
      }
      return { lines, total: ring.size }
    },
    find: (session, request) => ring.find(session, request),
    listen: (signal) => updates.listen(signal),
    series: (query) => series.read(query),
    requestsPerMinute: (session) => series.requestsPerMinute(session),
  }
}

function seqOf(text: string): number {
  return Number(/^\{"seq":(\d{1,15}),/.exec(text)?.[1] ?? 0)
}
