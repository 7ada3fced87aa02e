/**
 * I3: the answerer of DNS is asked by an agent that wants out. A name that no rule allows goes nowhere; odd, false and very many
 * queries cost little and stop nothing; what is sent is never much more than what came, and only to who asked.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { pino } from 'pino'
import { LIMITS } from '../../src/kernel/limits.ts'
import { openResolver, type Resolver, type ResolverParts } from '../../src/sidecar/resolver/resolver.ts'
import {
  askTcp,
  askUdp,
  framed,
  openUdpClient,
  optRecord,
  placeAt,
  queryFor,
  RCODE,
  readAnswer,
  TYPE,
  wireName,
  type UdpClient,
} from '../support/dns.ts'
import { projectFiles, readProject } from '../support/tree.ts'
import { openWatchedResolver } from '../support/watched-resolver.ts'

const KNOWN = 'api.example.com'

type Setting = AsyncDisposable & { readonly address: string; readonly asked: string[]; readonly clock: { ms: number } }

/** A resolver whose clock stands still, and that notes each name that its policy is asked for. */
async function openSetting(overrides: Partial<ResolverParts> = {}): Promise<Setting> {
  const asked: string[] = []
  const clock = { ms: 0 }
  const resolver: Resolver = await openResolver([{ host: '127.0.0.1', port: 0 }], {
    knowsName: (name) => {
      asked.push(name)
      return name === KNOWN
    },
    log: pino({ level: 'silent' }),
    system: { elapsed: () => clock.ms },
    ...overrides,
  })
  return { address: resolver.addresses[0] ?? '', asked, clock, [Symbol.asyncDispose]: () => resolver[Symbol.asyncDispose]() }
}

async function askOn(client: UdpClient, query: Buffer): Promise<Buffer> {
  client.send(query)
  return client.next()
}

const EXFILTRATION = [
  `${Buffer.from('secret data').toString('hex')}.evil.example`,
  `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.evil.example`,
  'api.example.com.evil.example',
  'xn--80ak6aa92e.com',
  'dns.google',
  'metadata.google.internal',
  'localhost',
  'host.docker.internal',
]

test('I19 no name, allowed or not, of any type, over UDP or TCP, makes the answerer open a socket, look up or send to another', async () => {
  await using resolver = await openWatchedResolver('127.0.0.1', [KNOWN])
  await using client = await openUdpClient(resolver.address)
  const names = [...EXFILTRATION, KNOWN, 'sallyport', '1.0.0.127.in-addr.arpa', '8.8.8.8.in-addr.arpa']
  const queries = names.flatMap((name) => Object.values(TYPE).map((type) => queryFor(name, { type, tail: optRecord() })))
  for (const query of queries) await askOn(client, query)
  assert.equal((await askTcp(resolver.address, framed(...queries))).length, queries.length)
  const seen = await resolver.watched()
  assert.deepEqual([seen.clientSockets, seen.udpSockets, seen.entries], [0, 1, []], 'the one UDP socket is the one that listens')
  assert.equal(seen.sentTo.length, queries.length)
  assert.deepEqual(new Set(seen.sentTo), new Set([`127.0.0.1:${client.port}`]))
  const misbehaved = await resolver.misbehave()
  assert.deepEqual([misbehaved.clientSockets, misbehaved.udpSockets], [1, 2], 'the watch sees what is to be seen')
  assert.ok(misbehaved.entries.includes('lookup') && misbehaved.entries.includes('connect'))
})

