import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

declare const brand: unique symbol

/**
 * The one spelling of a host: a lower-case ASCII name without trailing dot (RFC 1123, RFC 5890 A-labels), a dotted-quad
 * IPv4 address, or an IPv6 address without brackets in the form of RFC 5952. Only `parseHostname` makes one.
 */
export type Hostname = string & { readonly [brand]: 'Hostname' }

/** A host that is not one, with the reason and, where there is one, the spelling that was probably meant. */
export type BadHostname = { readonly problem: string; readonly canonical?: string }

const LABEL = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/
/** WHATWG "ends in a number": such a name is an address for some resolvers (2130706433, 0x7f.1, 127.1, 0177.0.0.1). */
const NUMERIC_LABEL = /^(?:\d+|0x[0-9a-f]*)$/

/**
 * Reads a host as it stands on the wire (IPv6 in brackets or not). Upper case is folded; everything else that is not
 * canonical is refused rather than repaired, because another parser down the line may repair it differently.
 */
export function parseHostname(text: string): Hostname | BadHostname {
  const problem = problemOf(text)
  if (problem !== undefined) return { problem }
  const lower = text.toLowerCase()
  if (lower.startsWith('[') || lower.includes(':')) return parseIpv6(lower)
  if (isIP(lower) === 4) return lower as Hostname
  if (lower.endsWith('.')) return { problem: 'it ends with a dot', canonical: lower.replace(/\.+$/, '') }
  if (lower.length > 253) return { problem: 'it is longer than 253 characters' }
  const labels = lower.split('.')
  if (labels.includes('')) return { problem: 'it has an empty label' }
  const bad = labels.find((label) => !LABEL.test(label))
  if (bad !== undefined) return { problem: `"${bad.slice(0, 70)}" is not a label of a host name` }
  if (NUMERIC_LABEL.test(labels.at(-1) ?? '')) return { problem: 'it ends in a number without being a dotted IPv4 address' }
  return lower as Hostname
}

export function isHostname(value: Hostname | BadHostname): value is Hostname {
  return typeof value === 'string'
}

export function isAddress(host: Hostname): boolean {
  return isIP(host) !== 0
}

/** `host:port` as it stands in a target or Host header: brackets round IPv6, no port where it is the scheme's own. */
export function formatAuthority(host: string, port: number, defaultPort?: number): string {
  const name = host.includes(':') ? `[${host}]` : host
  return port === defaultPort ? name : `${name}:${port}`
}

/** Splits `host`, `host:port`, `[v6]:port`. Userinfo, paths, empty ports and ports out of range give `undefined`. */
export function splitAuthority(text: string): { host: string; port: number | undefined } | undefined {
  const match = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(text)
  if (match?.[1] === undefined || match[1] === '') return undefined
  if (match[2] === undefined) return { host: match[1], port: undefined }
  const port = Number(match[2])
  return port >= 1 && port <= 65_535 ? { host: match[1], port } : undefined
}

function problemOf(text: string): string | undefined {
  if (text === '') return 'it is empty'
  // Before anything else looks at it: text of an agent may be as long as a request head.
  if (text.length > 255) return 'it is longer than 253 characters'
  for (const char of text) {
    const point = char.codePointAt(0) ?? 0
    if (point <= 0x20 || point === 0x7f) return 'it has a control character or a space'
    if (point > 0x7f) return 'it is not ASCII: write it in punycode (xn--…)'
    if ('%@\\#/?'.includes(char)) return `it has a "${char}"`
  }
  return undefined
}

function parseIpv6(text: string): Hostname | BadHostname {
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text
  if (isIP(bare) !== 6) return { problem: 'it is not an IPv6 address' }
  const address = ipaddr.IPv6.parse(bare)
  // CVE-2023-42282 and others: the mapped form hides an IPv4 address from checks that look at text.
  if (address.isIPv4MappedAddress()) {
    return { problem: 'it is an IPv4 address in IPv6 form', canonical: address.toIPv4Address().toString() }
  }
  return address.toRFC5952String() as Hostname
}
