/**
 * I4: a name is looked up only once it is allowed, and what is dialled is what was judged. Rebinding (an answer that changes
 * between check and use) is the classic; a DNS question by itself is a way out for data.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { openTestEgress, type TestEgress } from '../support/egress.ts'
import { bodyOf, exchangeRaw, exchangeTls, openTlsTunnel, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, CANARY, OTHER, policyFor } from '../support/setting.ts'
import { createUpstreamCa, leafFor, openUpstream } from '../support/upstream.ts'

const A =
  (...addresses: string[]) =>
  (_host: string, family: 4 | 6) =>
    family === 4 ? addresses.map((address) => ({ address, ttl: 1 })) : []
const codeOf = (answer: string): string => (JSON.parse(bodyOf(answer)) as { code: string }).code
const get = (host: string, port: number, path = '/'): string =>
  `GET http://${host}:${port}${path} HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`

/** `openTestEgress` with the rule of API excepting 127.0.0.1 alone, so that 127.0.0.2 stands for an address that is refused. */
function openNarrow(port: number, answer: Parameters<typeof openTestEgress>[0]['answer'], rules = ''): Promise<TestEgress> {
  return openTestEgress({ policy: policyFor([port], { inject: '', rules }).replaceAll('127.0.0.0/8', '127.0.0.1/32'), answer })
}

const DENIED = `    - {id: denied, host: denied.example.net, action: deny}
    - {id: narrow, host: narrow.example.net, methods: [GET], paths: ["/ok/**"], action: allow}
    - {id: asked, host: asked.example.net, action: ask}
    - {id: internal, host: metadata.google.internal, action: allow}
`

