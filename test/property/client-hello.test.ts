import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import fc from 'fast-check'
import { readClientHello } from '../../src/sidecar/inbound/client-hello.ts'

/** The first flight of Node's own TLS client. */
async function realClientHello(servername: string | undefined): Promise<Buffer> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const accepted = once(server, 'connection')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const client = connectTls({ socket, ...(servername !== undefined && { servername }) })
  client.on('error', () => {})
  const [peer] = (await accepted) as [Socket]
  const [bytes] = (await once(peer, 'data')) as [Buffer]
  peer.destroy()
  client.destroy()
  server.close()
  return bytes
}

/** The same handshake message in records of other sizes. */
function inRecords(hello: Buffer, sizes: readonly number[]): Buffer {
  const message = hello.subarray(5)
  const records: Buffer[] = []
  for (let at = 0, i = 0; at < message.length; i++) {
    const size = Math.min(sizes[i % sizes.length] ?? 1, message.length - at)
    const header = Buffer.from([22, 3, 1, size >> 8, size & 255])
    records.push(header, message.subarray(at, at + size))
    at += size
  }
  return Buffer.concat(records)
}

const hello = await realClientHello('api.example.com')
const anonymous = await realClientHello(undefined)

test('the server name of a real ClientHello is read, and none where there is none', () => {
  assert.deepEqual(readClientHello(hello), { state: 'complete', serverName: 'api.example.com' })
  assert.deepEqual(readClientHello(anonymous), { state: 'complete', serverName: undefined })
})

test('a ClientHello cut anywhere is incomplete, never complete or invalid', () => {
  for (let length = 0; length < hello.length; length++)
    assert.equal(readClientHello(hello.subarray(0, length)).state, 'incomplete', `at ${length}`)
})

test('a ClientHello in records of any sizes reads the same', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 600 }), { minLength: 1, maxLength: 8 }), (sizes) => {
      assert.deepEqual(readClientHello(inRecords(hello, sizes)), { state: 'complete', serverName: 'api.example.com' })
    }),
  )
})

test('a changed byte never makes the parser throw or name anything but a string or nothing', () => {
  fc.assert(
    fc.property(fc.nat(hello.length - 1), fc.integer({ min: 0, max: 255 }), (at, value) => {
      const changed = Buffer.from(hello)
      changed[at] = value
      const read = readClientHello(changed)
      if (read.state === 'complete') assert.ok(read.serverName === undefined || read.serverName.length > 0)
    }),
    { numRuns: 3_000 },
  )
})

test('random bytes are never a complete ClientHello unless they are one', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      assert.notEqual(readClientHello(Buffer.from(bytes)).state, 'complete')
    }),
    { numRuns: 2_000 },
  )
})

test('two server names, an empty one and one of another type are invalid', () => {
  const at = hello.indexOf(Buffer.from('api.example.com'))
  const type = Buffer.from(hello)
  type[at - 3] = 1
  assert.equal(readClientHello(type).state, 'invalid')
  const extension = hello.subarray(at - 9, at + 15)
  const twice = Buffer.concat([hello.subarray(0, at - 9), extension, hello.subarray(at - 9)])
  twice.writeUInt16BE(twice.readUInt16BE(3) + extension.length, 3)
  twice.writeUIntBE(twice.readUIntBE(6, 3) + extension.length, 6, 3)
  const lengthAt = extensionsLengthAt(twice)
  twice.writeUInt16BE(twice.readUInt16BE(lengthAt) + extension.length, lengthAt)
  assert.deepEqual(readClientHello(twice), { state: 'invalid', problem: 'it has two server names' })
})

function extensionsLengthAt(bytes: Buffer): number {
  let at = 5 + 4 + 2 + 32
  at += 1 + (bytes[at] ?? 0)
  at += 2 + bytes.readUInt16BE(at)
  return at + 1 + (bytes[at] ?? 0)
}
