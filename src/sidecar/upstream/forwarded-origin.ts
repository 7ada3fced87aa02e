import { formatAuthority } from '../../kernel/hostname.ts'
import type { Target } from './dial.ts'
import { PassingHandler } from './passing-handler.ts'
import { refusedByProxy } from './proxy.ts'
import type { Origin, UpstreamController, UpstreamHandler } from './upstream.ts'

/**
 * An origin in plain HTTP by a proxy that takes requests: `asked` has connections to the proxy, which get requests in absolute form
 * (RFC 9112 §3.2.2); `tunnelled` has connections through it, for WebSockets, as few proxies pass on an Upgrade.
 */
export function forwardedOrigin(key: Target, asked: Origin, tunnelled: Origin, authorization: string | undefined): Origin {
  const where = formatAuthority(key.host, key.port)
  const url = `http://${formatAuthority(key.host, key.port, 80)}`
  const login = authorization === undefined ? [] : ['proxy-authorization', authorization]
  return {
    dispatch(request, handler) {
      if (request.upgrade !== undefined) return tunnelled.dispatch(request, handler)
      const headers = [...request.headers, ...login]
      asked.dispatch({ ...request, path: `${url}${request.path}`, headers }, new ProxyAnswer(handler, where))
    },
    get pending() {
      return asked.pending + tunnelled.pending
    },
    get isBusy() {
      return asked.isBusy || tunnelled.isBusy
    },
    async close() {
      await Promise.all([asked.close(), tunnelled.close()])
    },
    async destroy() {
      await Promise.all([asked.destroy(), tunnelled.destroy()])
    },
  }
}

/** RFC 9110 §15.5.8: 407 is the proxy's own word. An agent that got it would be asked for a password that is not its own. */
class ProxyAnswer extends PassingHandler {
  readonly #where: string

  constructor(handler: UpstreamHandler, where: string) {
    super(handler)
    this.#where = where
  }

  override onResponseStart(controller: UpstreamController, status: number, reason: string): void {
    if (status === 407) controller.abort(refusedByProxy(status, this.#where))
    else super.onResponseStart(controller, status, reason)
  }
}
