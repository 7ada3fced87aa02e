import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import { matchesActivity, type ActivityBatch, type ActivityFilter, type ActivityLine, type ActivityPage } from '../../wire/activity.ts'
import type { Ask } from '../../wire/control.ts'
import type { KeptAt } from '../session-chains.ts'
import type { EarlierLine } from './read-back.ts'
import { readRecorded, type Ended, type Recorded } from './read-line.ts'
import { createRing, type AuditPlace, type Held } from './ring.ts'
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
  const policies = new Map<string, string>()

  const change = (held: Held): void => {
    ring.put(held)
    updates.tell(held.line)
  }
  const begin = (line: Omit<ActivityLine, 'n'>, place: AuditPlace): void => {
    const before = ring.find(line.session, line.request)
    const isAsked = before?.line.isAsked === true || line.isAsked === true
    const all = { ...line, ...(isAsked && { isAsked: true as const }) }
    const held = { places: [...(before?.places ?? []), place].slice(0, PLACES_MAX), policy: policies.get(line.session) }
    if (before === undefined) updates.tell(ring.add((n) => ({ ...held, line: { ...all, n } })).line)
    else change({ ...held, line: { ...all, n: before.line.n } })
    // Decided twice it is still one request.
    if (before !== undefined && before.places.length > 0) return
    series.count({
      session: line.session,
      plane: line.plane,
      atMs: line.at,
      requests: 1,
      denials: line.decision === 'deny' ? 1 : 0,
      asks: isAsked ? 1 : 0,
    })
  }
  const finish = (session: string, request: string, atMs: number, ended: Ended, place: AuditPlace): void => {
    const held = ring.find(session, request)
    const { bytesUp = 0, bytesDown = 0, durationMs } = ended
    const latencyMs = held !== undefined && isAnswered(held.line) ? durationMs : undefined
    series.count({
      session,
      plane: held?.line.plane ?? 'agent',
      atMs,
      bytesUp,
      bytesDown,
      ...(latencyMs !== undefined && { latencyMs }),
    })
    if (held === undefined) return
    // Why it was refused stays: how that ended says the same.
    const { code } = held.line
    change({
      ...held,
      line: { ...held.line, ...ended, ...(code !== undefined && { code }), state: 'done' },
      places: [...held.places, place].slice(0, PLACES_MAX),
    })
  }
  const record = (session: string, found: Recorded, place: AuditPlace): void => {
    if (found.kind === 'begun') begin(found.line, place)
    else if (found.kind === 'ended') finish(session, found.request, found.atMs, found.ended, place)
    else policies.set(session, found.digest)
  }
  const takeOne = (text: string, at: KeptAt): void => {
    const { session, chain, offset } = at
    const found = readRecorded(session, text)
    if (found !== undefined)
      record(session, found, { chain: chain === 1 ? session : `${session}.${chain}`, seq: seqOf(text), offset, bytes: text.length })
  }
  const end = (session: string): void => {
    policies.delete(session)
    for (const held of ring.newest())
      if (held.line.session === session && held.line.state === 'open') change({ ...held, line: { ...held.line, state: 'lost' } })
  }

  return {
    take(lines, at) {
      let { offset } = at
      for (const text of lines) {
        // They are kept already: what is wrong with one must not have them sent again.
        try {
          takeOne(text, { ...at, offset })
        } catch (error) {
          log.warn({ session: at.session, cause: codeOf(error) }, 'activity: a line of the audit could not be read')
        }
        offset += text.length + 1
      }
    },
    takeEarlier(lines, isOver) {
      for (const { text, at } of lines) takeOne(text, at)
      const open = [...ring.newest()].flatMap(({ line }) => (line.state === 'open' ? [line.session] : []))
      for (const session of new Set([...open, ...policies.keys()])) if (isOver(session)) end(session)
    },
    ask(session, { request, subject }) {
      if (ring.find(session, request) !== undefined) return
      const held = ring.add((n) => ({ line: asked(n, session, request, subject, system.now()), places: [], policy: policies.get(session) }))
      updates.tell(held.line)
    },
    end,
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

/** Lines of the audit about one request. */
const PLACES_MAX = 4

/** Whether how long it took is how long an answer took: a connection that nobody looks into lasts as long as its ends want. */
function isAnswered({ decision, note, method, lane }: ActivityLine): boolean {
  return decision === 'allow' && method !== undefined && method !== 'CONNECT' && note !== 'tcp' && note !== 'passthrough' && lane !== 'mcp'
}

function asked(n: number, session: string, request: string, subject: Ask['subject'], at: number): ActivityLine {
  const { rule, lane, network, scheme, host, port, method, path } = subject
  return {
    n,
    session,
    request,
    at,
    lane: isLane(lane) ? lane : 'http',
    plane: 'agent',
    ...(network !== undefined && { network }),
    ...(scheme !== undefined && { scheme }),
    method,
    host,
    port,
    ...(path !== undefined && { path: path.split('?')[0] ?? '' }),
    decision: 'ask',
    isAsked: true,
    rule,
    credentials: [],
    state: 'open',
  }
}

function isLane(lane: string): lane is ActivityLine['lane'] {
  return lane === 'http' || lane === 'connect' || lane === 'socks' || lane === 'transparent' || lane === 'route'
}

function seqOf(text: string): number {
  return Number(/^\{"seq":(\d{1,15}),/.exec(text)?.[1] ?? 0)
}
