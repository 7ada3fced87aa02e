import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { ActivityBucket, ActivityPlane, ActivitySeries } from '../../wire/activity.ts'

/** What is counted at a time. */
export type Counted = {
  readonly session: string
  readonly plane: ActivityPlane
  readonly atMs: number
  readonly requests?: number
  readonly denials?: number
  readonly asks?: number
  readonly bytesUp?: number
  readonly bytesDown?: number
  readonly latencyMs?: number
}

export type SeriesQuery = { readonly session?: string | undefined; readonly plane?: ActivityPlane | undefined; readonly minutes: number }

/** Counts by time, of each session and of all together: also of what is kept no longer by itself. */
export type Series = {
  count(counted: Counted): void
  read(query: SeriesQuery): ActivitySeries
  requestsPerMinute(session: string): number
}

type Bucket = {
  requests: number
  denials: number
  asks: number
  bytesUp: number
  bytesDown: number
  latencies: Uint32Array | undefined
}

/** Counts of one session, or of all: short stretches of the last hour, long ones of the last day. */
type Track = { readonly fine: Map<number, Bucket>; readonly coarse: Map<number, Bucket> }
type Grid = { readonly stepMs: number; readonly keptMs: number }

const FINE: Grid = { stepMs: LIMITS.activityFineStepMs, keptMs: LIMITS.activityFineKeptMs }
const COARSE: Grid = { stepMs: LIMITS.activityCoarseStepMs, keptMs: LIMITS.activityCoarseKeptMs }
const PLANES: readonly ActivityPlane[] = ['agent', 'control_plane']
const ALL = ''
const MINUTE_MS = 60_000

export function createSeries(system: Pick<System, 'now'>): Series {
  const tracks = new Map<string, Track>()

  /** Those of sessions that had nothing for the longest time give way: what all of them did together stays. */
  const trackOf = (session: string, plane: ActivityPlane): Track => {
    const key = keyOf(session, plane)
    const track = tracks.get(key) ?? { fine: new Map<number, Bucket>(), coarse: new Map<number, Bucket>() }
    tracks.delete(key)
    tracks.set(key, track)
    if (tracks.size > LIMITS.activityTracksMax)
      for (const old of tracks.keys()) {
        if (old.endsWith(` ${ALL}`)) continue
        tracks.delete(old)
        break
      }
    return track
  }

  const read = ({ session = ALL, plane, minutes }: SeriesQuery): ActivitySeries => {
    const nowMs = system.now()
    const isFine = minutes * MINUTE_MS <= FINE.keptMs
    const { stepMs } = isFine ? FINE : COARSE
    const found = (plane === undefined ? PLANES : [plane]).flatMap((one) => tracks.get(keyOf(session, one)) ?? [])
    const end = Math.floor(nowMs / stepMs)
    const buckets: ActivityBucket[] = []
    for (let index = end - Math.ceil((minutes * MINUTE_MS) / stepMs) + 1; index <= end; index += 1) {
      const parts = found.flatMap(({ fine, coarse }) => (isFine ? fine : coarse).get(index) ?? [])
      buckets.push(shown(index * stepMs, parts))
    }
    return { stepMs, buckets }
  }

  return {
    count(counted) {
      const nowMs = system.now()
      for (const session of [counted.session, ALL]) {
        const { fine, coarse } = trackOf(session, counted.plane)
        into(fine, FINE, counted, nowMs)
        into(coarse, COARSE, counted, nowMs)
      }
    },
    read,
    requestsPerMinute: (session) => read({ session, minutes: 1 }).buckets.reduce((sum, { requests }) => sum + requests, 0),
  }
}

function keyOf(session: string, plane: ActivityPlane): string {
  return `${plane} ${session}`
}

/** Into the stretch that it falls in, of those that a grid still has. */
function into(buckets: Map<number, Bucket>, grid: Grid, counted: Counted, nowMs: number): void {
  // A clock that ran ahead must not leave what never grows old.
  const atMs = Math.min(counted.atMs, nowMs)
  if (atMs <= nowMs - grid.keptMs) return
  const index = Math.floor(atMs / grid.stepMs)
  let bucket = buckets.get(index)
  if (bucket === undefined) {
    const oldest = Math.floor((nowMs - grid.keptMs) / grid.stepMs)
    for (const one of buckets.keys()) if (one < oldest) buckets.delete(one)
    bucket = { requests: 0, denials: 0, asks: 0, bytesUp: 0, bytesDown: 0, latencies: undefined }
    buckets.set(index, bucket)
  }
  add(bucket, counted)
}

function add(bucket: Bucket, { requests = 0, denials = 0, asks = 0, bytesUp = 0, bytesDown = 0, latencyMs }: Counted): void {
  bucket.requests += requests
  bucket.denials += denials
  bucket.asks += asks
  bucket.bytesUp += bytesUp
  bucket.bytesDown += bytesDown
  if (latencyMs === undefined) return
  bucket.latencies ??= new Uint32Array(BINS)
  const bin = binOf(latencyMs)
  bucket.latencies[bin] = (bucket.latencies[bin] ?? 0) + 1
}

function shown(at: number, parts: readonly Bucket[]): ActivityBucket {
  const sum = (of: 'requests' | 'denials' | 'asks' | 'bytesUp' | 'bytesDown'): number => parts.reduce((all, part) => all + part[of], 0)
  const latencies = parts.flatMap((part) => part.latencies ?? [])
  const p50 = percentile(latencies, 0.5)
  const p95 = percentile(latencies, 0.95)
  return {
    at,
    requests: sum('requests'),
    denials: sum('denials'),
    asks: sum('asks'),
    bytesUp: sum('bytesUp'),
    bytesDown: sum('bytesDown'),
    ...(p50 !== undefined && { p50 }),
    ...(p95 !== undefined && { p95 }),
  }
}

/** Each bin of latencies ends a quarter higher than the one before: 64 of them reach from 1 ms to 20 minutes. */
const BIN_GROWTH = 1.25
const BINS = 64

function binOf(ms: number): number {
  return ms <= 1 ? 0 : Math.min(BINS - 1, Math.ceil(Math.log(ms) / Math.log(BIN_GROWTH)))
}

/** The upper end of the bin that it falls in: at most a quarter too much. */
function percentile(latencies: readonly Uint32Array[], part: number): number | undefined {
  const counts = Array.from({ length: BINS }, (_, bin) => latencies.reduce((sum, one) => sum + (one[bin] ?? 0), 0))
  const all = counts.reduce((sum, count) => sum + count, 0)
  if (all === 0) return undefined
  let seen = 0
  for (const [bin, count] of counts.entries()) {
    seen += count
    if (seen >= all * part) return Math.round(BIN_GROWTH ** bin)
  }
  return undefined
}
