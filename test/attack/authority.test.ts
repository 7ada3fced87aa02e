/** I2: what a request at the proxy names, and what a CONNECT does; test/attack/authority-by-ways.test.ts has what is inside. Source: CVE-2022-24825. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { eventually } from '../support/eventually.ts'
import { API, CANARY, openSetting, OTHER } from '../support/setting.ts'
import { bodyOf, exchangeRaw, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'

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

test('I2 a passthrough tunnel without a server name is closed: what is inside could be for any host', async () => {
  await using setting = await openSetting({ rule: 'tls: passthrough', inject: '' })
  const { socket } = await openTunnel(setting.gate.port, `${API}:${setting.secure.port}`)
  const secure = connectTls({ socket, rejectUnauthorized: false })
  secure.on('error', () => {})
  await new Promise((resolve) => secure.once('close', resolve))
  assert.equal(setting.secure.connections, 0)
})

for (const [why, target] of [
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
