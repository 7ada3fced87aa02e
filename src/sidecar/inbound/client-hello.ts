/**
 * What a TLS ClientHello says in clear (RFC 8446 §4.1.2), or that it is not complete, or not one.
 *
 * - `serverName`: latin1 text of one byte or more that nobody has looked at (RFC 6066 §3).
 * - `hasEch`: it has an Encrypted ClientHello (draft-ietf-tls-esni). Browsers send a made-up one to every host: with a server
 *   name beside it that says nothing, without one the name is only in there.
 * - `alpn`: the protocols that are offered, in their order (RFC 7301). Empty where none are.
 */
export type ClientHello =
  | {
      readonly state: 'complete'
      readonly serverName: string | undefined
      readonly hasEch: boolean
      readonly alpn: readonly string[]
    }
  | { readonly state: 'incomplete' }
  | { readonly state: 'invalid'; readonly problem: string }

const HANDSHAKE_RECORD = 22
const CLIENT_HELLO = 1
const RECORD_HEADER_BYTES = 5
const RECORD_BYTES_MAX = 16_384
const MESSAGE_HEADER_BYTES = 4
/** Numbers of extensions. All others pass unread, the reserved ones of RFC 8701 (GREASE) among them. */
const SERVER_NAME = 0
const ALPN = 16
const ECH = 0xfe0d

const incomplete: ClientHello = { state: 'incomplete' }
const invalid = (problem: string): ClientHello => ({ state: 'invalid', problem })

/**
 * Reads what the first bytes of a connection say. The message may be spread over many records and the bytes may end anywhere:
 * then the answer is `incomplete`. Every length is checked; a byte that doesn't fit makes it `invalid`.
 */
export function readClientHello(bytes: Buffer): ClientHello {
  return new ClientHelloReader().read(bytes)
}

/** The same for bytes that grow: what was read is not read again, so that a message of single bytes does not cost their square. */
export class ClientHelloReader {
  /** The records that were whole at the last look: where in the bytes their parts of the message are. */
  readonly #parts: { readonly start: number; readonly end: number }[] = []
  #partsBytes = 0
  /** Where the next record begins. */
  #at = 0
  /** Bytes of the message, its header among them. */
  #length: number | undefined

