import { createHash } from 'node:crypto'
import ipaddr from 'ipaddr.js'
import { SallyportError } from '../../kernel/errors.ts'

/** Where a session's jail network lies. All IPv4. */
export type Jail = {
  /** A /24, such as `10.213.7.0/24`. */
  readonly subnet: string
  /** The sidecar's fixed address, outside `ipRange`. */
  readonly sidecar: string
  /** The half of the subnet that the engine gives to other containers. */
  readonly ipRange: string
}

/** Private ranges that machines and VPNs rarely use, 256 jails in each; the later ones only when all before are taken. */
const POOLS = ['10.213', '10.214', '10.215', '172.30']
const SUBNETS_PER_POOL = 256

/**
 * A free /24 for a session. The same `seed` gives the same subnet as long as that is free, so that addresses stay where
 * they are from one run to the next. `taken` are subnets in CIDR form, of any size; IPv6 ones don't matter.
 * @throws SallyportError subnet_exhausted when every candidate overlaps with a taken one.
 */
export function chooseJail(seed: string, taken: readonly string[]): Jail {
  const ranges = taken.flatMap((cidr) => rangeOf(cidr) ?? [])
  const start = createHash('sha256').update(seed).digest().readUInt8(0)
  for (const pool of POOLS) {
    for (let step = 0; step < SUBNETS_PER_POOL; step += 1) {
      const prefix = `${pool}.${(start + step) % SUBNETS_PER_POOL}`
      const range = rangeOf(`${prefix}.0/24`)
      if (range !== undefined && ranges.every((other) => !overlap(range, other))) return jailOf(prefix)
    }
  }
  throw new SallyportError('subnet_exhausted', `all ${POOLS.length * SUBNETS_PER_POOL} subnets for jail networks are taken`, {
    hint: 'remove networks that nobody uses: docker network prune',
  })
}

/** The jail of a subnet that was chosen before; undefined when the text is not a /24 of ours to continue with. */
export function jailOfSubnet(subnet: string): Jail | undefined {
  const match = /^(\d{1,3}\.\d{1,3}\.\d{1,3})\.0\/24$/.exec(subnet)
  if (match?.[1] === undefined || rangeOf(subnet) === undefined) return undefined
  return jailOf(match[1])
}

/**
 * A jail's /24 for a session that the controller keeps: half of it is its jail, sixteen addresses are its uplink (taken from the engine's
 * own pools uplinks would run out at thirty), and the rest is for siblings.
 */
export function dividedJail({ subnet }: Jail): { readonly jail: Jail; readonly uplink: string } {
  const prefix = subnet.replace(/\.0\/24$/, '')
  return { jail: { subnet: `${prefix}.0/25`, sidecar: `${prefix}.2`, ipRange: `${prefix}.64/26` }, uplink: `${prefix}.128/28` }
}

/** A network of eight addresses with the gate and one container beside the agent. */
export type SiblingNetwork = Jail & {
  /** The container's own address, outside `ipRange` as the gate's is. */
  readonly sibling: string
}

/** Every /29 of a session's /24 that neither its jail nor its uplink has an address of. None in a session whose uplink is half of it. */
export function siblingSubnets(jail: Pick<Jail, 'subnet'>, uplink: string): SiblingNetwork[] {
  const prefix = jail.subnet.split('.').slice(0, 3).join('.')
  return Array.from({ length: 32 }, (_, index) => {
    const address = (offset: number) => `${prefix}.${index * 8 + offset}`
    return { subnet: `${address(0)}/29`, sidecar: address(2), sibling: address(3), ipRange: `${address(4)}/30` }
  }).filter(({ subnet }) => !subnetsOverlap(subnet, jail.subnet) && !subnetsOverlap(subnet, uplink))
}

/** Whether two subnets in CIDR form have an IPv4 address in common. */
export function subnetsOverlap(a: string, b: string): boolean {
  const [one, two] = [rangeOf(a), rangeOf(b)]
  return one !== undefined && two !== undefined && overlap(one, two)
}

function jailOf(prefix: string): Jail {
  return { subnet: `${prefix}.0/24`, sidecar: `${prefix}.2`, ipRange: `${prefix}.128/25` }
}

type Range = { readonly first: number; readonly last: number }

function overlap(a: Range, b: Range): boolean {
  return a.first <= b.last && b.first <= a.last
}

/** First and last address as numbers; undefined for IPv6 and for what is no subnet. */
function rangeOf(cidr: string): Range | undefined {
  if (!ipaddr.IPv4.isValidCIDR(cidr)) return undefined
  const [address, bits] = ipaddr.IPv4.parseCIDR(cidr)
  const number = address.octets.reduce((sum, octet) => sum * 256 + octet, 0)
  const size = 2 ** (32 - bits)
  const first = Math.floor(number / size) * size
  return { first, last: first + size - 1 }
}
