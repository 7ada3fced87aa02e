import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { decode, type DecodedPacket, type OptAnswer } from 'dns-packet'

export const TYPE = { A: 1, NS: 2, PTR: 12, TXT: 16, AAAA: 28, OPT: 41, SVCB: 64, HTTPS: 65, IXFR: 251, AXFR: 252, ANY: 255 } as const
export const RCODE = { noError: 0, formErr: 1, servFail: 2, nxDomain: 3, notImp: 4, refused: 5 } as const

/** An OPT record as queries have it: no options unless given. */
export function optRecord(options: { version?: number; flags?: number; data?: Buffer; size?: number } = {}): Buffer {
  const data = options.data ?? Buffer.alloc(0)
  const record = Buffer.alloc(11)
  record.writeUInt16BE(TYPE.OPT, 1)
  record.writeUInt16BE(options.size ?? 1232, 3)
  record.writeUInt8(options.version ?? 0, 6)
  record.writeUInt16BE(options.flags ?? 0, 7)
  record.writeUInt16BE(data.length, 9)
  return Buffer.concat([record, data])
}

/** A name as it is on the wire: labels of any bytes. */
export function wireName(name: string | readonly (string | Buffer)[]): Buffer {
  const labels = typeof name === 'string' ? name.split('.').filter((label) => label !== '') : name
  const parts = labels.map((label) => Buffer.from(label as string, 'latin1'))
  return Buffer.concat([...parts.flatMap((part) => [Buffer.from([part.length]), part]), Buffer.from([0])])
}

export type QueryOptions = {
  readonly id?: number
  /** The second 16 bits of the header: recursion desired unless given. */
  readonly flags?: number
  readonly type?: number
  readonly class?: number
  /** Question, answer, authority and additional records, as the header claims. */
  readonly counts?: readonly [number, number, number, number]
  /** The records behind the question. */
  readonly tail?: Buffer
}

/** The bytes of a query. The name may be bytes that are no name. */
export function queryFor(name: string | readonly (string | Buffer)[] | Buffer, options: QueryOptions = {}): Buffer {
  const tail = options.tail ?? Buffer.alloc(0)
  const header = Buffer.alloc(12)
  header.writeUInt16BE(options.id ?? 0x1234, 0)
  header.writeUInt16BE(options.flags ?? 0x0100, 2)
  for (const [i, count] of (options.counts ?? [1, 0, 0, tail.length > 0 ? 1 : 0]).entries()) header.writeUInt16BE(count, 4 + 2 * i)
  const end = Buffer.alloc(4)
  end.writeUInt16BE(options.type ?? TYPE.A, 0)
  end.writeUInt16BE(options.class ?? 1, 2)
  return Buffer.concat([header, Buffer.isBuffer(name) ? name : wireName(name), end, tail])
}

/** An answer as the tests look at it. */
export type Read = {
  readonly packet: DecodedPacket
  readonly id: number
  /** The response code, with the upper bits that OPT has. */
  readonly rcode: number
  readonly data: readonly unknown[]
  readonly opt: OptAnswer | undefined
}

export function readAnswer(bytes: Buffer): Read {
  const packet = decode(bytes)
  const opt = packet.additionals?.find((record): record is OptAnswer => record.type === 'OPT')
  return {
    packet,
    id: bytes.readUInt16BE(0),
    rcode: (bytes.readUInt8(3) & 15) + ((opt?.extendedRcode ?? 0) << 4),
    data: (packet.answers ?? []).map((record) => ('data' in record ? record.data : undefined)),
    opt,
  }
}

/** Host and port of `host:port` or `[host]:port`. */
export function placeAt(address: string): { host: string; port: number } {
  const at = address.lastIndexOf(':')
  return { host: address.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(address.slice(at + 1)) }
}

export type UdpClient = AsyncDisposable & {
  readonly port: number
  send(bytes: Buffer): void
  /** The next packet, whoever it answers. */
  next(): Promise<Buffer>
  /** Packets that have come and were not asked for by `next`. */
  readonly waiting: readonly Buffer[]
}

/** A socket of its own for one asker. `from` is the address it asks from. */
export async function openUdpClient(address: string, from?: string): Promise<UdpClient> {
  const { host, port } = placeAt(address)
  const socket: UdpSocket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  const waiting: Buffer[] = []
  const takers: ((bytes: Buffer) => void)[] = []
  socket.on('message', (bytes) => {
    const taker = takers.shift()
    if (taker) taker(bytes)
    else waiting.push(bytes)
  })
  socket.bind({ port: 0, ...(from !== undefined && { address: from }) })
  await once(socket, 'listening')
  return {
    port: socket.address().port,
    waiting,
    send: (bytes) => socket.send(bytes, port, host),
    next: () => new Promise((resolve) => (waiting.length > 0 ? resolve(waiting.shift() ?? Buffer.alloc(0)) : takers.push(resolve))),
    [Symbol.asyncDispose]: () => new Promise((resolve) => socket.close(() => resolve())),
  }
}

/** One question over UDP, and the answer. */
export async function askUdp(address: string, query: Buffer): Promise<Buffer> {
  await using client = await openUdpClient(address)
  client.send(query)
  return await client.next()
}

/** A query behind its length, as TCP has it. */
export function framed(...queries: readonly Buffer[]): Buffer {
  return Buffer.concat(
    queries.flatMap((query) => {
      const length = Buffer.alloc(2)
      length.writeUInt16BE(query.length)
      return [length, query]
    }),
  )
}

/** Messages of a byte stream. What is left over at its end is an error. */
export function unframed(bytes: Buffer): Buffer[] {
  const messages: Buffer[] = []
  for (let at = 0; at < bytes.length; at += 2 + bytes.readUInt16BE(at)) {
    if (at + 2 + bytes.readUInt16BE(at) > bytes.length) throw new Error('a message is cut')
    messages.push(bytes.subarray(at + 2, at + 2 + bytes.readUInt16BE(at)))
  }
  return messages
}

/**
 * Sends the bytes over TCP, at once or in pieces of so many bytes, `from` an address; unless it waits to be closed, it ends. Gives the messages
 * that came until the other side closed.
 */
export async function askTcp(
  address: string,
  bytes: Buffer,
  options: { waits?: boolean; pieces?: number; from?: string } = {},
): Promise<Buffer[]> {
  const socket = connect({ ...placeAt(address), noDelay: true, ...(options.from !== undefined && { localAddress: options.from }) })
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.on('error', () => undefined)
  const closed = once(socket, 'close')
  const size = options.pieces ?? Math.max(bytes.length, 1)
  for (let at = 0; at < bytes.length; at += size) {
    await new Promise<void>((resolve) => socket.write(bytes.subarray(at, at + size), () => resolve()))
  }
  if (!options.waits) socket.end()
  await closed
  return unframed(Buffer.concat(chunks))
}
