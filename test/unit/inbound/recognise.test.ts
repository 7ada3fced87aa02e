import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { test } from 'node:test'
import { recognise } from '../../../src/sidecar/inbound/recognise.ts'
import { clientHello, helloExtension, serverNameExtension } from '../../support/client-hello.ts'
import { openSocketPair, type SocketPair } from '../../support/socket-pair.ts'

for (const { bytes, why } of [
  { bytes: 'GET / HTTP/1.1\r\n', why: 'a request line' },
  { bytes: 'GET ', why: 'a method and a space' },
  { bytes: 'M-SEARCH * HTTP/1.1', why: 'a method with a hyphen' },
  { bytes: 'P / HTTP/1.1\r\n', why: 'a method that begins as the preface of HTTP/2' },
  { bytes: 'PRI /x HTTP/1.1\r\n', why: 'PRI as a method, which is nobody else to answer,' },
]) {
  test(`${why} is HTTP, and whoever takes the socket reads it again`, async () => {
    await using sockets = await openSocketPair()
    sockets.client.write(bytes)
    assert.deepEqual(await recognise(sockets.server), { kind: 'http' })
    const [again] = (await once(sockets.server.resume(), 'data')) as [Buffer]
    assert.equal(again.toString(), bytes)
  })
}

test('the preface of HTTP/2 without TLS is that, whole or byte by byte, and whoever takes the socket reads it again', async () => {
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0')
  for (const parts of [[preface], [...preface].map((byte) => Buffer.of(byte))]) {
    await using sockets = await openSocketPair()
    const found = recognise(sockets.server)
    await writeApart(sockets.client, parts)
    assert.deepEqual(await found, { kind: 'h2c' })
    sockets.client.end()
    assert.deepEqual(Buffer.concat((await sockets.server.toArray()) as Buffer[]), preface)
  }
})

for (const { bytes, why } of [
  { bytes: 'SSH-2.0-OpenSSH_9.6\r\n', why: 'an SSH greeting' },
  { bytes: 'get / HTTP/1.1\r\n', why: 'a method in lower case' },
  { bytes: 'ABCDEFGHIJKLMNOPQ', why: 'a method that is longer than any' },
  { bytes: '\0\0\0\x08\x04\xd2\x16/', why: 'a request of PostgreSQL for TLS' },
  { bytes: ' GET / HTTP/1.1', why: 'a space before the method' },
  { bytes: '\r\nGET / HTTP/1.1', why: 'an empty line before the method' },
  { bytes: '\x16\x02\x01\0\x05hello', why: 'a handshake record of an unknown version' },
  { bytes: '\x16\x03\x01\0\x05hello', why: 'a handshake record without a ClientHello' },
  { bytes: '\x16\x03\x01\0\0', why: 'an empty handshake record' },
]) {
  test(`${why} is neither TLS nor HTTP`, async () => {
    await using sockets = await openSocketPair()
    sockets.client.write(Buffer.from(bytes, 'latin1'))
    assert.equal((await recognise(sockets.server)).kind, 'unknown')
  })
}

test('TLS is recognised with its server name, and without one', async () => {
  for (const serverName of ['api.example.com', undefined]) {
    await using sockets = await openSocketPair()
    const secure = connectTls({ socket: sockets.client, ...(serverName && { servername: serverName }), rejectUnauthorized: false })
    secure.on('error', () => {})
    assert.deepEqual(await recognise(sockets.server), { kind: 'tls', serverName, hasEch: false })
    const [hello] = (await once(sockets.server.resume(), 'data')) as [Buffer]
    assert.equal(hello[0], 22)
    secure.destroy()
  }
})

const LARGE = clientHello([
  helloExtension(0x1a1a, Buffer.alloc(0)),
  helloExtension(51, Buffer.alloc(16_200, 7)),
  serverNameExtension('api.example.com'),
])
for (const { hello, why } of [
  { hello: await firstFlight('api.example.com'), why: "Node's own" },
  { hello: clientHello([serverNameExtension('api.example.com')], { recordBytes: 1 }), why: 'one in records of one byte' },
  { hello: LARGE, why: 'one of 16 KB' },
]) {
  test(`a ClientHello that comes byte by byte is recognised when it is whole, and not a byte is lost: ${why}`, async (t) => {
    await using sockets = await openSocketPair()
    // A slow machine must not meet the time limit, and work that grows with the square would be copied again and again.
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const concat = t.mock.method(Buffer, 'concat')
    const found = recognise(sockets.server)
    await writeApart(
      sockets.client,
      [...hello].map((byte) => Buffer.of(byte)),
    )
    assert.deepEqual(await found, { kind: 'tls', serverName: 'api.example.com', hasEch: false })
    const copied = concat.mock.calls.reduce((sum, { result }) => sum + (result?.length ?? 0), 0)
    assert.ok(copied < 10 * hello.length, `${copied} bytes were copied for ${hello.length}`)
    sockets.client.end()
    assert.deepEqual(Buffer.concat((await sockets.server.toArray()) as Buffer[]), hello)
  })
}

