import type { Refusal } from '../../kernel/errors.ts'
import { isAddress, isHostname, parseHostname, splitAuthority } from '../../kernel/hostname.ts'
import { nearest } from '../../kernel/nearest.ts'
import { shown } from '../../kernel/shown.ts'
import type { Facts, Route } from '../../policy/policy.ts'
import { refuseHead, type RequestHead } from './facts.ts'
import { valuesOf } from './headers.ts'

/** Where the gateway's reverse routes are: `/route/NAME/…`. */
export const ROUTE_PREFIX = '/route/'

const TARGET = /^\/route\/([^/?]*)([^]*)$/

/**
 * The facts of a request to a reverse route: the route's host, and its base path with what follows the route's name behind
 * it, as it came. I20: that nothing in it leads out of the base path is the policy's to say, which sees the whole path.
 */
export function readRoute(head: RequestHead, routes: readonly Route[]): { facts: Facts; route: Route } | Refusal {
  const refusal = refuseAtGateway(head)
  if (refusal) return refusal
  const [, name = '', rest = ''] = TARGET.exec(head.url) ?? []
  const route = routes.find((entry) => entry.name === name)
  if (route === undefined) {
    const near = nearest(name, new Set(routes.map((entry) => entry.name)))
    return {
      code: 'route_unknown',
      message: `there is no route "${shown(name)}"`,
      hint: near === undefined ? 'the operator adds routes to the policy' : `did you mean "${near}"?`,
    }
  }
  const { scheme, host, port, basePath } = route
  const path = `${basePath}${rest}`
  return { facts: { scheme, host, port, method: head.method, path: path.startsWith('/') ? path : `/${path}` }, route }
}

/** What holds for every request at the gateway that is more than a look at its health. */
export function refuseAtGateway(head: RequestHead): Refusal | undefined {
  return refuseHead(head) ?? refuseHost(head)
}

/**
 * DNS rebinding: a page that the agent's browser shows may have its own name lead to this gateway. The gateway's names have no
 * dot, and a page cannot make its name an address.
 */
function refuseHost({ rawHeaders }: RequestHead): Refusal | undefined {
  const [named] = valuesOf(rawHeaders, 'host')
  if (named === undefined) return undefined
  const host = parseHostname(splitAuthority(named)?.host ?? '')
  if (isHostname(host) && (isAddress(host) || !host.includes('.'))) return undefined
  return {
    code: 'misdirected_request',
    message: `the Host header "${shown(named)}" is not the gateway's`,
    hint: 'call it by its address or by the name sallyport',
  }
}