test('I19 the answerer has nothing to ask others with: no client, no look-up among what it imports', () => {
  const files = projectFiles().filter((file) => file.startsWith('src/sidecar/resolver/'))
  assert.ok(files.length >= 3)
  const allowed = new Set(['node:dgram createSocket', 'node:net createServer', 'dns-packet DNSSEC_OK encode RECURSION_AVAILABLE'])
  for (const file of files) {
    const text = readProject(file)
    assert.doesNotMatch(text, /\bimport\(|\brequire\(|\.connect\(/, file)
    for (const [, isType, names = '', from = ''] of text.matchAll(/^(?:import|export) (type )?\{([^}]*)\} from '([^']+)'$/gm)) {
      if (isType !== undefined || from.startsWith('./') || from.startsWith('../../kernel/')) continue
      const values = names.split(',').map((name) => name.trim())
      const used = values.filter((name) => name !== '' && !name.startsWith('type '))
      assert.ok(allowed.has(`${from} ${used.join(' ')}`), `${file} imports ${used.join(', ')} from ${from}`)
    }
    const imports = text.match(/^import /gm)?.length ?? 0
    assert.equal(text.match(/^import (?:type )?\{[^}]*\} from '[^']+'$/gm)?.length ?? 0, imports, `${file} imports by name only`)
  }
})

test('I19 the library of the wire format reaches no network either', () => {
  const loaded = ['index', 'types', 'rcodes', 'opcodes', 'classes', 'optioncodes'].map((name) =>
    readProject(`node_modules/dns-packet/${name}.js`),
  )
  const required = loaded.flatMap((text) => [...text.matchAll(/require\('([^']+)'\)/g)].map((match) => match[1] ?? ''))
  assert.deepEqual(new Set(required.filter((name) => !name.startsWith('./'))), new Set(['buffer', '@leichtgewicht/ip-codec']))
})

for (const name of EXFILTRATION) {
  test(`I19 ${name.slice(0, 60)} does not exist, for any type of record`, async () => {
    await using setting = await openSetting()
    for (const type of [TYPE.A, TYPE.AAAA, TYPE.TXT, TYPE.NS, TYPE.HTTPS, TYPE.SVCB, TYPE.ANY]) {
      const { rcode, data } = readAnswer(await askUdp(setting.address, queryFor(name, { type })))
      assert.deepEqual([rcode, data], [RCODE.nxDomain, []])
    }
  })
}

test('an allowed name has no record that would lead past the gate: no AAAA, no HTTPS or SVCB (ECH, QUIC), no SRV, no NS', async () => {
  await using setting = await openSetting()
  for (const type of [TYPE.AAAA, TYPE.HTTPS, TYPE.SVCB, TYPE.NS, TYPE.TXT, 33]) {
    const { rcode, data } = readAnswer(await askUdp(setting.address, queryFor(KNOWN, { type, tail: optRecord() })))
    assert.deepEqual([rcode, data], [RCODE.noError, []])
  }
})

const MALFORMED: Record<string, Buffer> = {
  'a pointer to itself': queryFor(Buffer.from([0xc0, 12])),
  'pointers in a ring': queryFor(Buffer.from([0xc0, 14, 0xc0, 12])),
  'a pointer to the header': queryFor(Buffer.from([0xc0, 0])),
  'no question': queryFor(KNOWN, { counts: [0, 0, 0, 0] }),
  'two questions of one': queryFor(KNOWN, { counts: [2, 0, 0, 0] }),
  'all counts 65535': queryFor(KNOWN, { counts: [65_535, 65_535, 65_535, 65_535] }),
  'an answer in the query': queryFor(KNOWN, { counts: [1, 1, 0, 0], tail: Buffer.concat([wireName(KNOWN), Buffer.alloc(10)]) }),
  'trailing bytes': Buffer.concat([queryFor(KNOWN), Buffer.from('more')]),
  'a cut name': queryFor(KNOWN).subarray(0, 18),
  'a cut type': queryFor(KNOWN).subarray(0, -3),
  'a label of 64 bytes': queryFor(['x'.repeat(64)]),
  'a name of 300 bytes': queryFor(Array.from({ length: 5 }, () => 'x'.repeat(60))),
  'a header alone': queryFor(KNOWN).subarray(0, 12),
  'an OPT that lies about its length': queryFor(KNOWN, { tail: Buffer.concat([optRecord().subarray(0, 9), Buffer.from([255, 255])]) }),
  'random bytes behind a header': Buffer.concat([queryFor(KNOWN).subarray(0, 12), randomBytes(200)]),
}

test('malformed queries are answered with 12 bytes, the policy is not asked, and the next query is answered as ever', async () => {
  await using setting = await openSetting()
  await using client = await openUdpClient(setting.address)
  for (const [what, query] of Object.entries(MALFORMED)) {
    const answer = await askOn(client, query)
    assert.deepEqual([answer.length, answer.readUInt8(3) & 15, answer.readUInt16BE(0)], [12, RCODE.formErr, 0x1234], what)
  }
  for (const size of [513, 4_096, 60_000]) assert.equal((await askOn(client, Buffer.alloc(size))).length, 12)
  assert.deepEqual(setting.asked, [])
  assert.deepEqual(readAnswer(await askOn(client, queryFor(KNOWN))).data, ['127.0.0.1'])
  const answers = await askTcp(setting.address, framed(...Object.values(MALFORMED), queryFor(KNOWN)))
  assert.equal(answers.length, Object.keys(MALFORMED).length + 1)
  assert.deepEqual(readAnswer(answers.at(-1) ?? Buffer.alloc(0)).data, ['127.0.0.1'])
})

test('a name that ends for one reader earlier than for another exists for none: NUL, dots in labels, spaces', async () => {
  await using setting = await openSetting()
  for (const labels of [
    ['api', 'example', 'com\0', 'evil', 'example'],
    ['api.example.com'],
    ['api.example.com\0'],
    ['api', 'example', 'com '],
    ['evil', 'example\0.api', 'example', 'com'],
    [Buffer.from('api。example'), 'com'],
  ]) {
    assert.equal(readAnswer(await askUdp(setting.address, queryFor(labels))).rcode, RCODE.nxDomain)
  }
  assert.deepEqual(setting.asked, [], 'none of them is a name to the policy')
})

test('responses and shorter packets are met with silence, so that two answerers never talk to each other', async () => {
  await using setting = await openSetting()
  await using client = await openUdpClient(setting.address)
  const answer = await askOn(client, queryFor(KNOWN))
  for (const packet of [answer, queryFor(KNOWN, { flags: 0x8180 }), Buffer.alloc(0), Buffer.alloc(11), Buffer.alloc(600, 0xff)]) {
    client.send(packet)
  }
  assert.equal(readAnswer(await askOn(client, queryFor(KNOWN, { id: 7 }))).id, 7)
  assert.equal(client.waiting.length, 0)
})

test('no answer is more than 64 bytes longer than its query, and none longer than 512', async () => {
  await using setting = await openSetting()
  await using client = await openUdpClient(setting.address)
  const long = ['a'.repeat(63), 'b'.repeat(63), 'c'.repeat(63), 'd'.repeat(61)]
  for (const name of [[], ['x'], long, KNOWN, 'sallyport', '1.0.0.127.in-addr.arpa']) {
    for (const type of Object.values(TYPE)) {
      for (const tail of [Buffer.alloc(0), optRecord({ size: 65_535, flags: 0x8000 })]) {
        const query = queryFor(name, { type, tail })
        const answer = await askOn(client, query)
        assert.ok(answer.length <= Math.min(query.length + 64, LIMITS.dnsMessageBytesMax), `${String(name)} ${type}: ${answer.length}`)
      }
    }
  }
})

test('who asks too much is refused with 12 bytes, the policy is asked no more, and others are served', async () => {
  await using setting = await openSetting()
  await using client = await openUdpClient(setting.address)
  for (let i = 0; i < LIMITS.dnsBurstQueriesMax; i++) await askOn(client, queryFor(`data-${i}.evil.example`))
  assert.equal(setting.asked.length, LIMITS.dnsBurstQueriesMax)
  for (const query of [
    queryFor(KNOWN),
    queryFor(KNOWN, { tail: optRecord() }),
    MALFORMED['random bytes behind a header'] ?? Buffer.alloc(12),
  ]) {
    const answer = await askOn(client, query)
    assert.deepEqual([answer.length, answer.readUInt8(3) & 15], [12, RCODE.refused])
  }
  assert.deepEqual(await askTcp(setting.address, framed(queryFor(KNOWN))), [], 'over TCP it is the same client')
  for (const packet of [Buffer.alloc(0), Buffer.alloc(3), Buffer.alloc(11), queryFor(KNOWN, { flags: 0x8180 })]) client.send(packet)
  assert.equal((await askOn(client, queryFor(KNOWN, { id: 9 }))).readUInt16BE(0), 9, 'what is no query is still met with silence')
  assert.equal(client.waiting.length, 0)
  assert.equal(setting.asked.length, LIMITS.dnsBurstQueriesMax)
  await using neighbour = await openUdpClient(setting.address, '127.0.0.5')
  assert.deepEqual(readAnswer(await askOn(neighbour, queryFor(KNOWN))).data, ['127.0.0.1'])
  setting.clock.ms += 1_000
  assert.deepEqual(readAnswer(await askOn(client, queryFor(KNOWN))).data, ['127.0.0.1'])
})

test('a connection with more queries than the burst gets no more answers than that, and is closed', async () => {
  await using setting = await openSetting()
  const queries = Array.from({ length: LIMITS.dnsBurstQueriesMax + 50 }, (_, id) => queryFor(KNOWN, { id }))
  const answers = await askTcp(setting.address, framed(...queries), { waits: true })
  assert.ok(answers.length < LIMITS.dnsBurstQueriesMax, `${answers.length} answers: opening the connection counted too`)
  assert.ok(setting.asked.length < LIMITS.dnsBurstQueriesMax)
})

for (const [what, bytes] of Object.entries({
  'a claim of 65535 bytes': Buffer.from([0xff, 0xff]),
  'a claim of 513 bytes': Buffer.from([2, 1]),
  'a query of no bytes': Buffer.from([0, 0]),
  'a response': framed(queryFor(KNOWN, { flags: 0x8180 })),
  'an HTTP request': Buffer.from('GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n'),
  'a TLS handshake (DNS over TLS)': Buffer.from('1603010200010001fc0303', 'hex'),
})) {
  test(`${what} over TCP closes the connection without an answer`, async () => {
    await using setting = await openSetting()
    assert.deepEqual(await askTcp(setting.address, bytes, { waits: true }), [])
    assert.deepEqual(setting.asked, [])
  })
}

test('more connections than the limit are closed at once; those that are open are served, and their places given on', async () => {
  await using setting = await openSetting()
  const { host, port } = placeAt(setting.address)
  const sockets = await Promise.all(
    Array.from({ length: LIMITS.dnsConnectionsMax }, async () => {
      const socket = connect(port, host)
      await once(socket, 'connect')
      return socket
    }),
  )
  const [first, ...others] = sockets
  assert.ok(first)
  // Its answer shows that the listener has seen all connections before it.
  const last = others.at(-1)
  assert.ok(last)
  last.write(framed(queryFor(KNOWN)))
  await once(last, 'data')
  assert.deepEqual(await askTcp(setting.address, framed(queryFor(KNOWN)), { waits: true }), [])
  first.write(framed(queryFor(KNOWN)))
  await once(first, 'data')
  assert.deepEqual(readAnswer(await askUdp(setting.address, queryFor(KNOWN))).data, ['127.0.0.1'])
  for (const socket of others) socket.destroy()
  first.end()
  await once(first.resume(), 'close')
  assert.equal((await askTcp(setting.address, framed(queryFor(KNOWN)))).length, 1)
})

test('I13 who is not of the agent’s network gets no answer, over UDP or TCP, and its names reach no policy', async () => {
  await using setting = await openSetting({ allowsClient: (address) => address === '127.0.0.1' })
  await using stranger = await openUdpClient(setting.address, '127.0.0.5')
  await using agent = await openUdpClient(setting.address, '127.0.0.1')
  stranger.send(queryFor('stranger.example', { id: 1 }))
  assert.equal(readAnswer(await askOn(agent, queryFor(KNOWN, { id: 2 }))).id, 2)
  assert.deepEqual(await askTcp(setting.address, framed(queryFor('stranger.example')), { waits: true, from: '127.0.0.5' }), [])
  assert.equal(stranger.waiting.length, 0)
  assert.deepEqual(setting.asked, [KNOWN])
})
