import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { isAddress, type Hostname } from '../kernel/hostname.ts'
import type { Refusal } from '../kernel/errors.ts'
import { GLOBAL_UNICAST, METADATA, SPECIAL_NAMES, TABLE, type AddressClass } from './address-table.ts'

/** A range of addresses, both ends included. */
export type AddressRange = {
  /** `10.0.0.0/8`, as it stands in the file. */
  readonly text: string
  readonly family: 4 | 6
  readonly first: bigint
  readonly last: bigint
}

type Address = { readonly family: 4 | 6; readonly value: bigint }
type Row = AddressRange & { readonly name: AddressClass; readonly note: string }

type Ranges = { readonly metadata: readonly Row[]; readonly special: readonly Row[]; readonly global: AddressRange }

/** The tables, read when the first address is judged: every start would wait 5 ms for them. */
let ranges: Ranges | undefined

/** What is known of an address: its class, or `undefined` for one that is public. */
type Classification = { readonly name: AddressClass; readonly note: string }

/** The class of an address, from the table alone. An address inside another (NAT64, 6to4 …) counts as the outer form. */
export function classifyAddress(text: string): Classification | undefined {
  const address = parseAddress(text)
  return address === undefined ? { name: 'unassigned', note: 'not an address' } : classify(address)
}

/** What a range of one address opens, where that is a metadata service or a way to the host, also inside an IPv6 form. */
export function openedMetadata(text: string): string | undefined {
  const range = parseAddressRange(text)
  if (typeof range === 'string' || range.first !== range.last) return undefined
  const found = classify({ family: range.family, value: range.first })
  return found?.name === 'metadata' || found?.note.endsWith(', metadata') === true ? found.note : undefined
}

/** Reads an entry of `addresses`: an address or a CIDR range. A string is why it is refused, with the right spelling. */
export function parseAddressRange(text: string): AddressRange | string {
  const match = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text)
  const family = isIP(match?.[1] ?? '')
  if (match?.[1] === undefined || family === 0 || match[1].includes('%'))
    return `address "${text}" is neither an address nor a range like "10.1.0.0/16"`
  const bits = family === 4 ? 32 : 128
  const prefix = match[2] === undefined ? bits : Number(match[2])
  if (prefix > bits) return `address "${text}": the prefix of an IPv${family} range is ${bits} at most`
  const value = valueOf(match[1])
  const size = 1n << BigInt(bits - prefix)
  const first = value - (value % size)
  const canonical = `${formatValue(family === 4 ? 4 : 6, first)}/${prefix}`
  if (`${match[1]}/${match[2] ?? bits}` !== canonical) return `address "${text}" is not canonical; write "${canonical}"`
  return { text: canonical, family: family === 4 ? 4 : 6, first, last: first + size - 1n }
}

/**
 * Judges all addresses of a host together, since an answer that mixes public and private ones is an attack in itself.
 * @param own addresses of this machine's interfaces: a service bound to 0.0.0.0 answers on each of them
 */
export function judgeAddresses(
  host: Hostname,
  rule: { id: string; addresses: readonly AddressRange[] },
  addresses: readonly string[],
  own: readonly string[],
): Refusal | undefined {
  if (addresses.length === 0) return { code: 'address_refused', message: `"${host}" has no address`, rule: rule.id }
  const ownValues = own.flatMap((text) => parseAddress(text.replace(/%.*$/, '')) ?? [])
  for (const text of addresses) {
    const address = parseAddress(text)
    if (address === undefined)
      return { code: 'address_refused', message: `"${host}" leads to "${text.slice(0, 60)}", which is not an address`, rule: rule.id }
    const refused = judge(address, rule.addresses, ownValues)
    if (refused !== undefined) {
      return {
        code: 'address_refused',
        message: `"${host}" leads to ${text}, which is refused: ${refused.name} (${refused.note})`,
        hint: `if it is meant, the operator adds "${formatValue(address.family, address.value)}/${address.family === 4 ? 32 : 128}" to addresses of the rule`,
        rule: rule.id,
      }
    }
  }
  return undefined
}

/** Refuses names that are set aside for local, private or metadata use. Hosts that are addresses pass: those are judged as such. */
export function judgeName(host: Hostname, rule: { id: string; addresses: readonly AddressRange[] }): Refusal | undefined {
  const special = specialName(host)
  if (special === undefined || rule.addresses.length > 0) return undefined
  return {
    code: 'name_refused',
    message: `"${host}" is refused: "${special}" is set aside for local, private or metadata use`,
    hint: 'if it is meant, the operator lists the addresses it may lead to under addresses of the rule',
    rule: rule.id,
  }
}

