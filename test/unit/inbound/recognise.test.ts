import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectTls } from 'node:tls'
import { test } from 'node:test'
import { recognise } from '../../../src/sidecar/inbound/recognise.ts'
import { openSocketPair } from '../../support/socket-pair.ts'

for (const { bytes, why } of [
  { bytes: 'GET / HTTP/1.1\r\n', why: 'a request line' },
  { bytes: 'GET ', why: 'a method and a space' },
  { bytes: 'M-SEARCH * HTTP/1.1', why: 'a method with a hyphen' },
  { bytes: 'PRI * HTTP/2.0\r\n\r\n', why: 'the preface of HTTP/2' },
]) {
  test(`${why} is HTTP, and whoever takes the socket reads it again`, async () => {
    await using sockets = await openSocketPair()
    sockets.client.write(bytes)
    assert.deepEqual(await recognise(sockets.server), { kind: 'http' })
    const [again] = (await once(sockets.server, 'data')) as [Buffer]
    assert.equal(again.toString(), bytes)
  })
}

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
    assert.deepEqual(await recognise(sockets.server), { kind: 'tls', serverName })
    const [hello] = (await once(sockets.server, 'data')) as [Buffer]
    assert.equal(hello[0], 22)
    secure.destroy()
  }
})

test('a ClientHello that comes byte by byte is recognised when it is whole, and not a byte is lost', async () => {
  await using source = await openSocketPair()
  connectTls({ socket: source.client, servername: 'api.example.com' }).on('error', () => {})
  const [hello] = (await once(source.server, 'data')) as [Buffer]
  await using sockets = await openSocketPair()
  sockets.client.setNoDelay(true)
  const found = recognise(sockets.server)
  for (const byte of hello) {
    const written = new Promise((resolve) => sockets.client.write(Buffer.of(byte), resolve))
    await written
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.deepEqual(await found, { kind: 'tls', serverName: 'api.example.com' })
  sockets.client.end()
  const again = (await sockets.server.toArray()) as Buffer[]
  assert.deepEqual(Buffer.concat(again), hello)
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
