import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { formatAuthority, isAddress, isHostname, parseHostname, type Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import { createAllowance, type Allowance } from './allowance.ts'
import { answerQuery, placeOf, type Place } from './answer.ts'
import { createDeniedNames } from './denied-names.ts'
import { bareAnswer, isQuery, RCODE } from './query.ts'
import { serveStream } from './stream.ts'

export type ResolverParts = {
  /** Whether a rule allows or asks about the name. Called anew for each question: the policy may have changed. */
  readonly knowsName: (host: Hostname) => boolean
  readonly log: Log
  readonly system: Pick<System, 'elapsed'>
  /** When given, packets and connections from other addresses are dropped. */
  readonly allowsClient?: (address: string) => boolean
}

export type Resolver = AsyncDisposable & {
  /** Bound addresses `host:port`, in order. UDP and TCP have the same port. */
  readonly addresses: readonly string[]
}

/** How often port 0 is tried: what is free for TCP may be taken for UDP. */
const PORT_TRIES_MAX = 16

/** What the listeners share. */
type Answering = {
  readonly allowance: Allowance
  readonly isWelcome: (address: string | undefined) => boolean
  /** Nothing is to be said when it is `undefined`. */
  readonly answer: (query: Buffer, place: Place) => Buffer | undefined
}

type Tcp = { readonly server: Server; readonly connections: ReadonlySet<Socket> }

/**
 * Answers DNS over UDP and TCP on each endpoint, by itself: it knows no other resolver, has no client, and sends to nobody
 * but who asked. Port 0 picks a port that is free for both.
 * @throws listen_failed; config_invalid for a name or a wildcard: the answer is the address that was asked, so it must be one
 */
export async function openResolver(endpoints: readonly { host: string; port: number }[], parts: ResolverParts): Promise<Resolver> {
  await using open = new AsyncDisposableStack()
  const answering = createAnswering(parts)
  const addresses: string[] = []
  for (const { host, port } of endpoints) {
    const place = placeOf(parseListenAddress(host))
    const tcp = createTcp(place, answering)
    const udp = createUdp(place, answering)
    open.defer(() => Promise.all([closeTcp(tcp), closeUdp(udp)]).then(() => undefined))
    const bound = await bindBoth(place, port, tcp, udp)
    for (const listener of [tcp.server, udp])
      listener.on('error', (error) => parts.log.warn({ code: codeOf(error) }, 'a dns listener has a fault'))
    addresses.push(formatAuthority(place.address, bound))
  }
  const running = open.move()
  return { addresses, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

function createAnswering(parts: ResolverParts): Answering {
  const { log, system } = parts
  const noteDenied = createDeniedNames(log, system)
  return {
    allowance: createAllowance(system),
    // I13
    isWelcome: (address) => parts.allowsClient === undefined || parts.allowsClient(address ?? ''),
    answer(query, place) {
      try {
        const answer = answerQuery(query, place, parts.knowsName)
        if (answer?.denied) noteDenied(answer.denied.name, answer.denied.type)
        return answer?.bytes
      } catch (error) {
        log.error({ code: codeOf(error) }, 'a dns query could not be answered')
        return isQuery(query) ? bareAnswer(query, RCODE.servFail) : undefined
      }
    },
  }
}

function createUdp(place: Place, { allowance, isWelcome, answer }: Answering): UdpSocket {
  const family = place.type === 'A' ? 4 : 6
  const socket = createSocket({
    type: `udp${family}`,
    ipv6Only: family === 6,
    // Every destination is an address already. So this socket can't come to ask another resolver.
    lookup: (address, _options, done) => done(null, address, family),
  })
  socket.on('message', (query, from) => {
    // To port 0 nothing can be sent: Node throws.
    if (from.port === 0 || !isWelcome(from.address) || !isQuery(query)) return
    const bytes = allowance.take(from.address) ? answer(query, place) : bareAnswer(query, RCODE.refused)
    if (bytes === undefined || socket.getSendQueueSize() > LIMITS.dnsPendingBytesMax) return
    // A client that is gone misses its answer, and nothing else.
    socket.send(bytes, from.port, from.address, () => undefined)
  })
  return socket
}

function createTcp(place: Place, { allowance, isWelcome, answer }: Answering): Tcp {
  const connections = new Set<Socket>()
  const server = createServer({ noDelay: true }, (socket) => {
    const client = socket.remoteAddress
    // Opening a connection counts too: it costs more than a question.
    if (!isWelcome(client) || client === undefined || !allowance.take(client)) return void socket.destroy()
    connections.add(socket)
    socket.on('close', () => connections.delete(socket))
    serveStream(socket, (query) => (allowance.take(client) ? answer(query, place) : undefined))
  })
  server.maxConnections = LIMITS.dnsConnectionsMax
  return { server, connections }
}

/** @throws config_invalid */
function parseListenAddress(host: string): Hostname {
  const address = parseHostname(host)
  if (isHostname(address) && isAddress(address) && address !== '0.0.0.0' && address !== '::') return address
  throw new SallyportError('config_invalid', `DNS cannot be answered on "${host}"`, {
    hint: 'give one address of this machine: names are answered with the address that was asked',
  })
}

/** Listens on the same port over both. @throws listen_failed */
async function bindBoth(place: Place, port: number, tcp: Tcp, udp: UdpSocket): Promise<number> {
  for (let tries = 1; ; tries++) {
    try {
      await listening(tcp.server, () => tcp.server.listen({ host: place.address, port }))
      const bound = (tcp.server.address() as AddressInfo).port
      await listening(udp, () => udp.bind({ address: place.address, port: bound }))
      return bound
    } catch (cause) {
      if (port !== 0 || codeOf(cause) !== 'EADDRINUSE' || tries === PORT_TRIES_MAX) throw listenFailed(place, port, cause)
      await closeTcp(tcp)
    }
  }
}

function listening(emitter: Server | UdpSocket, begin: () => void): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  emitter.once('listening', resolve).once('error', reject)
  begin()
  return promise.finally(() => emitter.off('listening', resolve).off('error', reject))
}

function listenFailed(place: Place, port: number, cause: unknown): SallyportError {
  const code = codeOf(cause)
  const hint =
    code === 'EACCES'
      ? 'ports below 1024 need root or the sysctl net.ipv4.ip_unprivileged_port_start=0; or choose a higher port'
      : code === 'EADDRINUSE'
        ? 'another resolver listens there: choose another port or another address of this machine'
        : 'choose a free port of an address that this machine has'
  return new SallyportError('listen_failed', `cannot answer DNS on ${formatAuthority(place.address, port)} (${code})`, { hint, cause })
}

function closeTcp({ server, connections }: Tcp): Promise<void> {
  for (const socket of connections) socket.destroy()
  // It gives an error when it never listened.
  return new Promise((resolve) => server.close(() => resolve()))
}

function closeUdp(socket: UdpSocket): Promise<void> {
  return new Promise((resolve) => socket.close(() => resolve()))
}
