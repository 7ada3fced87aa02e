import type { Duplex } from 'node:stream'
import type * as z from 'zod'
import { isProof, openChannel, openUnderLease, type Allowance, type Channel } from '../../channel/channel.ts'
import { SallyportError, type ErrorCode } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import { Authority, CONTROL_PROTOCOL, FROM_SIDECAR, Hello, type Welcome } from '../../wire/control.ts'
import type { ChainGuard } from './chain-guard.ts'
import type { LinkedSession, LinksParts } from './links.ts'

export type PeerParts = Pick<LinksParts, 'version' | 'graceMs' | 'system'> & {
  readonly session: LinkedSession
  readonly guard: ChainGuard
  /** To look values of secrets up may cost something: a sidecar asks once in a connection, and not by many of them. */
  readonly asks: Allowance
  /** Of the engine's stream; without it the peer shows the lease itself. */
  readonly nonce?: string
  /** How long it may take to prove itself. */
  readonly helloMs: number
  /** It has proven itself. @throws control_busy when another has before, control_refused when the session is over */
  onProven(peer: Peer): void
  /** It serves. Never rejects. */
  readonly onReady: (serving: Serving) => Promise<void>
  /** Its proof was good, and its version is not ours. */
  onMismatch(error: SallyportError): void
}

/** What a gate says of itself as soon as it serves: digest of its policy, side networks that it has its ways open in. */
export type Serving = z.infer<typeof FROM_SIDECAR.READY.params>

/** Whoever is at the other end of a connection: a stranger until it has proven that it is the session's sidecar. */
export type Peer = {
  readonly channel: Channel
  readonly isProven: boolean
}

/** A stranger gets one frame of a few kilobytes and a few seconds, and nothing is done for it but to look at its lease. */
export function openPeer(stream: Duplex, parts: PeerParts): Peer {
  return new SidecarPeer(stream, parts)
}

class SidecarPeer implements Peer {
  readonly channel: Channel
  readonly #parts: PeerParts
  readonly #late: NodeJS.Timeout
  readonly #gone = new AbortController()
  #isProven = false
  #isRefused = false
  #hasSpoken = false
  /** It was given its secrets: before that it is nobody's. */
  #hasSecrets = false
  /** What it has said that is said once. */
  readonly #said = new Set<string>()
  /** That it has proven to know. */
  #lease = ''

