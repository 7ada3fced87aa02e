import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { test } from 'node:test'
import { API, CANARY, openSetting } from '../support/setting.ts'
import { bodyOf, exchangeRaw, exchangeTls, openTlsTunnel, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { verifyAudit } from '../../src/audit/audit.ts'

test('an HTTPS call without a credential reaches the upstream with it, and the answer comes back', async () => {
  await using setting = await openSetting({ answer: (request, response) => response.end(JSON.stringify({ saw: request.url })) })
  const { gate, secure, ca } = setting
  const answer = await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `GET /v1/me?x=1 HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(statusOf(answer), 200)
  assert.match(bodyOf(answer), /"saw":"\/v1\/me\?x=1"/)
  assert.deepEqual(valuesOf(secure.requests[0]?.rawHeaders, 'authorization'), [`Bearer ${CANARY}`])
  assert.deepEqual(valuesOf(secure.requests[0]?.rawHeaders, 'host'), [`${API}:${secure.port}`])
})

test('the audit has decided before and finished after, names the secret and never its value, and its chain holds', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `GET /v1/me?key=q HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nConnection: close\r\n\r\n`,
  )
  await exchangeRaw(gate.port, 'GET http://denied.example.net/ HTTP/1.1\r\nHost: denied.example.net\r\n\r\n')
  await gate.sidecar[Symbol.asyncDispose]()
  const events = await gate.audit()
  const [allowed, denied] = events.filter((event) => event['event'] === 'decided')
  assert.equal(allowed?.['decision'], 'allow')
  assert.equal(allowed['rule'], 'api')
  assert.equal(allowed['credential'], 'api-token')
  assert.equal(allowed['secret'], 'API_TOKEN')
  assert.equal(allowed['path'], '/v1/me')
  assert.equal(denied?.['decision'], 'deny')
  assert.equal(denied['code'], 'host_not_allowed')
  for (const decided of [allowed, denied]) {
    const finished = events.find((event) => event['event'] === 'finished' && event['request'] === decided['request'])
    assert.ok(Number(finished?.['seq']) > Number(decided['seq']))
  }
  assert.equal((await verifyAudit(`${gate.folder}/audit.jsonl`)).events, events.length)
  assert.doesNotMatch((await gate.auditText()) + gate.log(), new RegExp(CANARY))
})

test('a host that no rule names is refused with 403, the reason and a hint, and nothing is sent', async () => {
  await using setting = await openSetting({ gate: { hosts: { 'unknown.example.net': ['127.0.0.1'], [API]: ['127.0.0.1'] } } })
  const { gate, plain } = setting
  const answer = await exchangeRaw(
    gate.port,
    `GET http://unknown.example.net:${plain.port}/ HTTP/1.1\r\nHost: unknown.example.net:${plain.port}\r\n\r\n`,
  )
  assert.equal(statusOf(answer), 403)
  assert.match(answer, /content-type: application\/problem\+json/i)
  assert.match(answer, /proxy-status: sallyport; error=http_request_denied/i)
  const problem = JSON.parse(bodyOf(answer)) as Record<string, unknown>
  assert.equal(problem['code'], 'host_not_allowed')
  assert.equal(problem['host'], 'unknown.example.net')
  assert.equal(problem['port'], plain.port)
  assert.equal(typeof problem['request_id'], 'string')
  assert.equal(plain.connections, 0)
})

test('CONNECT to a host that no rule names is refused with the reason in status line, header and body', async () => {
  await using setting = await openSetting()
  const { status, head, socket } = await openTunnel(setting.gate.port, 'unknown.example.net:443')
  assert.equal(status, 403)
  assert.match(head, /^HTTP\/1\.1 403 Refused by Sallyport: host_not_allowed\r\n/)
  assert.match(head, /proxy-status: sallyport/i)
  socket.destroy()
})

