import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { SocksClient } from 'socks'
import { ERRORS, type RefusalCode } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { negotiate, replyFor, type Handshake, type HandshakeOptions } from '../../../src/sidecar/inbound/socks-handshake.ts'
import { writeReply } from '../../../src/sidecar/inbound/socks-messages.ts'
import { openSocketPair } from '../../support/socket-pair.ts'

const NONE = Buffer.of(5, 1, 0)
const PASSWORD = Buffer.of(5, 1, 2)
const BOTH = Buffer.of(5, 2, 0, 2)
const REQUEST = Buffer.concat([Buffer.of(5, 1, 0, 3, 15), Buffer.from('api.example.com'), Buffer.of(1, 187)])
const LEASE = 'the-lease-of-this-session'
const OPTIONS: HandshakeOptions = { checkLease: (token) => token === LEASE }
const WANTED = { command: 'connect', address: { kind: 'domain', text: 'api.example.com' }, port: 443 }

function password(text: string): Buffer {
  return Buffer.concat([Buffer.of(1, 5), Buffer.from('agent'), Buffer.of(text.length), Buffer.from(text)])
}

/** What comes of these bytes: how the handshake ends, what was said to the client, and what is left for the next reader. */
async function converse(
  parts: readonly Buffer[],
  options: HandshakeOptions = {},
): Promise<{ ends: Handshake; said: string; left: string }> {
  await using sockets = await openSocketPair()
  const { client, server } = sockets
  const found = negotiate(server, options)
  client.setNoDelay(true)
  for (const part of parts) {
    await new Promise((resolve) => client.write(part, resolve))
    await new Promise((resolve) => setImmediate(resolve))
  }
  const ends = await found
  server.end()
  client.end()
  const said = Buffer.concat((await client.toArray()) as Buffer[]).toString('latin1')
  const left = Buffer.concat((await server.toArray()) as Buffer[]).toString('latin1')
  return { ends, said, left }
}

const SERVED: readonly { bytes: readonly Buffer[]; options?: HandshakeOptions; said: string; why: string }[] = [
  { bytes: [NONE, REQUEST], said: '\x05\0', why: 'a client without password' },
  { bytes: [BOTH, REQUEST], said: '\x05\0', why: 'a client that could give a password is not asked for one' },
  { bytes: [PASSWORD, password('anything'), REQUEST], said: '\x05\x02\x01\0', why: 'any password where no lease is wanted' },
  { bytes: [PASSWORD, Buffer.of(1, 0, 0), REQUEST], said: '\x05\x02\x01\0', why: 'an empty password where no lease is wanted' },
  { bytes: [BOTH, password(LEASE), REQUEST], options: OPTIONS, said: '\x05\x02\x01\0', why: 'the lease as password' },
  { bytes: [Buffer.of(5, 4, 1, 9, 0, 0), REQUEST], said: '\x05\0', why: 'a client that offers methods nobody knows too' },
]
for (const { bytes, options, said, why } of SERVED) {
  const whole = Buffer.concat([...bytes, Buffer.from('first data')])
  for (const { parts, how } of [
    { parts: [...bytes, Buffer.from('first data')], how: 'message by message' },
    { parts: [whole], how: 'in one piece, with the first data' },
    { parts: [...whole].map((byte) => Buffer.of(byte)), how: 'byte by byte' },
  ]) {
    test(`served ${how}: ${why}, and the data behind the request is left`, async () => {
      assert.deepEqual(await converse(parts, options), { ends: { kind: 'request', request: WANTED }, said, left: 'first data' })
    })
  }
}