  constructor(stream: Duplex, parts: PeerParts) {
    this.#parts = parts
    this.channel = openChannel(stream, {
      bytesMax: {
        received: () => (this.#isProven ? LIMITS.controlFrameBytesMax : LIMITS.controlHelloBytesMax),
        sent: LIMITS.controlPushBytesMax,
      },
      onRequest: (method, params) => this.#answer(method, params),
      onNote: (method) => this.channel.close(broken(`a sidecar sends no ${shown(method)}`)),
      system: parts.system,
    })
    this.#late = setTimeout(() => this.channel.close(refused('no INIT_HELLO in time')), parts.helloMs)
    void this.channel.closed.then(() => {
      clearTimeout(this.#late)
      this.#gone.abort(new SallyportError('control_unreachable', 'the sidecar that asked is gone'))
    })
  }

  get isProven(): boolean {
    return this.#isProven
  }

  /** Whatever is wrong with a request is said to the peer, and ends the connection. */
  async #answer(method: string, params: unknown): Promise<unknown> {
    // What came in the same breath as a wrong proof is not looked at.
    if (this.#isRefused || (!this.#isProven && this.#hasSpoken)) throw refused('it was refused before')
    this.#hasSpoken = true
    try {
      if (!this.#isProven) return await this.#greet(method, params)
      return await this.#serve(method, params)
    } catch (error) {
      const isItsFault = error instanceof SallyportError && PEER_FAULTS.has(error.code)
      // Behind the answer.
      this.#isRefused = !this.#isProven || isItsFault
      if (this.#isRefused) setImmediate(() => this.channel.close(isItsFault ? error : undefined))
      throw error
    }
  }

  async #greet(method: string, params: unknown): Promise<Welcome> {
    const { session, guard, version, graceMs } = this.#parts
    if (method !== 'INIT_HELLO') throw refused('INIT_HELLO comes first')
    const hello = parsed(Hello.safeParse(params).data, method)
    // I34: nothing is said to whoever has no lease that holds now.
    if (!isLease(hello, this.#parts)) throw refused('the lease is not the one of this session')
    const mismatch = mismatchOf(hello, version)
    if (mismatch) {
      this.#parts.onMismatch(mismatch)
      throw mismatch
    }
    this.#parts.onProven(this)
    this.#isProven = true
    this.#lease = hello.lease ?? session.sidecarLease
    clearTimeout(this.#late)
    const mark = guard.begin()
    return {
      protocol: CONTROL_PROTOCOL,
      graceMs,
      ...(hello.hasAuthority !== true && { authority: session.authority() }),
      ...(mark && { audit: mark }),
    }
  }

  #keepAuthority(sealed: string): void {
    const text = openUnderLease(this.#lease, sealed)
    const authority = Authority.safeParse(text === undefined ? undefined : jsonOf(text)).data
    this.#parts.session.keepAuthority?.(parsed(authority, 'AUTHORITY'))
  }

  async #serve(method: string, params: unknown): Promise<unknown> {
    const { session, guard, onReady } = this.#parts
    if (AFTER_SECRETS.has(method) && !this.#hasSecrets) throw broken('GET_SECRETS comes first')
    if (ONCE.has(method) && this.#said.has(method)) throw broken(`${method} again`)
    this.#said.add(method)
    switch (method) {
      case 'GET_SECRETS': {
        if (this.#parts.asks.take(1) > 0) throw broken('GET_SECRETS again and again')
        const { version, values } = await session.secrets(this.#gone.signal)
        this.#hasSecrets = true
        return { version, values, leases: session.agentLeases?.() ?? [] }
      }
      case 'READY':
        void onReady(parsed(FROM_SIDECAR.READY.params.safeParse(params).data, method))
        return {}
      case 'AUTHORITY':
        this.#keepAuthority(parsed(FROM_SIDECAR.AUTHORITY.params.safeParse(params).data, method).sealed)
        return {}
      case 'AUDIT':
        await guard.accept(parsed(FROM_SIDECAR.AUDIT.params.safeParse(params).data, method).lines)
        return {}
      case 'AGENT':
        if (session.onAgent === undefined) throw nobody()
        return session.onAgent(parsed(FROM_SIDECAR.AGENT.params.safeParse(params).data, method), this.#gone.signal)
      case 'TOOL':
        if (session.onTool === undefined) throw nobody()
        return session.onTool(parsed(FROM_SIDECAR.TOOL.params.safeParse(params).data, method), this.#gone.signal)
      case 'ASK':
        if (session.onAsk === undefined) throw nobody()
        return session.onAsk(parsed(FROM_SIDECAR.ASK.params.safeParse(params).data, method), this.#gone.signal)
      default:
        throw broken(`a sidecar that is connected sends no ${shown(method)}`)
    }
  }
}

const PEER_FAULTS = new Set<ErrorCode>(['control_refused', 'control_broken', 'control_busy', 'control_version_mismatch'])

/** Whatever makes a session count as one that runs, or asks in its name. */
const AFTER_SECRETS: ReadonlySet<string> = new Set(['READY', 'AUTHORITY', 'AGENT', 'TOOL', 'ASK'])
/** Each has work done that all sessions wait for: a policy is read, a key is derived. */
const ONCE: ReadonlySet<string> = new Set(['READY', 'AUTHORITY'])

function refused(problem: string): SallyportError {
  return new SallyportError('control_refused', problem)
}

function nobody(): SallyportError {
  return new SallyportError('controller_unavailable', 'this controller takes no requests of agents')
}

function broken(problem: string): SallyportError {
  return new SallyportError('control_broken', problem)
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function parsed<T>(value: T | undefined, method: string): T {
  if (value === undefined) throw broken(`${method} is not what it should be`)
  return value
}

function isLease({ session: named, lease, proof }: Hello, { session, nonce }: PeerParts): boolean {
  if (named !== session.id) return false
  if (nonce === undefined) return lease !== undefined && session.verifyLease(lease)
  return proof !== undefined && isProof(proof, session.sidecarLease, nonce) && session.verifyLease(session.sidecarLease)
}

function mismatchOf({ protocol, image }: Hello, version: string): SallyportError | undefined {
  if (protocol === CONTROL_PROTOCOL && image === version) return undefined
  const hint = 'use the sidecar image that belongs to the daemon, and start the session anew'
  const message =
    protocol === CONTROL_PROTOCOL
      ? `the sidecar is version ${shown(image)}, the controller ${version}`
      : `the sidecar speaks protocol ${protocol}, the controller ${CONTROL_PROTOCOL}`
  return new SallyportError('control_version_mismatch', message, { hint })
}
