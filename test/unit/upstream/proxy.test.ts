import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { inspect } from 'node:util'
import { test } from 'node:test'
import fc from 'fast-check'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { parseUpstreamProxy, type UpstreamProxy } from '../../../src/sidecar/upstream/proxy.ts'
import { createUpstreams } from '../../../src/sidecar/upstream/upstreams.ts'
import { openHttp2Upstream } from '../../support/http2-upstream.ts'
import { hostname } from '../../support/policy.ts'
import { openRawUpstream, openUpstream } from '../../support/upstream.ts'
import { ask, HOST, keyFor, LEAF, leafOf, openTlsSockets, take, TRUST } from '../../support/upstream-client.ts'
import { openHttpProxy, openSocksProxy, type ProxyOptions, type TestProxy } from '../../support/upstream-proxies.ts'

const PASSWORD = 'c0rrect-horse'

for (const { text, kind, port, login } of [
  { text: 'http://proxy.example.com:3128', kind: 'http', port: 3128 },
  { text: 'http://proxy.example.com/', kind: 'http', port: 80 },
  { text: 'https://proxy.example.com', kind: 'https', port: 443 },
  { text: 'socks5://proxy.example.com', kind: 'socks5', port: 1080 },
  { text: 'socks5h://proxy.example.com:9', kind: 'socks5', port: 9 },
  { text: 'http://u:p%40s%3as@proxy.example.com:1', kind: 'http', port: 1, login: ['u', 'p@s:s'] },
  { text: 'http://token@proxy.example.com:1', kind: 'http', port: 1, login: ['token', ''] },
  { text: 'socks5://u:%C3%A9@proxy.example.com:1', kind: 'socks5', port: 1, login: ['u', 'é'] },
]) {
  test(`${text} is a proxy`, () => {
    const proxy = parseUpstreamProxy(text)
    assert.deepEqual([proxy.kind, proxy.host, proxy.port], [kind, 'proxy.example.com', port])
    assert.deepEqual(proxy.login && [proxy.login.user, proxy.login.password.reveal()], login)
  })
}

for (const { text, why } of [
  { text: '', why: 'it is not a URL' },
  { text: 'proxy.example.com:3128', why: 'its scheme is none of' },
  { text: 'ftp://u:PW@proxy.example.com', why: 'its scheme is none of' },
  { text: 'socks4://u:PW@proxy.example.com', why: 'its scheme is none of' },
  { text: 'http://u:PW@proxy.example.com/path', why: 'it has more than' },
  { text: 'http://u:PW@proxy.example.com?q', why: 'it has more than' },
  { text: 'http://u:PW@proxy.example.com#f', why: 'it has more than' },
  { text: 'http://u:PW@proxy.example.com:0', why: 'its port is 0' },
  { text: 'http://u:PW@proxy.example.com:99999', why: 'it is not a URL' },
  { text: 'socks5://u:PW@pro_xy..com', why: 'its host is not one' },
  { text: 'socks5://u:PW@', why: 'it is not a URL' },
  { text: 'http://u:PW%zz@proxy.example.com', why: 'starts no escape' },
  { text: 'http://u:PW%0d%0aX@proxy.example.com', why: 'a control character' },
  { text: 'http://u%3a:PW@proxy.example.com', why: 'its user has a colon' },
  { text: `socks5://u:PW${'x'.repeat(255)}@proxy.example.com`, why: '1 to 255 bytes' },
  { text: 'socks5://uPW@proxy.example.com', why: '1 to 255 bytes' },
]) {
  test(`I1 a proxy's URL that is wrong (${why}: ${text.slice(0, 40)}) is refused without a word of it`, () => {
    assert.throws(
      () => parseUpstreamProxy(text),
      (error: SallyportError) => {
        assert.equal(error.code, 'config_invalid')
        assert.ok(error.message.includes(why), error.message)
        assert.doesNotMatch(inspect(error, { depth: 9 }), /PW/)
        return true
      },
    )
  })
}

test('I1 no text makes the parser fail in another way, or say what it was given', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.webUrl(),
        fc.string().map((text) => `http://u:${text}@h`),
      ),
      (text) => {
        try {
          parseUpstreamProxy(text)
        } catch (error) {
          assert.ok(error instanceof SallyportError && error.code === 'config_invalid')
          if (text.length > 8) assert.ok(!inspect(error).includes(text))
        }
      },
    ),
  )
})

test('I1 a proxy shows no password when it is printed', () => {
  assert.doesNotMatch(
    `${inspect(parseUpstreamProxy(`http://u:${PASSWORD}@h:1`))} ${JSON.stringify(parseUpstreamProxy(`http://u:${PASSWORD}@h:1`))}`,
    /horse/,
  )
})

