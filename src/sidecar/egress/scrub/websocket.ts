import { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { LIMITS } from '../../../kernel/limits.ts'
import type { WebSocketFrames } from './websocket-frames.ts'

/** The agent's end of a WebSocket: what is written to it arrives without secrets, what the agent sends is as it was. */
export class ScrubbedWebSocket extends Duplex {
  readonly #agent: Duplex
  readonly #frames: WebSocketFrames
  readonly #fail: (error: unknown) => void

  constructor(agent: Duplex, frames: WebSocketFrames, fail: (error: unknown) => void) {
    super()
    this.#agent = agent
    this.#frames = frames
    this.#fail = fail
    agent.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) agent.pause()
    })
    agent.on('end', () => this.push(null))
    agent.on('error', () => this.destroy())
    agent.on('close', () => this.destroy())
    if (agent instanceof Socket) agent.setTimeout(LIMITS.tunnelIdleMs, () => this.destroy())
    if (agent.closed) this.destroy()
  }

  override _read(): void {
    this.#agent.resume()
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    let released: Buffer
    try {
      released = this.#frames.push(chunk)
    } catch (error) {
      this.#fail(error)
      this.destroy()
      return
    }
    if (released.length === 0 || this.#agent.write(released)) done()
    else this.#agent.once('drain', done)
  }

  /** What is left of a message that breaks off goes nowhere: nobody could make anything of it. */
  override _final(done: () => void): void {
    this.#agent.end(done)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#agent.destroy()
    done(error)
  }
}
