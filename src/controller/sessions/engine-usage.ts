import { orNothing, type Caller } from './engine-call.ts'
import type { ContainerUsage } from './engine.ts'

type RawStats = {
  readonly read: string
  readonly cpu_stats?: { readonly cpu_usage?: { readonly total_usage?: number } }
  readonly memory_stats?: { readonly usage?: number; readonly limit?: number; readonly stats?: Readonly<Record<string, number>> }
  readonly pids_stats?: { readonly current?: number; readonly limit?: number }
}

const NANOSECONDS_IN_MS = 1_000_000
/** What the engine gives where there is no limit: the greatest number, which JSON rounds. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER

/** One count, without the second that the engine else waits to make a rate of it. */
export async function readUsage(call: Caller, id: string): Promise<ContainerUsage | undefined> {
  const raw = (await orNothing(call({ path: `/containers/${id}/stats`, query: { stream: false, 'one-shot': true } }), 409)) as
    | RawStats
    | undefined
  const { usage, limit = 0, stats = {} } = raw?.memory_stats ?? {}
  // Of one that does not run the engine tells nothing but zeros.
  if (raw === undefined || usage === undefined) return undefined
  const { current = 0, limit: pidsMax = 0 } = raw.pids_stats ?? {}
  return {
    atMs: Date.parse(raw.read),
    processorMs: (raw.cpu_stats?.cpu_usage?.total_usage ?? 0) / NANOSECONDS_IN_MS,
    // By its names in the first and the second version of control groups.
    memoryBytes: Math.max(0, usage - (stats['total_inactive_file'] ?? stats['inactive_file'] ?? 0)),
    memoryBytesMax: limit,
    pids: current,
    pidsMax: pidsMax >= NO_LIMIT ? 0 : pidsMax,
  }
}
