import type { Duplex, Readable } from 'node:stream'
import type { RequestHead } from './facts.ts'
import type { RawHeaders } from './headers.ts'

/** The agent's end of one request, whatever version of HTTP carries it. Headers are flat: name, value, name, value. */
export type Agent = {
  readonly head: RequestHead
  /** Whether interim answers (1xx) and trailers may be sent to it: not to HTTP/1.0. */
  readonly isModern: boolean
  /** The body as it comes; without one there is none to wait for. */
  readonly body: Readable | undefined
  /** False while a part of the body is still due. */
  readonly isUploaded: boolean
  /** Trailers of the request, when its body has ended. */
  trailers(): RawHeaders
  /** True when nobody is there for an answer any more. */
  readonly isGone: boolean
  /** True once the head of the answer is on its way: then a refusal can only break it off. */
  readonly isAnswered: boolean
  /** An interim answer: 100 or 103. */
  sendInterim(status: number, headers: readonly string[]): void
  /** The head of the answer. It goes out with the first bytes of the body, or by `flush`. */
  start(status: number, reason: string, headers: readonly string[]): void
  flush(): void
  /** False when the agent reads slower than this: wait for `onceDrained`. */
  write(chunk: Buffer): boolean
  onceDrained(listener: () => void): void
  end(trailers: RawHeaders): void
  /** A whole answer. On HTTP/1 the connection takes no further request, as a body may still be on its way. */
  refuse(status: number, headers: Readonly<Record<string, string>>, body: string): void
  /** Makes an answer that is under way look as broken as it is. */
  abort(): void
  /** Tells when the agent went before it had the whole answer, and maybe also afterwards. Gives back what stops it. */
  onGone(listener: () => void): () => void
  /** A WebSocket handshake: answers 101 and gives the connection, which is then bytes. */
  readonly upgrade: ((headers: readonly string[]) => Duplex) | undefined
}