const REFUSED: readonly {
  bytes: readonly Buffer[]
  options?: HandshakeOptions
  code: RefusalCode
  said: string | RegExp
  reply?: number
  why: string
}[] = [
  { bytes: [NONE], options: OPTIONS, code: 'lease_required', said: '\x05\xff', why: 'no password where the lease is wanted' },
  { bytes: [Buffer.of(5, 0)], options: OPTIONS, code: 'lease_required', said: '\x05\xff', why: 'no method where the lease is wanted' },
  { bytes: [PASSWORD, password('wrong')], options: OPTIONS, code: 'lease_required', said: '\x05\x02\x01\x01', why: 'a wrong lease' },
  { bytes: [PASSWORD, password('')], options: OPTIONS, code: 'lease_required', said: '\x05\x02\x01\x01', why: 'an empty lease' },
  {
    bytes: [PASSWORD, password('wrong'), REQUEST],
    options: OPTIONS,
    code: 'lease_required',
    said: '\x05\x02\x01\x01',
    why: 'a wrong lease with the request right behind it',
  },
  { bytes: [NONE, REQUEST], options: OPTIONS, code: 'lease_required', said: '\x05\xff', why: 'a request that did not wait for the method' },
  { bytes: [Buffer.of(5, 0)], code: 'socks_malformed', said: '\x05\xff', why: 'no method at all' },
  { bytes: [Buffer.of(5, 1, 1)], code: 'socks_malformed', said: '\x05\xff', why: 'only GSSAPI' },
  {
    bytes: [PASSWORD, Buffer.of(5, 0, 0)],
    code: 'socks_malformed',
    said: '\x05\x02\x01\x01',
    why: 'a password message of another version',
  },
  {
    bytes: [Buffer.concat([Buffer.of(4, 1, 0, 80, 127, 0, 0, 1), Buffer.from('agent\0')])],
    code: 'socks_malformed',
    said: '\0\x5b\0\0\0\0\0\0',
    why: 'SOCKS4',
  },
  { bytes: [Buffer.from('GET / HTTP/1.1\r\n\r\n')], code: 'socks_malformed', said: /^HTTP\/1.1 400 .*SOCKS5/s, why: 'GET' },
  { bytes: [Buffer.from('CONNECT a.test:443 HTTP/1.1\r\n\r\n')], code: 'socks_malformed', said: /^HTTP\/1.1 400 /, why: 'CONNECT' },
  { bytes: [Buffer.of(22, 3, 1, 0, 5)], code: 'socks_malformed', said: '', why: 'TLS' },
  { bytes: [Buffer.from('\0\0\0\0')], code: 'socks_malformed', said: '', why: 'zeros' },
  { bytes: [NONE, Buffer.of(4)], code: 'socks_malformed', said: '\x05\0', reply: 1, why: 'a request of another version' },
  { bytes: [NONE, Buffer.of(5, 1, 1)], code: 'socks_malformed', said: '\x05\0', reply: 1, why: 'a reserved byte that is not 0' },
  { bytes: [NONE, Buffer.of(5, 1, 0, 3, 0)], code: 'socks_malformed', said: '\x05\0', reply: 1, why: 'an empty name' },
  { bytes: [NONE, Buffer.of(5, 1, 0, 2)], code: 'socks_malformed', said: '\x05\0', reply: 8, why: 'an unknown address type' },
  { bytes: [NONE, Buffer.of(5, 1, 0, 1, 1, 2, 3, 4, 0, 0)], code: 'socks_malformed', said: '\x05\0', reply: 1, why: 'port 0' },
  { bytes: [NONE, Buffer.of(5, 2, 0, 1, 1, 2, 3, 4, 0, 80)], code: 'command_not_supported', said: '\x05\0', reply: 7, why: 'BIND' },
  {
    bytes: [NONE, Buffer.of(5, 3, 0, 1, 0, 0, 0, 0, 0, 0)],
    code: 'command_not_supported',
    said: '\x05\0',
    reply: 7,
    why: 'UDP ASSOCIATE from wherever it will be',
  },
  { bytes: [NONE, Buffer.of(5, 9, 0, 1, 1, 2, 3, 4, 0, 80)], code: 'command_not_supported', said: '\x05\0', reply: 7, why: 'command 9' },
]
for (const { bytes, options, code, said, reply, why } of REFUSED) {
  test(`refused as ${code}${reply === undefined ? '' : ` with reply ${reply}`}: ${why}`, async () => {
    const found = await converse([Buffer.concat(bytes)], options)
    assert.ok(found.ends.kind === 'refused')
    assert.equal(found.ends.refusal.code, code)
    assert.equal(found.ends.reply, reply)
    if (typeof said === 'string') assert.equal(found.said, said)
    else assert.match(found.said, said)
  })
}

