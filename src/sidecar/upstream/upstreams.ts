import type { SecureContext } from 'node:tls'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { system as realSystem, type System } from '../../kernel/system.ts'
import type { Dial, Target } from './dial.ts'
import { createHostSlots } from './host-slots.ts'
import { createWays } from './origin.ts'
import type { UpstreamProxy } from './proxy.ts'
import type { Origin, Upstream } from './upstream.ts'

/** Which sockets may carry a request. Two requests share one only when all of it is equal. I7 */
export type UpstreamKey = Target & {
  readonly scheme: 'http' | 'https'
  /** Id of the credential that is written into requests on these sockets; empty for none. */
  readonly credential: string
  /** Which replacement of the policy decided: an older one's connections carry nothing new. */
  readonly generation: number
}

export type Upstreams = AsyncDisposable & {
  /**
   * What sends requests over these sockets, by HTTP/2 where the upstream speaks it.
   * @throws overloaded when too many requests wait for them; host_busy when too many to this host and port are under way
   */
  pool(key: UpstreamKey): Upstream
  /** Connects for a tunnel, the way that requests go. */
  readonly dial: Dial
  /** Generations before this one get nothing new: their connections close as soon as nothing runs on them. */
  retire(generation: number): void
  /** Pools that are held, for tests and the log. */
  readonly size: number
}

type Held = { readonly origin: Origin; readonly upstream: Upstream; readonly generation: number; usedAt: number }

/** `trust` holds the roots that upstreams are verified against; with a `proxy` nothing is dialled but the proxy. */
export function createUpstreams(trust: SecureContext, proxy?: UpstreamProxy, system: Pick<System, 'now'> = realSystem): Upstreams {
  const ways = createWays(trust, proxy, system)
  const held = new Map<string, Held>()
  const closing = new Set<Origin>()
  const slots = createHostSlots(LIMITS.requestsPerHostMax)
  let oldest = 0
  let uses = 0
  function hold(key: UpstreamKey): Held {
    const origin = ways.openOrigin(key)
    return { origin, upstream: slots.counted(whereOf(key), origin), generation: key.generation, usedAt: 0 }
  }

  /** For a request that was decided just before the policy was replaced: it goes on, its connection serves no other. */
  function once(key: UpstreamKey): Upstream {
    const { origin, upstream } = hold(key)
    return {
      dispatch(request, handler) {
        upstream.dispatch(request, handler)
        close(origin)
      },
    }
  }

  function close(origin: Origin): void {
    closing.add(origin)
    void origin.close().then(() => closing.delete(origin))
  }

  function shrink(): void {
    if (held.size < LIMITS.upstreamPoolsMax) return
    for (const [id, { origin }] of [...held].toSorted(([, a], [, b]) => a.usedAt - b.usedAt)) {
      if (held.size < LIMITS.upstreamPoolsMax) return
      if (origin.isBusy) continue
      held.delete(id)
      close(origin)
    }
  }

  return {
    get size() {
      return held.size
    },
    pool(key) {
      const where = whereOf(key)
      slots.check(where)
      if (key.generation < oldest) return once(key)
      const id = `${key.scheme} ${where} ${key.generation} ${key.credential} ${namesOf(key.addresses)}`
      let found = held.get(id)
      if (!found) {
        shrink()
        if (held.size >= LIMITS.upstreamPoolsMax) throw new SallyportError('overloaded', 'too many upstreams are busy at once')
        found = hold(key)
        held.set(id, found)
      }
      found.usedAt = ++uses
      if (found.origin.pending > LIMITS.upstreamQueueMax) throw new SallyportError('overloaded', `too many requests wait for ${where}`)
      return found.upstream
    },
    dial: ways.dial,
    retire(generation) {
      oldest = Math.max(oldest, generation)
      for (const [id, entry] of held) {
        if (entry.generation >= oldest) continue
        held.delete(id)
        close(entry.origin)
      }
    },
    async [Symbol.asyncDispose]() {
      const all = [...closing, ...[...held.values()].map(({ origin }) => origin)]
      held.clear()
      await Promise.all(all.map((origin) => origin.destroy()))
    },
  }
}

/** The same addresses are the same array for as long as their look-up holds. */
const names = new WeakMap<readonly string[], string>()

function namesOf(addresses: readonly string[] | undefined): string {
  if (addresses === undefined) return 'undefined'
  let name = names.get(addresses)
  if (name === undefined) names.set(addresses, (name = addresses.toSorted().join(',')))
  return name
}

function whereOf({ host, port }: Target): string {
  return `${host}:${port}`
}
