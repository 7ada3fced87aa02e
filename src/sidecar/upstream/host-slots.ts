import type { Duplex } from 'node:stream'
import { SallyportError } from '../../kernel/errors.ts'
import { PassingHandler } from './passing-handler.ts'
import type { Upstream, UpstreamController, UpstreamHandler } from './upstream.ts'

/** Counts what runs and waits for each host and port, whatever credential or generation it has. */
export type HostSlots = {
  /** @throws host_busy when `max` requests run or wait for this host and port */
  check(hostAndPort: string): void
  /** The same upstream, whose requests are counted from their start to their end. */
  counted(hostAndPort: string, upstream: Upstream): Upstream
}

export function createHostSlots(max: number): HostSlots {
  const taken = new Map<string, number>()
  function take(where: string): () => void {
    taken.set(where, (taken.get(where) ?? 0) + 1)
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      const left = (taken.get(where) ?? 1) - 1
      if (left === 0) taken.delete(where)
      else taken.set(where, left)
    }
  }
  return {
    check(where) {
      if ((taken.get(where) ?? 0) < max) return
      throw new SallyportError('host_busy', `${max} requests to ${where} are under way`, { hint: 'wait until some of them have ended' })
    },
    counted: (where, upstream) => ({
      dispatch(request, handler) {
        const free = take(where)
        try {
          upstream.dispatch(request, new Counted(handler, free))
        } catch (error) {
          free()
          throw error
        }
      },
    }),
  }
}

/** Says when the exchange has had its last call, or its socket is closed. */
class Counted extends PassingHandler {
  readonly #ended: () => void

  constructor(handler: UpstreamHandler, ended: () => void) {
    super(handler)
    this.#ended = ended
  }

  override onRequestUpgrade(controller: UpstreamController, status: number, socket: Duplex): void {
    socket.once('close', this.#ended)
    super.onRequestUpgrade(controller, status, socket)
  }

  override onResponseEnd(controller: UpstreamController): void {
    this.#ended()
    super.onResponseEnd(controller)
  }

  override onResponseError(controller: UpstreamController, error: Error): void {
    this.#ended()
    super.onResponseError(controller, error)
  }
}