test('plain HTTP to an allowed host is forwarded without the credential, and the audit says why', async () => {
  await using setting = await openSetting()
  const { gate, plain } = setting
  const answer = await exchangeRaw(
    gate.port,
    `GET http://${API}:${plain.port}/x HTTP/1.1\r\nHost: ${API}:${plain.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(statusOf(answer), 200)
  assert.deepEqual(valuesOf(plain.requests[0]?.rawHeaders, 'authorization'), [])
  const decided = (await gate.audit()).find((event) => event['event'] === 'decided')
  assert.equal(decided?.['note'], 'plaintext: no credential added')
})

test('upgrade: https sends a plain call over verified TLS with its credential', async () => {
  await using setting = await openSetting({ rule: 'upgrade: https' })
  const { gate, secure, plain } = setting
  const answer = await exchangeRaw(
    gate.port,
    `GET http://${API}:${secure.port}/x HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(statusOf(answer), 200)
  assert.deepEqual(valuesOf(secure.requests[0]?.rawHeaders, 'authorization'), [`Bearer ${CANARY}`])
  assert.equal(plain.connections, 0)
})

test('plaintext: accept writes the credential over plain HTTP too', async () => {
  await using setting = await openSetting({ rule: 'plaintext: accept' })
  await exchangeRaw(
    setting.gate.port,
    `GET http://${API}:${setting.plain.port}/x HTTP/1.1\r\nHost: ${API}:${setting.plain.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.deepEqual(valuesOf(setting.plain.requests[0]?.rawHeaders, 'authorization'), [`Bearer ${CANARY}`])
})

test('basic credentials are user name and secret in base64', async () => {
  await using setting = await openSetting({ inject: `{domains: [${API}], basic: {username: x-access-token}}` })
  const { gate, secure, ca } = setting
  await exchangeTls(gate.port, API, secure.port, ca, `GET / HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nConnection: close\r\n\r\n`)
  assert.deepEqual(valuesOf(secure.requests[0]?.rawHeaders, 'authorization'), [
    `Basic ${Buffer.from(`x-access-token:${CANARY}`).toString('base64')}`,
  ])
})

test('tls: passthrough shows the agent the certificate of the upstream, and carries no credential', async () => {
  await using setting = await openSetting({ rule: 'tls: passthrough', inject: '' })
  const { gate, secure, ca } = setting
  const tunnel = await openTlsTunnel(gate.port, API, secure.port, ca, { rejectUnauthorized: false })
  assert.match(String(tunnel.getPeerCertificate().issuer.CN), /upstream/)
  tunnel.write(`GET /p HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(tunnel)), 200)
  assert.deepEqual(valuesOf(secure.requests[0]?.rawHeaders, 'authorization'), [])
})

test('plain HTTP inside CONNECT is handled as requests', async () => {
  await using setting = await openSetting()
  const { gate, plain } = setting
  const { socket } = await openTunnel(gate.port, `${API}:${plain.port}`)
  socket.write(`GET /inside HTTP/1.1\r\nHost: ${API}:${plain.port}\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(socket)), 200)
  assert.equal(plain.requests[0]?.url, '/inside')
})

test('a large upload and download pass unchanged, chunked and with a length', async () => {
  const sum = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
  const payload = randomBytes(3_000_000)
  await using setting = await openSetting({
    answer: (request, response) => {
      response.setHeader('x-sum', sum(request.body))
      response.end(payload)
    },
  })
  const { gate, secure, ca } = setting
  const upload = randomBytes(800_000)
  for (const framing of ['length', 'chunked']) {
    const tunnel = await openTlsTunnel(gate.port, API, secure.port, ca)
    const head = framing === 'length' ? `Content-Length: ${upload.length}` : 'Transfer-Encoding: chunked'
    tunnel.write(`POST /up HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nConnection: close\r\n${head}\r\n\r\n`)
    if (framing === 'chunked') tunnel.write(`${upload.length.toString(16)}\r\n`)
    tunnel.write(upload)
    if (framing === 'chunked') tunnel.write('\r\n0\r\n\r\n')
    const answer = await readToEnd(tunnel)
    assert.equal(statusOf(answer), 200)
    assert.match(answer, new RegExp(`x-sum: ${sum(upload)}`, 'i'))
    assert.equal(sum(Buffer.from(bodyOf(answer), 'latin1')), sum(payload))
  }
})

test('Expect: 100-continue is answered at the gate once the request is allowed, and the body then arrives', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  const tunnel = await openTlsTunnel(gate.port, API, secure.port, ca)
  tunnel.write(`POST /up HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nExpect: 100-continue\r\nContent-Length: 4\r\nConnection: close\r\n\r\n`)
  const [first] = (await once(tunnel, 'data')) as [Buffer]
  assert.match(first.toString(), /^HTTP\/1\.1 100 /)
  tunnel.write('body')
  assert.match(await readToEnd(tunnel), /HTTP\/1\.1 200/)
  assert.equal(secure.requests[0]?.body.toString(), 'body')
  assert.deepEqual(valuesOf(secure.requests[0]?.rawHeaders, 'expect'), [])
})

test('HEAD, 204 and 304 come back without a body and the connection goes on', async () => {
  await using setting = await openSetting({
    answer: (request, response) => {
      if (request.url === '/204') response.writeHead(204).end()
      else if (request.url === '/304') response.writeHead(304, { etag: '"x"' }).end()
      else response.writeHead(200, { 'content-length': '5' }).end(request.method === 'HEAD' ? undefined : 'hello')
    },
  })
  const { gate, secure, ca } = setting
  const host = `Host: ${API}:${secure.port}\r\n`
  const answer = await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `HEAD /h HTTP/1.1\r\n${host}\r\nGET /204 HTTP/1.1\r\n${host}\r\nGET /304 HTTP/1.1\r\n${host}\r\nGET /end HTTP/1.1\r\n${host}Connection: close\r\n\r\n`,
  )
  assert.deepEqual(
    [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]),
    ['200', '204', '304', '200'],
  )
  assert.match(answer, /hello$/)
})

test('an answer without a length ends when the upstream ends, and one that breaks off is not made to look whole', async () => {
  await using setting = await openSetting({
    answer: (request, response) => {
      response.write('part')
      if (request.url === '/break') setImmediate(() => response.destroy())
      else response.end()
    },
  })
  const { gate, plain } = setting
  const ask = (path: string): Promise<string> =>
    exchangeRaw(gate.port, `GET http://${API}:${plain.port}${path} HTTP/1.1\r\nHost: ${API}:${plain.port}\r\nConnection: close\r\n\r\n`)
  assert.match(await ask('/whole'), /0\r\n\r\n$/)
  assert.doesNotMatch(await ask('/break'), /0\r\n\r\n$/)
})

test('an upload to a host that is down is answered 502 with a code, not a reset connection', async () => {
  await using setting = await openSetting()
  const { gate, plain } = setting
  const { port } = plain
  await plain[Symbol.asyncDispose]()
  const answer = await exchangeRaw(
    gate.port,
    `POST http://${API}:${port}/ HTTP/1.1\r\nHost: ${API}:${port}\r\nContent-Length: 4\r\n\r\nbody`,
  )
  assert.equal(statusOf(answer), 502)
  assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'upstream_unreachable')
})

