/**
 * I4: an address that is refused by class is not dialled, whichever way the request came and whatever the name was that led to it.
 * Sources: CVE-2023-42282, CVE-2024-29415, CVE-2025-8267, the providers' documents on their metadata services.
 */
import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import { after, before, test } from 'node:test'
import { APPROACHES, ask, named, type Approach } from '../support/every-client.ts'
import { dialSocks, NotCarried, openEveryWay, routeTo, socksAddress, socksName, type EveryWay } from '../support/every-way.ts'
import { exchangeOn, exchangeRaw } from '../support/raw-client.ts'
import { recordNetwork } from '../support/recorded-network.ts'
import { REFUSED_ADDRESSES } from '../support/refused-addresses.ts'
import { openUpstream } from '../support/upstream.ts'

/** One host for each, so that no answer of the DNS is kept from another. */
const CASES = Object.entries(REFUSED_ADDRESSES).flatMap(([kind, addresses]) =>
  (kind === 'metadata' ? addresses : addresses.slice(0, 1)).map((address, i) => ({ kind, address, host: `${kind}-${i}.example.net` })),
)
const GOOD = 'good.example.net'
const MIXED = [
  { host: 'mixed-0.example.net', answer: ['127.77.0.1', '10.0.0.1'] },
  { host: 'mixed-1.example.net', answer: ['10.0.0.1', '127.77.0.1'] },
  { host: 'mixed-2.example.net', answer: ['127.77.0.1', '127.77.0.2'] },
  { host: 'mixed-3.example.net', answer: ['127.77.0.1', '::1'] },
]
/** Addresses that requests name themselves, by a rule that is about them and excepts nothing. */
const LITERAL = [
  '169.254.169.254',
  '168.63.129.16',
  '100.100.100.200',
  '127.0.0.1',
  '10.0.0.1',
  '0.0.0.0',
  '::1',
  'fd00:ec2::254',
  'fe80::1',
]

const HOSTS = [...CASES.map(({ host }) => host), ...MIXED.map(({ host }) => host), GOOD]
const EXCEPTION = 'addresses: ["127.77.0.1/32"]'
const POLICY = `version: 1
network:
  rules:
    - {id: any, host: "*.example.net", action: allow, ports: [80, 443], ${EXCEPTION}}
    - {id: pinned, host: "*.example.org", action: allow, ports: [443], tls: passthrough}
    - {id: mail, host: "*.example.com", action: allow, ports: [25], protocol: tcp}
${LITERAL.map((address, i) => `    - {id: literal-${i}, host: "${address}", action: allow}\n`).join('')}routes:
${HOSTS.map((host) => `  - {name: ${routeTo('https', host)}, upstream: "https://${host}", ${EXCEPTION}}\n`).join('')}`

const parts = new AsyncDisposableStack()
const network = parts.use(recordNetwork())
let setting: EveryWay

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, []))
  const answers = new Map<string, readonly string[]>([
    ...CASES.map(({ host, address }) => [host, [address]] as const),
    ...MIXED.map(({ host, answer }) => [host, answer] as const),
  ])
  network.answer = (host, family) =>
    (answers.get(host.replace(/\.example\.(org|com)$/, '.example.net')) ?? ['127.77.0.1']).filter((address) => isIP(address) === family)
})
after(() => parts.disposeAsync())

/** The refusal, and that nobody was dialled. `absolute form` and routes are refused in HTTP; the rest inside what they carry. */
async function assertRefused(approach: Approach, host: string): Promise<void> {
  network.dialled.length = 0
  const { status, code } = await ask(setting, approach, { host })
  assert.deepEqual([status, code], [403, 'address_refused'], `${named(approach)} to ${host}`)
  assert.deepEqual(network.dialled, [])
}

for (const { kind, address, host } of CASES) {
  test(`I4 I16 a name that leads to ${address} (${kind}) is refused by every way in, and nobody is dialled`, async () => {
    for (const approach of APPROACHES) await assertRefused(approach, host)
  })
}

