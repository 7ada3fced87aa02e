import { setTimeout as sleep } from 'node:timers/promises'
import type { Outgoing } from '../audit/audit.ts'
import { openChannel, proofOf, sealUnderLease, type Channel } from '../channel/channel.ts'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import type { System } from '../kernel/system.ts'
import {
  CONTROL_PROTOCOL,
  FROM_CONTROLLER,
  FROM_SIDECAR,
  Offer,
  OFFER,
  type Authority,
  type Secrets,
  type TestedServer,
  type SideNetwork,
  type Welcome,
} from '../wire/control.ts'
import { openTransport, type Connection, type Transport } from './link-transport.ts'

export type { Transport } from './link-transport.ts'

export type LinkConfig = {
  readonly transport: Transport
  /** Version of this program. */
  readonly version: string
  readonly session: string
  readonly agent: string
}

/** What the controller may have a sidecar do. Each is done when it resolves. */
export type LinkHandlers = {
  /** New values, or the same after a reconnection. @throws what is wrong with them: the ones before stay in force */
  onSecrets(secrets: Secrets): Promise<void>
  onPolicy(): Promise<void>
  /** Digest of the policy that is in force. */
  policyDigest(): string
  /** Side networks that its ways are open in. */
  ways(): readonly SideNetwork[]
  /** @throws listen_failed, overloaded, config_invalid */
  onWays(network: SideNetwork, open: boolean): Promise<void>
  /** How many tunnels and exchanges were cut. */
  onRevoked(): Promise<number>
  /** An MCP server, tried for the operator. `pass` stands for a lease. @throws mcp_server_unknown, mcp_server_failed */
  onServerTest(server: string, pass: string): Promise<TestedServer>
  /** No controller for longer than it granted. */
  onGraceOver(): void
}

/** The sidecar's end of the control channel. */
export type Link = AsyncDisposable & {
  readonly welcome: Welcome
  /** Those that it started with, once: the link itself keeps none. */
  takeSecrets(): Secrets
  /** From here on the controller is listened to, and told that the sidecar serves; lines of its audit go there. */
  serve(handlers: LinkHandlers, outgoing: Outgoing | undefined): void
  /** Asks the controller, if it is there and the session not over. @throws controller_unavailable, and what the controller says */
  ask(method: 'AGENT' | 'ASK' | 'TOOL', params: unknown, timeoutMs: number): Promise<unknown>
}

/**
 * Connects and gets the session's secrets; afterwards it connects anew for as long as it is open.
 * @throws control_unreachable after `LIMITS.controlStartMs`, control_refused, control_version_mismatch, and what the controller says
 *   of a secret that it cannot resolve
 */
export async function openLink(
  config: LinkConfig,
  log: Pick<Log, 'info' | 'warn' | 'error'>,
  system: Pick<System, 'elapsed' | 'random'>,
): Promise<Link> {
  const link = new ReconnectingLink(config, log, system)
  try {
    await link.started()
    return link
  } catch (error) {
    await link[Symbol.asyncDispose]()
    throw error
  }
}

class ReconnectingLink implements Link {
  readonly #config: LinkConfig
  readonly #log: Pick<Log, 'info' | 'warn' | 'error'>
  readonly #system: Pick<System, 'elapsed' | 'random'>
  readonly #stopping = new AbortController()
  readonly #transport: ReturnType<typeof openTransport>
  readonly #begun = Promise.withResolvers<void>()
  readonly #serving = Promise.withResolvers<{ readonly handlers: LinkHandlers; readonly outgoing: Outgoing | undefined }>()
  readonly #draining = new AbortController()
  #forwarding: Promise<void> | undefined
  readonly #running: Promise<void>
  /** The one that works now. */
  #channel: Channel | undefined
  #welcome: Welcome | undefined
  #secrets: Secrets | undefined
  /** That it serves with. The next controller has to be told: the one that made it had it in memory only. */
  #authority: Authority | undefined
  #hasBegun = false
  #grace: NodeJS.Timeout | undefined
  #isGraceRunning = false
  #isEnded = false
  /** The last fault that was logged: the same one is not logged at each attempt. */
  #told: string | undefined

  constructor(config: LinkConfig, log: Pick<Log, 'info' | 'warn' | 'error'>, system: Pick<System, 'elapsed' | 'random'>) {
    this.#config = config
    this.#log = log
    this.#system = system
    this.#transport = openTransport(config.transport)
    this.#begun.promise.catch(() => undefined)
    this.#running = this.#run()
  }

