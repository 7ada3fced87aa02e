import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { Resolver as DnsClient } from 'node:dns/promises'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { test } from 'node:test'
import { pino } from 'pino'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { system } from '../../../src/kernel/system.ts'
import { openResolver, type Resolver, type ResolverParts } from '../../../src/sidecar/resolver/resolver.ts'
import { askTcp, askUdp, framed, optRecord, placeAt, queryFor, RCODE, readAnswer, TYPE } from '../../support/dns.ts'

const silent = pino({ level: 'silent' })
const parts: ResolverParts = { knowsName: (name) => name === 'api.example.com', log: silent, system }

function clientOf(resolver: Resolver): DnsClient {
  const client = new DnsClient({ timeout: 5_000, tries: 1 })
  client.setServers([resolver.addresses[0] ?? ''])
  return client
}

test("Node's own DNS client gets the address, its time to live, nothing, or ENOTFOUND", async () => {
  await using resolver = await openResolver([{ host: '127.0.0.1', port: 0 }], parts)
  const client = clientOf(resolver)
  assert.deepEqual(await client.resolve4('api.example.com', { ttl: true }), [{ address: '127.0.0.1', ttl: 5 }])
  assert.deepEqual(await client.resolve4('sallyport'), ['127.0.0.1'])
  await assert.rejects(client.resolve6('api.example.com'), { code: 'ENODATA' })
  await assert.rejects(client.resolveTxt('api.example.com'), { code: 'ENODATA' })
  await assert.rejects(client.resolveMx('api.example.com'), { code: 'ENODATA' })
  await assert.rejects(client.resolve4('evil.example'), { code: 'ENOTFOUND' })
  assert.deepEqual(await client.resolvePtr('1.0.0.127.in-addr.arpa'), ['sallyport'])
  await assert.rejects(client.resolvePtr('9.0.0.127.in-addr.arpa'), { code: 'ENOTFOUND' })
})

test('each listener answers with its own address, over UDP and over TCP', async () => {
  await using resolver = await openResolver(
    [
      { host: '127.0.0.1', port: 0 },
      { host: '127.0.0.2', port: 0 },
    ],
    parts,
  )
  assert.deepEqual(
    resolver.addresses.map((address) => placeAt(address).host),
    ['127.0.0.1', '127.0.0.2'],
  )
  for (const address of resolver.addresses) {
    const { host, port } = placeAt(address)
    assert.ok(port > 0)
    assert.deepEqual(readAnswer(await askUdp(address, queryFor('api.example.com'))).data, [host])
    const [answer] = await askTcp(address, framed(queryFor('api.example.com')))
    assert.deepEqual(readAnswer(answer ?? Buffer.alloc(0)).data, [host])
  }
})

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'))

test('a listener on ::1 answers AAAA', { skip: !hasIpv6 && 'this machine has no IPv6' }, async () => {
  await using resolver = await openResolver([{ host: '::1', port: 0 }], parts)
  const [address = ''] = resolver.addresses
  assert.match(address, /^\[::1\]:\d+$/)
  assert.deepEqual(readAnswer(await askUdp(address, queryFor('api.example.com', { type: TYPE.AAAA }))).data, ['::1'])
  const [answer] = await askTcp(address, framed(queryFor('api.example.com', { type: TYPE.AAAA })))
  assert.deepEqual(readAnswer(answer ?? Buffer.alloc(0)).data, ['::1'])
  assert.deepEqual(readAnswer(await askUdp(address, queryFor('api.example.com'))).data, [])
})

test('the policy is asked anew for each question', async () => {
  const names = new Set<string>()
  await using resolver = await openResolver([{ host: '127.0.0.1', port: 0 }], { ...parts, knowsName: (name) => names.has(name) })
  const [address = ''] = resolver.addresses
  const rcode = async (): Promise<number> => readAnswer(await askUdp(address, queryFor('later.example.com'))).rcode
  assert.equal(await rcode(), RCODE.nxDomain)
  names.add('later.example.com')
  assert.equal(await rcode(), RCODE.noError)
  names.clear()
  assert.equal(await rcode(), RCODE.nxDomain)
})