for (const { host, answer } of MIXED) {
  test(`I4 I16 a name that leads to ${answer.join(' and ')} is refused by every way in, though the rule excepts 127.77.0.1`, async () => {
    await using upstream = await openUpstream(undefined, setting.tls(host), { host: '127.77.0.1', port: 443 })
    for (const approach of APPROACHES) await assertRefused(approach, host)
    assert.equal(upstream.connections, 0)
  })
}

test('the address that the rule excepts is reached by every way in: what is refused above would have been', async () => {
  await using upstream = await openUpstream(undefined, setting.tls(GOOD), { host: '127.77.0.1', port: 443 })
  for (const approach of APPROACHES) assert.equal((await ask(setting, approach, { host: GOOD })).status, 200, named(approach))
  assert.equal(upstream.requests.length, APPROACHES.length)
})

test('I4 I8 bytes that nobody looks into are judged by address too: passthrough and tcp reach none that is refused', async () => {
  for (const { host } of CASES) {
    const pinned = host.replace('.net', '.org')
    network.dialled.length = 0
    for (const way of ['CONNECT', 'SOCKS5', 'transparent'] as const) {
      await assert.rejects(setting.dialTls(way, pinned, 443, { rejectUnauthorized: false }), NotCarried, `${way} ${pinned}`)
    }
    const mail = host.replace('.net', '.com')
    for (const way of ['CONNECT', 'SOCKS5'] as const) await assert.rejects(setting.dial(way, mail, 25), NotCarried, `${way} ${mail}`)
    assert.deepEqual(network.dialled, [], host)
  }
})

for (const address of LITERAL) {
  const bracketed = address.includes(':') ? `[${address}]` : address
  test(`I4 ${address} that a request names itself is refused, also where a rule allows it as a host`, async () => {
    network.dialled.length = 0
    const said = [
      await exchangeRaw(setting.gate.port, `GET http://${bracketed}/ HTTP/1.1\r\nHost: ${bracketed}\r\nConnection: close\r\n\r\n`),
      await exchangeRaw(setting.gate.port, `GET https://${bracketed}/ HTTP/1.1\r\nHost: ${bracketed}\r\nConnection: close\r\n\r\n`),
      await exchangeRaw(setting.gate.ports.plain, `GET / HTTP/1.1\r\nHost: ${bracketed}\r\nConnection: close\r\n\r\n`),
    ]
    for (const name of [socksName(address), socksAddress(address)]) {
      // Nothing is looked up for the tunnel itself: what is inside is refused.
      const socket = await dialSocks(setting.gate.ports.socks, name, 80)
      said.push(await exchangeOn(socket, `GET / HTTP/1.1\r\nHost: ${bracketed}\r\nConnection: close\r\n\r\n`))
    }
    for (const answer of said) assert.match(answer, /^HTTP\/1\.1 403 [^]*"code":"address_refused"/)
    assert.deepEqual(network.dialled, [])
  })
}

test('I4 the gate itself is no upstream: a name that leads to one of its own ports is refused, though the rule excepts loopback', async () => {
  const { gate } = setting
  const ports = [gate.port, ...Object.values(gate.ports)]
  assert.ok(
    await gate.setPolicy(
      `version: 1\nnetwork:\n  rules:\n    - {id: self, host: ${GOOD}, action: allow, ports: [${ports.join(', ')}], addresses: ["127.0.0.0/8"]}\n` +
        `    - {id: loopback, host: "127.0.0.1", action: allow, ports: [${ports.join(', ')}], addresses: ["127.0.0.1/32"]}\n`,
    ),
  )
  for (const port of ports) {
    for (const host of [GOOD, '127.0.0.1']) {
      const absolute = await exchangeRaw(
        gate.port,
        `GET http://${host}:${port}/ HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`,
      )
      assert.match(absolute, /^HTTP\/1\.1 403 [^]*"code":"address_refused"/, `${host}:${port}`)
      for (const way of ['CONNECT', 'SOCKS5'] as const) {
        const socket = await setting.dial(way, host, port)
        const inside = await exchangeOn(socket, `GET / HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`)
        assert.match(inside, /^HTTP\/1\.1 403 [^]*"code":"address_refused"/, `${way} ${host}:${port}`)
      }
    }
  }
  assert.deepEqual(network.dialled, [])
})
