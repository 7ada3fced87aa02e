import { setTimeout as sleep } from 'node:timers/promises'
import type { Duplex } from 'node:stream'
import { createAllowance, offerMarked, type Allowance } from '../../channel/channel.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { FROM_CONTROLLER, OFFER, type SecretBundle } from '../../wire/control.ts'
import { createChainGuard } from './chain-guard.ts'
import type { LinkedSession, LinksParts, SessionLink } from './links.ts'
import { openPeer, type Peer, type Serving } from './peer.ts'
import { createSideNetworks, type SideNetworks } from './side-networks.ts'
import { openSocketFolder } from './socket-folder.ts'

/** One session's link, over its socket and over whatever streams are attached. @throws control_socket_invalid */
export async function openLinkedSession(session: LinkedSession, parts: LinksParts): Promise<SessionLink> {
  const link = new OpenLink(session, parts)
  await link.listen()
  return {
    socketDir: session.socketDir,
    ready: (signal) => link.ready(signal),
    attach: (stream) => link.attach(stream),
    pushSecrets: (bundle) => link.pushSecrets(bundle),
    pushPolicy: async () => void (await link.ask('POLICY', {})),
    ways: (network, open, signal) => link.sideNetworks.change(network, open, signal),
    testServer: async (server, pass) =>
      FROM_CONTROLLER.MCP_TEST.result.parse(await link.ask('MCP_TEST', { server, pass }, LIMITS.serverTestMs * 2)),
    revoke: () => link.revoke(),
    [Symbol.asyncDispose]: () => link.close(),
  }
}

class OpenLink {
  readonly #session: LinkedSession
  readonly #parts: LinksParts
  readonly #guard: ReturnType<typeof createChainGuard>
  readonly #asks: Allowance
  readonly sideNetworks: SideNetworks
  readonly #parted = new AsyncDisposableStack()
  /** All that are connected, the proven one too. */
  readonly #peers = new Set<Peer>()
  #proven: Peer | undefined
  /** The youngest that came by an attached stream. */
  #attached: Peer | undefined
  readonly #ending = new AbortController()
  #isReady = false
  #isOver = false
  /** Why no sidecar of this session can ever be ready. */
  #failure: SallyportError | undefined
  #wake = Promise.withResolvers<void>()

  constructor(session: LinkedSession, parts: LinksParts) {
    this.#session = session
    this.#parts = parts
    this.#guard = createChainGuard(session)
    this.#asks = createAllowance(LIMITS.controlAsksPerMinuteMax / 60, LIMITS.controlBurstAsksMax, parts.system)
    this.sideNetworks = createSideNetworks((ways) => this.ask('WAYS', ways), session.id, parts.log)
  }

