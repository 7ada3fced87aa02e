import type { Socket } from 'node:net'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { Http1Connection, type Http1Events } from './http1-connection.ts'
import { Http1Exchange } from './http1-exchange.ts'
import type { Origin, UpstreamHandler, UpstreamRequest } from './upstream.ts'

/** One origin over HTTP/1.1: connections that `connect` makes when none is free, each for one request at a time. */
export class Http1Origin implements Origin {
  readonly #where: string
  readonly #connect: () => Promise<Socket>
  /** Those at rest stand in `#idle` too, the one that was used last at the end. */
  readonly #connections = new Set<Http1Connection>()
  readonly #idle: Http1Connection[] = []
  readonly #waiting: Http1Exchange[] = []
  readonly #events: Http1Events = {
    onFree: (connection) => {
      this.#idle.push(connection)
      this.#placeLater()
    },
    onStale: (exchange) => this.#runAgain(exchange),
    onEnd: (connection) => {
      this.#connections.delete(connection)
      const at = this.#idle.indexOf(connection)
      if (at !== -1) this.#idle.splice(at, 1)
      this.#dial()
    },
  }
  /** They lost their connection, and get another. */
  readonly #again = new Set<Http1Exchange>()
  readonly #ended = Promise.withResolvers<void>()
  #running = 0
  #dialling = 0
  #isPlacing = false
  #state: 'open' | 'closing' | 'closed' = 'open'

  /** `where` is the authority of requests without a Host field, and names the upstream in errors. */
  constructor(where: string, connect: () => Promise<Socket>) {
    this.#where = where
    this.#connect = connect
  }

  get isConnected(): boolean {
    return this.#connections.size > 0
  }

  get pending(): number {
    return this.#waiting.length
  }

  get isBusy(): boolean {
    return this.#running > 0 || this.#waiting.length > 0
  }

  dispatch(request: UpstreamRequest, handler: UpstreamHandler): void {
    const exchange = new Http1Exchange(request, handler, this.#onOver)
    if (this.#state !== 'open') return exchange.fail(this.#closed())
    this.#waiting.push(exchange)
    if (this.#idle.length > 0) this.#placeLater()
    this.#dial()
  }

  /** Uses a connection that is made already before it makes one. */
  adopt(socket: Socket): void {
    const connection = this.#add(socket)
    if (connection) this.#events.onFree(connection)
  }

  close(): Promise<void> {
    if (this.#state === 'open') this.#state = 'closing'
    this.#finish()
    return this.#ended.promise
  }

  async destroy(): Promise<void> {
    this.#state = 'closed'
    for (const exchange of [...this.#waiting.splice(0), ...this.#again]) exchange.fail(this.#closed())
    for (const connection of this.#connections) connection.fail(this.#closed())
    this.#ended.resolve()
  }

  /**
   * Not in the same turn: what an upstream said on a connection at rest before it was asked is read first, and ends it. Else it would be
   * taken for the answer to the next request. I10
   */
  #placeLater(): void {
    if (this.#isPlacing) return
    this.#isPlacing = true
    setImmediate(this.#place)
  }

  readonly #place = (): void => {
    this.#isPlacing = false
    while (this.#waiting.length > 0) {
      const connection = this.#idle.pop()
      if (!connection) break
      this.#give(connection, true)
    }
    this.#finish()
  }

  /** Runs what waits longest, or keeps the connection for what comes. */
  #give(connection: Http1Connection, wasKept: boolean): void {
    let exchange = this.#waiting.shift()
    while (exchange && !this.#run(exchange, connection, wasKept)) exchange = this.#waiting.shift()
    if (!exchange) this.#idle.push(connection)
  }

  /** False when it was over before anything was written. */
  #run(exchange: Http1Exchange, connection: Http1Connection, wasKept: boolean): boolean {
    if (exchange.isUntried) this.#running += 1
    if (exchange.isOver || !exchange.begin()) return false
    connection.run(exchange, wasKept)
    return true
  }

  /** Makes as many connections as what waits needs. */
  #dial(): void {
    while (
      this.#waiting.length > this.#idle.length + this.#dialling &&
      this.#connections.size + this.#dialling + this.#again.size < LIMITS.upstreamConnectionsMax
    ) {
      this.#dialling += 1
      void this.#made((connection, error) => {
        this.#dialling -= 1
        if (connection) this.#give(connection, false)
        // What waits for another connection that is on its way still gets that.
        else if (this.#waiting.length > this.#idle.length + this.#dialling) this.#waiting.shift()?.fail(error)
        this.#dial()
        this.#finish()
      })
    }
  }

  /** Once more, on a connection that is as new as can be. */
  #runAgain(exchange: Http1Exchange): void {
    this.#again.add(exchange)
    void this.#made((connection, error) => {
      this.#again.delete(exchange)
      if (!connection) exchange.fail(error)
      else if (!this.#run(exchange, connection, false)) this.#give(connection, false)
      this.#dial()
    })
  }

  async #made(then: (...made: [Http1Connection, undefined] | [undefined, Error]) => void): Promise<void> {
    let socket: Socket
    try {
      socket = await this.#connect()
    } catch (error) {
      return then(undefined, error as Error)
    }
    const connection = this.#add(socket)
    if (connection) then(connection, undefined)
    else then(undefined, this.#closed())
  }

  #add(socket: Socket): Http1Connection | undefined {
    // It may have closed, or all may have, since it was made.
    if (this.#state === 'closed' || socket.destroyed) {
      socket.destroy()
      return undefined
    }
    const connection = new Http1Connection(socket, this.#where, this.#events)
    this.#connections.add(connection)
    return connection
  }

  readonly #onOver = (exchange: Http1Exchange): void => {
    if (exchange.isUntried) {
      const at = this.#waiting.indexOf(exchange)
      if (at !== -1) this.#waiting.splice(at, 1)
    } else this.#running -= 1
    if (this.#state === 'closing') setImmediate(() => this.#finish())
  }

  /** The end of a graceful close, when nothing runs or waits any more. */
  #finish(): void {
    if (this.#state !== 'closing') return
    for (const connection of this.#waiting.length === 0 ? [...this.#idle] : []) connection.destroy()
    if (this.isBusy) return
    this.#state = 'closed'
    this.#ended.resolve()
  }

  #closed(): SallyportError {
    return new SallyportError('upstream_unreachable', `the connections to ${this.#where} are closed`)
  }
}
