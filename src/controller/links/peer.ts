import type { Duplex } from 'node:stream'
import { createAllowance, isProof, openChannel, type Channel } from '../../channel/channel.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import { CONTROL_PROTOCOL, FROM_SIDECAR, Hello, type Welcome } from '../../wire/control.ts'
import type { ChainGuard } from './chain-guard.ts'
import type { LinkedSession, LinksParts } from './links.ts'

export type PeerParts = Pick<LinksParts, 'version' | 'graceMs' | 'system'> & {
  readonly session: LinkedSession
  readonly guard: ChainGuard
  /** Of the engine's stream; without it the peer shows the lease itself. */
  readonly nonce?: string
  /** How long it may take to prove itself. */
  readonly helloMs: number
  /** It has proven itself. @throws control_busy when another has before, control_refused when the session is over */
  onProven(peer: Peer): void
  onReady(): void
  /** Its proof was good, and its version is not ours. */
  onMismatch(error: SallyportError): void
}

/** Whoever is at the other end of a connection: a stranger until it has proven that it is the session's sidecar. */
export type Peer = {
  readonly channel: Channel
  readonly isProven: boolean
}

/** A stranger gets one frame of a few kilobytes and a few seconds, and nothing is done for it but to look at its lease. */
export function openPeer(stream: Duplex, parts: PeerParts): Peer {
  const { session, guard } = parts
  let isProven = false
  // Values of secrets are looked up where that may cost something: a sidecar asks once in a connection.
  const asks = createAllowance(0.5, 5, parts.system)
  const channel = openChannel(stream, {
    bytesMax: { received: () => (isProven ? LIMITS.controlFrameBytesMax : LIMITS.controlHelloBytesMax), sent: LIMITS.controlPushBytesMax },
    onRequest(method, params) {
      if (!isProven && method !== 'INIT_HELLO') return refuse(new SallyportError('control_refused', 'INIT_HELLO comes first'))
      return handle(method, params)
    },
    onNote(method) {
      channel.close(new SallyportError('control_broken', `a sidecar sends no ${shown(method)}`))
    },
    system: parts.system,
  })
  const peer: Peer = {
    channel,
    get isProven() {
      return isProven
    },
  }
  const late = setTimeout(() => channel.close(new SallyportError('control_refused', 'no INIT_HELLO in time')), parts.helloMs)
  void channel.closed.then(() => clearTimeout(late))

  /** It is told why, and that is all. */
  function refuse(error: SallyportError): Promise<never> {
    setImmediate(() => channel.close(error.code === 'control_refused' ? undefined : error))
    return Promise.reject(error)
  }

  function greet(hello: Hello): Promise<Welcome> {
    if (isProven) return refuse(new SallyportError('control_broken', 'a second INIT_HELLO'))
    if (!isLease(hello, parts)) return refuse(new SallyportError('control_refused', 'the lease is not the one of this session'))
    const mismatch = mismatchOf(hello, parts.version)
    if (mismatch) {
      parts.onMismatch(mismatch)
      return refuse(mismatch)
    }
    try {
      parts.onProven(peer)
    } catch (error) {
      if (error instanceof SallyportError) return refuse(error)
      throw error
    }
    isProven = true
    clearTimeout(late)
    const mark = guard.begin()
    return Promise.resolve({
      protocol: CONTROL_PROTOCOL,
      graceMs: parts.graceMs,
      authority: session.authority(),
      ...(mark && { audit: mark }),
    })
  }

  async function handle(method: string, params: unknown): Promise<unknown> {
    switch (method) {
      case 'INIT_HELLO':
        return greet(parsed(Hello.safeParse(params).data, method))
      case 'GET_SECRETS': {
        if (asks.take(1) > 0) return refuse(new SallyportError('control_broken', 'GET_SECRETS again and again'))
        const { version, values } = await session.secrets()
        return { version, values, leases: session.agentLeases?.() ?? [] }
      }
      case 'READY':
        parts.onReady()
        return {}
      case 'AUDIT':
        await guard.accept(parsed(FROM_SIDECAR.AUDIT.params.safeParse(params).data, method).lines)
        return {}
      default:
        return refuse(new SallyportError('control_broken', `there is no request ${shown(method)}`))
    }
  }

  function parsed<T>(value: T | undefined, method: string): T {
    if (value !== undefined) return value
    const error = new SallyportError('control_broken', `${method} is not what it should be`)
    setImmediate(() => channel.close(error))
    throw error
  }

  return peer
}

function isLease({ session: named, lease, proof }: Hello, { session, nonce }: PeerParts): boolean {
  if (named !== session.id) return false
  if (nonce === undefined) return lease !== undefined && session.verifyLease(lease)
  return proof !== undefined && isProof(proof, session.sidecarLease, nonce) && session.verifyLease(session.sidecarLease)
}

function mismatchOf({ protocol, image }: Hello, version: string): SallyportError | undefined {
  if (protocol === CONTROL_PROTOCOL && image === version) return undefined
  const hint = 'use the sidecar image of the daemon’s version, and start the session anew'
  const message =
    protocol === CONTROL_PROTOCOL
      ? `the sidecar is version ${shown(image)}, the controller ${version}`
      : `the sidecar speaks protocol ${protocol}, the controller ${CONTROL_PROTOCOL}`
  return new SallyportError('control_version_mismatch', message, { hint })
}