test('I3 a name that no rule allows is never looked up, whichever way it comes', async () => {
  await using upstream = await openUpstream()
  await using egress = await openNarrow(upstream.port, A('127.0.0.1'), DENIED)
  const { port } = egress
  for (const [host, path] of [
    ['data-in-a-label.evil.example', '/'],
    ['denied.example.net', '/'],
    ['narrow.example.net', '/other'],
    ['asked.example.net', '/'],
    ['metadata.google.internal', '/'],
    [`${API}.evil.example`, '/'],
  ] as const) {
    const answer = await exchangeRaw(port, `GET http://${host}${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    assert.equal(statusOf(answer), 403, answer)
  }
  await exchangeRaw(port, 'POST http://narrow.example.net/ok/1 HTTP/1.1\r\nHost: narrow.example.net\r\nContent-Length: 0\r\n\r\n')
  await exchangeRaw(port, `GET http://${API}:1/ HTTP/1.1\r\nHost: ${API}:1\r\n\r\n`)
  await exchangeRaw(port, get(API, upstream.port).replace('Host: ', 'Host: evil.'))
  const refused = await openTunnel(port, 'evil.example:443')
  assert.equal(refused.status, 403)
  refused.socket.destroy()
  assert.deepEqual(egress.asked, [])
  assert.equal(upstream.connections, 0)
})

test('I3 inside a tunnel neither the name of the tunnel nor another is looked up before a request is allowed', async () => {
  await using upstream = await openUpstream()
  await using egress = await openNarrow(upstream.port, A('127.0.0.1'), DENIED.replace('denied', 'denied-2').replaceAll('asked', 'asked-2'))
  const { socket, status } = await openTunnel(egress.port, 'narrow.example.net:443')
  assert.equal(status, 200)
  const secure = connectTls({ socket, servername: 'narrow.example.net', ca: egress.ca })
  await once(secure, 'secureConnect')
  assert.deepEqual(egress.asked, [], 'the handshake is with the gate')
  secure.write('GET /secret HTTP/1.1\r\nHost: narrow.example.net\r\n\r\n')
  assert.equal(statusOf(await readToEnd(secure)), 403)
  const misdirected = await exchangeTls(egress.port, 'narrow.example.net', 443, egress.ca, `GET /ok/1 HTTP/1.1\r\nHost: ${API}\r\n\r\n`)
  assert.equal(statusOf(misdirected), 421)
  assert.deepEqual(egress.asked, [])
})

test('a name that is allowed is looked up once, without search domains, and an address not at all', async () => {
  await using upstream = await openUpstream()
  const rules = `    - {id: literal, host: "127.0.0.1", ports: [${upstream.port}], action: allow, addresses: ["127.0.0.1/32"]}\n`
  await using egress = await openNarrow(upstream.port, A('127.0.0.1'), rules)
  const answers = await Promise.all([1, 2, 3].map(() => exchangeRaw(egress.port, get(API, upstream.port))))
  assert.deepEqual(answers.map(statusOf), [200, 200, 200])
  assert.equal(statusOf(await exchangeRaw(egress.port, get('127.0.0.1', upstream.port))), 200)
  assert.deepEqual(egress.asked, [`${API} 4`, `${API} 6`])
})

test('I4 an answer that changes after the check is not dialled: one question, and its answer', async () => {
  await using upstream = await openUpstream()
  let asked = 0
  await using egress = await openNarrow(upstream.port, (_host, family) => {
    if (family === 6) return []
    asked += 1
    return [{ address: asked === 1 ? '127.0.0.1' : '127.0.0.2', ttl: 0 }]
  })
  assert.equal(statusOf(await exchangeRaw(egress.port, get(API, upstream.port))), 200)
  assert.equal(asked, 1)
  assert.equal((await firstFinished(egress))['address'], '127.0.0.1')
})

for (const addresses of [
  ['127.0.0.1', '127.0.0.2'],
  ['127.0.0.2', '127.0.0.1'],
  ['127.0.0.1', '169.254.169.254'],
]) {
  test(`I4 of ${addresses.join(' and ')} the rule excepts only 127.0.0.1: refused, and nothing is dialled, not even that`, async () => {
    await using upstream = await openUpstream()
    await using egress = await openNarrow(upstream.port, A(...addresses))
    const answer = await exchangeRaw(egress.port, get(API, upstream.port))
    assert.equal(statusOf(answer), 403)
    assert.equal(codeOf(answer), 'address_refused')
    assert.equal(upstream.connections, 0)
  })
}

test('I4 an IPv6 answer that is refused refuses the IPv4 one too', async () => {
  await using upstream = await openUpstream()
  await using egress = await openNarrow(upstream.port, (_host, family) => [{ address: family === 4 ? '127.0.0.1' : '::1', ttl: 1 }])
  assert.equal(codeOf(await exchangeRaw(egress.port, get(API, upstream.port))), 'address_refused')
  assert.equal(upstream.connections, 0)
})

test('I4 a kept connection is judged again: when the name leads to a refused address, no request goes over it', async () => {
  await using upstreamCa = await createUpstreamCa()
  await using secure = await openUpstream(undefined, leafFor(upstreamCa.authority, API))
  let address = '127.0.0.1'
  await using egress = await openTestEgress({
    policy: policyFor([secure.port]).replaceAll('127.0.0.0/8', '127.0.0.1/32'),
    answer: (_host, family) => (family === 4 ? [{ address, ttl: 1 }] : []),
    env: { API_TOKEN: CANARY },
    upstreamCa: upstreamCa.authority.certificatePem,
  })
  const tunnel = await openTlsTunnel(egress.port, API, secure.port, egress.ca)
  const request = `GET /1 HTTP/1.1\r\nHost: ${API}:${secure.port}\r\n`
  for (const _ of [1, 2]) {
    tunnel.write(`${request}\r\n`)
    let answer = ''
    while (!answer.endsWith('ok')) answer += String(((await once(tunnel, 'data')) as [Buffer])[0])
    assert.match(answer, /^HTTP\/1\.1 200 /)
  }
  assert.equal(secure.connections, 1, 'the connection is kept')
  address = '127.0.0.2'
  egress.clock.ms += 1_000
  tunnel.write(`${request}Connection: close\r\n\r\n`)
  const refused = await readToEnd(tunnel)
  assert.equal(codeOf(refused), 'address_refused')
  assert.equal(secure.requests.length, 2)
  assert.equal(secure.connections, 1)
})

test('I4 a passthrough tunnel is judged too: a refused address gets no connection', async () => {
  await using upstream = await openUpstream()
  await using egress = await openTestEgress({
    policy: policyFor([upstream.port], { inject: '', rule: 'tls: passthrough' }).replaceAll('127.0.0.0/8', '127.0.0.1/32'),
    answer: A('127.0.0.1', '127.0.0.2'),
  })
  const { socket } = await openTunnel(egress.port, `${API}:${upstream.port}`)
  const secure = connectTls({ socket, servername: API, rejectUnauthorized: false })
  secure.on('error', () => {})
  await new Promise((resolve) => secure.on('close', resolve))
  assert.equal(upstream.connections, 0)
  assert.equal((await firstFinished(egress))['code'], 'address_refused')
})

test('a name without an address is 502 upstream_name_failed, and the same request works when the DNS has one', async () => {
  await using upstream = await openUpstream()
  let isThere = false
  await using egress = await openNarrow(upstream.port, (_host, family) =>
    isThere && family === 4 ? [{ address: '127.0.0.1', ttl: 1 }] : [],
  )
  const answer = await exchangeRaw(egress.port, get(OTHER, upstream.port))
  assert.equal(statusOf(answer), 502)
  assert.equal(codeOf(answer), 'upstream_name_failed')
  isThere = true
  assert.equal(statusOf(await exchangeRaw(egress.port, get(OTHER, upstream.port))), 200)
})

/** It is written after the answer, so that it may not be there yet. */
async function firstFinished(egress: TestEgress): Promise<Record<string, unknown>> {
  for (;;) {
    const found = (await egress.audit()).find((event) => event['event'] === 'finished')
    if (found) return found
  }
}