test('an encrypted ClientHello is noticed, beside a server name and without one', async () => {
  const ech = helloExtension(0xfe0d, Buffer.alloc(180, 1))
  for (const { extensions, serverName } of [
    { extensions: [ech], serverName: undefined },
    { extensions: [ech, serverNameExtension('cover.example.com')], serverName: 'cover.example.com' },
  ]) {
    await using sockets = await openSocketPair()
    sockets.client.write(clientHello(extensions))
    assert.deepEqual(await recognise(sockets.server), { kind: 'tls', serverName, hasEch: true })
  }
})

test('a connection that has ended or is gone already is closed, not waited for', async () => {
  for (const end of [(sockets: SocketPair) => sockets.server.destroy(), (sockets: SocketPair) => sockets.client.end()]) {
    await using sockets = await openSocketPair()
    end(sockets)
    sockets.server.resume()
    await once(sockets.server, sockets.server.destroyed ? 'close' : 'end')
    assert.deepEqual(await recognise(sockets.server), { kind: 'closed' })
  }
})

test('a request whose client has ended its side already is recognised, and not a byte is lost', async () => {
  await using sockets = await openSocketPair()
  sockets.client.end('GET / HTTP/1.1\r\n\r\n')
  await once(sockets.server, 'readable')
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(await recognise(sockets.server), { kind: 'http' })
  assert.equal(Buffer.concat((await sockets.server.toArray()) as Buffer[]).toString(), 'GET / HTTP/1.1\r\n\r\n')
})

test('a handshake that never ends is given up by its length, not held', async () => {
  await using sockets = await openSocketPair()
  const record = Buffer.concat([Buffer.of(22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff), Buffer.alloc(16_380)])
  sockets.client.write(Buffer.concat([record, record, record]))
  assert.deepEqual(await recognise(sockets.server), { kind: 'unknown', problem: 'the ClientHello is too long' })
})

for (const how of ['ends', 'breaks'] as const) {
  test(`an agent that ${how} its connection without a byte is gone; with a part of a message it is unknown`, async () => {
    for (const { bytes, kind } of [
      { bytes: '', kind: 'closed' },
      { bytes: 'GE', kind: 'unknown' },
    ]) {
      await using sockets = await openSocketPair()
      const found = recognise(sockets.server)
      if (bytes !== '') {
        sockets.client.write(bytes)
        await once(sockets.server, 'readable')
      }
      if (how === 'ends') sockets.client.end()
      else sockets.client.resetAndDestroy()
      assert.equal((await found).kind, kind)
    }
  })
}

test('nothing, and a part that is not followed, are given up after the time limit with a reason for each', async () => {
  await using silent = await openSocketPair()
  await using slow = await openSocketPair()
  slow.client.write('GE')
  assert.deepEqual(await Promise.all([recognise(silent.server), recognise(slow.server)]), [
    { kind: 'unknown', problem: 'nothing was sent in time' },
    { kind: 'unknown', problem: 'the first message was not complete in time' },
  ])
})

/** The first bytes of Node's own TLS client. */
async function firstFlight(servername: string): Promise<Buffer> {
  await using sockets = await openSocketPair()
  connectTls({ socket: sockets.client, servername }).on('error', () => {})
  const [hello] = (await once(sockets.server, 'data')) as [Buffer]
  return hello
}

/** Each part as a segment of its own. */
async function writeApart(socket: Socket, parts: readonly Buffer[]): Promise<void> {
  socket.setNoDelay(true)
  for (const part of parts) {
    await new Promise((resolve) => socket.write(part, resolve))
    await new Promise((resolve) => setImmediate(resolve))
  }
}
