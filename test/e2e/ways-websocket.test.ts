import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { WebSocket, type ClientOptions } from 'ws'
import { DIALLED, dialBy, dialTlsBy, type Dialled } from '../support/dial-ways.ts'
import { headerOf } from '../support/http2-upstream.ts'
import type { Upstream } from '../support/upstream.ts'
import { BEARER, CANARY, openPlaces, portOf, type Ways } from '../support/ways.ts'
import { openWebSocketUpstream } from '../support/websocket-upstream.ts'

const HOST = 'socket.example.com'
/** No credential is bound to it. */
const FREE = 'free.example.com'
const DENIED = 'denied.example.net'

const parts = new AsyncDisposableStack()
let secure: Upstream
let plain: Upstream
let free: Upstream
let denied: Upstream
let ways: Ways

before(async () => {
  const places = parts.use(await openPlaces())
  secure = parts.use(await openWebSocketUpstream(places.tls(HOST), places.at(HOST, 443)))
  plain = parts.use(await openWebSocketUpstream(undefined, places.at(HOST, 80)))
  free = parts.use(await openWebSocketUpstream(places.tls(FREE), places.at(FREE, 443)))
  denied = parts.use(await openWebSocketUpstream(places.tls(DENIED), places.at(DENIED, 443)))
  ways = parts.use(
    await places.open({ hosts: { [HOST]: { inject: BEARER, rule: 'paths: ["/open/**", "/refused"]' }, [FREE]: {} }, denied: [DENIED] }),
  )
})
after(() => parts.disposeAsync())

/** A WebSocket by one of the ways, not open yet. */
async function openBy(
  way: Dialled,
  scheme: 'ws' | 'wss',
  path: string,
  options: ClientOptions & { protocols?: string[]; at?: string } = {},
): Promise<WebSocket> {
  const host = options.at ?? HOST
  const socket = scheme === 'wss' ? await dialTlsBy(way, ways, host) : await dialBy(way, ways, host, 80)
  return new WebSocket(`${scheme}://${host}${path}`, options.protocols ?? [], { ...options, createConnection: () => socket })
}

async function echoed(client: WebSocket, message: string | Buffer): Promise<{ data: Buffer; isBinary: boolean }> {
  client.send(message)
  const [data, isBinary] = (await once(client, 'message')) as [Buffer, boolean]
  return { data, isBinary }
}

