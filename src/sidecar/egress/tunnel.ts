import type { Socket } from 'node:net'
import type { Lane } from '../../audit/audit.ts'
import { codeOf, SallyportError, type Refusal } from '../../kernel/errors.ts'
import { formatAuthority, isAddress, isHostname, parseHostname, type Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { shown } from '../../kernel/shown.ts'
import type { AllowedRule, TunnelDecision } from '../../policy/policy.ts'
import type { Addresses } from '../upstream/addresses.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import type { Asking } from './asking.ts'
import { misplaced } from './credentials.ts'
import { DirectReads, ReadBuffers } from './direct-reads.ts'
import type { Enforced, Enforcement } from './enforced.ts'
import type { Exchange, Exchanges } from './exchange.ts'
import type { Tunnel } from './facts.ts'
import type { Lease } from './lease.ts'
import type { Live, LiveEntry } from './live.ts'
import type { Load } from './load.ts'
import { refusalOf, type RefusedRequest } from './refuse.ts'
import { relay } from './relay.ts'

/** What the first bytes of a connection are. `closed`: the agent went away without sending any. */
export type Recognised =
  | { readonly kind: 'tls'; readonly serverName: string | undefined; readonly hasEch: boolean }
  | { readonly kind: 'http' }
  | { readonly kind: 'h2c' }
  | { readonly kind: 'closed' }
  | { readonly kind: 'unknown'; readonly problem: string }

export type TunnelParts = {
  readonly enforcement: Enforcement
  readonly exchanges: Exchanges
  readonly asking: Asking
  readonly lease: Lease
  readonly live: Live
  readonly addresses: Addresses
  readonly upstreams: Upstreams
  readonly load: Load
  readonly log: Log
  /** Looks at the first bytes and puts them back. */
  readonly recognise: (socket: Socket) => Promise<Recognised>
  /** Takes the socket over as the server of an HTTP connection, in TLS or not. */
  readonly serve: (socket: Socket, tunnel: Tunnel) => void
}

/** A connection that wants to be carried somewhere, and how it is told what becomes of it. */
export type Arrival = {
  readonly lane: Lane
  readonly socket: Socket
  /** Whether its way in was shown the lease of the session. */
  readonly isProven: boolean
  /** Says that the way is open. */
  accept(): void
  /** Says why it is not, as far as its protocol can, and ends the connection. */
  refuse(refusal: Refusal, request: RefusedRequest): void
}

/** The end that the agent asked for: recorded as one request, whatever goes through it. */
type End = { readonly method: 'CONNECT'; readonly host: Hostname; readonly port: number }

export type Tunnels = {
  /** The story of CONNECT and SOCKS5. Never rejects; the socket is closed or handed on when it is done. */
  open(arrival: Arrival, host: Hostname, port: number): Promise<void>
  /** The story of a connection that knows no proxy: its first bytes say where it leads. `port` is the one that it is for. */
  openTransparent(arrival: Arrival, port: number): Promise<void>
}

/**
 * Where it leads → decision → open → recognise what comes → serve it as HTTP, or pass it through. A tunnel that is served is
 * not audited by itself: nothing leaves by it, each request inside has its own events.
 */
export function createTunnels(parts: TunnelParts): Tunnels {
  const buffers = new ReadBuffers()
  const { load } = parts

  function run(arrival: Arrival, story: (passage: Passage) => Promise<void>): Promise<void> {
    const { lane, socket } = arrival
    socket.on('error', () => socket.destroy())
    load.tunnels += 1
    socket.once('close', () => (load.tunnels -= 1))
    return parts.exchanges.run(lane, async (exchange) => {
      const passage = new Passage(parts, buffers, arrival, exchange)
      try {
        if (load.tunnels > LIMITS.tunnelsMax) await passage.refuse(undefined, { code: 'overloaded', message: 'too many tunnels at once' })
        else await story(passage)
      } catch (error) {
        passage.fail(refusalOf(error), error)
      }
    })
  }

  return {
    open: (arrival, host, port) =>
      run(arrival, async (passage) => {
        const end: End = { method: 'CONNECT', host, port }
        const rule = await passage.decide(end)
        if (rule === undefined) return
        if (rule.carries === 'tcp') return passage.passThrough(end, rule.rule, 'tcp')
        passage.accept()
        return passage.carry(end, rule.rule, await parts.recognise(arrival.socket))
      }),
    openTransparent: (arrival, port) =>
      run(arrival, async (passage) => {
        const found = await parts.recognise(arrival.socket)
        if (found.kind === 'http') return passage.serve({ lane: arrival.lane, scheme: 'http', host: undefined, port })
        if (found.kind === 'closed') return void arrival.socket.destroy()
        if (found.kind !== 'tls') return passage.refuse(undefined, notRecognised(`port ${port}`, found))
        const host = hostOf(found)
        if (typeof host !== 'string') return passage.refuse(undefined, host)
        const end: End = { method: 'CONNECT', host, port }
        const rule = await passage.decide(end)
        if (rule?.carries === 'http') return passage.carry(end, rule.rule, found)
        if (rule)
          return passage.refuse(
            end,
            notRecognised(formatAuthority(host, port), { kind: 'unknown', problem: 'TLS came where a rule says tcp' }),
          )
      }),
  }
}

type Allowed = Exclude<TunnelDecision, { action: 'deny' }>

/** One connection on its way through the gate. */
class Passage {
  readonly #parts: TunnelParts
  readonly #buffers: ReadBuffers
  readonly #arrival: Arrival
  readonly #exchange: Exchange
  readonly #enforced: Enforced
  #isAccepted = false
  /** The operator was asked about it and said yes. */
  #isApproved = false

  constructor(parts: TunnelParts, buffers: ReadBuffers, arrival: Arrival, exchange: Exchange) {
    this.#parts = parts
    this.#buffers = buffers
    this.#arrival = arrival
    this.#exchange = exchange
    this.#enforced = parts.enforcement()
  }

  accept(): void {
    this.#isAccepted = true
    this.#arrival.accept()
  }

  /** The policy's decision, and the operator's where bytes are to be passed that nobody looks into. Undefined: it was refused. */
  async decide(end: End): Promise<Allowed | undefined> {
    const { policy, placeholders } = this.#enforced
    const unproven = this.#parts.lease.refusalOfTunnel(policy, this.#arrival.isProven)
    if (unproven) {
      await this.refuse(end, unproven)
      return undefined
    }
    const hidden = placeholders.inHostname(end.host)
    if (hidden !== undefined) {
      await this.refuse(end, misplaced(hidden, 'the name of a host'))
      return undefined
    }
    const decision = policy.decideTunnel(end.host, end.port)
    if (decision.action === 'allow') return decision
    let refusal: Refusal | undefined
    if (decision.action === 'deny') ({ refusal } = decision)
    // Requests inside are asked about one by one; a tunnel itself is never held.
    else if (decision.carries === 'tcp' || !this.#parts.asking.isPossible) {
      const { requestId, lane, network } = this.#exchange
      refusal = this.#parts.asking.consultAtOnce({ requestId, lane, network, rule: decision.rule.id, facts: end })
    }
    this.#isApproved = refusal === undefined && decision.action === 'ask'
    if (refusal) await this.refuse(end, refusal)
    return refusal || decision.action === 'deny' ? undefined : decision
  }

  /** What the agent sends says what becomes of an open tunnel. */
  async carry(end: End, rule: AllowedRule, found: Recognised): Promise<void> {
    const { host, port } = end
    const { lane, socket } = this.#arrival
    const where = formatAuthority(host, port)
    switch (found.kind) {
      case 'closed':
        // An agent that only ended its side would keep the socket, and its place among LIMITS.connectionsMax, for good.
        socket.destroy()
        return
      case 'h2c':
      case 'unknown':
        return this.refuse(end, { ...notRecognised(where, found), rule: rule.id })
      case 'http':
        return this.serve({ lane, scheme: 'http', host, port })
      case 'tls': {
        // I2: an address has no server name to agree with (RFC 6066 §3). A client that names none is held to the tunnel's host.
        const { serverName } = found
        const agrees = serverName === undefined ? rule.tls === 'intercept' || isAddress(host) : serverName.toLowerCase() === host
        if (!agrees) {
          const said = serverName === undefined ? 'no server name' : `"${shown(serverName)}"`
          return this.refuse(end, { code: 'sni_mismatch', message: `TLS names ${said} in a tunnel to ${where}`, rule: rule.id })
        }
        if (rule.tls === 'intercept') return this.serve({ lane, scheme: 'https', host, port })
        return this.passThrough(end, rule, 'passthrough')
      }
    }
  }

  /** Serves the connection as HTTP. Without a host its requests name their own and are decided one by one; the proof is the connection's. */
  serve(tunnel: Tunnel): void {
    const { socket } = this.#arrival
    const { host, port } = tunnel
    const entry: LiveEntry = {
      isAllowed: ({ policy }) => this.#isProvenFor(policy) && (host === undefined || isServed(policy.decideTunnel(host, port))),
      cut: () => void socket.destroy(),
    }
    const place = this.#parts.live.add(entry, this.#enforced)
    socket.once('close', () => place.leave())
    if (!socket.destroyed) this.#parts.serve(socket, tunnel)
  }

  /** Bytes as they are, between the agent and the judged address. I8: no credential is ever near. I17 */
  async passThrough(end: End, rule: AllowedRule, note: 'passthrough' | 'tcp'): Promise<void> {
    const { socket } = this.#arrival
    await this.#exchange.allow(end, rule, note)
    let bytes = { bytesUp: 0, bytesDown: 0 }
    let refusal: Refusal | undefined
    let addresses: readonly string[] | undefined
    let cause: string | undefined
    let cut: SallyportError | undefined
    const checkCut = (): void => {
      if (cut) throw cut
    }
    const entry: LiveEntry = {
      isAllowed: ({ policy }) =>
        this.#isProvenFor(policy) &&
        stillPasses(policy.decideTunnel(end.host, end.port), note, this.#isApproved) &&
        isAddressAllowed(policy, end, addresses),
      cut: () => {
        cut = new SallyportError('policy_changed', 'the policy no longer allows it')
        socket.destroy()
      },
    }
    const place = this.#parts.live.add(entry, this.#enforced)
    try {
      checkCut()
      const judged = await this.#parts.addresses.judge(this.#enforced.policy, end.host, end.port, rule)
      if ('code' in judged) {
        refusal = judged
      } else {
        ;({ addresses } = judged)
        place.check()
        checkCut()
        const reads = new DirectReads(this.#buffers, socket)
        const upstream = await this.#parts.upstreams.dial({ host: end.host, port: end.port, addresses }, reads.onread)
        if (!this.#isAccepted) this.accept()
        bytes = await relay(socket, upstream, undefined, reads)
      }
      checkCut()
    } catch (error) {
      refusal = refusalOf(error)
      const origin = error instanceof SallyportError ? error.cause : error
      cause = origin === undefined ? undefined : codeOf(origin)
      this.#parts.log.warn({ requestId: this.#exchange.requestId, host: end.host, code: refusal.code, cause }, refusal.message)
    }
    place.leave()
    if (refusal) this.#end(refusal, end, cause)
    else socket.destroy()
    await this.#exchange.finish(end, { ...bytes, refusal, address: addresses?.[0] })
  }

  async refuse(end: End | undefined, refusal: Refusal): Promise<void> {
    const where = end ?? { method: 'CONNECT' }
    await this.#exchange.deny(where, refusal)
    this.#end(refusal, end)
    await this.#exchange.finish(where, { refusal, bytesUp: 0, bytesDown: 0 })
  }

  fail(refusal: Refusal, error: unknown): void {
    const err = refusal.code === 'internal' ? error : undefined
    this.#parts.log.error({ requestId: this.#exchange.requestId, code: refusal.code, err }, 'tunnel refused')
    this.#end(refusal, undefined)
  }

  /** Inside an accepted tunnel there is no way to say why but the log. */
  #end(refusal: Refusal, end: End | undefined, cause?: string): void {
    const { socket } = this.#arrival
    if (this.#isAccepted || socket.destroyed) socket.destroy()
    else this.#arrival.refuse(refusal, { requestId: this.#exchange.requestId, host: end?.host, port: end?.port, cause })
  }

  #isProvenFor(policy: Enforced['policy']): boolean {
    return this.#parts.lease.refusalOfTunnel(policy, this.#arrival.isProven) === undefined
  }
}

function isAddressAllowed(policy: Enforced['policy'], { host, port }: End, addresses: readonly string[] | undefined): boolean {
  const decision = policy.decideTunnel(host, port)
  if (decision.action === 'deny' || policy.judgeName(host, decision.rule)) return false
  return addresses === undefined || policy.judgeAddresses(host, decision.rule, addresses, []) === undefined
}

/** Whether a connection that is served as HTTP would be served so by this decision too. */
function isServed(decision: TunnelDecision): boolean {
  return decision.action !== 'deny' && decision.carries === 'http' && decision.rule.tls === 'intercept'
}

/** Whether bytes that are passed unseen would be passed so by this decision too. */
function stillPasses(decision: TunnelDecision, note: 'passthrough' | 'tcp', isApproved: boolean): boolean {
  if (decision.action === 'deny' || (decision.action === 'ask' && !isApproved)) return false
  return note === 'tcp' ? decision.carries === 'tcp' : decision.carries === 'http' && decision.rule.tls === 'passthrough'
}

function notRecognised(where: string, found: { readonly kind: 'h2c' } | { readonly kind: 'unknown'; readonly problem: string }): Refusal {
  const problem = found.kind === 'h2c' ? 'HTTP/2 came without TLS, which is not carried' : found.problem
  return { code: 'protocol_not_recognised', message: `on the connection to ${where} ${problem}` }
}

/** The host that a ClientHello names, or why there is none. */
function hostOf({ serverName, hasEch }: Extract<Recognised, { kind: 'tls' }>): Hostname | Refusal {
  if (serverName === undefined) {
    return {
      code: 'server_name_missing',
      message: hasEch ? 'TLS names its host in encrypted form only (ECH)' : 'TLS names no host (SNI)',
      hint: 'use the proxy, or a client that sends the server name',
    }
  }
  const host = parseHostname(serverName)
  if (isHostname(host) && !isAddress(host)) return host
  const problem = isHostname(host) ? 'it is an address' : host.problem
  return { code: 'host_invalid', message: `the server name "${shown(serverName)}" is refused: ${problem}` }
}