test('an agent that goes away ends the request at the upstream', async () => {
  let closed: () => void = () => {}
  const gone = new Promise<void>((resolve) => (closed = resolve))
  await using setting = await openSetting({
    answer: (_request, response) => {
      response.on('close', closed)
      response.write('first')
    },
  })
  const socket = connect(setting.gate.port, '127.0.0.1')
  socket.write(`GET http://${API}:${setting.plain.port}/ HTTP/1.1\r\nHost: ${API}:${setting.plain.port}\r\n\r\n`)
  await once(socket, 'data')
  socket.destroy()
  await gone
})

test('two credentials of one host never share an upstream connection', async () => {
  await using setting = await openSetting({
    inject: `{domains: [${API}], paths: ["/a/**"], header: Authorization, prefix: "Bearer "}`,
  })
  const { gate, secure, ca } = setting
  const host = `Host: ${API}:${secure.port}\r\n`
  for (const path of ['/a/1', '/b/1', '/a/2', '/b/2']) {
    const last = await exchangeTls(gate.port, API, secure.port, ca, `GET ${path} HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)
    assert.equal(statusOf(last), 200)
  }
  const ports = (prefix: string): Set<number> =>
    new Set(secure.requests.filter((request) => request.url.startsWith(prefix)).map((request) => request.remotePort))
  assert.equal(ports('/a').isDisjointFrom(ports('/b')), true)
  assert.equal(ports('/a').size, 1, 'the second request of a credential reuses its connection')
})

function valuesOf(rawHeaders: string[] | undefined, name: string): string[] {
  return (rawHeaders ?? []).filter((_, i, all) => i % 2 === 1 && all[i - 1]?.toLowerCase() === name)
}

test('a request that is pipelined behind another reaches the upstream when that one has its answer, not before', async () => {
  let isAnswered = false
  const order: boolean[] = []
  await using setting = await openSetting({
    answer: ({ url }, response) => {
      order.push(isAnswered)
      if (url !== '/write') return void response.end('read')
      // Long enough for the second one to arrive, if it were not held.
      setTimeout(() => {
        isAnswered = true
        response.end('written')
      }, 100)
    },
  })
  const host = `Host: ${API}:${setting.plain.port}\r\n`
  const at = `http://${API}:${setting.plain.port}`
  const answer = await exchangeRaw(
    setting.gate.port,
    `POST ${at}/write HTTP/1.1\r\n${host}Content-Length: 2\r\n\r\nhiGET ${at}/read HTTP/1.1\r\n${host}Connection: close\r\n\r\n`,
  )
  assert.deepEqual(order, [false, true])
  assert.match(answer, /written[^]*read$/)
})
