import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { execFile } from 'node:child_process'
import fc from 'fast-check'
import { LIMITS } from '../../src/kernel/limits.ts'
import { ClientHelloReader, readClientHello } from '../../src/sidecar/inbound/client-hello.ts'
import { clientHello, helloExtension, serverNameExtension } from '../support/client-hello.ts'

/** The first flight of Node's own TLS client. */
async function realClientHello(servername: string | undefined, ALPNProtocols: string[] = []): Promise<Buffer> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const accepted = once(server, 'connection')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const client = connectTls({ socket, ...(servername !== undefined && { servername }), ALPNProtocols })
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
const NAMED = { state: 'complete', serverName: 'api.example.com', hasEch: false, alpn: [] }
const NAMELESS = { state: 'complete', serverName: undefined, hasEch: false, alpn: [] }

test('the server name of a real ClientHello is read, and none where there is none', () => {
  assert.deepEqual(readClientHello(hello), NAMED)
  assert.deepEqual(readClientHello(anonymous), NAMELESS)
})

test('a ClientHello cut anywhere is incomplete, never complete or invalid', () => {
  for (let length = 0; length < hello.length; length++)
    assert.equal(readClientHello(hello.subarray(0, length)).state, 'incomplete', `at ${length}`)
})

test('a ClientHello in records of any sizes reads the same', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 600 }), { minLength: 1, maxLength: 8 }), (sizes) => {
      assert.deepEqual(readClientHello(inRecords(hello, sizes)), NAMED)
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

/** The first flight of a program that connects to the port it is given. */
async function flightOf(program: string, argumentsFor: (port: number) => string[]): Promise<Buffer> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const accepted = once(server, 'connection')
  const child = execFile(program, argumentsFor((server.address() as AddressInfo).port), () => {})
  const [peer] = (await accepted) as [Socket]
  const [bytes] = (await once(peer, 'data')) as [Buffer]
  peer.destroy()
  if (child.exitCode === null) await once(child, 'exit')
  server.close()
  return bytes
}

test('what openssl and curl send is read: name, no name, protocols', async () => {
  const openssl = (...options: string[]) => flightOf('openssl', (port) => ['s_client', '-connect', `127.0.0.1:${port}`, ...options])
  assert.deepEqual(readClientHello(await openssl('-servername', 'api.example.com', '-alpn', 'h2,http/1.1')), {
    ...NAMED,
    alpn: ['h2', 'http/1.1'],
  })
  assert.deepEqual(readClientHello(await openssl('-noservername')), NAMELESS)
  assert.deepEqual(readClientHello(await openssl('-tls1_2', '-servername', 'api.example.com')), NAMED)
  const curl = await flightOf('curl', (port) => [
    '-sq',
    '--http1.1',
    '--noproxy',
    '*',
    '--connect-to',
    `::127.0.0.1:${port}`,
    'https://api.example.com/',
  ])
  assert.deepEqual(readClientHello(curl), { ...NAMED, alpn: ['http/1.1'] })
  assert.deepEqual(readClientHello(await realClientHello('api.example.com', ['h2'])), { ...NAMED, alpn: ['h2'] })
})

/** RFC 8701: 0x0a0a, 0x1a1a … 0xfafa. */
const greased = fc.integer({ min: 0, max: 15 }).map((high) => high * 0x1010 + 0x0a0a)

test('reserved extensions (GREASE) and unknown ones of any content, before and after the name, change nothing', () => {
  const extension = fc
    .tuple(fc.oneof(greased, fc.integer({ min: 17, max: 0xfe0c })), fc.uint8Array({ maxLength: 300 }))
    .map(([type, data]) => helloExtension(type, Buffer.from(data)))
  fc.assert(
    fc.property(fc.array(extension, { maxLength: 5 }), fc.array(extension, { maxLength: 5 }), (before, after) => {
      assert.deepEqual(readClientHello(clientHello([...before, serverNameExtension('api.example.com'), ...after])), NAMED)
      assert.deepEqual(readClientHello(clientHello([...before, ...after])), NAMELESS)
    }),
  )
})