test('a refused command says where it was to lead, for the audit', async () => {
  const { ends } = await converse([NONE, Buffer.of(5, 2, 0, 4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 80)])
  assert.ok(ends.kind === 'refused')
  assert.deepEqual(ends.request, { command: 'bind', address: { kind: 'ipv6', text: '2001:db8:0:0:0:0:0:1' }, port: 80 })
})

test('a password is in no refusal, right or wrong', async () => {
  for (const parts of [
    [PASSWORD, password('hunter2hunter2')],
    [PASSWORD, password(LEASE), Buffer.of(4)],
  ]) {
    const { ends } = await converse(parts, OPTIONS)
    assert.equal(ends.kind, 'refused')
    assert.doesNotMatch(JSON.stringify(ends), /hunter2|the-lease/)
  }
})

test('a check of the lease that fails is an error of the handshake, not of the process, and serves nobody', async () => {
  await using sockets = await openSocketPair()
  const found = negotiate(sockets.server, {
    checkLease: () => {
      throw new Error('no key')
    },
  })
  sockets.client.write(Buffer.concat([PASSWORD, password(LEASE), REQUEST]))
  await assert.rejects(found, { message: 'no key' })
})

for (const { bytes, reply, why } of [
  { bytes: Buffer.alloc(0), reply: undefined, why: 'nothing' },
  { bytes: Buffer.of(5, 2, 0), reply: undefined, why: 'half a greeting' },
  { bytes: Buffer.concat([NONE, REQUEST.subarray(0, -1)]), reply: 6, why: 'all but the last byte of the request' },
]) {
  test(`${why} is given up when the time for the whole handshake is over, not before`, async (t) => {
    await using sockets = await openSocketPair()
    t.mock.timers.enable({ apis: ['setTimeout'] })
    let ends: Handshake | undefined
    const found = negotiate(sockets.server).then((handshake) => (ends = handshake))
    if (bytes.length > 0) {
      const arrived = once(sockets.server, 'readable')
      sockets.client.write(bytes)
      await arrived
    }
    t.mock.timers.tick(LIMITS.headTimeoutMs - 1)
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(ends, undefined)
    t.mock.timers.tick(1)
    const given = await found
    assert.ok(given.kind === 'refused')
    assert.equal(given.refusal.code, 'head_timeout')
    assert.equal(given.reply, reply)
  })
}

for (const how of ['ends', 'breaks'] as const) {
  test(`a client that ${how} its connection in the middle of the handshake is gone`, async () => {
    for (const bytes of [Buffer.alloc(0), NONE, Buffer.concat([NONE, REQUEST.subarray(0, 9)])]) {
      await using sockets = await openSocketPair()
      const found = negotiate(sockets.server)
      if (bytes.length > 0) {
        sockets.client.write(bytes)
        await once(sockets.server, 'readable')
      }
      if (how === 'ends') sockets.client.end()
      else sockets.client.resetAndDestroy()
      assert.deepEqual(await found, { kind: 'closed' })
    }
  })
}

test('a client that says everything at once and ends its side is served, and its data is not lost', async () => {
  await using sockets = await openSocketPair()
  sockets.client.end(Buffer.concat([NONE, REQUEST, Buffer.from('last words')]))
  // All of it, and the end, is there before anyone reads.
  await once(sockets.server, 'readable')
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal((await negotiate(sockets.server)).kind, 'request')
  assert.equal(Buffer.concat((await sockets.server.toArray()) as Buffer[]).toString(), 'last words')
})

test('a connection that is gone already is closed, not waited for', async () => {
  await using sockets = await openSocketPair()
  sockets.server.destroy()
  assert.deepEqual(await negotiate(sockets.server), { kind: 'closed' })
})

