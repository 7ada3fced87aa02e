import { createSocket } from 'node:dgram'
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import type { SideNetwork } from '../wire/control.ts'
import { clientsOf, type SideWays } from './side-ways.ts'

/** The networks beside the jail in which this gate has its ways open, as its controller says. */
export type SideNetworks = AsyncDisposable & {
  readonly open: readonly SideNetwork[]
  /**
   * Resolves when it is so: what is so already is no fault. One change of an address at a time; a close ends an opening that waits.
   * @throws listen_failed when the address does not come in `LIMITS.sideAddressMs`, or a port of it is taken; overloaded; config_invalid when the address is not in the subnet
   */
  change(network: SideNetwork, isOpen: boolean): Promise<void>
  drain(): void
}

/** About the address of a client. */
export type IsClient = (address: string) => boolean

export type SideNetworksParts = {
  /** @throws listen_failed */
  readonly openIn: (network: SideNetwork) => Promise<SideWays>
  /** Who is in one of them, and so nobody of the jail. */
  readonly elsewhere: Set<IsClient>
  /** This machine has another address. */
  readonly onAddress: () => void
  readonly log: Pick<Log, 'info'>
}

type Open = SideNetwork & { readonly ways: SideWays; readonly isClient: IsClient }

export function createSideNetworks(parts: SideNetworksParts): SideNetworks {
  return new OpenNetworks(parts)
}

class OpenNetworks implements SideNetworks {
  readonly #parts: SideNetworksParts
  readonly #open = new Map<string, Open>()
  /** The last change of each address, while it lasts. */
  readonly #changes = new Map<string, Promise<void>>()
  /** What ends the waits of its openings. */
  readonly #waits = new Map<string, Set<AbortController>>()
  #isOver = false

  constructor(parts: SideNetworksParts) {
    this.#parts = parts
  }

  get open(): readonly SideNetwork[] {
    return [...this.#open.values()].map(({ address, subnet, label }) => ({ address, subnet, label }))
  }

  drain(): void {
    for (const { ways } of this.#open.values()) ways.drain()
  }

  // I61
  change(network: SideNetwork, isOpen: boolean): Promise<void> {
    const { address } = network
    if (!isOpen) for (const waiting of this.#waits.get(address) ?? []) waiting.abort()
    const wait = new AbortController()
    const waits = this.#waits.get(address) ?? new Set()
    this.#waits.set(address, waits.add(wait))
    const before = this.#changes.get(address) ?? Promise.resolve()
    const change = before.then(() => (isOpen ? this.#enter(network, wait.signal) : this.#leave(address)))
    const settled = change
      .catch(() => undefined)
      .then(() => {
        waits.delete(wait)
        if (this.#changes.get(address) !== settled) return
        this.#changes.delete(address)
        this.#waits.delete(address)
      })
    this.#changes.set(address, settled)
    return change
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    for (const waits of this.#waits.values()) for (const wait of waits) wait.abort()
    await Promise.all(this.#changes.values())
    await Promise.all([...this.#open.keys()].map((address) => this.#leave(address)))
  }

  async #enter(network: SideNetwork, signal: AbortSignal): Promise<void> {
    const { address, subnet, label } = network
    const isClient = clientsOf(subnet)
    if (!isClient(address)) throw new SallyportError('config_invalid', `${address} is not in ${subnet}`)
    const there = this.#open.get(address)
    if (there?.subnet === subnet && there.label === label) return
    await this.#leave(address)
    if (this.#open.size >= LIMITS.sideNetworksMax)
      throw new SallyportError('overloaded', `the gate is in ${this.#open.size} side networks`, { hint: 'end some of them' })
    await comes(address, signal)
    if (signal.aborted || this.#isOver) throw notWanted(address)
    // I4: the gate's own from here on.
    this.#parts.onAddress()
    this.#parts.elsewhere.add(isClient)
    const ways = await this.#parts.openIn(network).catch((error: unknown) => {
      this.#parts.elsewhere.delete(isClient)
      throw error
    })
    this.#open.set(address, { address, subnet, label, ways, isClient })
    this.#parts.log.info({ network: label, address, subnet }, 'ways opened in a side network')
  }

  async #leave(address: string): Promise<void> {
    const there = this.#open.get(address)
    if (there === undefined) return
    await there.ways[Symbol.asyncDispose]()
    this.#open.delete(address)
    this.#parts.elsewhere.delete(there.isClient)
    this.#parts.onAddress()
    this.#parts.log.info({ network: there.label, address }, 'ways closed in a side network')
  }
}

/** Waits until something can be bound there. @throws listen_failed */
async function comes(address: string, signal: AbortSignal): Promise<void> {
  const late = AbortSignal.any([signal, AbortSignal.timeout(LIMITS.sideAddressMs)])
  while (!(await isHere(address))) {
    if (signal.aborted) throw notWanted(address)
    if (late.aborted) {
      throw new SallyportError('listen_failed', `this machine has no address ${address} after ${LIMITS.sideAddressMs / 1_000} s`, {
        hint: 'connect the gate to the network',
      })
    }
    await sleep(LIMITS.sideAddressLookMs, undefined, { signal: late }).catch(() => undefined)
  }
}

/** The kernel's own word (EADDRNOTAVAIL): a list of interfaces has one address of loopback, which is a whole network. */
async function isHere(address: string): Promise<boolean> {
  const socket = createSocket({ type: 'udp4', lookup: (host, _options, done) => done(null, host, 4) })
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject)
      socket.bind({ address, port: 0 }, resolve)
    })
    return true
  } catch (error) {
    if (codeOf(error) === 'EADDRNOTAVAIL') return false
    throw new SallyportError('listen_failed', `cannot listen on ${address} (${codeOf(error)})`, { cause: error })
  } finally {
    socket.close()
  }
}

function notWanted(address: string): SallyportError {
  return new SallyportError('listen_failed', `the ways on ${address} are not wanted any more`)
}
