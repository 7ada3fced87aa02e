import { CODE, ConnectionError } from './protocol.ts'

/** What a peer may send on all streams of a connection together, while it is on its way here (RFC 9113 §6.9). */
export class ReceiveWindow {
  readonly #bytesMax: number
  #left: number

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
    this.#left = bytesMax
  }

  /** So many bytes came. Gives back how many more the peer is to be told of, mostly none. @throws ConnectionError when it was too much */
  take(bytes: number): number {
    this.#left -= bytes
    if (this.#left < 0) throw new ConnectionError(CODE.FLOW_CONTROL_ERROR, 'more than the window of the connection')
    const more = this.#bytesMax - this.#left
    if (more < this.#bytesMax / 2) return 0
    this.#left = this.#bytesMax
    return more
  }
}
