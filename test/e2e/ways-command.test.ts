/** The ways in as the command line opens them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runCommand, startProxy } from '../support/command.ts'
import { bodyOf, exchangeRaw, statusOf } from '../support/raw-client.ts'
import { writeFiles } from '../support/policy.ts'
import { portOf } from '../support/ways.ts'

const POLICY = 'version: 1\nnetwork: {rules: []}\n'
const LEASE = 'lease-of-this-session-5d0c77'

for (const { args, says } of [
  { args: ['--dns', '0.0.0.0:0'], says: /DNS cannot be answered on "0\.0\.0\.0"\nhint: give one address/ },
  { args: ['--dns', '[::]:0'], says: /DNS cannot be answered on "::"/ },
  { args: ['--dns', 'localhost:0'], says: /DNS cannot be answered on "localhost"/ },
  { args: ['--dns', '53'], says: /--dns "53" is not HOST:PORT/ },
  {
    args: ['--transparent', '127.0.0.1:0'],
    says: /--transparent "127\.0\.0\.1:0" is not HOST:PORT,HOST:PORT\nhint: the first is for plain http/,
  },
  { args: ['--transparent', '127.0.0.1:0,127.0.0.1:0,127.0.0.1:0'], says: /is not HOST:PORT,HOST:PORT/ },
  { args: ['--transparent', '127.0.0.1:0,'], says: /--transparent "" is not HOST:PORT/ },
  { args: ['--socks', '127.0.0.1'], says: /--socks "127\.0\.0\.1" is not HOST:PORT/ },
  { args: ['--socks', 'socks5://127.0.0.1:1080'], says: /--socks "socks5:\/\/127\.0\.0\.1:1080" is not HOST:PORT/ },
  { args: ['--socks', '127.1:0'], says: /--socks "127\.1:0" is not HOST:PORT/ },
  { args: ['--gateway', '127.0.0.1:65536'], says: /--gateway "127\.0\.0\.1:65536" is not HOST:PORT/ },
  { args: ['--gateway', ':0'], says: /--gateway ":0" is not HOST:PORT/ },
]) {
  test(`sallyport proxy ${args.join(' ')} is config_invalid with a hint, exit 2, and nothing was opened`, async () => {
    using files = writeFiles({ 'policy.yaml': POLICY })
    const { code, stdout, stderr } = await runCommand(['proxy', '--policy', files.at('policy.yaml'), '--http', '127.0.0.1:0', ...args])
    assert.equal(code, 2)
    assert.equal(stdout, '')
    assert.match(stderr, /^config_invalid: /)
    assert.match(stderr, says)
    assert.match(stderr, /\nhint: /)
  })
}

test('a policy that wants the lease is config_invalid without SALLYPORT_LEASE, and with one that no client can send', async () => {
  using files = writeFiles({ 'policy.yaml': 'version: 1\nnetwork: {lease: required, rules: []}\n' })
  for (const [lease, says] of [
    ['', /the policy requires a lease \(network\.lease\), and none is given\nhint: set SALLYPORT_LEASE/],
    ['too short', /SALLYPORT_LEASE is not 16 to 255 characters/],
  ] as const) {
    const argv = ['proxy', '--policy', files.at('policy.yaml'), '--http', '127.0.0.1:0']
    const { code, stderr } = await runCommand(argv, { SALLYPORT_LEASE: lease })
    assert.equal(code, 2)
    assert.match(stderr, says)
    assert.doesNotMatch(stderr, /too short/)
  }
})

test('the ready line has each way that was asked for under its name, and each serves; the lease is in nothing that is printed', async () => {
  const args = ['--socks', '127.0.0.1:0', '--dns', '127.0.0.1:0', '--transparent', '127.0.0.1:0,127.0.0.1:0', '--gateway', 'localhost:0']
  await using proxy = await startProxy({
    policy: 'version: 1\nnetwork: {lease: required, rules: []}\n',
    args,
    env: { SALLYPORT_LEASE: LEASE },
  })
  const { ready } = proxy
  assert.deepEqual(Object.keys(ready), ['event', 'http', 'socks', 'dns', 'transparent', 'gateway', 'ca', 'audit', 'session'])
  assert.equal(ready.transparent?.length, 2)
  for (const endpoint of [ready.http, ready.socks, ready.dns, ...ready.transparent, ready.gateway])
    assert.match(String(endpoint), /^(127\.0\.0\.1|\[::1\]):[1-9]\d*$/)
  const asked = 'GET http://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n'
  assert.equal(statusOf(await exchangeRaw(proxy.port, `${asked}\r\n`)), 407)
  assert.equal(statusOf(await exchangeRaw(proxy.port, `${asked}Proxy-Authorization: Bearer ${LEASE}\r\n\r\n`)), 403)
  assert.match(
    bodyOf(await exchangeRaw(portOf(ready.transparent[0] ?? ''), 'GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n')),
    /lease_required/,
  )
  assert.equal(await exchangeRaw(portOf(ready.socks ?? ''), Buffer.of(5, 1, 0)), '\x05\xff')
  const { stdout, stderr } = await proxy.stop('SIGTERM')
  assert.doesNotMatch(stdout + stderr, new RegExp(LEASE))
  assert.doesNotMatch(stderr, /whoever reaches this address/)
})
