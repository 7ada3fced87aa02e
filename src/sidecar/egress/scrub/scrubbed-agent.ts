import type { Duplex, Readable } from 'node:stream'
import type { SallyportError } from '../../../kernel/errors.ts'
import type { Redactor } from '../../../redactor/redactor.ts'
import type { Agent } from '../agent.ts'
import type { Course } from '../course.ts'
import type { RequestHead } from '../facts.ts'
import { valuesOf, type RawHeaders } from '../headers.ts'
import { scrubFields, scrubHead, scrubTrailers } from './answer.ts'
import { PlainBody, type Body } from './body.ts'
import { CodedBody } from './coded-body.ts'
import { notScrubbable } from './codings.ts'
import { openContent } from './content.ts'
import { Outlet } from './outlet.ts'
import type { ScrubPlan } from './plan.ts'
import { WebSocketFrames } from './websocket-frames.ts'
import { ScrubbedWebSocket } from './websocket.ts'

export type { ScrubPlan } from './plan.ts'
export { scrubbableRequest } from './request.ts'

export type ScrubbedAgent = {
  /** To be forwarded to in the place of the agent, and to be refused or aborted in its place. */
  readonly agent: Agent
  /** Secrets that were found in the answer so far. */
  readonly hits: number
  /**
   * To be called when nothing more will be forwarded: undefined when what was forwarded is out, else resolves when it is. At once where
   * the upstream did not come to its end, and when the answer failed, the agent is gone or the exchange is cut: then nothing of it goes out any more.
   */
  settled(course: Course): Promise<void> | undefined
}

/**
 * The agent as an upstream should see it when a secret is bound to the host: no byte of the secret in an answer's head, body,
 * trailers or WebSocket messages reaches the agent behind it.
 *
 * @param method of the request: an answer to HEAD has no body
 * @param fail told once when the answer must not go on (secret_echoed, answer_not_scrubbable; upstream_invalid for what cannot
 *   be written, upstream_timeout for an agent that reads nothing): the exchange is to be cut, the agent to be refused, or
 *   aborted if `isAnswered`. What is found in a head or handshake is thrown by `start` or `upgrade` instead
 */
export function createScrubbedAgent(agent: Agent, plan: ScrubPlan, method: string, fail: (error: SallyportError) => void): ScrubbedAgent {
  return new Scrubbing(agent, plan, method, fail)
}

/** One answer: the agent as its upstream sees it, and the plan as what looks into it sees it. */
class Scrubbing implements ScrubbedAgent, Agent, ScrubPlan {
  hits = 0
  readonly #agent: Agent
  readonly #plan: ScrubPlan
  readonly #method: string
  readonly #outlet: Outlet
  /** None where the answer has none: nothing goes on, whatever an upstream sends in its place. */
  #body: Body | undefined
  /** True once the upstream said all that it had to say, or has a connection. */
  #isWhole = false

  constructor(agent: Agent, plan: ScrubPlan, method: string, fail: (error: SallyportError) => void) {
    this.#agent = agent
    this.#plan = plan
    this.#method = method
    this.#outlet = new Outlet(agent, fail)
  }

  get agent(): Agent {
    return this
  }

  settled(course: Course): Promise<void> | undefined {
    const outlet = this.#outlet
    if (!this.#isWhole || course.isCut) outlet.close()
    if (outlet.isClosed) return undefined
    return new Promise((resolve) => {
      const stop = course.onCut(() => outlet.close())
      outlet.onClose(() => {
        stop()
        resolve()
      })
      outlet.watchAgent()
    })
  }

  get redactor(): Redactor {
    return this.#plan.redactor
  }

  get mode(): ScrubPlan['mode'] {
    return this.#plan.mode
  }

  onHits(count: number): boolean {
    this.hits += count
    return this.#plan.onHits(count)
  }

  get head(): RequestHead {
    return this.#agent.head
  }

  get isModern(): boolean {
    return this.#agent.isModern
  }

  get body(): Readable | undefined {
    return this.#agent.body
  }

  get isUploaded(): boolean {
    return this.#agent.isUploaded
  }

  get isGone(): boolean {
    return this.#agent.isGone
  }

  get isAnswered(): boolean {
    return this.#agent.isAnswered
  }

  get upgrade(): Agent['upgrade'] {
    const { upgrade } = this.#agent
    return upgrade && ((headers): Duplex => this.#upgraded(upgrade, headers))
  }

  trailers(): RawHeaders {
    return this.#agent.trailers()
  }

  sendInterim(status: number, headers: readonly string[]): void {
    if (this.#outlet.isClosed) return
    let fields: RawHeaders
    try {
      fields = scrubFields(this, headers)
    } catch (error) {
      this.#outlet.fail(error)
      return
    }
    this.#agent.sendInterim(status, fields)
  }

  start(status: number, reason: string, headers: readonly string[]): void {
    const head = this.#closingOnError(() => scrubHead(this, this.#method, status, reason, headers))
    this.#outlet.start(head)
    if (head.codings === undefined || this.#outlet.isClosed) return
    const content = openContent(this, head.contentType)
    this.#body =
      head.codings.length > 0 ? new CodedBody(head.codings, content, this.#outlet) : new PlainBody(content, this.#outlet, head.bodyBytes)
  }

  flush(): void {
    this.#outlet.flush()
  }

  write(chunk: Buffer): boolean {
    return this.#outlet.isClosed || this.#body === undefined || this.#body.write(chunk)
  }

  onceDrained(listener: () => void): void {
    ;(this.#body ?? this.#outlet).onceDrained(listener)
  }

  end(trailers: RawHeaders): void {
    this.#isWhole = true
    if (this.#outlet.isClosed) return
    let fields: RawHeaders
    try {
      fields = scrubTrailers(this, trailers)
    } catch (error) {
      this.#outlet.fail(error)
      return
    }
    ;(this.#body ?? this.#outlet).end(fields)
  }

  refuse(status: number, headers: Readonly<Record<string, string>>, body: string): void {
    this.#outlet.close()
    this.#agent.refuse(status, headers, body)
  }

  abort(): void {
    this.#outlet.close()
    this.#agent.abort()
  }

  onGone(listener: () => void): () => void {
    return this.#agent.onGone(listener)
  }

  #upgraded(upgrade: NonNullable<Agent['upgrade']>, headers: readonly string[]): Duplex {
    const fields = this.#closingOnError(() => {
      // None was offered, and what an extension did to the frames could not be looked into.
      if (valuesOf(headers, 'sec-websocket-extensions').some((value) => value.trim() !== ''))
        throw notScrubbable('the upstream uses a WebSocket extension that nobody offered')
      return scrubFields(this, headers)
    })
    const socket = new ScrubbedWebSocket(upgrade(fields), new WebSocketFrames(this), (error) => this.#outlet.fail(error))
    socket.on('close', () => this.#outlet.close())
    this.#isWhole = true
    return socket
  }

  #closingOnError<T>(step: () => T): T {
    try {
      return step()
    } catch (error) {
      this.#outlet.close()
      throw error
    }
  }
}