for (const way of DIALLED) {
  test(`a WebSocket in TLS by ${way} carries text, bytes and 8 MB in one message, and its handshake gets the credential`, async () => {
    const client = await openBy(way, 'wss', '/open/1')
    await once(client, 'open')
    const big = randomBytes(8_000_000)
    assert.deepEqual(await echoed(client, 'grüße'), { data: Buffer.from('grüße'), isBinary: false })
    assert.deepEqual(await echoed(client, Buffer.of(0, 255, 13, 10)), { data: Buffer.of(0, 255, 13, 10), isBinary: true })
    const { data } = await echoed(client, big)
    assert.ok(data.equals(big))
    assert.equal(headerOf(secure.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
    client.close(1000)
    await once(client, 'close')
  })

  test(`a WebSocket without TLS by ${way} carries messages, and its handshake gets no credential`, async () => {
    const client = await openBy(way, 'ws', '/open/2')
    await once(client, 'open')
    assert.deepEqual(await echoed(client, 'plain'), { data: Buffer.from('plain'), isBinary: false })
    assert.equal(plain.requests.at(-1)?.url, '/open/2')
    assert.equal(headerOf(plain.requests.at(-1), 'authorization'), undefined)
    client.terminate()
  })
}

test('a WebSocket without TLS goes in absolute form through the HTTP proxy', async () => {
  const client = new WebSocket(`ws://127.0.0.1:${portOf(ways.proxy.ready.http)}/`, {
    headers: { Host: HOST },
    finishRequest(request) {
      request.path = `http://${HOST}/open/absolute`
      request.end()
    },
  })
  await once(client, 'open')
  assert.deepEqual(await echoed(client, 'absolute'), { data: Buffer.from('absolute'), isBinary: false })
  assert.equal(plain.requests.at(-1)?.url, '/open/absolute')
  client.terminate()
})

test('subprotocol, extensions and the close code with its reason are the upstream’s own', async () => {
  const client = await openBy('CONNECT', 'wss', '/open/3', { at: FREE, protocols: ['chat.v9', 'chat.v2'], perMessageDeflate: true })
  await once(client, 'open')
  assert.equal(client.protocol, 'chat.v2')
  assert.match(client.extensions, /permessage-deflate/)
  assert.equal((await echoed(client, 'again '.repeat(10_000))).data.length, 60_000)
  client.send('close 4321 enough of this')
  const [code, reason] = (await once(client, 'close')) as [number, Buffer]
  assert.deepEqual([code, reason.toString()], [4321, 'enough of this'])
  assert.equal(free.requests.length, 1)
})

test('where a credential is bound no extension is negotiated, as its messages are looked into', async () => {
  const client = await openBy('CONNECT', 'wss', '/open/plain', { protocols: ['chat.v2'], perMessageDeflate: true })
  await once(client, 'open')
  assert.deepEqual([client.protocol, client.extensions], ['chat.v2', ''])
  assert.equal((await echoed(client, 'again '.repeat(10_000))).data.length, 60_000)
  client.terminate()
})

test('ping and pong pass in both directions', async () => {
  const client = await openBy('CONNECT', 'wss', '/open/4')
  await once(client, 'open')
  client.ping('are you there')
  const [data] = (await once(client, 'pong')) as [Buffer]
  assert.equal(data.toString(), 'are you there')
  client.terminate()
})

test('what the agent sends as its own Authorization is replaced in the handshake', async () => {
  const client = await openBy('CONNECT', 'wss', '/open/5', { headers: { Authorization: 'Bearer mine' } })
  await once(client, 'open')
  const values = secure.requests.at(-1)?.rawHeaders.filter((value) => value.startsWith('Bearer '))
  assert.deepEqual(values, [`Bearer ${CANARY}`])
  client.terminate()
})

test('an upstream that refuses the handshake is heard as it is', async () => {
  const client = await openBy('CONNECT', 'wss', '/refused')
  const [, response] = (await once(client, 'unexpected-response')) as [unknown, { statusCode: number }]
  assert.equal(response.statusCode, 403)
  assert.equal(secure.requests.at(-1)?.url, '/refused')
  client.on('error', () => {})
  client.terminate()
})

for (const way of DIALLED) {
  test(`a WebSocket by ${way} to a path that no rule allows is refused, and its handshake does not arrive`, async () => {
    const count = secure.requests.length
    const client = await openBy(way, 'wss', '/closed')
    const [, response] = (await once(client, 'unexpected-response')) as [unknown, { statusCode: number }]
    assert.equal(response.statusCode, 403)
    assert.equal(secure.requests.length, count)
    client.on('error', () => {})
    client.terminate()
  })
}

test('a WebSocket to a host that no rule allows is refused, and nobody is connected to', async () => {
  for (const way of DIALLED) await assert.rejects(dialTlsBy(way, ways, DENIED))
  assert.equal(denied.connections, 0)
})

test('the end of an upstream’s connection without a closing frame ends the agent’s', async () => {
  const client = await openBy('CONNECT', 'wss', '/open/6')
  await once(client, 'open')
  client.on('error', () => {})
  client.send('close 1011 fault') // the upstream closes its side after it
  const [code] = (await once(client, 'close')) as [number]
  assert.equal(code, 1011)
})

test('when the gate has ended, each WebSocket has its end in the audit, with what it carried', async () => {
  const client = await openBy('CONNECT', 'wss', '/open/audited')
  await once(client, 'open')
  await echoed(client, randomBytes(5_000))
  client.close(1000)
  await once(client, 'close')
  const { code } = await ways.proxy.stop('SIGTERM')
  assert.equal(code, 0)
  const lines = await ways.audit()
  const decided = lines.filter(({ event, decision }) => event === 'decided' && decision === 'allow')
  const ends = new Map(lines.filter(({ event }) => event === 'finished').map((line) => [line['request'], line]))
  for (const { request, path } of decided) assert.ok(ends.has(request), String(path))
  const end = ends.get(decided.find(({ path }) => path === '/open/audited')?.['request'])
  assert.equal(end?.['status'], 101)
  assert.ok(Number(end['bytes_up']) > 5_000, `up ${String(end['bytes_up'])}`)
  assert.ok(Number(end['bytes_down']) > 5_000, `down ${String(end['bytes_down'])}`)
})
