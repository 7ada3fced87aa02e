import { networkInterfaces } from 'node:os'
import type { Refusal } from '../../kernel/errors.ts'
import { formatAuthority, type Hostname } from '../../kernel/hostname.ts'
import type { System } from '../../kernel/system.ts'
import type { AllowedRule, Policy } from '../../policy/policy.ts'
import type { Resolve } from './resolve.ts'

export type Addresses = {
  /**
   * The addresses that a request to an allowed host may be sent to, or why it may not. None for a name that is left to the
   * upstream proxy. At once where they are known. @throws upstream_name_failed
   */
  judge(policy: Policy, host: Hostname, port: number, rule: AllowedRule): JudgedAddresses | Promise<JudgedAddresses>
  /** This machine has joined a network, or left one: its addresses are read anew before the next is judged. */
  refresh(): void
}

export type JudgedAddresses = { readonly addresses: readonly string[] | undefined } | Refusal

export type AddressesOfGate = {
  readonly isListener: (address: string, port: number) => boolean
  readonly isBeside: (address: string) => boolean
}

/**
 * Resolves once and judges every address; what is judged is what gets dialled. I4 `isListener` is about our own
 * addresses: a request to a listener there would go in circles, or reach the gateway as if it came from us. `isBeside` is about containers
 * beside the agent's: what they serve is for themselves, however wide the addresses are that a rule opens.
 */
export function createAddresses(resolve: Resolve, { isListener, isBeside }: AddressesOfGate, system: Pick<System, 'elapsed'>): Addresses {
  /** Policies judge by the rule, the addresses and our own alone: all that came before is judged but once. */
  const judged = new WeakMap<readonly string[], WeakMap<AllowedRule, Judged>>()
  let interfaces = readInterfaces()
  let readAt = system.elapsed()
  let isStale = false
  function ownAddresses(): OwnAddresses {
    if (isStale || system.elapsed() - readAt > INTERFACES_MS) {
      const read = readInterfaces()
      // What was judged by the same addresses still holds.
      if (read.all.symmetricDifference(interfaces.all).size > 0) interfaces = read
      readAt = system.elapsed()
      isStale = false
    }
    return interfaces
  }
  function judgeOnce(
    policy: Policy,
    host: Hostname,
    rule: AllowedRule,
    addresses: readonly string[],
    known: OwnAddresses,
  ): Refusal | undefined {
    let byRule = judged.get(addresses)
    if (!byRule) judged.set(addresses, (byRule = new WeakMap()))
    const before = byRule.get(rule)
    if (before && before.host === host && before.known === known) return before.refusal
    const refusal = policy.judgeAddresses(host, rule, addresses, known.own)
    byRule.set(rule, { host, known, refusal })
    return refusal
  }
  function judgeAll(
    policy: Policy,
    host: Hostname,
    port: number,
    rule: AllowedRule,
    addresses: readonly string[] | undefined,
  ): JudgedAddresses {
    if (addresses === undefined) return { addresses }
    const known = ownAddresses()
    const refusal = judgeOnce(policy, host, rule, addresses, known)
    if (refusal) return refusal
    const beside = addresses.find(isBeside)
    if (beside !== undefined) {
      return { code: 'address_refused', message: `${host} is ${beside}, in a network beside the agent's`, rule: rule.id }
    }
    const { all } = known
    const circular = addresses.find((address) => (all.has(address) || address.startsWith('127.')) && isListener(address, port))
    if (circular === undefined) return { addresses }
    return {
      code: 'address_refused',
      message: `${host} is ${formatAuthority(circular, port)}, a listener of Sallyport itself`,
      rule: rule.id,
    }
  }
  return {
    refresh: () => void (isStale = true),
    judge(policy, host, port, rule) {
      const byName = policy.judgeName(host, rule)
      if (byName) return byName
      const addresses = resolve(host)
      if (addresses instanceof Promise) return addresses.then((found) => judgeAll(policy, host, port, rule, found))
      return judgeAll(policy, host, port, rule, addresses)
    },
  }
}

type Judged = { readonly host: Hostname; readonly known: OwnAddresses; readonly refusal: Refusal | undefined }
type OwnAddresses = { readonly all: ReadonlySet<string>; readonly own: readonly string[] }

/** Addresses of a container change when it joins a network; asking the kernel for each request costs more than a decision. */
const INTERFACES_MS = 1_000

/** Interface addresses of this machine: all, and those that are not loopback. */
function readInterfaces(): OwnAddresses {
  const entries = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  return {
    all: new Set(entries.map((entry) => entry.address)),
    own: entries.filter((entry) => !entry.internal).map((entry) => entry.address),
  }
}