const PROXY_HOST = 'localhost'
type Kind = { readonly scheme: string; readonly open: (options: ProxyOptions) => Promise<TestProxy> }
const KINDS: Kind[] = [
  { scheme: 'http', open: openHttpProxy },
  { scheme: 'https', open: (options) => openHttpProxy({ ...options, tls: leafOf(PROXY_HOST) }) },
  { scheme: 'socks5', open: openSocksProxy },
]
const proxyAt = ({ scheme }: Kind, { port }: TestProxy, login = ''): UpstreamProxy =>
  parseUpstreamProxy(`${scheme}://${login}${PROXY_HOST}:${port}`)

for (const kind of KINDS) {
  const { scheme, open } = kind
  const word = scheme === 'socks5' ? 'SOCKS' : 'CONNECT'

  for (const protocol of ['h2', 'http/1.1'] as const) {
    test(`by ${scheme}: https upstreams are reached by a tunnel in ${protocol}, by name, with the login`, async () => {
      await using server = await openHttp2Upstream(LEAF, { protocols: [protocol] })
      await using proxy = await open({ login: `u:${PASSWORD}` })
      await using upstreams = createUpstreams(TRUST, proxyAt(kind, proxy, `u:${PASSWORD}@`))
      const answer = await ask(upstreams.pool(keyFor(server.port, { addresses: undefined })))
      assert.equal(String(answer.body), 'ok')
      assert.equal(server.requests[0]?.protocol, protocol)
      assert.deepEqual(proxy.asked, [`${word} ${HOST}:${server.port}`])
      assert.doesNotMatch(JSON.stringify(server.requests[0]?.rawHeaders), /proxy-auth/i)
    })
  }

  test(`I6 by ${scheme}: the upstream's own certificate is verified, whatever the proxy says`, async () => {
    await using server = await openTlsSockets(() => {}, ['h2'])
    await using proxy = await open({})
    await using upstreams = createUpstreams(TRUST, proxyAt(kind, proxy))
    const key = { ...keyFor(server.port, { addresses: undefined }), host: hostname('other.example.com') }
    await assert.rejects(ask(upstreams.pool(key)), { code: 'upstream_tls_failed' })
  })

  test(`I4 by ${scheme}: a judged address is what the proxy is asked for, also in plain http`, async () => {
    await using server = await openUpstream()
    await using tls = await openHttp2Upstream(LEAF)
    await using proxy = await open({})
    await using upstreams = createUpstreams(TRUST, proxyAt(kind, proxy))
    assert.equal((await ask(upstreams.pool(keyFor(tls.port, { addresses: ['192.0.2.1'] })))).status, 200)
    assert.equal((await ask(upstreams.pool(keyFor(server.port, { scheme: 'http', addresses: ['192.0.2.1'] })))).status, 200)
    assert.deepEqual(proxy.asked, [`${word} 192.0.2.1:${tls.port}`, `${word} 192.0.2.1:${server.port}`])
    assert.equal(server.requests[0]?.rawHeaders[1], HOST)
  })

  test(`by ${scheme}: a wrong login is told with what the operator can do, never with the login`, async () => {
    await using proxy = await open({ login: `u:${PASSWORD}` })
    await using upstreams = createUpstreams(TRUST, proxyAt(kind, proxy, 'u:wr0ng-horse@'))
    for (const plain of [false, true]) {
      const key = keyFor(1, { addresses: undefined, ...(plain && { scheme: 'http' as const }) })
      await assert.rejects(ask(upstreams.pool(key)), (error: SallyportError) => {
        assert.equal(error.code, 'upstream_proxy_failed')
        if (scheme !== 'socks5') assert.match(`${error.message} ${error.hint}`, /407.*--upstream-proxy/)
        assert.doesNotMatch(inspect(error, { depth: 9 }), /horse|dTp3/)
        return true
      })
    }
  })

  test(`by ${scheme}: what the proxy refuses is upstream_proxy_failed, for requests and tunnels`, async () => {
    await using proxy = await open({ refuse: scheme === 'socks5' ? 4 : 503 })
    await using upstreams = createUpstreams(TRUST, proxyAt(kind, proxy))
    const refused = { code: 'upstream_proxy_failed', message: scheme === 'socks5' ? /HostUnreachable/ : /503/ }
    await assert.rejects(ask(upstreams.pool(keyFor(1, { addresses: undefined }))), refused)
    await assert.rejects(upstreams.dial({ host: hostname(HOST), port: 1, addresses: undefined }), refused)
  })

  test(`by ${scheme}: a proxy that is not there, or breaks off, is upstream_proxy_failed`, async () => {
    await using broken = await openRawUpstream((socket) => socket.once('data', () => socket.destroy()))
    const gone = await open({})
    await gone[Symbol.asyncDispose]()
    for (const { port } of [gone, broken]) {
      await using upstreams = createUpstreams(TRUST, proxyAt(kind, { port } as TestProxy))
      await assert.rejects(ask(upstreams.pool(keyFor(1, { addresses: undefined }))), { code: 'upstream_proxy_failed' })
      await assert.rejects(ask(upstreams.pool(keyFor(1, { scheme: 'http', addresses: undefined }))))
    }
  })

  test(`by ${scheme}: a proxy that never answers is given up after its time`, async (context) => {
    const heard = Promise.withResolvers<void>()
    await using silent = await openRawUpstream((socket) => socket.once('data', () => heard.resolve()))
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const upstreams = createUpstreams(TRUST, proxyAt(kind, { port: silent.port } as TestProxy))
    const dialled = upstreams.dial({ host: hostname(HOST), port: 1, addresses: undefined })
    await heard.promise
    context.mock.timers.tick(Math.max(LIMITS.connectMs, LIMITS.tlsHandshakeMs))
    await assert.rejects(dialled, { code: 'upstream_proxy_failed' })
  })

  test(`by ${scheme}: a tunnel carries bytes both ways, and the upstream may speak first`, async () => {
    const server = createServer((socket) => {
      socket.write('220 ready\r\n')
      socket.pipe(socket)
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    for (const isServerFirst of [false, true]) {
      await using proxy = await open({ isServerFirst })
      await using upstreams = createUpstreams(TRUST, proxyAt(kind, proxy))
      const { port } = server.address() as { port: number }
      const socket = await upstreams.dial({ host: hostname(HOST), port, addresses: undefined })
      await new Promise((resolve) => setImmediate(resolve)) // whoever takes the socket may be late
      let heard = ''
      socket.on('data', (chunk: Buffer) => (heard += String(chunk))).resume()
      while (heard.length < 11) await once(socket, 'data')
      socket.write('hello')
      while (heard.length < 16) await once(socket, 'data')
      assert.equal(heard, '220 ready\r\nhello')
      socket.destroy()
    }
    server.close()
  })

  test(`by ${scheme}: a WebSocket in plain http goes by a tunnel`, async () => {
    await using server = await openRawUpstream((socket) =>
      socket.once('data', () => socket.write('HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello')),
    )
    await using proxy = await open({})
    await using upstreams = createUpstreams(TRUST, proxyAt(kind, proxy))
    const taker = take(upstreams.pool(keyFor(server.port, { scheme: 'http', addresses: undefined })), { upgrade: 'websocket' })
    const socket = await taker.upgraded.promise
    assert.deepEqual(proxy.asked, [`${word} ${HOST}:${server.port}`])
    socket.destroy()
  })
}

for (const kind of KINDS.slice(0, 2)) {
  test(`by ${kind.scheme}: requests in plain http are asked of the proxy in absolute form, with the login for it alone`, async () => {
    await using server = await openUpstream()
    await using proxy = await kind.open({ login: `u:${PASSWORD}` })
    await using upstreams = createUpstreams(TRUST, proxyAt(kind, proxy, `u:${PASSWORD}@`))
    const key = keyFor(server.port, { scheme: 'http', addresses: undefined })
    const request = { path: '/a?b=%2f', headers: ['host', `${HOST}:${server.port}`, 'x-a', '1'] }
    assert.equal(String((await ask(upstreams.pool(key), request)).body), 'ok')
    assert.equal(String((await ask(upstreams.pool(key), request)).body), 'ok')
    const url = `GET http://${HOST}:${server.port}/a?b=%2f`
    assert.deepEqual(proxy.asked, [url, url])
    assert.doesNotMatch(JSON.stringify(server.requests), /proxy-auth/i)
  })
}

test('I6 a proxy with a certificate of another host is sent nothing, the login least of all', async () => {
  await using proxy = await openHttpProxy({ tls: leafOf('other.example.com') })
  await using upstreams = createUpstreams(TRUST, parseUpstreamProxy(`https://u:${PASSWORD}@${PROXY_HOST}:${proxy.port}`))
  await assert.rejects(ask(upstreams.pool(keyFor(1, { addresses: undefined }))), { code: 'upstream_proxy_failed' })
  await assert.rejects(ask(upstreams.pool(keyFor(1, { scheme: 'http', addresses: undefined }))), { code: 'upstream_proxy_failed' })
  assert.deepEqual([proxy.asked, proxy.logins], [[], []])
})

test('an answer of 407 is the proxy, not the upstream: the agent is never asked for the password of the operator', async () => {
  await using proxy = await openHttpProxy({ refuse: 407 })
  await using upstreams = createUpstreams(TRUST, parseUpstreamProxy(`http://${PROXY_HOST}:${proxy.port}`))
  const taker = take(upstreams.pool(keyFor(80, { scheme: 'http', addresses: undefined })))
  await assert.rejects(taker.done.promise, { code: 'upstream_proxy_failed' })
  assert.equal(taker.answer.status, 0)
})
