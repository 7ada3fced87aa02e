import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { serveStream } from '../../../src/sidecar/resolver/stream.ts'
import { framed, unframed } from '../../support/dns.ts'
import { openSocketPair } from '../../support/socket-pair.ts'

const echo = (query: Buffer): Buffer => query
const openPair = (): ReturnType<typeof openSocketPair> => openSocketPair({ allowHalfOpen: false })

test('a connection without a query is closed after its idle time, not before', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  await using pair = await openPair()
  serveStream(pair.server, echo)
  t.mock.timers.tick(LIMITS.dnsConnectionIdleMs - 1)
  assert.equal(pair.server.destroyed, false)
  t.mock.timers.tick(1)
  assert.equal(pair.server.destroyed, true)
  await once(pair.client.resume(), 'close')
})

test('a query that drips is closed at the end of its time, however steadily it drips', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  await using pair = await openPair()
  serveStream(pair.server, () => assert.fail('it is not complete'))
  const bytes = framed(Buffer.alloc(100))
  const stepMs = LIMITS.dnsQueryMs / 4
  for (let at = 0; at < 5; at++) {
    assert.equal(pair.server.destroyed, false, `after ${at} bytes`)
    pair.client.write(bytes.subarray(at, at + 1))
    await once(pair.server, 'data')
    t.mock.timers.tick(stepMs)
    if (at === 3) break
  }
  assert.equal(pair.server.destroyed, true)
})

test('a complete query gives the connection its idle time anew, and what follows its own time', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  await using pair = await openPair()
  serveStream(pair.server, echo)
  for (let i = 0; i < 3; i++) {
    t.mock.timers.tick(LIMITS.dnsConnectionIdleMs - 1)
    pair.client.write(framed(Buffer.alloc(20)))
    await once(pair.client, 'data')
  }
  pair.client.write(Buffer.concat([framed(Buffer.alloc(20)), Buffer.from([0])]))
  await once(pair.client, 'data')
  t.mock.timers.tick(LIMITS.dnsQueryMs)
  assert.equal(pair.server.destroyed, true)
})

test('what stands before the query that ends the connection is still answered', async () => {
  await using pair = await openPair()
  serveStream(pair.server, (query) => (query[0] === 9 ? undefined : query))
  const chunks: Buffer[] = []
  pair.client.on('data', (chunk: Buffer) => chunks.push(chunk))
  pair.client.write(framed(Buffer.alloc(12, 1), Buffer.alloc(12, 2), Buffer.alloc(12, 9), Buffer.alloc(12, 3)))
  await once(pair.client, 'end')
  assert.deepEqual(
    unframed(Buffer.concat(chunks)).map((answer) => answer[0]),
    [1, 2],
  )
})

test('a claim of more than 512 bytes closes the connection at once, and 512 are taken', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] }) // no deadline closes it
  for (const [length, isTaken] of [
    [LIMITS.dnsMessageBytesMax, true],
    [LIMITS.dnsMessageBytesMax + 1, false],
    [65_535, false],
  ] as const) {
    await using pair = await openPair()
    const seen: number[] = []
    serveStream(pair.server, (query) => {
      seen.push(query.length)
      return query
    })
    const claim = Buffer.alloc(2)
    claim.writeUInt16BE(length)
    if (isTaken) {
      pair.client.write(framed(Buffer.alloc(length)))
      await once(pair.client, 'data')
    } else {
      pair.client.write(claim)
      await once(pair.client.resume(), 'close')
    }
    assert.deepEqual(seen, isTaken ? [length] : [])
  }
})

test('a client that asks and never reads is closed, with little waiting for it', async () => {
  await using pair = await openPair()
  let waitingMax = 0
  serveStream(pair.server, (query) => {
    waitingMax = Math.max(waitingMax, pair.server.writableLength)
    return query
  })
  const closed = once(pair.server, 'close')
  pair.client.pause()
  const queries = framed(...Array.from({ length: 100 }, () => Buffer.alloc(LIMITS.dnsMessageBytesMax)))
  const ask = (): void => {
    if (!pair.server.destroyed) pair.client.write(queries, ask)
  }
  ask()
  await closed
  assert.ok(waitingMax <= LIMITS.dnsPendingBytesMax, `${waitingMax} bytes waited`)
})
