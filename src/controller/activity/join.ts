import type { ActivityLine } from '../../wire/activity.ts'
import type { Ask } from '../../wire/control.ts'
import { laneOf, type Ended, type Recorded } from './read-line.ts'
import type { AuditPlace, Held, Ring } from './ring.ts'
import type { Series } from './series.ts'

/** Lines of the audit that are kept of one request. */
const PLACES_MAX = 4

/** Joins what is recorded of requests, and counts it. */
export type Join = {
  record(session: string, found: Recorded, place: AuditPlace): void
  ask(session: string, ask: Ask, nowMs: number): void
  end(session: string): void
  /** Sessions of which something is known that ends with them. */
  sessions(): Set<string>
}

/** @param tell hears of each line that is new or changed */
export function createJoin(ring: Ring, series: Series, tell: (line: ActivityLine) => void): Join {
  const policies = new Map<string, string>()

  const change = (held: Held): void => {
    ring.put(held)
    tell(held.line)
  }
  const begin = (line: Omit<ActivityLine, 'n'>, place: AuditPlace): void => {
    const before = ring.find(line.session, line.request)
    const isAsked = before?.line.isAsked === true || line.isAsked === true
    const all = { ...line, ...(isAsked && { isAsked: true as const }) }
    const held = { places: [...(before?.places ?? []), place].slice(0, PLACES_MAX), policy: policies.get(line.session) }
    if (before === undefined) tell(ring.add((n) => ({ ...held, line: { ...all, n } })).line)
    else change({ ...held, line: { ...all, n: before.line.n } })
    // Decided twice it is still one request.
    if (before !== undefined && before.places.length > 0) return
    const { session, plane, at: atMs, decision } = line
    series.count({ session, plane, atMs, requests: 1, denials: decision === 'deny' ? 1 : 0, asks: isAsked ? 1 : 0 })
  }
  const finish = (session: string, request: string, atMs: number, ended: Ended, place: AuditPlace): void => {
    const held = ring.find(session, request)
    const { bytesUp = 0, bytesDown = 0, durationMs } = ended
    const isTimed = durationMs !== undefined && held !== undefined && isAnswered(held.line)
    const latency = isTimed && { latencyMs: durationMs }
    series.count({ session, plane: held?.line.plane ?? 'agent', atMs, bytesUp, bytesDown, ...latency })
    if (held === undefined) return
    // Why it was refused stays: how that ended says the same.
    const code = held.line.code ?? ended.code
    const line = { ...held.line, ...ended, ...(code !== undefined && { code }), state: 'done' as const }
    change({ ...held, line, places: [...held.places, place].slice(0, PLACES_MAX) })
  }

  return {
    record(session, found, place) {
      if (found.kind === 'begun') begin(found.line, place)
      else if (found.kind === 'ended') finish(session, found.request, found.atMs, found.ended, place)
      else policies.set(session, found.digest)
    },
    ask(session, { request, subject }, nowMs) {
      if (ring.find(session, request) !== undefined) return
      const policy = policies.get(session)
      tell(ring.add((n) => ({ line: { ...asked(session, request, subject, nowMs), n }, places: [], policy })).line)
    },
    end(session) {
      policies.delete(session)
      for (const held of ring.newest())
        if (held.line.session === session && held.line.state === 'open') change({ ...held, line: { ...held.line, state: 'lost' } })
    },
    sessions() {
      const open = [...ring.newest()].flatMap(({ line }) => (line.state === 'open' ? [line.session] : []))
      return new Set([...open, ...policies.keys()])
    },
  }
}

/** Whether how long it took is how long an answer took: a connection that nobody looks into lasts as long as its ends want. */
function isAnswered({ decision, note, method, lane }: ActivityLine): boolean {
  return decision === 'allow' && method !== undefined && method !== 'CONNECT' && note !== 'tcp' && note !== 'passthrough' && lane !== 'mcp'
}

function asked(session: string, request: string, subject: Ask['subject'], at: number): Omit<ActivityLine, 'n'> {
  const { rule, lane, network, scheme, host, port, method, path } = subject
  return {
    session,
    request,
    at,
    lane: laneOf(lane),
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
