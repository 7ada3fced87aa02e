/** I2: every part of a request that names a host names the same one. Sources: httpjail#57, microsandbox#709, #836 and #986, OpenShell#819, CVE-2022-24825. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { eventually } from '../support/eventually.ts'
import { dialSocks, socksName, startTls } from '../support/every-way.ts'
import { LOOPBACK } from '../support/gate.ts'
import { API, CANARY, openSetting, OTHER } from '../support/setting.ts'
import { bodyOf, exchangeRaw, exchangeTls, openTlsTunnel, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'

const codeOf = (answer: string): string => (JSON.parse(bodyOf(answer)) as { code: string }).code

for (const { why, target, host, status, code } of [
  { why: 'Host names another host', target: `http://${API}:PORT/`, host: `${OTHER}:PORT`, status: 400, code: 'authority_mismatch' },
  { why: 'Host names another port', target: `http://${API}:PORT/`, host: `${API}:1`, status: 400, code: 'authority_mismatch' },
  { why: 'Host without the port means port 80', target: `http://${API}:PORT/`, host: API, status: 400, code: 'authority_mismatch' },
  { why: 'userinfo', target: `http://user@${API}:PORT/`, host: `${API}:PORT`, status: 400, code: 'host_invalid' },
  {
    why: 'userinfo that looks like the host',
    target: `http://${API}@evil.test:PORT/`,
    host: `${API}:PORT`,
    status: 400,
    code: 'host_invalid',
  },
  { why: 'trailing dot', target: `http://${API}.:PORT/`, host: `${API}.:PORT`, status: 400, code: 'host_invalid' },
  { why: 'encoded dot', target: `http://api%2eexample.com:PORT/`, host: `${API}:PORT`, status: 400, code: 'host_invalid' },
  { why: 'NUL by percent', target: `http://${API}%00.evil.test:PORT/`, host: `${API}:PORT`, status: 400, code: 'host_invalid' },
  { why: 'backslash', target: `http://${API}\\@evil.test:PORT/`, host: `${API}:PORT`, status: 400, code: 'request_malformed' },
  { why: 'fragment', target: `http://${API}:PORT/#@evil.test`, host: `${API}:PORT`, status: 400, code: 'target_invalid' },
  { why: 'brackets round a name', target: `http://[${API}]:PORT/`, host: `${API}:PORT`, status: 400, code: 'host_invalid' },
  { why: 'zone id', target: 'http://[fe80::1%25api.example.com]:PORT/', host: `${API}:PORT`, status: 400, code: 'host_invalid' },
  { why: 'decimal address', target: 'http://2130706433:PORT/', host: '2130706433:PORT', status: 400, code: 'host_invalid' },
  { why: 'short address', target: 'http://127.1:PORT/', host: '127.1:PORT', status: 400, code: 'host_invalid' },
  { why: 'hex address', target: 'http://0x7f.0.0.1:PORT/', host: '0x7f.0.0.1:PORT', status: 400, code: 'host_invalid' },
  { why: 'mapped address', target: 'http://[::ffff:127.0.0.1]:PORT/', host: '[::ffff:127.0.0.1]:PORT', status: 400, code: 'host_invalid' },
  { why: 'port 0', target: `http://${API}:0/`, host: `${API}:0`, status: 400, code: 'target_invalid' },
  { why: 'port out of range', target: `http://${API}:99999/`, host: `${API}:99999`, status: 400, code: 'target_invalid' },
  { why: 'origin form to the proxy', target: '/', host: `${API}:PORT`, status: 400, code: 'not_a_proxy_request' },
  { why: 'another scheme', target: `ftp://${API}:PORT/`, host: `${API}:PORT`, status: 400, code: 'not_a_proxy_request' },
  { why: 'a port that no rule has', target: `http://${API}:25/`, host: `${API}:25`, status: 403, code: 'host_not_allowed' },
]) {
  test(`I2 absolute form, ${why}: ${code}, and no upstream is connected`, async () => {
    await using setting = await openSetting()
    const port = String(setting.plain.port)
    const answer = await exchangeRaw(
      setting.gate.port,
      `GET ${target.replace('PORT', port)} HTTP/1.1\r\nHost: ${host.replace('PORT', port)}\r\n\r\n`,
    )
    assert.equal(statusOf(answer), status)
    assert.equal(codeOf(answer), code)
    assert.equal(setting.plain.connections + setting.secure.connections, 0)
  })
}

for (const { why, request, code } of [
  { why: 'Host of another allowed host', request: `GET / HTTP/1.1\r\nHost: ${OTHER}:PORT\r\n`, code: 'misdirected_request' },
  {
    why: 'absolute target of another allowed host',
    request: `GET https://${OTHER}:PORT/ HTTP/1.1\r\nHost: ${API}:PORT\r\n`,
    code: 'misdirected_request',
  },
  {
    why: 'absolute target with another scheme',
    request: `GET http://${API}:PORT/ HTTP/1.1\r\nHost: ${API}:PORT\r\n`,
    code: 'misdirected_request',
  },
  { why: 'two Host headers', request: `GET / HTTP/1.1\r\nHost: ${API}:PORT\r\nHost: ${OTHER}:PORT\r\n`, code: 'request_malformed' },
  { why: 'no Host header', request: 'GET / HTTP/1.1\r\n', code: 'request_malformed' },
  { why: 'Host of another port', request: `GET / HTTP/1.1\r\nHost: ${API}:9\r\n`, code: 'misdirected_request' },
  {
    why: 'WebSocket upgrade with an absolute target elsewhere',
    request: `GET https://${OTHER}/ HTTP/1.1\r\nHost: ${API}:PORT\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n`,
    code: 'misdirected_request',
  },
]) {
  for (const way of ['CONNECT', 'SOCKS5'] as const) {
    test(`I2 inside a tunnel by ${way}, ${why}: ${code}, and nothing reaches the upstream`, async () => {
      await using setting = await openSetting({ gate: { config: { socks: [LOOPBACK] } } })
      const { gate, secure, plain, ca } = setting
      const { socket } =
        way === 'CONNECT'
          ? await openTunnel(gate.port, `${API}:${secure.port}`)
          : { socket: await dialSocks(gate.ports.socks, socksName(API), secure.port) }
      const tls = await startTls(socket, { servername: API, ca })
      tls.write(`${request.replaceAll('PORT', String(secure.port))}Connection: close\r\n\r\n`)
      assert.equal(codeOf(await readToEnd(tls)), code)
      assert.equal(secure.requests.length + plain.connections, 0)
    })
  }
}

test('I2 a second request on a kept-alive tunnel for another host is refused; the first was served', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  const answer = await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `GET /1 HTTP/1.1\r\nHost: ${API}:${secure.port}\r\n\r\nGET /2 HTTP/1.1\r\nHost: ${OTHER}:${secure.port}\r\n\r\n`,
  )
  assert.deepEqual(
    [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]),
    ['200', '421'],
  )
  assert.deepEqual(
    secure.requests.map((request) => request.url),
    ['/1'],
  )
})

test('I2 Host in upper case agrees, and the upstream gets the canonical spelling', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  const answer = await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `GET / HTTP/1.1\r\nHost: ${API.toUpperCase()}:${secure.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(statusOf(answer), 200)
  assert.equal(secure.requests[0]?.rawHeaders[1], `${API}:${secure.port}`)
})

for (const [way, extra] of [
  ['intercepted', ''],
  ['passed through', 'tls: passthrough'],
] as const) {
  test(`I2 a server name for another host than the CONNECT (${way}): the tunnel is closed and the upstream saw no connection`, async () => {
    await using setting = await openSetting({ rule: extra, ...(extra && { inject: '' }) })
    const { gate, secure } = setting
    await assert.rejects(openTlsTunnel(gate.port, API, secure.port, setting.ca, { servername: OTHER, rejectUnauthorized: false }))
    assert.equal(secure.connections, 0)
    await eventually(async () =>
      assert.ok((await gate.audit()).some((event) => event['code'] === 'sni_mismatch' && event['decision'] === 'deny')),
    )
  })
}

test('I2 CONNECT to an address with the server name of an allowed host is refused', async () => {
  await using setting = await openSetting({
    rules: `    - {id: address, host: 127.0.0.1, action: allow, ports: [443, 8443], addresses: ["127.0.0.0/8"]}\n`,
  })
  await assert.rejects(openTlsTunnel(setting.gate.port, '127.0.0.1', 8443, setting.ca, { servername: API, rejectUnauthorized: false }))
  assert.equal(setting.secure.connections, 0)
})

test('I2 a passthrough tunnel without a server name is closed: what is inside could be for any host', async () => {
  await using setting = await openSetting({ rule: 'tls: passthrough', inject: '' })
  const { socket } = await openTunnel(setting.gate.port, `${API}:${setting.secure.port}`)
  const secure = connectTls({ socket, rejectUnauthorized: false })
  secure.on('error', () => {})
  await new Promise((resolve) => secure.once('close', resolve))
  assert.equal(setting.secure.connections, 0)
})

for (const [why, target] of [
  ['port 22', `${API}:22`],
  ['port 25', `${API}:25`],
  ['a name that ends like an allowed one', `evil${API}:443`],
  ['an allowed name as a prefix', `${API}.evil.test:443`],
  ['an address', '127.0.0.1:443'],
] as const) {
  test(`CONNECT to ${why} is refused with 403`, async () => {
    await using setting = await openSetting()
    const { status, socket } = await openTunnel(setting.gate.port, target)
    assert.equal(status, 403)
    socket.destroy()
  })
}

for (const target of [API, `${API}:`, `user@${API}:443`, `${API}:443/path`, `${API}:0`, ':443', '/', `http://${API}:443/`]) {
  test(`CONNECT "${target}" is refused: it is not host:port`, async () => {
    await using setting = await openSetting()
    const answer = await exchangeRaw(setting.gate.port, `CONNECT ${target} HTTP/1.1\r\nHost: ${API}:443\r\n\r\n`)
    assert.equal(statusOf(answer), 400)
  })
}

test('I2 CONNECT with a Host header for another host is refused', async () => {
  await using setting = await openSetting()
  const answer = await exchangeRaw(setting.gate.port, `CONNECT ${API}:443 HTTP/1.1\r\nHost: ${OTHER}:443\r\n\r\n`)
  assert.equal(codeOf(answer), 'authority_mismatch')
})

test('CONNECT inside an intercepted tunnel is refused and dials nothing', async () => {
  await using setting = await openSetting()
  const { gate, secure, plain, ca } = setting
  const answer = await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `CONNECT ${OTHER}:${plain.port} HTTP/1.1\r\nHost: ${OTHER}:${plain.port}\r\n\r\n`,
  )
  assert.equal(codeOf(answer), 'method_refused')
  assert.equal(plain.connections + secure.connections, 0)
})

test('bytes that are neither TLS nor HTTP end the tunnel and are in the audit', async () => {
  await using setting = await openSetting()
  const { gate, secure } = setting
  const { socket } = await openTunnel(gate.port, `${API}:${secure.port}`)
  socket.write('SSH-2.0-OpenSSH_9.2\r\n')
  await readToEnd(socket)
  assert.equal(secure.connections, 0)
  await eventually(async () => assert.ok((await gate.audit()).some((event) => event['code'] === 'protocol_not_recognised')))
  assert.doesNotMatch(await gate.auditText(), new RegExp(CANARY))
})
