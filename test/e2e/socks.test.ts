/** SOCKS5 from the first byte to what is carried: every reply has its cause, and what comes behind it meets the same rules. I16, I17 */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { after, before, mock, test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { clientHello } from '../support/client-hello.ts'
import { openTestEgress } from '../support/egress.ts'
import { eventually } from '../support/eventually.ts'
import { dialPort, dialSocks, openEveryWay, readBytes, socksName, startTls, type EveryWay } from '../support/every-way.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { readToEnd, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { openRawUpstream, openUpstream, type Upstream } from '../support/upstream.ts'

const API = 'api.example.com'
const INNER = 'inner.example.com'
const PINNED = 'pinned.example.com'
const MAIL = 'mail.example.com'
const DENIED = 'denied.example.net'
/** What servers say before their client has said anything. */
const GREETINGS = {
  SMTP: Buffer.from('220 mail.example.com ESMTP\r\n'),
  SSH: Buffer.from('SSH-2.0-OpenSSH_9.6\r\n'),
  MySQL: Buffer.from('4a0000000a382e302e333600', 'hex'),
}

const ipv4 = (address: string): Buffer => Buffer.of(1, ...address.split('.').map(Number))
const IPV6_LOOPBACK = Buffer.concat([Buffer.of(4), Buffer.alloc(15), Buffer.of(1)])

const parts = new AsyncDisposableStack()
let setting: EveryWay
let secure: Http2Upstream
let plain: Upstream
let pinned: Upstream
/** Says its greeting, and then back what it hears. */
let mail: Upstream
let six: Upstream
let greeting = GREETINGS.SMTP

before(async () => {
  six = parts.use(await openRawUpstream((socket) => socket.end('six'), { host: '::1', port: 0 }))
  const policy = `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
    - {id: inner, host: ${INNER}, ports: [25], protocol: tcp, action: allow}
    - {id: pinned, host: ${PINNED}, action: allow, tls: passthrough, addresses: ["127.0.0.0/8"]}
    - {id: mail, host: ${MAIL}, ports: [25, 26], protocol: tcp, action: allow, addresses: ["127.0.0.0/8"]}
    - {id: four, host: 127.0.0.1, ports: [${six.port}], protocol: tcp, action: allow, addresses: ["127.0.0.1/32"]}
    - {id: six, host: "::1", ports: [${six.port}], protocol: tcp, action: allow, addresses: ["::1/128"]}
credentials:
  - {id: api-token, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`
  setting = parts.use(await openEveryWay(policy, [API, INNER, PINNED, MAIL, DENIED]))
  secure = parts.use(await openHttp2Upstream(setting.tls(API), { place: setting.at(API, 443) }))
  plain = parts.use(await openUpstream(undefined, undefined, setting.at(API, 80)))
  pinned = parts.use(await openUpstream(undefined, setting.tls(PINNED), setting.at(PINNED, 443)))
  mail = parts.use(
    await openRawUpstream(
      (socket) => {
        socket.write(greeting)
        socket.pipe(socket)
      },
      setting.at(MAIL, 25),
    ),
  )
})
after(() => parts.disposeAsync())

const connections = (): number => [secure, plain, pinned, mail, six].reduce((sum, upstream) => sum + upstream.connections, 0)
const dial = (address: Buffer, port: number): Promise<Socket> => dialSocks(setting.gate.ports.socks, address, port)

async function decidedSince(known: number): Promise<Record<string, unknown> | undefined> {
  return (await setting.gate.audit()).slice(known).find(({ event }) => event === 'decided')
}

function finishOf(events: Record<string, unknown>[], decided: Record<string, unknown> | undefined): Record<string, unknown> {
  const found = events.find(({ event, request }) => event === 'finished' && request === decided?.['request'])
  assert.ok(found, 'its end is recorded')
  return found
}

for (const { why, request, reply, code, audited } of [
  {
    why: 'a host that no rule names',
    request: [1, socksName(DENIED), 443],
    reply: 2,
    code: 'host_not_allowed',
    audited: [DENIED, 443, 'CONNECT'],
  },
  { why: 'a port that no rule has', request: [1, socksName(API), 22], reply: 2, code: 'host_not_allowed', audited: [API, 22, 'CONNECT'] },
  {
    why: 'an address that no rule names',
    request: [1, ipv4('10.1.2.3'), 443],
    reply: 2,
    code: 'host_not_allowed',
    audited: ['10.1.2.3', 443, 'CONNECT'],
  },
  {
    why: 'an IPv6 address that no rule names',
    request: [1, IPV6_LOOPBACK, 443],
    reply: 2,
    code: 'host_not_allowed',
    audited: ['::1', 443, 'CONNECT'],
  },
  {
    why: 'our own address at a port that is none of the web',
    request: [1, ipv4('127.0.0.1'), 22],
    reply: 2,
    code: 'host_not_allowed',
    audited: ['127.0.0.1', 22, 'CONNECT'],
  },
  {
    why: 'a name that is not canonical',
    request: [1, socksName(`${API}.`), 443],
    reply: 2,
    code: 'host_invalid',
    audited: [undefined, 443, 'CONNECT'],
  },
  {
    why: 'a name with a NUL',
    request: [1, socksName(`${API}\0.evil.test`), 443],
    reply: 2,
    code: 'host_invalid',
    audited: [undefined, 443, 'CONNECT'],
  },
  {
    why: 'an address by class, over tcp',
    request: [1, socksName(INNER), 25],
    reply: 2,
    code: 'address_refused',
    audited: [INNER, 25, 'CONNECT'],
  },
  {
    why: 'a port where nobody listens',
    request: [1, socksName(MAIL), 26],
    reply: 5,
    code: 'upstream_unreachable',
    audited: [MAIL, 26, 'CONNECT'],
  },
  { why: 'BIND', request: [2, socksName(API), 443], reply: 7, code: 'command_not_supported', audited: [API, 443, 'BIND'] },
  {
    why: 'UDP ASSOCIATE',
    request: [3, ipv4('0.0.0.0'), 0],
    reply: 7,
    code: 'command_not_supported',
    audited: ['0.0.0.0', undefined, 'UDP_ASSOCIATE'],
  },
  { why: 'a command that is none', request: [9, socksName(API), 443], reply: 7, code: 'command_not_supported', audited: [API, 443, '9'] },
  {
    why: 'an address type that is none',
    request: [1, Buffer.of(9, 1, 2, 3, 4), 443],
    reply: 8,
    code: 'socks_malformed',
    audited: [undefined, undefined, 'CONNECT'],
  },
  { why: 'port 0', request: [1, socksName(API), 0], reply: 1, code: 'socks_malformed', audited: [undefined, undefined, 'CONNECT'] },
] as const) {
  test(`SOCKS5 ${why} is replied ${reply}, with ${code} in the audit, and the connection ends`, async () => {
    const known = (await setting.gate.audit()).length
    const count = connections()
    const [command, address, port] = request
    const socket = await dialPort(setting.gate.ports.socks)
    socket.write(Buffer.concat([Buffer.of(5, 1, 0, 5, command, 0), address, Buffer.of(port >> 8, port & 255)]))
    assert.deepEqual([...Buffer.from(await readToEnd(socket), 'latin1')], [5, 0, 5, reply, 0, 1, 0, 0, 0, 0, 0, 0])
    const decided = await decidedSince(known)
    const finished = await eventually(async () => finishOf(await setting.gate.audit(), decided))
    assert.deepEqual([decided?.['host'], decided?.['port'], decided?.['method']], audited)
    assert.deepEqual([finished['code'], decided?.['lane']], [code, 'socks'])
    assert.equal(connections(), count)
  })
}

for (const { why, fault, reply } of [
  { why: 'no route to its network', fault: ['upstream_unreachable', 'ENETUNREACH'], reply: 3 },
  { why: 'no route to it', fault: ['upstream_unreachable', 'EHOSTUNREACH'], reply: 4 },
  { why: 'no answer in time', fault: ['upstream_timeout', 'ETIMEDOUT'], reply: 6 },
  { why: 'a fault that has no name', fault: ['upstream_unreachable', 'EIO'], reply: 1 },
  { why: 'no address', fault: undefined, reply: 4 },
] as const) {
  test(`SOCKS5 to an upstream with ${why} is replied ${reply}`, async () => {
    const dialled: string[] = []
    await using egress = await openTestEgress({
      policy: `{version: 1, network: {rules: [{id: tcp, host: ${API}, ports: [7], protocol: tcp, action: allow, addresses: ["127.0.0.0/8"]}]}}`,
      answer: (_host, family) => (fault && family === 4 ? [{ address: '127.0.0.9', ttl: 1 }] : []),
      async dial({ addresses }) {
        dialled.push(...(addresses ?? []))
        throw new SallyportError(fault?.[0] ?? 'internal', 'made up', { cause: Object.assign(new Error(), { code: fault?.[1] }) })
      },
    })
    await assert.rejects(dialSocks(egress.socksPort, socksName(API), 7), { said: `SOCKS ${reply}` })
    assert.deepEqual(dialled, fault ? ['127.0.0.9'] : [])
  })
}

for (const [what, bytes, said] of [
  ['SOCKS4', Buffer.of(4, 1, 0, 80, 127, 0, 0, 1, 0), /^\0\x5b\0{6}$/],
  ['HTTP', Buffer.from(`GET http://${API}/ HTTP/1.1\r\nHost: ${API}\r\n\r\n`), /^HTTP\/1\.1 400 [^]*This port speaks SOCKS5/],
  ['CONNECT of HTTP', Buffer.from(`CONNECT ${API}:443 HTTP/1.1\r\n\r\n`), /^HTTP\/1\.1 400 /],
  ['TLS', clientHello([]), /^$/],
  ['only methods that nobody has', Buffer.of(5, 2, 1, 0x80), /^.\xff$/],
] as const) {
  test(`on the SOCKS port ${what} gets an answer that its client can read, and nothing is carried`, async () => {
    const known = (await setting.gate.audit()).length
    const socket = await dialPort(setting.gate.ports.socks)
    socket.write(bytes)
    assert.match(await readToEnd(socket), said)
    assert.equal((await decidedSince(known))?.['code'], 'socks_malformed')
  })
}

test('SOCKS5 to an IPv4 and to an IPv6 address goes there where a rule names it', async () => {
  await using four = await openRawUpstream((socket) => socket.end('four'), { host: '127.0.0.1', port: six.port })
  assert.equal(await readToEnd(await dial(ipv4('127.0.0.1'), four.port)), 'four')
  assert.equal(await readToEnd(await dial(IPV6_LOOPBACK, six.port)), 'six')
  assert.equal(await readToEnd(await dial(socksName('::1'), six.port)), 'six')
})

for (const [protocol, bytes] of Object.entries(GREETINGS)) {
  test(`I17 the greeting of ${protocol} arrives without a word of the client where a rule says tcp`, async () => {
    greeting = bytes
    const socket = await dial(socksName(MAIL), 25)
    assert.deepEqual(await readBytes(socket, bytes.length), bytes)
    socket.end()
    await readToEnd(socket)
  })
}

test('I17 without a rule that says tcp a client that waits for a greeting is denied when its time is up, and nobody is dialled', async () => {
  const known = (await setting.gate.audit()).length
  const count = connections()
  mock.timers.enable({ apis: ['setTimeout'] })
  try {
    // The reply is written when recognition has begun.
    const socket = await dial(socksName(API), 443)
    mock.timers.tick(LIMITS.recognitionMs - 1)
    assert.equal(socket.readableEnded, false)
    mock.timers.tick(1)
    assert.equal(await readToEnd(socket), '')
  } finally {
    mock.timers.reset()
  }
  const decided = await decidedSince(known)
  assert.deepEqual([decided?.['decision'], decided?.['code'], decided?.['rule']], ['deny', 'protocol_not_recognised', 'api'])
  assert.match(setting.gate.log(), /nothing was sent in time/)
  assert.equal(connections(), count)
})

test('I17 without a rule that says tcp the first bytes of SSH, SMTP or Postgres end the connection, and nobody is dialled', async () => {
  const count = connections()
  for (const bytes of [GREETINGS.SSH, Buffer.from('EHLO x\r\n'), Buffer.from('0000000804d2162f', 'hex')]) {
    const known = (await setting.gate.audit()).length
    const socket = await dial(socksName(API), 443)
    socket.write(bytes)
    // A method of HTTP is letters and a space: such a line is HTTP until its end, and then it is none.
    assert.match(await readToEnd(socket), /^(HTTP\/1\.1 400 [^]*)?$/)
    assert.match(String((await decidedSince(known))?.['code']), /^(protocol_not_recognised|request_malformed)$/)
  }
  assert.equal(connections(), count)
})

test('what a client sends before it has its reply is carried in order: TLS, HTTP and tcp', async () => {
  const optimistic = async (address: Buffer, port: number, bytes: string): Promise<Socket> => {
    const socket = await dialPort(setting.gate.ports.socks)
    socket.write(Buffer.concat([Buffer.of(5, 1, 0, 5, 1, 0), address, Buffer.of(port >> 8, port & 255), Buffer.from(bytes)]))
    assert.deepEqual([...(await readBytes(socket, 12))], [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    return socket
  }
  const http = await optimistic(socksName(API), 80, `GET /early HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(http)), 200)
  assert.equal(headerOf(plain.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
  greeting = GREETINGS.SMTP
  const tcp = await optimistic(socksName(MAIL), 25, 'EHLO early\r\n')
  tcp.end('QUIT\r\n')
  assert.equal(await readToEnd(tcp), `${GREETINGS.SMTP.toString()}EHLO early\r\nQUIT\r\n`)
})

test('each side may end first and still read: tcp is half closed both ways', async () => {
  const heard: string[] = []
  await using upstream = await openRawUpstream(
    (socket) => {
      // Ends its side at once, and hears all the same.
      socket.end('bye')
      socket.on('data', (chunk: Buffer) => heard.push(chunk.toString()))
    },
    setting.at(MAIL, 26),
  )
  const socket = await dialSocks(setting.gate.ports.socks, socksName(MAIL), upstream.port, true)
  const [said] = (await once(socket, 'data')) as [Buffer]
  assert.equal(said.toString(), 'bye')
  await once(socket, 'end')
  socket.end('one more thing')
  await once(socket, 'close')
  await eventually(() => assert.equal(heard.join(''), 'one more thing'))
  // The other way round: the agent ends first, and reads what the echo has still to say.
  const first = await dialSocks(setting.gate.ports.socks, socksName(MAIL), 25, true)
  first.end('over')
  assert.match(await readToEnd(first), /over$/)
})

test('TLS behind SOCKS5 is looked into: our certificate, the credential, and the rules for each request', async () => {
  const tls = await startTls(await dial(socksName(API), 443), { servername: API, ca: setting.ca })
  assert.notDeepEqual(tls.getPeerX509Certificate()?.raw, new X509Certificate(setting.tls(API).cert).raw)
  tls.write(`GET /in HTTP/1.1\r\nHost: ${API}\r\nAuthorization: Bearer own\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(tls)), 200)
  assert.equal(headerOf(secure.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
})

test('I2 behind SOCKS5 to one host neither a server name nor a Host leads to another', async () => {
  const count = connections()
  for (const servername of [PINNED, DENIED, `x.${API}`]) {
    const socket = await dial(socksName(API), 443)
    await assert.rejects(startTls(socket, { servername, rejectUnauthorized: false }), { said: 'closed' })
  }
  const socket = await dial(socksName(API), 80)
  socket.write(`GET / HTTP/1.1\r\nHost: ${PINNED}\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(socket)), 421)
  assert.equal(connections(), count)
})

test("I8 a pinned client behind SOCKS5 sees the upstream's own certificate, and its bytes arrive as they are", async () => {
  const tls = await startTls(await dial(socksName(PINNED), 443), { servername: PINNED, rejectUnauthorized: false })
  assert.deepEqual(tls.getPeerX509Certificate()?.raw, new X509Certificate(setting.tls(PINNED).cert).raw)
  tls.write(`GET /pinned HTTP/1.1\r\nHost: ${PINNED}\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await readToEnd(tls)), 200)
  assert.deepEqual(pinned.requests.at(-1)?.rawHeaders, ['Host', PINNED, 'Connection', 'close'])
})

test('the bytes of a tcp connection are counted in the audit, with the address and without a credential', async () => {
  const known = (await setting.gate.audit()).length
  greeting = GREETINGS.SMTP
  const socket = await dial(socksName(MAIL), 25)
  await readBytes(socket, greeting.length)
  socket.end('QUIT\r\n')
  await readToEnd(socket)
  const decided = await decidedSince(known)
  const finished = await eventually(async () => finishOf(await setting.gate.audit(), decided))
  assert.deepEqual([decided?.['note'], decided?.['rule'], decided?.['credential']], ['tcp', 'mail', undefined])
  assert.deepEqual([finished['bytes_up'], finished['bytes_down'], finished['address']], [6, greeting.length + 6, setting.at(MAIL, 25).host])
})

test('I1 no secret came into audit or log', async () => {
  assert.doesNotMatch((await setting.gate.auditText()) + setting.gate.log(), new RegExp(CANARY))
})