  async listen(): Promise<void> {
    const { id, socketDir, sidecarLease } = this.#session
    const folder = await openSocketFolder(
      socketDir,
      { id, lease: sidecarLease },
      {
        ...this.#parts,
        ...(this.#session.owner && { owner: this.#session.owner }),
        onConnection: (socket) => {
          this.#look(folder.problem())
          const strangers = [...this.#peers].filter(({ isProven }) => !isProven).length
          if (this.#isOver || strangers >= LIMITS.controlStrangersMax) return false
          this.#add(socket, { helloMs: LIMITS.controlHelloMs })
          return true
        },
      },
    )
    this.#parted.use(folder)
    const looking = setInterval(() => this.#look(folder.problem()), LIMITS.controlLookMs)
    this.#parted.defer(() => clearInterval(looking))
  }

  attach(stream: Duplex): void {
    stream.on('error', () => stream.destroy())
    if (this.#isOver) return void stream.destroy()
    // Who attaches is this controller itself: the stream before is of no use any more, and what is written to it still would be read.
    this.#attached?.channel.close()
    this.#leave(this.#attached)
    const nonce = this.#parts.system.random(16).toString('hex')
    // The program in the container may have yet to start.
    const peer = this.#add(offerMarked(stream, nonce), { nonce, helloMs: LIMITS.sidecarReadyMs })
    peer.channel.note(OFFER, { lease: this.#session.sidecarLease })
    this.#attached = peer
    void peer.channel.closed.then(() => this.#attachAgain(peer))
  }

  /** A gate on its standard streams cannot come by itself, whatever ended the stream: a network, a machine that slept. */
  async #attachAgain(lost: Peer): Promise<void> {
    const { signal } = this.#ending
    const isWanted = (): boolean => !this.#isOver && this.#attached === lost
    while (isWanted()) {
      await sleep(LIMITS.controlReattachMs, undefined, { signal, ref: false }).catch(() => undefined)
      if (!isWanted()) return
      try {
        const stream = await this.#session.attachAgain?.()
        if (stream === undefined) return
        if (isWanted()) return this.attach(stream)
        stream.destroy()
      } catch (error) {
        this.#parts.log.warn({ session: this.#session.id, code: codeOf(error) }, 'the streams of the sidecar cannot be attached to')
      }
    }
  }

  async ready(signal: AbortSignal): Promise<void> {
    const bound = AbortSignal.any([signal, AbortSignal.timeout(LIMITS.sidecarReadyMs)])
    const { promise: stopped, resolve: stop } = Promise.withResolvers<void>()
    const onAbort = (): void => stop()
    bound.addEventListener('abort', onAbort)
    try {
      while (!this.#isReady) {
        if (this.#failure) throw this.#failure
        if (this.#isOver || bound.aborted) throw this.#notReady(signal)
        await Promise.race([this.#wake.promise, stopped])
      }
    } finally {
      bound.removeEventListener('abort', onAbort)
    }
  }

  async pushSecrets({ version, values }: SecretBundle): Promise<void> {
    await this.ask('SECRETS', { version, values, leases: this.#session.agentLeases?.() ?? [] })
  }

  async ask(
    method: 'SECRETS' | 'POLICY' | 'WAYS' | 'MCP_TEST' | 'REVOKE',
    params: unknown,
    timeoutMs: number = LIMITS.controlAnswerMs,
  ): Promise<unknown> {
    const { id } = this.#session
    if (!this.#proven) throw unreachable(id, 'it is not connected')
    try {
      return await this.#proven.channel.request(method, params, timeoutMs)
    } catch (error) {
      const isGone = error instanceof SallyportError && (error.code === 'control_unreachable' || error.code === 'control_broken')
      throw isGone ? unreachable(id, error.message, error) : error
    }
  }

  async revoke(): Promise<void> {
    this.#isOver = true
    this.#ending.abort()
    for (const peer of this.#peers) if (!peer.isProven) peer.channel.close()
    await this.ask('REVOKE', {}, LIMITS.controlRevokeMs)
  }

  async close(): Promise<void> {
    this.#isOver = true
    this.#ending.abort()
    for (const { channel } of this.#peers) channel.close()
    this.#signal()
    await this.#parted.disposeAsync()
  }

  #add(stream: Duplex, how: { readonly nonce?: string; readonly helloMs: number }): Peer {
    const { id } = this.#session
    const peer = openPeer(stream, {
      ...this.#parts,
      ...how,
      session: this.#session,
      guard: this.#guard,
      asks: this.#asks,
      onProven: (proven) => this.#enter(proven),
      onReady: (serving) => this.#serves(peer, serving),
      onMismatch: (error) => this.#fail(error),
    })
    this.#peers.add(peer)
    void peer.channel.closed.then((reason) => {
      this.#peers.delete(peer)
      if (reason) this.#parts.log.warn({ session: id, code: reason.code, isProven: peer.isProven }, reason.message)
      this.#leave(peer)
    })
    return peer
  }

  #enter(peer: Peer): void {
    if (this.#isOver) throw new SallyportError('control_refused', 'the session is over')
    if (this.#proven) throw new SallyportError('control_busy', `a sidecar of session ${this.#session.id} is connected`)
    this.#proven = peer
    this.#session.onState('connected')
  }

  /** I18: a gate that started or connected while its policy was replaced has the last one before it counts as ready. */
  async #serves(peer: Peer, { policy, ways = [] }: Serving): Promise<void> {
    const session = this.#session
    try {
      if (session.policyDigest !== undefined && session.policyDigest() !== policy)
        await peer.channel.request('POLICY', {}, LIMITS.controlAnswerMs)
    } catch (error) {
      const fault =
        error instanceof SallyportError ? error : new SallyportError('internal', 'its policy cannot be compared', { cause: error })
      this.#parts.log.error(
        { session: session.id, code: fault.code },
        `the sidecar does not take the policy that is in force: ${fault.message}`,
      )
      // It comes again, and is asked again.
      return peer.channel.close()
    }
    if (this.#proven !== peer) return
    this.#isReady = true
    this.#session.onState('ready')
    this.#signal()
    await this.sideNetworks.settle(ways)
  }

  #leave(peer: Peer | undefined): void {
    if (peer === undefined || this.#proven !== peer) return
    this.#proven = undefined
    this.#isReady = false
    this.#session.onState('lost')
  }

  /** Whoever has put something else in the socket's place gets no sidecar of ours to talk to, and no secret. */
  #look(problem: SallyportError | undefined): void {
    if (problem === undefined || this.#isOver) return
    this.#isOver = true
    for (const { channel } of this.#peers) channel.close(problem)
    this.#fail(problem)
  }

  #fail(error: SallyportError): void {
    this.#failure = error
    this.#parts.log.error({ session: this.#session.id, code: error.code }, error.message)
    this.#signal()
  }

  #signal(): void {
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }

  #notReady(signal: AbortSignal): SallyportError {
    const { id } = this.#session
    const why = signal.aborted ? 'it was not waited for any longer' : `it was not ready in ${LIMITS.sidecarReadyMs / 1_000} s`
    return new SallyportError('sidecar_not_ready', `the sidecar of session ${id}: ${this.#isOver ? 'the session is over' : why}`, {
      hint: 'look at the log of its container',
    })
  }
}

function unreachable(session: string, why: string, cause?: unknown): SallyportError {
  return new SallyportError('sidecar_unreachable', `the sidecar of session ${session} cannot be reached: ${why}`, {
    hint: 'it gets what it missed when it connects again',
    cause,
  })
}