  get welcome(): Welcome {
    if (!this.#welcome) throw new Error('the link has not begun')
    return this.#welcome
  }

  takeSecrets(): Secrets {
    const secrets = this.#secrets
    if (!secrets) throw new Error('the link has not begun, or its secrets were taken')
    this.#secrets = undefined
    return secrets
  }

  async started(): Promise<void> {
    const timer = setTimeout(() => {
      const reason = this.#told === undefined ? '' : `: ${this.#told}`
      const hint = 'is the daemon running, and the folder of its socket mounted?'
      this.#begun.reject(new SallyportError('control_unreachable', `no controller at ${this.#transport.name}${reason}`, { hint }))
    }, LIMITS.controlStartMs)
    await this.#begun.promise.finally(() => clearTimeout(timer))
  }

  serve(handlers: LinkHandlers, outgoing: Outgoing | undefined): void {
    this.#serving.resolve({ handlers, outgoing })
  }

  async ask(method: 'AGENT' | 'ASK' | 'TOOL', params: unknown, timeoutMs: number): Promise<unknown> {
    if (this.#channel === undefined || this.#isEnded) throw unavailable()
    try {
      return await this.#channel.request(method, params, timeoutMs)
    } catch (error) {
      const isGone = error instanceof SallyportError && (error.code === 'control_unreachable' || error.code === 'control_broken')
      throw isGone ? unavailable(error) : error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // What was written until now still goes: the connection is the last part that is taken down.
    this.#draining.abort()
    const bound = new AbortController()
    await Promise.race([this.#forwarding?.catch(() => undefined), pause(LIMITS.settleMs, bound.signal)])
    bound.abort()
    this.#stopping.abort()
    clearTimeout(this.#grace)
    this.#transport[Symbol.dispose]()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    for (let attempt = 0; !signal.aborted && !this.#isEnded; attempt++) {
      try {
        const connection = await this.#transport.connect(signal)
        if (await this.#converse(connection)) attempt = 0
      } catch (error) {
        this.#tell(error)
      }
      if (!signal.aborted && !this.#isEnded && this.#transport.isDialled) await pause(backoffMs(attempt, this.#system), signal)
    }
  }

  /** One connection from its first frame to its end. True when it got as far as the secrets. */
  async #converse(connection: Connection): Promise<boolean> {
    const { promise: offered, resolve: onOffer } = Promise.withResolvers<string>()
    await using channel = openChannel(connection.stream, {
      bytesMax: { received: () => LIMITS.controlPushBytesMax, sent: LIMITS.controlFrameBytesMax },
      onRequest: (method, params) => this.#onRequest(method, params),
      onNote: (method, params) => void (method === OFFER && onOffer(Offer.parse(params).lease)),
      system: this.#system,
    })
    const stop = (): void => channel.close()
    this.#stopping.signal.addEventListener('abort', stop, { once: true })
    try {
      const lease = connection.lease ?? (await within(offered, channel))
      await this.#greet(channel, connection, lease)
      this.#told = undefined
      this.#log.info({ controller: this.#transport.name }, 'controller connected')
      const reason = await this.#attend(channel, lease)
      if (!this.#stopping.signal.aborted) this.#log.warn({ reason: reason?.message }, 'controller lost')
      return true
    } finally {
      this.#stopping.signal.removeEventListener('abort', stop)
      this.#channel = undefined
      this.#lose()
    }
  }

  /** INIT_HELLO, then GET_SECRETS. */
  async #greet(channel: Channel, { nonce }: Connection, lease: string): Promise<void> {
    const { version: image, session, agent } = this.#config
    const shown = nonce === undefined ? { lease } : { proof: proofOf(lease, nonce) }
    const hello = { protocol: CONTROL_PROTOCOL, image, session, agent, ...shown, ...(this.#hasBegun && { hasAuthority: true }) }
    const welcome = FROM_SIDECAR.INIT_HELLO.result.parse(await channel.request('INIT_HELLO', hello, LIMITS.controlHelloMs))
    const secrets = FROM_SIDECAR.GET_SECRETS.result.parse(await channel.request('GET_SECRETS', {}))
    clearTimeout(this.#grace)
    this.#isGraceRunning = false
    this.#welcome = welcome
    this.#authority ??= welcome.authority
    if (!this.#hasBegun) {
      this.#hasBegun = true
      this.#secrets = secrets
      return this.#begun.resolve()
    }
    const { handlers } = await this.#serving.promise
    await handlers.onSecrets(secrets).catch((error: unknown) => this.#tell(error))
  }

  /** Until the channel ends: says READY, sends the audit's lines. */
  async #attend(channel: Channel, lease: string): Promise<SallyportError | undefined> {
    const ending = new AbortController()
    const closed = channel.closed.finally(() => ending.abort())
    const working = Promise.race([this.#serving.promise, closed.then(() => undefined)]).then(async (serving) => {
      if (!serving) return
      if (this.#authority && !this.#welcome?.authority) {
        const sealed = sealUnderLease(lease, JSON.stringify(this.#authority), this.#system)
        await channel.request('AUTHORITY', { sealed })
      }
      await channel.request('READY', { policy: serving.handlers.policyDigest(), ways: serving.handlers.ways() })
      this.#channel = channel
      if (serving.outgoing) await (this.#forwarding = this.#forward(channel, serving.outgoing, ending.signal))
    })
    working.catch((error: unknown) => channel.close(error instanceof SallyportError ? error : undefined))
    const reason = await closed
    await working.catch(() => undefined)
    return reason
  }

  /** One frame of lines at a time: what the controller has no room for stays where it is. */
  async #forward(channel: Channel, outgoing: Outgoing, signal: AbortSignal): Promise<void> {
    if (this.#welcome?.audit) await outgoing.resumeAfter(this.#welcome.audit)
    let isTold = false
    while (!signal.aborted) {
      const lines = await outgoing.next(AbortSignal.any([signal, this.#draining.signal]))
      if (lines.length === 0 || signal.aborted) return
      try {
        await channel.request('AUDIT', { lines })
        outgoing.acknowledge(lines.length)
        isTold = false
      } catch (error) {
        if (signal.aborted) return
        if (!isTold)
          this.#log.error({ code: error instanceof SallyportError ? error.code : 'internal' }, 'the controller keeps no audit lines')
        isTold = true
        await pause(LIMITS.controlLinesPauseMs, signal)
      }
    }
  }

  async #onRequest(method: string, params: unknown): Promise<unknown> {
    const { handlers } = await this.#serving.promise
    switch (method) {
      case 'SECRETS': {
        const secrets = FROM_CONTROLLER.SECRETS.params.parse(params)
        await handlers.onSecrets(secrets)
        return { version: secrets.version }
      }
      case 'POLICY':
        await handlers.onPolicy()
        return {}
      case 'MCP_TEST': {
        const { server, pass } = FROM_CONTROLLER.MCP_TEST.params.parse(params)
        return await handlers.onServerTest(server, pass)
      }
      case 'WAYS': {
        const { open, ...network } = FROM_CONTROLLER.WAYS.params.parse(params)
        await handlers.onWays(network, open)
        return {}
      }
      case 'REVOKE':
        this.#isEnded = true
        return { cut: await handlers.onRevoked() }
      default:
        throw new SallyportError('control_broken', `the sidecar knows no request ${JSON.stringify(method)}`)
    }
  }

  /** From here on the grace runs, once for all attempts that fail. */
  #lose(): void {
    const { graceMs = LIMITS.controllerGraceMs } = this.#welcome ?? {}
    if (this.#isEnded || this.#stopping.signal.aborted || this.#welcome === undefined || this.#isGraceRunning) return
    this.#isGraceRunning = true
    this.#grace = setTimeout(() => void this.#serving.promise.then(({ handlers }) => handlers.onGraceOver()), graceMs)
  }

  #tell(error: unknown): void {
    const { code, message } = error instanceof SallyportError ? error : { code: 'internal' as const, message: 'a fault of the link' }
    if (this.#told !== message && !this.#stopping.signal.aborted) this.#log.warn({ code }, message)
    this.#told = message
    const isFirst = !this.#hasBegun
    // Before the first secrets every answer of the controller is one to whoever starts this.
    if (isFirst && error instanceof SallyportError && error.code !== 'control_unreachable' && error.code !== 'control_broken') {
      if (error.code !== 'control_busy') this.#begun.reject(error)
    }
    if (isFirst || code !== 'control_refused') return
    // The lease was good before: it was revoked while nobody could say so.
    this.#isEnded = true
    void this.#serving.promise.then(({ handlers }) => handlers.onRevoked())
  }
}

function unavailable(cause?: unknown): SallyportError {
  return new SallyportError('controller_unavailable', 'this needs the controller on the host, which is not there now', {
    hint: 'the operator starts the daemon again; then send the same again',
    cause,
  })
}

/** Milliseconds before the next attempt. Doubles up to a limit; a part of it is chance, so that all sidecars of a daemon that was restarted do not come at once. */
export function backoffMs(attempt: number, system: Pick<System, 'random'>): number {
  const most = Math.min(LIMITS.controlBackoffMaxMs, LIMITS.controlBackoffMinMs * 2 ** Math.min(attempt, 16))
  return most * (0.5 + system.random(1).readUInt8() / 512)
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined)
}

/** What the controller says first, for as long as it may take. @throws control_unreachable */
async function within(offered: Promise<string>, channel: Channel): Promise<string> {
  const timing = new AbortController()
  const late = sleep(LIMITS.controlHelloMs, undefined, { signal: timing.signal })
  const lease = await Promise.race([offered, channel.closed.then(() => undefined), late]).finally(() => timing.abort())
  if (lease === undefined) throw new SallyportError('control_unreachable', 'the controller offers no lease')
  return lease
}
