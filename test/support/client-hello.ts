/** Bytes of a ClientHello (RFC 8446 §4.1.2), the same each time, with the extensions that are asked for. */
export function clientHello(extensions: readonly Buffer[], options: { recordBytes?: number } = {}): Buffer {
  const body = Buffer.concat([
    Buffer.from([3, 3]),
    Buffer.alloc(32, 0x5a), // random
    withLength(1, Buffer.alloc(32, 0xa5)), // session id
    withLength(2, Buffer.from('0a0a130113021303c02bc02f', 'hex')), // cipher suites, the first of them GREASE (RFC 8701)
    withLength(1, Buffer.from([0])), // compression methods
    withLength(2, Buffer.concat(extensions)),
  ])
  const message = Buffer.concat([Buffer.from([1]), withLength(3, body)])
  const size = options.recordBytes ?? 16_384
  const records = Array.from({ length: Math.ceil(message.length / size) }, (_, i) => message.subarray(i * size, (i + 1) * size))
  return Buffer.concat(records.flatMap((record) => [Buffer.from([22, 3, 1]), withLength(2, record)]))
}

export function helloExtension(type: number, data: Buffer): Buffer {
  return Buffer.concat([Buffer.from([type >> 8, type & 255]), withLength(2, data)])
}

/** RFC 6066 §3. */
export function serverNameExtension(name: string): Buffer {
  return helloExtension(0, withLength(2, Buffer.concat([Buffer.from([0]), withLength(2, Buffer.from(name, 'latin1'))])))
}

function withLength(lengthBytes: number, data: Buffer): Buffer {
  const length = Buffer.alloc(lengthBytes)
  length.writeUIntBE(data.length, 0, lengthBytes)
  return Buffer.concat([length, data])
}
