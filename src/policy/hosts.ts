import { domainToASCII, domainToUnicode } from 'node:url'
import { isAddress, isHostname, parseHostname, type Hostname } from '../kernel/hostname.ts'
import { suffixProblem } from './public-suffixes.ts'

/** One host, or every name below one (`*.example.com`: any depth, never the apex). */
export type HostPattern = { readonly kind: 'exact'; readonly host: Hostname } | { readonly kind: 'below'; readonly parent: Hostname }

/** Reads a host of a policy file. A string is why it is refused, with the right spelling. */
export function parseHostPattern(text: string): HostPattern | string {
  if (text === '*') return 'host "*" would match every host: name the hosts, or "*.example.com" for all names below one'
  if (!text.startsWith('*.')) {
    if (text.includes('*'))
      return `host "${text}" has a wildcard that is not its whole first label: write "*.example.com" for all names below one`
    const host = parseCanonical(text, '')
    return typeof host === 'string' ? host : { kind: 'exact', host: host.host }
  }
  const rest = text.slice(2)
  if (rest.includes('*')) return `host "${text}" has more than one wildcard: one as the first label covers any depth`
  const parent = parseCanonical(rest, '*.')
  if (typeof parent === 'string') return parent
  if (isAddress(parent.host)) return `host "${text}" is a wildcard on an address: write each address as a host of its own`
  const problem = suffixProblem(parent.host)
  if (problem !== undefined) return `host "${text}" is too wide: ${problem}; name the hosts that are meant`
  return { kind: 'below', parent: parent.host }
}

/** Whether the pattern covers the host. The compiled policy looks hosts up instead; this is for checks at load. */
export function matchesHost(pattern: HostPattern, host: Hostname): boolean {
  return pattern.kind === 'exact' ? pattern.host === host : host.endsWith(`.${pattern.parent}`)
}

/** Whether every host that `inner` covers is covered by `outer`. */
export function coversHost(outer: HostPattern, inner: HostPattern): boolean {
  if (inner.kind === 'exact') return matchesHost(outer, inner.host)
  return outer.kind === 'below' && (outer.parent === inner.parent || inner.parent.endsWith(`.${outer.parent}`))
}

/** Whether some host is covered by both. Two wildcards share hosts only where one covers the other. */
export function hostsOverlap(a: HostPattern, b: HostPattern): boolean {
  return coversHost(a, b) || coversHost(b, a)
}

/** Greater is more specific: exact hosts, then wildcards with the longer parent. At most 254. */
export function hostSpecificity(pattern: HostPattern): number {
  return pattern.kind === 'exact' ? 254 : pattern.parent.length
}

/** Values by host pattern. A look-up costs one map access a label, however many patterns there are. */
export type HostIndex<T> = {
  at(pattern: HostPattern, make: () => T): T
  /** The value of the exact host first, then those of wildcards, longest parent first. */
  each(host: Hostname, visit: (value: T) => void): void
}

export function createHostIndex<T>(): HostIndex<T> {
  const exact = new Map<string, T>()
  const below = new Map<string, T>()
  return {
    at(pattern, make) {
      const map = pattern.kind === 'exact' ? exact : below
      const key = pattern.kind === 'exact' ? pattern.host : pattern.parent
      const found = map.get(key) ?? make()
      map.set(key, found)
      return found
    },
    each(host, visit) {
      const own = exact.get(host)
      if (own !== undefined) visit(own)
      if (below.size === 0) return
      for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
        const value = below.get(host.slice(dot + 1))
        if (value !== undefined) visit(value)
      }
    },
  }
}

function parseCanonical(text: string, prefix: string): { host: Hostname } | string {
  const host = parseHostname(text)
  if (isHostname(host) && host === text && isSettledIdna(text)) return { host }
  const problem = isHostname(host) ? (host === text ? ': its xn-- label is not valid punycode' : '') : `: ${host.problem}`
  const shown = `host "${prefix}${text}" is not canonical${problem}`
  const right = isHostname(host) ? (host === text ? undefined : host) : (host.canonical ?? guessSpelling(text))
  if (right === undefined || !isHostname(parseHostname(right))) return shown
  return `${shown}; write "${prefix}${right}"${portHint(text)}`
}

/** An A-label that stands for no U-label is another name for some resolvers and no name for others (RFC 5891 §5.4). */
function isSettledIdna(text: string): boolean {
  const label = /(?:^|\.)xn--/
  if (!label.test(text)) return true
  const unicode = domainToUnicode(text)
  return !label.test(unicode) && domainToASCII(unicode) === text
}

function guessSpelling(text: string): string | undefined {
  const bare = text
    .replace(/^[a-z][a-z0-9+.-]*:\/\//i, '')
    .replace(/[/?#].*$/s, '')
    .replace(/^[^@]*@/, '')
  const withoutPort = /^[^:]+:\d*$/.test(bare) ? bare.replace(/:\d*$/, '') : bare
  const ascii = domainToASCII(withoutPort.replace(/\.+$/, ''))
  return ascii === '' || ascii === text ? undefined : ascii
}

function portHint(text: string): string {
  const port = /^(?:[a-z]+:\/\/)?[^:/]+:(\d{1,5})(?:\/|$)/.exec(text)?.[1]
  return port === undefined ? '' : ` and "ports: [${port}]"`
}