test('several queries on one TCP connection are each answered, in order, also in pieces of one byte', async () => {
  await using resolver = await openResolver([{ host: '127.0.0.1', port: 0 }], parts)
  const [address = ''] = resolver.addresses
  const queries = [1, 2, 3, 4, 5].map((id) => queryFor(id % 2 === 0 ? 'evil.example' : 'api.example.com', { id, tail: optRecord() }))
  const expected = queries.map((_, i) => [i + 1, i % 2 === 0 ? RCODE.noError : RCODE.nxDomain])
  const seen = (answers: Buffer[]): number[][] => answers.map(readAnswer).map(({ id, rcode }) => [id, rcode])
  assert.deepEqual(seen(await askTcp(address, framed(...queries))), expected)
  assert.deepEqual(seen(await askTcp(address, framed(...queries), { pieces: 1 })), expected)
})

test('a denied name is logged once, and is safe to print', async () => {
  const lines: string[] = []
  const log = pino({ level: 'info', base: null, timestamp: false }, { write: (line) => void lines.push(line) })
  await using resolver = await openResolver([{ host: '127.0.0.1', port: 0 }], { ...parts, log })
  const [address = ''] = resolver.addresses
  for (const type of [TYPE.A, TYPE.AAAA]) await askUdp(address, queryFor(['\u001b[2Jevil', 'example'], { type }))
  await askUdp(address, queryFor('api.example.com'))
  assert.deepEqual(
    lines.map((line) => JSON.parse(line) as unknown),
    [{ level: 30, name: '?[2Jevil.example', type: 'A', msg: 'dns name not allowed' }],
  )
})

test('a fault of the policy is SERVFAIL, is logged without the name, and the next question is answered', async () => {
  const lines: string[] = []
  const log = pino({ level: 'info', base: null, timestamp: false }, { write: (line) => void lines.push(line) })
  let isBroken = true
  const knowsName = (): boolean => {
    if (isBroken) throw new TypeError('api.example.com')
    return true
  }
  await using resolver = await openResolver([{ host: '127.0.0.1', port: 0 }], { ...parts, log, knowsName })
  const [address = ''] = resolver.addresses
  assert.equal(readAnswer(await askUdp(address, queryFor('api.example.com'))).rcode, RCODE.servFail)
  assert.deepEqual(lines, ['{"level":50,"code":"TypeError","msg":"a dns query could not be answered"}\n'])
  isBroken = false
  assert.equal(readAnswer(await askUdp(address, queryFor('api.example.com'))).rcode, RCODE.noError)
})

for (const host of ['0.0.0.0', '::', '0:0::0', '::ffff:127.0.0.1', 'localhost', '', '127.1', 'fe80::1%lo']) {
  test(`DNS can't be answered on "${host}": it is not the address of one interface`, async () => {
    await assert.rejects(
      openResolver([{ host, port: 0 }], parts),
      (error) => error instanceof SallyportError && error.code === 'config_invalid',
    )
  })
}

const failsToListen = (host: string, port: number): Promise<void> =>
  assert.rejects(openResolver([{ host, port }], parts), (error) => {
    assert.ok(error instanceof SallyportError)
    assert.equal(error.code, 'listen_failed')
    assert.ok((error.hint ?? '').length > 0)
    return true
  })

test('a port that is taken for UDP alone, or for TCP alone, is listen_failed, and nothing stays open', async () => {
  const udp = createSocket('udp4')
  udp.bind(0, '127.0.0.1')
  await once(udp, 'listening')
  const tcp = createServer()
  tcp.listen(0, '127.0.0.1')
  await once(tcp, 'listening')
  try {
    const { port } = udp.address()
    await failsToListen('127.0.0.1', port)
    await failsToListen('127.0.0.1', (tcp.address() as AddressInfo).port)
    udp.close()
    await once(udp, 'close')
    await using resolver = await openResolver([{ host: '127.0.0.1', port }], parts)
    assert.deepEqual(resolver.addresses, [`127.0.0.1:${port}`])
  } finally {
    tcp.close()
  }
})

test('an address that this machine does not have is listen_failed', () => failsToListen('192.0.2.1', 0))

test('when the second endpoint fails the first is closed again', async () => {
  const first = await openResolver([{ host: '127.0.0.1', port: 0 }], parts)
  const { port } = placeAt(first.addresses[0] ?? '')
  await first[Symbol.asyncDispose]()
  await assert.rejects(
    openResolver(
      [
        { host: '127.0.0.1', port },
        { host: 'nowhere', port: 0 },
      ],
      parts,
    ),
  )
  await using again = await openResolver([{ host: '127.0.0.1', port }], parts)
  assert.equal(readAnswer(await askUdp(again.addresses[0] ?? '', queryFor('api.example.com'))).rcode, RCODE.noError)
})
