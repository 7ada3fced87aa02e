import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSecureContext, createServer, type TlsOptions, type TLSSocket } from 'node:tls'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { system } from '../../../src/kernel/system.ts'
import { createAuthority } from '../../../src/pki/pki.ts'
import { dialTcp, secure } from '../../../src/sidecar/upstream/dial.ts'
import { Sessions } from '../../../src/sidecar/upstream/sessions.ts'
import { createUpstreams } from '../../../src/sidecar/upstream/upstreams.ts'
import { without } from '../../support/pki.ts'
import { hostname } from '../../support/policy.ts'
import { ask, HOST, keyFor, LEAF, leafOf, TRUST } from '../../support/upstream-client.ts'
import { leafFor } from '../../support/upstream.ts'

type Server = AsyncDisposable & {
  readonly port: number
  /** For each connection whether it was resumed. */
  readonly reused: boolean[]
}

/** A server that answers one request on each connection. */
async function openServer(options: TlsOptions = {}, port = 0): Promise<Server> {
  const reused: boolean[] = []
  const server = createServer({ ...LEAF, ...options }, (socket) => {
    reused.push(socket.isSessionReused())
    socket.on('error', () => {})
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok'))
  })
  server.on('tlsClientError', () => {})
  await once(server.listen(port, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    reused,
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
  test(`later connections to an upstream of ${version} resume the session of the first`, async () => {
    await using server = await openServer({ maxVersion: version })
    await using upstreams = createUpstreams(TRUST)
    for (let i = 0; i < 3; i += 1) assert.equal((await ask(upstreams.pool(keyFor(server.port)))).status, 200)
    assert.deepEqual(server.reused, [false, true, true])
  })

for (const { what, more } of [
  { what: 'another credential', more: { credential: 'other' } },
  { what: 'another generation of the policy', more: { generation: 1 } },
  { what: 'other addresses', more: { addresses: ['127.0.0.1', '127.0.0.2'] } },
])
  test(`I7 what is sent for ${what} resumes no session`, async () => {
    await using server = await openServer()
    await using upstreams = createUpstreams(TRUST)
    await ask(upstreams.pool(keyFor(server.port)))
    await ask(upstreams.pool(keyFor(server.port, more)))
    assert.deepEqual(server.reused, [false, false])
  })

test('I6 I7 a session of one host is not offered to another at the same address, whose certificate must name it', async () => {
  await using server = await openServer()
  await using upstreams = createUpstreams(TRUST)
  await ask(upstreams.pool(keyFor(server.port)))
  await assert.rejects(ask(upstreams.pool(keyFor(server.port, { host: hostname('other.example.com') }))), { code: 'upstream_tls_failed' })
  assert.ok(!server.reused.includes(true))
})

for (const { what, certificate } of [
  { what: 'for another name', certificate: leafOf('other.example.com') },
  { what: 'of an unknown authority', certificate: leafFor(createAuthority('unknown', system), HOST) },
])
  test(`I6 an upstream that comes back with a certificate ${what} is refused, whatever session there is`, async () => {
    await using upstreams = createUpstreams(TRUST)
    let port = 0
    {
      await using server = await openServer()
      ;({ port } = server)
      await ask(upstreams.pool(keyFor(port)))
      await ask(upstreams.pool(keyFor(port)))
      assert.deepEqual(server.reused, [false, true])
    }
    await using server = await openServer(certificate, port)
    await assert.rejects(ask(upstreams.pool(keyFor(port))), { code: 'upstream_tls_failed' })
    await assert.rejects(ask(upstreams.pool(keyFor(port))), { code: 'upstream_tls_failed' })
    assert.ok(!server.reused.includes(true))
  })

test('I6 the certificate is verified anew after its time, however often the session was resumed meanwhile', async () => {
  // TLS 1.2 has one session for all of them.
  await using server = await openServer({ maxVersion: 'TLSv1.2' })
  let now = Date.now()
  await using upstreams = createUpstreams(TRUST, undefined, { now: () => now })
  for (let i = 0; i < 4; i += 1) {
    await ask(upstreams.pool(keyFor(server.port)))
    now += LIMITS.upstreamSessionMs / 4
  }
  await ask(upstreams.pool(keyFor(server.port)))
  await ask(upstreams.pool(keyFor(server.port)))
  assert.deepEqual(server.reused, [false, true, true, true, false, true])
})

test(
  'I6 a session that was renewed while it was resumed holds no longer than the first',
  { skip: without('openssl', 'version') },
  async () => {
    await using parts = new AsyncDisposableStack()
    const folder = await mkdtemp(join(tmpdir(), 'sallyport-test-'))
    parts.defer(() => rm(folder, { recursive: true, force: true }))
    await Promise.all([writeFile(join(folder, 'cert'), LEAF.cert), writeFile(join(folder, 'key'), LEAF.key)])
    // Unlike Node's it renews, and its page tells of the connection.
    const server = spawn('openssl', ['s_server', '-accept', '127.0.0.1:0', '-cert', 'cert', '-key', 'key', '-www'], { cwd: folder })
    parts.defer(() => void server.kill())
    let said = ''
    server.stdout.on('data', (chunk: Buffer) => (said += String(chunk)))
    while (!/ACCEPT .*\n/.test(said)) await once(server.stdout, 'data')
    const port = Number(/ACCEPT [\d.]+:(\d+)/.exec(said)?.[1])
    let now = Date.now()
    const upstreams = parts.use(createUpstreams(TRUST, undefined, { now: () => now }))
    const kinds: (string | undefined)[] = []
    for (let i = 0; i < 8; i += 1) {
      const { body } = await ask(upstreams.pool(keyFor(port)))
      kinds.push(/^(New|Reused), TLSv1.3/m.exec(String(body))?.[1])
      now += LIMITS.upstreamSessionMs / 6
    }
    assert.deepEqual(kinds, ['New', 'Reused', 'Reused', 'Reused', 'Reused', 'Reused', 'New', 'Reused'])
  },
)

test('I6 no session outlives the certificate that was verified for it', async () => {
  // Its leaf has a minute left.
  const authority = createAuthority('ageing', { ...system, now: () => Date.now() - LIMITS.leafLifeMs + 60_000 })
  await using server = await openServer(leafFor(authority, HOST))
  let now = Date.now()
  await using upstreams = createUpstreams(createSecureContext({ ca: authority.certificatePem }), undefined, { now: () => now })
  await ask(upstreams.pool(keyFor(server.port)))
  await ask(upstreams.pool(keyFor(server.port)))
  now += 61_000
  await ask(upstreams.pool(keyFor(server.port)))
  assert.deepEqual(server.reused, [false, true, false])
})

async function connectOnce(port: number, sessions: Sessions): Promise<TLSSocket> {
  const host = hostname(HOST)
  const socket = await secure(await dialTcp({ host, port, addresses: ['127.0.0.1'] }), { host, port }, TRUST, ['http/1.1'], sessions)
  socket.write('.')
  socket.resume()
  await once(socket, 'end')
  socket.destroy()
  return socket
}

test('a session of TLS 1.3 is offered once, and few are kept', async () => {
  await using server = await openServer()
  const sessions = new Sessions(system)
  for (let i = 0; i < LIMITS.upstreamSessionsMax; i += 1) {
    // Each handshake in full brings two.
    const before = new Sessions(system)
    await connectOnce(server.port, before)
    const [a, b, none] = [before.take(), before.take(), before.take()]
    assert.ok(a && b && !a.bytes.equals(b.bytes))
    assert.equal(none, undefined)
    await connectOnce(server.port, sessions)
  }
  let kept = 0
  while (sessions.take()) kept += 1
  assert.ok(kept > 0 && kept <= LIMITS.upstreamSessionsMax, String(kept))
})

test('an upstream whose chain has its root in it is verified and resumed like any', async () => {
  const authority = createAuthority('root', system)
  const { cert, key } = leafFor(authority, HOST)
  await using server = await openServer({ cert: cert + authority.certificatePem, key })
  await using upstreams = createUpstreams(createSecureContext({ ca: authority.certificatePem }))
  for (let i = 0; i < 2; i += 1) await ask(upstreams.pool(keyFor(server.port)))
  assert.deepEqual(server.reused, [false, true])
})

test('a handshake that fails while it resumes takes all sessions of the origin with it: the next is one in full', async () => {
  await using server = await openServer()
  const sockets = new Set<Socket>()
  let isBroken = false
  const relay = createTcpServer((socket) => {
    if (isBroken) return void socket.once('data', () => socket.destroy())
    const upstream = connect(server.port, '127.0.0.1')
    for (const end of [socket, upstream]) sockets.add(end.on('error', () => {}))
    socket.pipe(upstream).pipe(socket)
  })
  await once(relay.listen(0, '127.0.0.1'), 'listening')
  await using upstreams = createUpstreams(TRUST)
  const pool = upstreams.pool(keyFor((relay.address() as AddressInfo).port))
  await ask(pool)
  isBroken = true
  await assert.rejects(ask(pool), { code: 'upstream_tls_failed' })
  isBroken = false
  await ask(pool)
  assert.deepEqual(server.reused, [false, false])
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => relay.close(resolve))
})