  /** `bytes` is the connection from its first byte on: each time what it was before, or more. */
  read(bytes: Buffer): ClientHello {
    while (this.#at < bytes.length) {
      const problem = problemOfRecord(bytes, this.#at)
      if (problem !== undefined) return invalid(problem)
      const start = this.#at + RECORD_HEADER_BYTES
      if (start > bytes.length) return incomplete
      const end = start + bytes.readUInt16BE(start - 2)
      // Before anything behind it is looked at: what follows a ClientHello may be of another kind (early data).
      const hello = this.#readMessage(bytes, start, Math.min(end, bytes.length))
      if (hello.state !== 'incomplete' || end > bytes.length) return hello
      this.#parts.push({ start, end })
      this.#partsBytes += end - start
      this.#at = end
    }
    return incomplete
  }

  /** The message so far: the whole records, and of the one after them what is there. */
  #readMessage(bytes: Buffer, start: number, end: number): ClientHello {
    const count = this.#partsBytes + end - start
    if (this.#length === undefined) {
      const first = this.#join(bytes, start, end)
      if (first.length > 0 && first[0] !== CLIENT_HELLO) return invalid('the first handshake message is not a ClientHello')
      if (count < MESSAGE_HEADER_BYTES) return incomplete
      this.#length = MESSAGE_HEADER_BYTES + first.readUIntBE(1, 3)
    }
    if (count < this.#length) return incomplete
    return readBody(this.#join(bytes, start, end).subarray(MESSAGE_HEADER_BYTES, this.#length))
  }

  #join(bytes: Buffer, start: number, end: number): Buffer {
    const last = bytes.subarray(start, end)
    return this.#parts.length === 0 ? last : Buffer.concat([...this.#parts.map((part) => bytes.subarray(part.start, part.end)), last])
  }
}

function problemOfRecord(bytes: Buffer, at: number): string | undefined {
  if (bytes[at] !== HANDSHAKE_RECORD) return 'it is not a TLS handshake record'
  if (at + 1 < bytes.length && bytes[at + 1] !== 3) return 'it has an unknown record version'
  if (at + RECORD_HEADER_BYTES > bytes.length) return undefined
  const length = bytes.readUInt16BE(at + 3)
  return length === 0 || length > RECORD_BYTES_MAX ? 'it has a record of impossible length' : undefined
}

function readBody(body: Buffer): ClientHello {
  const reader = new Reader(body)
  reader.skip(2 + 32) // legacy_version, random
  reader.skip(reader.uint(1)) // legacy_session_id
  reader.skip(reader.uint(2)) // cipher_suites
  reader.skip(reader.uint(1)) // legacy_compression_methods
  if (reader.isBroken) return invalid('its lengths do not add up')
  if (reader.left === 0) return { state: 'complete', serverName: undefined, hasEch: false, alpn: [] }
  const extensions = reader.take(reader.uint(2))
  if (reader.isBroken || reader.left !== 0) return invalid('its lengths do not add up')
  return readExtensions(new Reader(extensions))
}

function readExtensions(extensions: Reader): ClientHello {
  let serverName: string | undefined
  let alpn: readonly string[] | undefined
  let hasEch = false
  while (extensions.left > 0) {
    const type = extensions.uint(2)
    const length = extensions.uint(2)
    if (type !== SERVER_NAME && type !== ALPN) {
      extensions.skip(length)
      if (extensions.isBroken) return invalid('its extensions do not add up')
      if (type === ECH) hasEch = true
      continue
    }
    const data = extensions.take(length)
    if (extensions.isBroken) return invalid('its extensions do not add up')
    // RFC 8446 §4.2: no extension twice. Two names would let two parsers read two hosts.
    if (type === SERVER_NAME) {
      if (serverName !== undefined) return invalid('it has two server names')
      serverName = readServerName(data)
      if (serverName === undefined) return invalid('its server name is malformed')
    } else {
      if (alpn !== undefined) return invalid('it has two lists of protocols')
      alpn = readProtocols(data)
      if (alpn === undefined) return invalid('its list of protocols is malformed')
    }
  }
  return { state: 'complete', serverName, hasEch, alpn: alpn ?? [] }
}

/** RFC 6066 §3: a list that in practice, and here, has exactly one host_name. */
function readServerName(data: Buffer): string | undefined {
  const list = new Reader(data)
  const entries = new Reader(list.take(list.uint(2)))
  const type = entries.uint(1)
  const name = entries.take(entries.uint(2))
  if (list.isBroken || entries.isBroken || list.left !== 0 || entries.left !== 0 || type !== 0 || name.length === 0) return undefined
  return name.toString('latin1')
}

/** RFC 7301 §3.1: at least one name, none of them empty. */
function readProtocols(data: Buffer): readonly string[] | undefined {
  const list = new Reader(data)
  const entries = new Reader(list.take(list.uint(2)))
  if (list.isBroken || list.left !== 0 || entries.left === 0) return undefined
  const names: string[] = []
  while (entries.left > 0) {
    const name = entries.take(entries.uint(1))
    if (entries.isBroken || name.length === 0) return undefined
    names.push(name.toString('latin1'))
  }
  return names
}

class Reader {
  isBroken = false
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get left(): number {
    return this.#bytes.length - this.#at
  }

  take(count: number): Buffer {
    if (this.isBroken || count > this.left) {
      this.isBroken = true
      return Buffer.alloc(0)
    }
    this.#at += count
    return this.#bytes.subarray(this.#at - count, this.#at)
  }

  skip(count: number): void {
    if (this.isBroken || count > this.left) this.isBroken = true
    else this.#at += count
  }

  uint(size: 1 | 2): number {
    const at = this.#at
    this.skip(size)
    if (this.isBroken) return 0
    const first = this.#bytes[at] ?? 0
    return size === 1 ? first : (first << 8) | (this.#bytes[at + 1] ?? 0)
  }
}
