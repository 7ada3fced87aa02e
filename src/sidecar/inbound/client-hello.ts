/** What a TLS ClientHello says in clear (RFC 8446 §4.1.2), or that it is not complete, or not one. */
export type ClientHello =
  | { readonly state: 'complete'; readonly serverName: string | undefined }
  | { readonly state: 'incomplete' }
  | { readonly state: 'invalid'; readonly problem: string }

const HANDSHAKE_RECORD = 22
const CLIENT_HELLO = 1
const SERVER_NAME = 0
const RECORD_BYTES_MAX = 16_384

const incomplete: ClientHello = { state: 'incomplete' }
const invalid = (problem: string): ClientHello => ({ state: 'invalid', problem })

/**
 * Reads the server name from the first bytes of a connection. The message may be spread over many records and the bytes
 * may end anywhere: then the answer is `incomplete`. Every length is checked; a byte that doesn't fit makes it `invalid`.
 */
export function readClientHello(bytes: Buffer): ClientHello {
  const message = joinRecords(bytes)
  if (!Buffer.isBuffer(message)) return message
  if (message.length > 0 && message[0] !== CLIENT_HELLO) return invalid('the first handshake message is not a ClientHello')
  if (message.length < 4) return incomplete
  const length = message.readUIntBE(1, 3)
  if (message.length < 4 + length) return incomplete
  return readBody(message.subarray(4, 4 + length))
}

/** The handshake bytes of all records so far, headers removed. */
function joinRecords(bytes: Buffer): Buffer | ClientHello {
  const fragments: Buffer[] = []
  let at = 0
  while (at < bytes.length) {
    if (bytes[at] !== HANDSHAKE_RECORD) return invalid('it is not a TLS handshake record')
    if (at + 1 < bytes.length && bytes[at + 1] !== 3) return invalid('it has an unknown record version')
    if (at + 5 > bytes.length) break
    const length = bytes.readUInt16BE(at + 3)
    if (length === 0 || length > RECORD_BYTES_MAX) return invalid('it has a record of impossible length')
    fragments.push(bytes.subarray(at + 5, Math.min(at + 5 + length, bytes.length)))
    at += 5 + length
    const first = fragments[0]
    if (fragments.length === 1 && first && first.length >= 4 && first.length >= 4 + first.readUIntBE(1, 3)) break
  }
  return fragments.length === 1 && fragments[0] ? fragments[0] : Buffer.concat(fragments)
}

function readBody(body: Buffer): ClientHello {
  const reader = new Reader(body)
  reader.skip(2 + 32) // legacy_version, random
  reader.skip(reader.uint(1)) // legacy_session_id
  reader.skip(reader.uint(2)) // cipher_suites
  reader.skip(reader.uint(1)) // legacy_compression_methods
  if (reader.isBroken) return invalid('its lengths do not add up')
  if (reader.left === 0) return { state: 'complete', serverName: undefined }
  const extensions = reader.take(reader.uint(2))
  if (reader.isBroken || reader.left !== 0) return invalid('its lengths do not add up')
  return readExtensions(new Reader(extensions))
}

function readExtensions(extensions: Reader): ClientHello {
  let serverName: string | undefined
  while (extensions.left > 0) {
    const type = extensions.uint(2)
    const data = extensions.take(extensions.uint(2))
    if (extensions.isBroken) return invalid('its extensions do not add up')
    if (type !== SERVER_NAME) continue
    // RFC 8446 §4.2: no extension twice. Two names would let two parsers read two hosts.
    if (serverName !== undefined) return invalid('it has two server names')
    const name = readServerName(data)
    if (name === undefined) return invalid('its server name is malformed')
    serverName = name
  }
  return { state: 'complete', serverName }
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
    this.take(count)
  }

  uint(size: 1 | 2): number {
    const bytes = this.take(size)
    return this.isBroken ? 0 : bytes.readUIntBE(0, size)
  }
}
