import { SallyportError } from '../../kernel/errors.ts'
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

/** Passes all on, and says when it was the last. */
class Counted implements UpstreamHandler {
  readonly #handler: UpstreamHandler
  readonly #ended: () => void

  constructor(handler: UpstreamHandler, ended: () => void) {
    this.#handler = handler
    this.#ended = ended
  }

  onRequestStart(controller: UpstreamController, context: unknown): void {
    this.#handler.onRequestStart?.(controller, context)
  }

  onBodySent(chunk: Buffer): void {
    this.#handler.onBodySent?.(chunk)
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.()
  }

  onRequestUpgrade(...[controller, status, headers, socket]: Parameters<Required<UpstreamHandler>['onRequestUpgrade']>): void {
    socket.once('close', this.#ended)
    this.#handler.onRequestUpgrade?.(controller, status, headers, socket)
  }

  onResponseStart(...args: Parameters<Required<UpstreamHandler>['onResponseStart']>): void {
    this.#handler.onResponseStart?.(...args)
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    this.#handler.onResponseData?.(controller, chunk)
  }

  onResponseEnd(...args: Parameters<Required<UpstreamHandler>['onResponseEnd']>): void {
    this.#ended()
    this.#handler.onResponseEnd?.(...args)
  }

  onResponseError(controller: UpstreamController, error: Error): void {
    this.#ended()
    this.#handler.onResponseError?.(controller, error)
  }
}
