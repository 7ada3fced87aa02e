/**
 * I10: where a request ends is the same for every part of the gate and the upstream, or the request is refused.
 * Sources: RFC 9112 §6.3 and §11.2, CVE-2022-32213 to 32215, CVE-2023-30589, the corpus of http-desync research.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openTestGate } from '../support/gate.ts'
import { API, CANARY, openSetting, policyFor } from '../support/setting.ts'
import { openRawUpstream } from '../support/upstream.ts'
import { exchangeRaw, exchangeTls, statusOf } from '../support/raw-client.ts'

const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n'

const REFUSED: readonly (readonly [why: string, head: string, body?: string])[] = [
  ['two lengths that differ', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nContent-Length: 40\r\n'],
  ['two equal lengths', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nContent-Length: 4\r\n', 'body'],
  ['a list of lengths', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4, 4\r\n', 'body'],
  ['a signed length', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: +4\r\n', 'body'],
  ['a negative length', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: -4\r\n'],
  ['a hexadecimal length', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0x4\r\n', 'body'],
  ['an empty length', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: \r\n'],
  ['length and chunked', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'],
  ['chunked and length', 'POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n', '0\r\n\r\n'],
  ['chunked, identity', 'POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked, identity\r\n', '0\r\n\r\n'],
  ['identity', 'POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: identity\r\n'],
  ['x-chunked', 'POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: x-chunked\r\n', '0\r\n\r\n'],
  ['gzip, chunked', 'POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'],
  ['chunked twice', 'POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'],
  ['a vertical tab before chunked', 'POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: \x0bchunked\r\n', '0\r\n\r\n'],
  ['space before the colon', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length : 4\r\n', 'body'],
  ['space before the colon of Transfer-Encoding', 'POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding : chunked\r\n', '0\r\n\r\n'],
  ['obsolete line folding', 'POST / HTTP/1.1\r\nHost: HOST\r\nX: a\r\n b\r\n'],
  ['NUL in a value', 'GET / HTTP/1.1\r\nHost: HOST\r\nX: a\0b\r\n'],
  ['NUL in a name', 'GET / HTTP/1.1\r\nHost: HOST\r\nX\0: a\r\n'],
  ['bare CR in a value', 'GET / HTTP/1.1\r\nHost: HOST\r\nX: a\rTransfer-Encoding: chunked\r\n'],
  ['bare LF between fields', 'GET / HTTP/1.1\r\nHost: HOST\r\nX: a\nContent-Length: 4\r\n'],
  ['a field without a colon', 'GET / HTTP/1.1\r\nHost: HOST\r\nX\r\n'],
  ['an empty field name', 'GET / HTTP/1.1\r\nHost: HOST\r\n: x\r\n'],
  ['HTTP/2.0 in the request line', 'GET / HTTP/2.0\r\nHost: HOST\r\n'],
  ['HTTP/1.9', 'GET / HTTP/1.9\r\nHost: HOST\r\n'],
  [
    'Upgrade: h2c',
    'GET / HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n',
  ],
  ['Upgrade: websocket', 'GET / HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'],
  ['Transfer_Encoding, which some servers fold', 'POST / HTTP/1.1\r\nHost: HOST\r\nTransfer_Encoding: chunked\r\nContent-Length: 0\r\n'],
  ['Content_Length, which some servers fold', 'POST / HTTP/1.1\r\nHost: HOST\r\nContent_Length: 50\r\nContent-Length: 0\r\n'],
  ['TRACE', 'TRACE / HTTP/1.1\r\nHost: HOST\r\n'],
  ['more header fields than the limit', `GET / HTTP/1.1\r\nHost: HOST\r\n${'X: y\r\n'.repeat(300)}`],
  ['a header longer than the limit', `GET / HTTP/1.1\r\nHost: HOST\r\nX: ${'y'.repeat(1_000_000)}\r\n`],
]

for (const [why, head, body = ''] of REFUSED) {
  test(`I10 ${why}: refused, and the upstream gets neither the request nor what follows it`, async () => {
    await using setting = await openSetting()
    const { gate, secure, ca } = setting
    const bytes = `${head}\r\n${body}${SMUGGLED}`.replaceAll('HOST', `${API}:${secure.port}`)
    const answer = await exchangeTls(gate.port, API, secure.port, ca, bytes)
    // Bytes after the head may break the connection before the answer is out: then there is none.
    assert.ok(answer === '' || (statusOf(answer) >= 400 && statusOf(answer) < 600), answer.slice(0, 100))
    assert.ok((answer.match(/HTTP\/1\.1 \d{3} /g)?.length ?? 0) <= 1, 'one answer at most, then the connection ends')
    assert.deepEqual(secure.requests, [])
  })
}

for (const [why, body] of [
  ['a bad chunk size', 'zz\r\nbody\r\n0\r\n\r\n'],
  ['a negative chunk size', '-1\r\nbody\r\n0\r\n\r\n'],
  ['a chunk size past 64 bits', 'fffffffffffffffff\r\nbody\r\n0\r\n\r\n'],
  ['bare LF after a chunk size', '4\nbody\r\n0\r\n\r\n'],
  ['bytes after a chunk', '4\r\nbodyX\r\n0\r\n\r\n'],
] as const) {
  test(`I10 a chunked body with ${why} never completes at the upstream and nothing is smuggled`, async () => {
    let completed = 0
    await using setting = await openSetting({
      answer: (_request, response) => {
        completed += 1
        response.end()
      },
    })
    const { gate, secure, ca } = setting
    const bytes = `POST /first HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n${body}${SMUGGLED}`.replaceAll(
      'HOST',
      `${API}:${secure.port}`,
    )
    await exchangeTls(gate.port, API, secure.port, ca, bytes)
    assert.equal(completed, 0)
    assert.equal(
      secure.requests.some((request) => request.url === '/smuggled'),
      false,
    )
  })
}

test('I10 pipelined requests past a body are each decided and audited by themselves', async () => {
  await using setting = await openSetting({ rule: 'paths: ["/ok/**"]' })
  const { gate, secure, ca } = setting
  const host = `Host: ${API}:${secure.port}\r\n`
  const answer = await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `POST /ok/1 HTTP/1.1\r\n${host}Content-Length: 4\r\n\r\nbodyGET /secret HTTP/1.1\r\n${host}Connection: close\r\n\r\n`,
  )
  assert.deepEqual(
    [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]),
    ['200', '403'],
  )
  assert.deepEqual(
    secure.requests.map((request) => request.url),
    ['/ok/1'],
  )
})

test('I10 a GET with a body is framed the same for the upstream', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  const host = `Host: ${API}:${secure.port}\r\n`
  await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `GET /1 HTTP/1.1\r\n${host}Content-Length: 4\r\n\r\nbodyGET /2 HTTP/1.1\r\n${host}Connection: close\r\n\r\n`,
  )
  assert.deepEqual(
    secure.requests.map((request) => `${request.url} ${request.body.toString()}`).toSorted((a, b) => a.localeCompare(b)),
    ['/1 body', '/2 '],
  )
})

test('I10 white space in the request line that the parser tolerates is not passed on', async () => {
  const lines: string[] = []
  await using upstream = await openRawUpstream((socket) =>
    socket.once('data', (bytes: Buffer) => {
      lines.push(bytes.toString('latin1').split('\r\n')[0] ?? '')
      socket.end('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
    }),
  )
  await using gate = await openTestGate({ policy: policyFor([upstream.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } })
  await exchangeRaw(
    gate.port,
    `GET  http://${API}:${upstream.port}/x HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.deepEqual(lines, ['GET /x HTTP/1.1'])
})

test('I10 chunk extensions and request trailers end at the gate', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `POST /1 HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\nConnection: close\r\n\r\n4;ext=1\r\nbody\r\n0\r\nAuthorization: evil\r\n\r\n`,
  )
  assert.equal(secure.requests[0]?.body.toString(), 'body')
  assert.deepEqual(
    secure.requests[0].rawHeaders.filter((field) => /evil|trailer/i.test(field)),
    [],
  )
})

test('I10 fields named by Connection go, but not Host, not the length, and not our credential', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `POST /1 HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nX-Hop: 1\r\nContent-Length: 4\r\nConnection: close, Host, X-Hop, Authorization, Content-Length\r\n\r\nbody`,
  )
  const fields = new Map(secure.requests[0]?.rawHeaders.flatMap((name, i, all) => (i % 2 === 0 ? [[name.toLowerCase(), all[i + 1]]] : [])))
  assert.equal(fields.get('host'), `${API}:${secure.port}`)
  assert.equal(fields.get('authorization'), `Bearer ${CANARY}`)
  assert.equal(fields.get('content-length'), '4')
  assert.equal(fields.has('x-hop'), false)
})

for (const [why, bytes] of [
  ['empty lines only', '\r\n\r\n\r\n\r\n'],
  ['garbage', '\x00\x01\x02\x03\x04\r\n\r\n'],
  ['a TLS handshake on the proxy port', '\x16\x03\x01\x00\x05hello'],
  ['an HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['HTTP/0.9', 'GET /\r\n\r\n'],
] as const) {
  test(`the proxy port answers ${why} with an error or by closing, and goes on`, async () => {
    await using setting = await openSetting()
    const answer = await exchangeRaw(setting.gate.port, `${bytes}x y z\r\n\r\n`)
    assert.ok(answer === '' || statusOf(answer) >= 400)
    const next = await exchangeRaw(
      setting.gate.port,
      `GET http://${API}:${setting.plain.port}/ HTTP/1.1\r\nHost: ${API}:${setting.plain.port}\r\nConnection: close\r\n\r\n`,
    )
    assert.equal(statusOf(next), 200)
  })
}
