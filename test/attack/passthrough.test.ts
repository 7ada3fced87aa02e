/** I8: what passes through uninspected carries no credential, and goes only to the host that its TLS handshake names. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { SallyportError } from '../../src/kernel/errors.ts'
import { openTestGate } from '../support/gate.ts'
import { policyOf } from '../support/policy.ts'
import { openTlsTunnel, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, CANARY, openSetting, OTHER, policyFor } from '../support/setting.ts'
import { openRawUpstream } from '../support/upstream.ts'

test('I8 a policy that binds a credential to a host that passes through is refused', () => {
  assert.throws(
    () => policyOf(policyFor([443], { rule: 'tls: passthrough' })),
    (error) => error instanceof SallyportError && error.code === 'policy_invalid' && /passthrough/.test(error.message),
  )
})

test("I8 a tunnel that passes through carries the agent's own bytes and none of ours, though another host has a credential", async () => {
  await using setting = await openSetting({
    rule: 'tls: passthrough',
    inject: `{domains: [${OTHER}], header: Authorization, prefix: "Bearer "}`,
  })
  const { gate, secure } = setting
  const tunnel = await openTlsTunnel(gate.port, API, secure.port, '', { rejectUnauthorized: false })
  const own = `GET /x HTTP/1.1\r\nHost: ${OTHER}\r\nX-Own: 1\r\nConnection: close\r\n\r\n`
  tunnel.write(own)
  assert.equal(statusOf(await readToEnd(tunnel)), 200)
  assert.deepEqual(secure.requests[0]?.rawHeaders, ['Host', OTHER, 'X-Own', '1', 'Connection', 'close'])
  await gate.sidecar[Symbol.asyncDispose]()
  const audit = await gate.auditText()
  assert.match(audit, /"note":"passthrough"/)
  assert.doesNotMatch(audit, /"credential"|"secret"/)
  assert.doesNotMatch(audit + gate.log(), new RegExp(CANARY))
})

for (const { why, options } of [
  { why: 'another allowed host', options: { servername: OTHER } },
  { why: 'a host that is not allowed', options: { servername: 'evil.example' } },
  { why: 'a subdomain of it', options: { servername: `x.${API}` } },
  { why: 'no host', options: {} },
]) {
  test(`I8 TLS that names ${why} in a tunnel that passes through is closed, and the upstream gets no connection`, async () => {
    await using setting = await openSetting({ rule: 'tls: passthrough', inject: '' })
    const { gate, secure } = setting
    const { socket } = await openTunnel(gate.port, `${API}:${secure.port}`)
    const tls = connectTls({ socket, rejectUnauthorized: false, ...options })
    tls.on('error', () => {})
    await new Promise((resolve) => tls.once('close', resolve))
    assert.equal(secure.connections, 0)
    await gate.sidecar[Symbol.asyncDispose]()
    assert.match(gate.log(), /sni_mismatch/)
  })
}

for (const { why, bytes } of [
  { why: 'SSH', bytes: 'SSH-2.0-OpenSSH_9.6\r\n' },
  { why: 'a ClientHello that is not one', bytes: '\x16\x03\x01\0\x05hello' },
  { why: 'bytes of zero', bytes: '\0'.repeat(64) },
]) {
  test(`I8 ${why} in a tunnel that passes through is closed, and the upstream gets no connection`, async () => {
    await using upstream = await openRawUpstream(() => {})
    await using gate = await openTestGate({
      policy: policyFor([upstream.port], { rule: 'tls: passthrough', inject: '' }),
      hosts: { [API]: ['127.0.0.1'] },
    })
    const { socket } = await openTunnel(gate.port, `${API}:${upstream.port}`)
    socket.write(Buffer.from(bytes, 'latin1'))
    socket.resume()
    await once(socket, 'close')
    assert.equal(upstream.connections, 0)
    await gate.sidecar[Symbol.asyncDispose]()
    assert.match(gate.log(), /protocol_not_recognised/)
  })
}

test('I8 plain HTTP in a tunnel of a rule that passes through is read and decided like any request', async () => {
  await using setting = await openSetting({ rule: 'tls: passthrough', inject: '' })
  const { gate, plain } = setting
  const { socket } = await openTunnel(gate.port, `${API}:${plain.port}`)
  socket.write(`GET / HTTP/1.1\r\nHost: ${OTHER}:${plain.port}\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(socket)), 421)
  assert.equal(plain.connections, 0)
})