/** The special-use name that a host is or lies below. */
export function specialName(host: Hostname): string | undefined {
  if (isAddress(host)) return undefined
  for (let from = 0; from !== -1;) {
    const tail = host.slice(from)
    if (SPECIAL_NAMES.has(tail)) return tail
    const dot = host.indexOf('.', from)
    from = dot === -1 ? -1 : dot + 1
  }
  return undefined
}

function judge(address: Address, opened: readonly AddressRange[], own: readonly Address[]): Classification | undefined {
  if (opened.some((range) => range.first === range.last && contains(range, address))) return undefined
  if (own.some((mine) => mine.family === address.family && mine.value === address.value))
    return { name: 'own', note: 'an address of the proxy itself' }
  const found = classify(address)
  if (found !== undefined && (found.name === 'metadata' || !opened.some((range) => contains(range, address)))) return found
  // A translated form that a range opens still leads to the IPv4 address inside it.
  const inner = embedded(address, found?.name)
  return inner === undefined ? undefined : judge(inner, opened, own)
}

function classify(address: Address): Classification | undefined {
  const { metadata, special, global } = (ranges ??= readRanges())
  const row = metadata.find((entry) => contains(entry, address)) ?? special.find((entry) => contains(entry, address))
  if (row !== undefined) {
    const inner = embedded(address, row.name)
    const innerRow = inner === undefined ? undefined : classify(inner)
    if (inner === undefined) return row
    return { name: row.name, note: `holds ${formatValue(4, inner.value)}${innerRow === undefined ? '' : `, ${innerRow.name}`}` }
  }
  if (address.family === 4) return undefined
  if (!contains(global, address)) return { name: 'unassigned', note: `outside ${GLOBAL_UNICAST}` }
  // RFC 5214 §6.1: the interface id tells, under any prefix. The "u" bit says whether the IPv4 address is a public one.
  const interfaceId = (address.value >> 32n) & 0xffff_ffffn
  if (interfaceId === 0x5efen || interfaceId === 0x0200_5efen)
    return { name: 'isatap', note: `holds ${formatValue(4, address.value & 0xffff_ffffn)}` }
  return undefined
}

/** The IPv4 address that an IPv6 form carries to its relay or translator. */
function embedded(address: Address, name: AddressClass | undefined): Address | undefined {
  if (address.family === 4) return undefined
  const low = address.value & 0xffff_ffffn
  switch (name) {
    case 'v4-compatible':
    case 'v4-mapped':
    case 'v4-translated':
    case 'isatap':
      return { family: 4, value: low }
    case 'nat64':
      // Only the /96 has its place for the address fixed (RFC 6052 §2.2).
      return address.value >> 32n === 0x64_ff9b_0000_0000_0000_0000n ? { family: 4, value: low } : undefined
    case 'sixtofour':
      return { family: 4, value: (address.value >> 80n) & 0xffff_ffffn }
    case 'teredo':
      return { family: 4, value: low ^ 0xffff_ffffn }
    case undefined:
    default:
      return undefined
  }
}

function contains(range: AddressRange, address: Address): boolean {
  return range.family === address.family && range.first <= address.value && address.value <= range.last
}

/** `undefined` for all but the plain forms; a zone id names an interface, which is no upstream's. */
function parseAddress(text: string): Address | undefined {
  const family = isIP(text)
  if (family === 0 || text.includes('%')) return undefined
  return { family: family === 4 ? 4 : 6, value: valueOf(text) }
}

function valueOf(text: string): bigint {
  // ipaddr.js takes "::1.2.3.4" for the mapped form "::ffff:1.2.3.4", so it never sees a dotted tail.
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text)
  const plain = dotted === null ? text : `${dotted[1]}${hexPair(dotted[2], dotted[3])}:${hexPair(dotted[4], dotted[5])}`
  return BigInt(`0x${Buffer.from(ipaddr.parse(plain).toByteArray()).toString('hex')}`)
}

function hexPair(high = '', low = ''): string {
  return (Number(high) * 256 + Number(low)).toString(16)
}

function formatValue(family: 4 | 6, value: bigint): string {
  const bytes = [...Buffer.from(value.toString(16).padStart(family === 4 ? 8 : 32, '0'), 'hex')]
  const address = ipaddr.fromByteArray(bytes)
  return address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString()
}

function readRanges(): Ranges {
  return {
    metadata: rowsOf(METADATA.map(([cidr, note]) => ({ name: 'metadata', cidr, note }))),
    special: rowsOf(TABLE.map(([name, cidr, note]) => ({ name, cidr, note }))),
    global: mustParse(GLOBAL_UNICAST),
  }
}

function rowsOf(entries: readonly { name: AddressClass; cidr: string; note: string }[]): readonly Row[] {
  return entries.map(({ name, cidr, note }) => ({ ...mustParse(cidr), name, note }))
}

function mustParse(cidr: string): AddressRange {
  const range = parseAddressRange(cidr)
  if (typeof range === 'string') throw new Error(range)
  return range
}
