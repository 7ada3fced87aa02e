import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'

/** Counts queries by the address that they come from. */
export type Allowance = {
  /** True when the client may ask once more now. */
  take(client: string): boolean
}

type Bucket = { queries: number; atMs: number }

/** A token bucket for each client: `LIMITS.dnsBurstQueriesMax` at once, `LIMITS.dnsQueriesPerSecondMax` in the long run. */
export function createAllowance(system: Pick<System, 'elapsed'>): Allowance {
  /** In the order of last use. */
  const buckets = new Map<string, Bucket>()
  // Nobody gets a fresh bucket by driving others out of the table: who finds it full shares this one.
  const others: Bucket = fullBucket(system.elapsed())

  const bucketOf = (client: string, nowMs: number): Bucket => {
    const known = buckets.get(client)
    if (known !== undefined) {
      buckets.delete(client)
      buckets.set(client, known)
      return known
    }
    const [oldest] = buckets
    if (buckets.size >= LIMITS.dnsClientsMax && oldest !== undefined) {
      // A bucket that is full again says no more than none at all.
      if (refilled(oldest[1], nowMs) < LIMITS.dnsBurstQueriesMax) return others
      buckets.delete(oldest[0])
    }
    const bucket = fullBucket(nowMs)
    buckets.set(client, bucket)
    return bucket
  }

  return {
    take(client) {
      const nowMs = system.elapsed()
      const bucket = bucketOf(client, nowMs)
      bucket.queries = refilled(bucket, nowMs)
      bucket.atMs = nowMs
      if (bucket.queries < 1) return false
      bucket.queries -= 1
      return true
    },
  }
}

function fullBucket(atMs: number): Bucket {
  return { queries: LIMITS.dnsBurstQueriesMax, atMs }
}

function refilled(bucket: Bucket, nowMs: number): number {
  return Math.min(LIMITS.dnsBurstQueriesMax, bucket.queries + ((nowMs - bucket.atMs) * LIMITS.dnsQueriesPerSecondMax) / 1_000)
}