for (const { code, cause, reply, why } of [
  { code: 'host_not_allowed', reply: 2, why: 'the policy' },
  { code: 'address_refused', reply: 2, why: 'an address by class' },
  { code: 'host_invalid', reply: 2, why: 'a name that is not one' },
  { code: 'controller_unavailable', reply: 2, why: 'nobody to ask' },
  { code: 'upstream_name_failed', reply: 4, why: 'a name without address' },
  { code: 'upstream_unreachable', cause: 'ECONNREFUSED', reply: 5, why: 'a closed port' },
  { code: 'upstream_unreachable', cause: 'ENETUNREACH', reply: 3, why: 'no route to the network' },
  { code: 'upstream_unreachable', cause: 'EHOSTUNREACH', reply: 4, why: 'no route to the host' },
  { code: 'upstream_unreachable', cause: 'ETIMEDOUT', reply: 6, why: 'no answer in time' },
  { code: 'upstream_unreachable', cause: 'ECONNRESET', reply: 1, why: 'a reset' },
  { code: 'upstream_unreachable', reply: 1, why: 'an unknown cause' },
  { code: 'upstream_timeout', reply: 6, why: 'time' },
  { code: 'command_not_supported', reply: 7, why: 'the command' },
  { code: 'audit_unavailable', reply: 1, why: 'no audit' },
  { code: 'internal', reply: 1, why: 'a fault of the gate' },
] as const) {
  test(`what is refused for ${why} is replied ${reply}`, () =>
    assert.equal(replyFor(code, ...('cause' in { cause } && cause ? [cause] : [])), reply))
}

test('no refusal is ever replied as success', () => {
  for (const [code, { to }] of Object.entries(ERRORS)) if (to === 'agent') assert.ok(replyFor(code as RefusalCode) > 0, code)
})

/** A SOCKS port whose upstream is itself: it answers every allowed request with what was asked for. */
async function openSocksPort(options: HandshakeOptions): Promise<AsyncDisposable & { readonly port: number }> {
  const open = new Set<Socket>()
  const listener = createServer({ allowHalfOpen: true }, (socket: Socket) => {
    open.add(socket)
    void negotiate(socket, options).then((ends) => {
      if (ends.kind !== 'request')
        return socket.end(ends.kind === 'refused' && ends.reply !== undefined ? writeReply(ends.reply) : Buffer.alloc(0))
      socket.write(writeReply(0))
      const body = JSON.stringify(ends.request.address)
      return socket.resume().once('data', () => socket.end(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`))
    })
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  return {
    port: (listener.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy()
      listener.close()
      await once(listener, 'close')
    },
  }
}

const run = promisify(execFile)
for (const { proxy, url, said } of [
  { proxy: 'socks5h://127.0.0.1', url: 'http://api.example.com/', said: { kind: 'domain', text: 'api.example.com' } },
  { proxy: 'socks5h://127.0.0.1', url: 'http://192.0.2.7/', said: { text: '192.0.2.7' } },
  { proxy: 'socks5://127.0.0.1', url: 'http://[2001:db8::7]/', said: { kind: 'ipv6', text: '2001:db8:0:0:0:0:0:7' } },
  { proxy: `socks5h://any:${LEASE}@127.0.0.1`, url: 'http://a.test/', said: { kind: 'domain', text: 'a.test' } },
]) {
  test(`curl through ${proxy} asks for ${url} and is understood`, async () => {
    await using socks = await openSocksPort(proxy.includes('@') ? OPTIONS : {})
    const { stdout } = await run('curl', ['-sS', '-q', '--noproxy', '', '-x', `${proxy}:${socks.port}`, url])
    assert.partialDeepStrictEqual(JSON.parse(stdout), said)
  })
}

test('curl without the lease, and with a wrong one, is not served', async () => {
  await using socks = await openSocksPort(OPTIONS)
  for (const proxy of ['socks5h://127.0.0.1', 'socks5h://any:wrong@127.0.0.1'])
    await assert.rejects(run('curl', ['-sS', '-q', '--noproxy', '', '-x', `${proxy}:${socks.port}`, 'http://a.test/']), { code: 97 })
})

test('the client library socks connects with the lease, and is told that BIND is not served', async () => {
  await using socks = await openSocksPort(OPTIONS)
  const proxy = { host: '127.0.0.1', port: socks.port, type: 5, userId: 'any', password: LEASE } as const
  const destination = { host: 'api.example.com', port: 443 }
  const { socket } = await SocksClient.createConnection({ proxy, command: 'connect', destination })
  socket.destroy()
  const binding = new SocksClient({ proxy, command: 'bind', destination })
  binding.connect()
  const [error] = (await once(binding, 'error')) as [Error]
  assert.match(error.message, /CommandNotSupported/)
})