test('a ClientHello that grows is read as it is when it is whole, however it is cut and in records of any size', () => {
  const alpn = helloExtension(16, Buffer.from('000c02683208687474702f312e31', 'hex'))
  const ech = helloExtension(0xfe0d, Buffer.alloc(180, 1))
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 16_000 }),
      fc.integer({ min: 1, max: 16_384 }),
      fc.array(fc.nat(18_000), { maxLength: 20 }),
      fc.uint8Array({ maxLength: 40 }),
      (padding, recordBytes, cuts, behind) => {
        const bytes = Buffer.concat([
          clientHello([ech, helloExtension(21, Buffer.alloc(padding)), alpn, serverNameExtension('api.example.com')], { recordBytes }),
          Buffer.from(behind),
        ])
        const end = bytes.length - behind.length
        const reader = new ClientHelloReader()
        for (const cut of [...new Set([...cuts.filter((at) => at < end), end - 1])].toSorted((a, b) => a - b))
          assert.deepEqual(reader.read(bytes.subarray(0, cut)), { state: 'incomplete' }, `at ${cut} of ${end}`)
        const whole = { ...NAMED, hasEch: true, alpn: ['h2', 'http/1.1'] }
        assert.deepEqual(reader.read(bytes), whole)
        assert.deepEqual(readClientHello(bytes), whole)
      },
    ),
    { numRuns: 300 },
  )
})

test('arbitrary bytes that grow give the answer that they give at once', () => {
  const start = fc.constantFrom(Buffer.alloc(0), Buffer.of(22, 3, 1), Buffer.of(22, 3, 1, 0, 2, 1, 0), Buffer.of(22, 3, 3, 0, 1, 1))
  fc.assert(
    fc.property(start, fc.uint8Array({ maxLength: 120 }), (head, tail) => {
      const bytes = Buffer.concat([head, Buffer.from(tail)])
      const reader = new ClientHelloReader()
      for (let length = 1; length <= bytes.length; length++) {
        const part = reader.read(bytes.subarray(0, length))
        assert.equal(part.state, readClientHello(bytes.subarray(0, length)).state)
        if (part.state !== 'incomplete') break
      }
    }),
    { numRuns: 2_000 },
  )
})

test('a message of the longest kind, byte by byte in records of one byte, is looked at a few times a byte, not at each step from its start', (t) => {
  const bytes = clientHello([helloExtension(21, Buffer.alloc(LIMITS.clientHelloBytesMax / 6 - 100))], { recordBytes: 1 })
  const concat = t.mock.method(Buffer, 'concat')
  const lengths = t.mock.method(Buffer.prototype, 'readUInt16BE')
  const reader = new ClientHelloReader()
  for (let length = 1; length < bytes.length; length++) assert.equal(reader.read(bytes.subarray(0, length)).state, 'incomplete')
  assert.equal(reader.read(bytes).state, 'complete')
  const copied = concat.mock.calls.reduce((sum, { result }) => sum + (result?.length ?? 0), 0)
  assert.ok(copied < 2 * bytes.length, `${copied} bytes were copied for ${bytes.length}`)
  assert.ok(lengths.mock.callCount() < 4 * bytes.length, `${lengths.mock.callCount()} lengths were read for ${bytes.length} bytes`)
})

for (const { data, why } of [
  { data: '', why: 'empty' },
  { data: '0000', why: 'without a name' },
  { data: '000100', why: 'with an empty name' },
  { data: '0003026832ff', why: 'with a byte behind it' },
  { data: '0003036832', why: 'with a name that is longer than the list' },
]) {
  test(`a list of protocols that is ${why} is invalid`, () => {
    assert.deepEqual(readClientHello(clientHello([helloExtension(16, Buffer.from(data, 'hex'))])), {
      state: 'invalid',
      problem: 'its list of protocols is malformed',
    })
  })
}

test('two lists of protocols are invalid', () => {
  const alpn = helloExtension(16, Buffer.from('0003026832', 'hex'))
  assert.equal(readClientHello(clientHello([alpn, serverNameExtension('api.example.com'), alpn])).state, 'invalid')
})

test('the text of a server name is given on as it is, for others to refuse: nothing in it is cut, folded or decoded', () => {
  for (const name of ['API.example.com', 'evil.test\0.example.com', 'a%2eb', '10.0.0.1', '\xe9.example', 'a'.repeat(300)]) {
    const read = readClientHello(clientHello([serverNameExtension(name)]))
    assert.ok(read.state === 'complete')
    assert.equal(read.serverName, name)
  }
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
