/**
 * A resolver in a thread of its own, in which everything that could go out is watched: sockets of clients, UDP sockets,
 * look-ups, and where each packet goes. Worker data: host to listen on and the names that it knows.
 */
import { createSocket, Socket as UdpSocket } from 'node:dgram'
import { subscribe } from 'node:diagnostics_channel'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { connect } from 'node:net'
import { PerformanceObserver } from 'node:perf_hooks'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import { pino } from 'pino'
import { system } from '../../src/kernel/system.ts'
import { openResolver } from '../../src/sidecar/resolver/resolver.ts'
import { placeAt } from './dns.ts'

/** What a resolver did besides answering. */
export type Watched = {
  readonly clientSockets: number
  readonly udpSockets: number
  /** Names of performance entries: each look-up and each connection made leaves one. */
  readonly entries: readonly string[]
  /** `host:port` of each packet sent. */
  readonly sentTo: readonly string[]
}

export type WatchedResolver = AsyncDisposable & {
  readonly address: string
  watched(): Promise<Watched>
  /** Does once what must not be: a look-up, a connection, a packet from a new socket. So that the watch is seen to see. */
  misbehave(): Promise<Watched>
}

export async function openWatchedResolver(host: string, names: readonly string[]): Promise<WatchedResolver> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { host, names } })
  const message = <T>(): Promise<T> =>
    new Promise((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', reject)
    })
  const tell = (what: string): Promise<Watched> => {
    const answer = message<Watched>()
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    worker.postMessage(what)
    return answer
  }
  const address = await message<string>()
  return {
    address,
    watched: () => tell('report'),
    misbehave: () => tell('misbehave'),
    async [Symbol.asyncDispose]() {
      await worker.terminate()
    },
  }
}

if (parentPort) {
  const port = parentPort
  const { host, names } = workerData as { host: string; names: readonly string[] }
  const seen = { clientSockets: 0, udpSockets: 0, entries: [] as string[], sentTo: [] as string[] }
  subscribe('net.client.socket', () => (seen.clientSockets += 1))
  subscribe('udp.socket', () => (seen.udpSockets += 1))
  const observer = new PerformanceObserver((list) => seen.entries.push(...list.getEntries().map((entry) => entry.name)))
  observer.observe({ entryTypes: ['dns', 'net', 'http'] })
  // oxlint-disable-next-line typescript/unbound-method
  const send = UdpSocket.prototype.send as (...args: unknown[]) => void
  UdpSocket.prototype.send = function (this: UdpSocket, ...args: unknown[]) {
    seen.sentTo.push(`${String(args[2])}:${String(args[1])}`)
    return send.apply(this, args)
  }
  const known = new Set(names)
  const resolver = await openResolver([{ host, port: 0 }], { knowsName: (name) => known.has(name), log: pino({ level: 'silent' }), system })
  port.on('message', (what) => void report(what === 'misbehave'))
  const report = async (misbehaves: boolean): Promise<void> => {
    if (misbehaves) {
      await lookup('localhost')
      const { host: ownHost, port: ownPort } = placeAt(resolver.addresses[0] ?? '')
      const socket = connect(ownPort, ownHost)
      await once(socket, 'connect')
      socket.destroy()
      const udp = createSocket('udp4')
      udp.send('x', ownPort, ownHost, () => udp.close())
      await once(udp, 'close')
    }
    await new Promise((resolve) => setImmediate(resolve))
    seen.entries.push(...observer.takeRecords().map((entry) => entry.name))
    port.postMessage(seen)
  }
  port.postMessage(resolver.addresses[0])
}
