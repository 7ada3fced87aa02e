import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createSecureContext } from 'node:tls'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import type { Upstream } from '../../../src/sidecar/upstream/upstream.ts'
import { createUpstreams, type UpstreamKey } from '../../../src/sidecar/upstream/upstreams.ts'
import { hostname } from '../../support/policy.ts'
import { openRawUpstream, openUpstream } from '../../support/upstream.ts'

const KEY: UpstreamKey = {
  scheme: 'https',
  host: hostname('api.example.com'),
  port: 443,
  addresses: ['127.0.0.1'],
  credential: 'github',
  generation: 0,
}
const trust = createSecureContext()

/** Sends a GET; resolves with the status, rejects with the error. */
function get(pool: Upstream): Promise<number> {
  return new Promise((resolve, reject) => {
    let found = 0
    pool.dispatch(
      { path: '/', method: 'GET', headers: [] },
      {
        onRequestStart: () => {},
        onBodySent: () => {},
        onRequestSent: () => {},
        onRequestUpgrade: (_controller, _status, socket) => void socket.destroy(),
        onResponseStart: (_controller, status) => void (found = status),
        onResponseData: () => {},
        onResponseEnd: () => resolve(found),
        onResponseError: (_controller, error) => reject(error),
      },
    )
  })
}

for (const { what, key } of [
  { what: 'host', key: { ...KEY, host: hostname('other.example.com') } },
  { what: 'port', key: { ...KEY, port: 8443 } },
  { what: 'scheme', key: { ...KEY, scheme: 'http' as const } },
  { what: 'credential', key: { ...KEY, credential: 'gitlab' } },
  { what: 'lack of a credential', key: { ...KEY, credential: '' } },
  { what: 'generation of the policy', key: { ...KEY, generation: 1 } },
  { what: 'judged address', key: { ...KEY, addresses: ['127.0.0.2'] } },
  { what: 'number of judged addresses', key: { ...KEY, addresses: ['127.0.0.1', '127.0.0.2'] } },
]) {
  test(`I7 another ${what} has a pool of its own`, async () => {
    await using upstreams = createUpstreams(trust)
    const pool = upstreams.pool(KEY)
    assert.notEqual(upstreams.pool(key), pool)
    assert.equal(upstreams.pool({ ...KEY }), pool, 'the same key has the same pool')
    assert.equal(upstreams.size, 2)
  })
}

test('I7 no two different keys are written alike', async () => {
  await using upstreams = createUpstreams(trust)
  const keys = [
    { ...KEY, credential: 'a 127.0.0.1', addresses: [] },
    { ...KEY, credential: 'a', addresses: ['127.0.0.1'] },
    { ...KEY, credential: '', addresses: ['127.0.0.1', '127.0.0.2'] },
    { ...KEY, credential: '127.0.0.1', addresses: ['127.0.0.2'] },
  ]
  assert.equal(new Set(keys.map((key) => upstreams.pool(key))).size, keys.length)
})

test('pools are bounded: past the limit the one that was used least recently goes', async () => {
  await using upstreams = createUpstreams(trust)
  const keyOf = (n: number): UpstreamKey => ({ ...KEY, credential: `c${n}` })
  const pools = Array.from({ length: LIMITS.upstreamPoolsMax }, (_, n) => upstreams.pool(keyOf(n)))
  assert.equal(upstreams.size, LIMITS.upstreamPoolsMax)
  upstreams.pool(keyOf(0))
  upstreams.pool(keyOf(LIMITS.upstreamPoolsMax))
  assert.equal(upstreams.size, LIMITS.upstreamPoolsMax)
  assert.equal(upstreams.pool(keyOf(0)), pools[0], 'used again, so kept')
  assert.notEqual(upstreams.pool(keyOf(1)), pools[1], 'the oldest, so gone')
})

test('a pool with a request under way is never the one that goes', async () => {
  let answer: () => void = () => {}
  await using upstream = await openUpstream((_request, response) => void (answer = () => response.end('late')))
  await using upstreams = createUpstreams(trust)
  const busy: UpstreamKey = { ...KEY, scheme: 'http', port: upstream.port }
  const pool = upstreams.pool(busy)
  const status = get(pool)
  while (upstream.requests.length === 0) await new Promise((resolve) => setImmediate(resolve))
  for (let n = 0; n < LIMITS.upstreamPoolsMax + 10; n += 1) upstreams.pool({ ...KEY, credential: `c${n}` })
  assert.equal(upstreams.pool(busy), pool)
  answer()
  assert.equal(await status, 200)
})

test('a request to a pool that too many wait for is refused with overloaded, and other pools go on', async () => {
  await using silent = await openRawUpstream(() => {})
  await using upstream = await openUpstream()
  const upstreams = createUpstreams(trust)
  const key: UpstreamKey = { ...KEY, scheme: 'http', port: silent.port }
  const waiting: Promise<number>[] = []
  let refused: unknown
  for (let n = 0; n <= LIMITS.upstreamConnectionsMax + LIMITS.upstreamQueueMax + 1; n += 1) {
    try {
      waiting.push(get(upstreams.pool(key)))
    } catch (error) {
      refused = error
    }
  }
  assert.equal((refused as { code?: string }).code, 'overloaded')
  assert.equal(await get(upstreams.pool({ ...key, port: upstream.port })), 200)
  const ends = Promise.allSettled(waiting)
  await upstreams[Symbol.asyncDispose]()
  assert.ok((await ends).every((end) => end.status === 'rejected'))
})

test('I4 only the judged addresses are dialled, in their order, and the name is not asked for again', async () => {
  await using upstream = await openUpstream()
  await using upstreams = createUpstreams(trust)
  const judged = { ...KEY, scheme: 'http' as const, port: upstream.port, host: hostname('nobody-knows.invalid') }
  assert.equal(await get(upstreams.pool({ ...judged, addresses: ['127.0.0.1'] })), 200)
  assert.deepEqual(upstream.requests[0]?.rawHeaders.slice(0, 2), ['host', `nobody-knows.invalid:${upstream.port}`])
})

test('an address that does not answer is passed over for the next one', async () => {
  await using upstream = await openUpstream()
  await using upstreams = createUpstreams(trust)
  // Nothing listens on ::1 at this port: the upstream has it on 127.0.0.1 only.
  const key: UpstreamKey = { ...KEY, scheme: 'http', port: upstream.port, addresses: ['::1', '127.0.0.1'] }
  assert.equal(await get(upstreams.pool(key)), 200)
})

test('when all is taken down, sockets to upstreams are closed', async () => {
  const sockets: Promise<unknown>[] = []
  await using upstream = await openRawUpstream((socket) => {
    sockets.push(once(socket, 'close'))
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'))
    socket.on('end', () => socket.end())
  })
  const upstreams = createUpstreams(trust)
  assert.equal(await get(upstreams.pool({ ...KEY, scheme: 'http', port: upstream.port })), 200)
  await upstreams[Symbol.asyncDispose]()
  await Promise.all(sockets)
  assert.equal(upstreams.size, 0)
})
