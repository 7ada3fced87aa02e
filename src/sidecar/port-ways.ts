import { codeOf } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import type { Enforcement } from './egress/enforced.ts'
import type { Front } from './inbound/front.ts'
import type { Listeners } from './listeners.ts'

/** An address at which programs that know no proxy arrive. */
export type PortPlace = {
  readonly host: string
  readonly front: Pick<Front, 'createPassing'>
  readonly listeners: Pick<Listeners, 'openPassing'>
}

/** Ways in for programs that know no proxy and speak neither HTTP nor TLS: a listener for each port that leads to one host. I17 */
export type PortWays = {
  /** Listens there too, until it is disposed. A port that is taken is logged and left out. Never rejects. */
  join(place: PortPlace): Promise<Disposable>
  /** Another policy is in force: opens what it has and closes what it has not. Connections go on, or are cut as all that runs. Never rejects. */
  follow(): Promise<void>
}

type OpenPlace = PortPlace & { readonly open: Map<number, Disposable>; isLeft: boolean }

export function createPortWays(enforcement: Enforcement, log: Pick<Log, 'warn'>): PortWays {
  const places = new Set<OpenPlace>()
  let last: Promise<void> = Promise.resolve()

  async function settle(place: OpenPlace): Promise<void> {
    const { tcpPorts } = enforcement().policy
    const { host, front, listeners, open } = place
    for (const [port, listener] of open) {
      if (tcpPorts.has(port)) continue
      listener[Symbol.dispose]()
      open.delete(port)
    }
    for (const port of tcpPorts.keys()) {
      if (open.has(port) || place.isLeft) continue
      try {
        const listener = await listeners.openPassing(front.createPassing(port), { host, port })
        if (place.isLeft) listener[Symbol.dispose]()
        else open.set(port, listener)
      } catch (error) {
        log.warn({ address: host, port, code: codeOf(error) }, 'programs that know no proxy do not arrive at this port')
      }
    }
  }
  /** One after the other: each looks at the policy that is in force by then. */
  const soon = (run: () => Promise<void>): Promise<void> => (last = last.then(run))

  return {
    async join(place) {
      const joined: OpenPlace = { ...place, open: new Map(), isLeft: false }
      places.add(joined)
      await soon(() => settle(joined))
      return {
        [Symbol.dispose]() {
          joined.isLeft = true
          places.delete(joined)
          for (const listener of joined.open.values()) listener[Symbol.dispose]()
        },
      }
    },
    follow: () =>
      soon(async () => {
        for (const place of places) await settle(place)
      }),
  }
}
