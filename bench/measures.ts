import { TARGETS } from './places.ts'

/** What a proxy must be able to do for a measure. `sockspass` is TLS end to end by SOCKS5. */
export type Ability = 'forward' | 'connect' | 'passthrough' | 'intercept' | 'socks' | 'sockspass'

/**
 * `rate`: requests a second. `paced`: latency at a fixed rate. `bulk`: one answer of 1 GiB. `hold`: memory of 1000 idle tunnels.
 * `h2`: requests a second by h2load. `startup`: spawn to ready. `idle`: memory of a process that nobody uses.
 */
export type Kind = 'rate' | 'paced' | 'bulk' | 'hold' | 'h2' | 'startup' | 'idle'

export type Measure = {
  readonly name: string
  readonly kind: Kind
  readonly needs?: Ability
  /** Arguments for the load client, without the proxy and the time. For `h2` the target. */
  readonly load: readonly string[]
  readonly about: string
}

const WAYS = [
  { name: 'fwd', via: 'http', target: TARGETS.plain, needs: 'forward', label: 'HTTP forward' },
  { name: 'con', via: 'connect', target: TARGETS.plain, needs: 'connect', label: 'CONNECT, plain HTTP inside' },
  { name: 'contls', via: 'connect', target: TARGETS.passthrough, needs: 'passthrough', label: 'CONNECT, TLS end to end' },
  { name: 'mitm', via: 'connect', target: TARGETS.intercept, needs: 'intercept', label: 'CONNECT, TLS intercepted, header injected' },
  { name: 'socks', via: 'socks5', target: TARGETS.plain, needs: 'socks', label: 'SOCKS5, plain HTTP inside' },
  { name: 'sockstls', via: 'socks5', target: TARGETS.passthrough, needs: 'sockspass', label: 'SOCKS5, TLS end to end' },
] as const

/** Every measure by name. */
export const MEASURES: ReadonlyMap<string, Measure> = new Map([...measuresOfWays(), ...others()].map((one) => [one.name, one]))

/** What a full run has: the rows of the goals, and what explains them. */
export const MAIN =
  'startup idle fwd1 fwd64 fwd64k contlsnew sockstlsnew contlsbulk sockstlsbulk mitm1 mitm64 mitm64k mitmload mitmnew mitmnewr mitmbulk mitmh2 contlshold sockstlshold mitmhold'
    .split(' ')
    .map(measureOf)
/** A look in under three minutes. */
export const QUICK = 'fwd64 mitm64 mitmnew contlsnew contlsbulk startup'.split(' ').map(measureOf)

/** @throws Error when there is no such measure */
export function measureOf(name: string): Measure {
  const found = MEASURES.get(name)
  if (found === undefined) throw new Error(`there is no measure "${name}"`)
  return found
}

function measuresOfWays(): Measure[] {
  return WAYS.flatMap(({ name, via, target, needs, label }): Measure[] => {
    const isTls = target !== TARGETS.plain
    const way = ['-v', via, ...(isTls ? ['-t'] : []), '-T', target]
    const one = (suffix: string, kind: Kind, load: string, about: string): Measure => ({
      name: `${name}${suffix}`,
      kind,
      needs,
      load: [...way, ...load.split(' ')],
      about: `${label}: ${about}`,
    })
    return [
      one('1', 'rate', '-m keep -c 1', '1 KiB, 1 kept connection'),
      one('64', 'rate', '-m keep -c 64', '1 KiB, 64 kept connections'),
      one('64k', 'rate', '-m keep -c 16 -P /64k.bin', '64 KiB, 16 kept connections'),
      one('new', 'rate', '-m new -c 16', 'connect, one request, close; 16 at a time'),
      one('load', 'paced', '-m keep -c 64 -R 3000', 'latency at 3000 requests a second'),
      one('bulk', 'bulk', '-m bulk -c 1 -P /1g.bin', '1 GiB in one answer'),
      ...(name === 'fwd' ? [] : [one('hold', 'hold', '-m hold -c 1000', 'memory of 1000 idle tunnels')]),
      ...(isTls ? [one('newr', 'rate', '-r -m new -c 16', `as ${name}new, TLS sessions resumed`)] : []),
    ]
  })
}

function others(): Measure[] {
  return [
    {
      name: 'mitmh2',
      kind: 'h2',
      needs: 'intercept',
      load: [TARGETS.interceptH2],
      about: 'CONNECT, TLS intercepted: HTTP/2, 16 connections of 8 streams',
    },
    { name: 'startup', kind: 'startup', load: [], about: 'from spawn to the ready line (others: to an open port); direct is `node -e 0`' },
    { name: 'idle', kind: 'idle', load: [], about: 'resident memory three seconds after the start' },
  ]
}
