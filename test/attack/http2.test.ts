/** What HTTP/2 lets an agent write that a request must not be: by frames, as no client library would write them. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, beforeEach, test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { FLAG, PING, TYPE, fieldBlock, frame, headers, isPong, reset, settings, windowUpdate, type Frame } from '../support/http2-frames.ts'
import { askStream, fateOf, getOf, openFrameAgent, openHttp2Agent, whole, type Towards } from '../support/http2-agent.ts'
import { ALL_WAYS } from '../support/gate.ts'
import { exchangeRaw, exchangeTls, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, CANARY, OTHER, openSetting, type Setting } from '../support/setting.ts'

let setting: Setting
let to: Towards
let authority: string

before(async () => {
  setting = await openSetting({ gate: { config: { ...ALL_WAYS } } })
  to = { port: setting.gate.port, host: API, targetPort: setting.secure.port, ca: setting.ca }
  authority = `${API}:${setting.secure.port}`
})
after(() => setting[Symbol.asyncDispose]())
beforeEach(() => void (setting.secure.requests.length = 0))

/** The gate still answers, on a connection of its own. */
async function assertAlive(): Promise<void> {
  using session = await openHttp2Agent(to)
  assert.equal((await askStream(session, { ':path': '/alive' })).status, 200)
  assert.equal(setting.secure.requests.at(-1)?.url, '/alive')
}

const answers = (stream: number) => (read: Frame) => read.stream === stream && (read.type === TYPE.HEADERS || read.type === TYPE.RST_STREAM)
const ends = (stream: number) => (read: Frame) =>
  read.stream === stream && (read.type === TYPE.RST_STREAM || (read.flags & FLAG.END_STREAM) !== 0)

const get = (): [string, string][] => getOf(authority)
const without = (name: string): [string, string][] => get().filter(([field]) => field !== name)
const replaced = (name: string, value: string): [string, string][] => get().map(([field, old]) => [field, field === name ? value : old])

for (const { why, fields, becomes } of [
  { why: 'two :path', fields: () => [...get(), [':path', '/admin']], becomes: 'reset' },
  { why: 'two :method', fields: () => [...get(), [':method', 'POST']], becomes: 'reset' },
  { why: 'a pseudo-header field behind others', fields: () => [['accept', '*/*'], ...get()], becomes: 'reset' },
  { why: 'an unknown pseudo-header field', fields: () => [...get(), [':host', OTHER]], becomes: 'reset' },
  { why: ':status in a request', fields: () => [...get(), [':status', '200']], becomes: 'reset' },
  { why: 'no :path', fields: () => without(':path'), becomes: 'reset' },
  { why: 'no :method', fields: () => without(':method'), becomes: 'reset' },
  { why: 'no :scheme', fields: () => without(':scheme'), becomes: 'reset' },
  { why: 'an empty :path', fields: () => replaced(':path', ''), becomes: 'reset' },
  { why: 'a :path without a slash', fields: () => replaced(':path', 'admin'), becomes: 'reset' },
  { why: 'a :path of two slashes and a host, as a path', fields: () => replaced(':path', '//x#y'), becomes: 'target_invalid' },
  { why: 'a :path of * with GET', fields: () => replaced(':path', '*'), becomes: 'reset' },
  { why: 'a :path with a space and HTTP/1.1 behind it', fields: () => replaced(':path', '/ HTTP/1.1\r\nx: y'), becomes: 'reset' },
  { why: 'a :path with bytes outside ASCII', fields: () => replaced(':path', '/\xe4'), becomes: 'target_invalid' },
  { why: 'a :method with a space', fields: () => replaced(':method', 'GET /x'), becomes: 'reset' },
  { why: 'a :method with a line end', fields: () => replaced(':method', 'GET / HTTP/1.1\r\nhost: x\r\n\r\nGET'), becomes: 'reset' },
  { why: 'a :path with a line end', fields: () => replaced(':path', '/\r\nx-smuggled: 1'), becomes: 'reset' },
  { why: 'an upper-case name', fields: () => [...get(), ['X-Upper', '1']], becomes: 'reset' },
  { why: 'connection', fields: () => [...get(), ['connection', 'close']], becomes: 'reset' },
  { why: 'transfer-encoding', fields: () => [...get(), ['transfer-encoding', 'chunked']], becomes: 'reset' },
  { why: 'upgrade', fields: () => [...get(), ['upgrade', 'websocket']], becomes: 'reset' },
  { why: 'keep-alive', fields: () => [...get(), ['keep-alive', '1']], becomes: 'reset' },
  { why: 'proxy-connection', fields: () => [...get(), ['proxy-connection', 'close']], becomes: 'reset' },
  { why: 'te other than trailers', fields: () => [...get(), ['te', 'gzip']], becomes: 'reset' },
  {
    why: 'transfer_encoding, which some servers fold',
    fields: () => [...get(), ['transfer_encoding', 'chunked']],
    becomes: 'request_malformed',
  },
  { why: 'content-length of a body that is not there', fields: () => [...get(), ['content-length', '5']], becomes: 'reset' },
  { why: 'two lengths', fields: () => [...get(), ['content-length', '0'], ['content-length', '0']], becomes: 'reset' },
  { why: 'a length that is no number', fields: () => [...get(), ['content-length', '+0']], becomes: 'reset' },
  { why: 'TRACE', fields: () => replaced(':method', 'TRACE'), becomes: 'method_refused' },
  { why: ':protocol with another method', fields: () => [...get(), [':protocol', 'websocket']], becomes: 'reset' },
  {
    why: `${LIMITS.headFieldsMax + 10} fields`,
    fields: () => [...get(), ...Array.from({ length: LIMITS.headFieldsMax + 10 }, (): [string, string] => ['x', 'y'])],
    becomes: 'reset',
  },
] as { why: string; fields: () => [string, string][]; becomes: string }[]) {
  test(`I2 I10 a stream with ${why}: ${becomes}, nothing goes out, and the next stream is served`, async () => {
    using agent = await openFrameAgent(to)
    agent.send(whole(1, fields()))
    assert.equal(await fateOf(agent), becomes)
    assert.equal(setting.secure.requests.length, 0)
    agent.send(whole(3, get()))
    await agent.until(answers(3))
    assert.deepEqual(
      setting.secure.requests.map(({ url }) => url),
      ['/'],
    )
  })
}

for (const [what, name, value] of [
  ['a value with CR LF and a field', 'x-value', 'a\r\nx-smuggled: 1b'],
  ['a value with NUL', 'x-value', 'a\0b'],
  ['a value with a bare LF', 'x-value', 'a\nb'],
  ['a value with a bare CR', 'x-value', 'a\rb'],
  ['a name with CR LF', 'x-value\r\nx-smuggled', '1'],
  ['a name with a colon', 'x-value: 1\r\nx-smuggled', '1'],
  ['a name with a space', 'x-value x', '1'],
  ['a name with a colon before it, which is no pseudo-header field', ':x-value', '1'],
] as const) {
  test(`I10 ${what} never reaches the upstream`, async () => {
    using agent = await openFrameAgent(to)
    agent.send(whole(1, [...get(), [name, value]]))
    await agent.until(ends(1))
    agent.send(whole(3, get()))
    await agent.until(ends(3))
    const seen = setting.secure.requests.flatMap(({ rawHeaders }) => rawHeaders).join('\n')
    assert.doesNotMatch(seen, /x-value|smuggled/)
  })
}

test('extended CONNECT is not offered', async () => {
  using agent = await openFrameAgent(to)
  const { payload } = await agent.until(({ type, flags }) => type === TYPE.SETTINGS && (flags & FLAG.ACK) === 0)
  const offered = new Map(
    Array.from({ length: payload.length / 6 }, (_, i) => [payload.readUInt16BE(i * 6), payload.readUInt32BE(i * 6 + 2)]),
  )
  assert.equal(offered.get(8) ?? 0, 0, 'SETTINGS_ENABLE_CONNECT_PROTOCOL')
  assert.equal(offered.get(3), LIMITS.streamsMax)
  assert.equal(offered.get(6), LIMITS.headBytesMax)
})

for (const { why, data } of [
  { why: 'more than its length', data: 'x'.repeat(11) },
  { why: 'less than its length', data: 'x'.repeat(9) },
]) {
  test(`I10 a body with ${why} is reset and never arrives whole`, async () => {
    using agent = await openFrameAgent(to)
    const head = [...replaced(':method', 'POST'), ['content-length', '10']] as [string, string][]
    agent.send(headers(1, head), frame(TYPE.DATA, FLAG.END_STREAM, 1, Buffer.from(data)))
    assert.match(await fateOf(agent), /reset|connection ends/)
    await assertAlive()
    assert.deepEqual(
      setting.secure.requests.map(({ url }) => url),
      ['/alive'],
    )
  })
}

for (const code of [0, 8, 2]) {
  test(`I10 a body that the agent breaks off by a reset with code ${code} does not end as a whole one`, async () => {
    const arrived: string[] = []
    await using other = await openSetting({ answer: ({ body }) => void arrived.push(body.toString()) })
    using agent = await openFrameAgent({ ...to, port: other.gate.port, targetPort: other.secure.port, ca: other.ca })
    const head = [...getOf(`${API}:${other.secure.port}`, '/half').slice(1), [':method', 'POST']] as [string, string][]
    agent.send(headers(1, head), frame(TYPE.DATA, 0, 1, Buffer.from('half')))
    while (other.secure.requests[0]?.body.length !== 4) await new Promise(setImmediate)
    agent.send(reset(1, code))
    let events: Record<string, unknown>[] = []
    while (!events.some(({ event }) => event === 'finished')) events = await other.gate.audit()
    assert.equal(events.find(({ event }) => event === 'finished')?.['code'], 'agent_gone')
    while (other.secure.open > 0) await new Promise(setImmediate)
    assert.deepEqual(arrived, [])
  })
}

test('a head of 1 MB in CONTINUATION frames ends the connection, and nothing goes out', async () => {
  using agent = await openFrameAgent(to)
  const piece = fieldBlock([['x', 'y'.repeat(16_000)]])
  agent.send(headers(1, get(), 0), ...Array.from({ length: 64 }, () => frame(TYPE.CONTINUATION, 0, 1, piece)))
  agent.send(frame(TYPE.CONTINUATION, FLAG.END_HEADERS, 1))
  assert.match(await fateOf(agent), /reset|connection ends/)
  assert.equal(setting.secure.requests.length, 0)
  await assertAlive()
})

test('CONTINUATION frames without end and without a byte end the connection (CVE-2024-27316)', async () => {
  using agent = await openFrameAgent(to)
  agent.send(headers(1, get(), 0))
  const empty = Buffer.concat(Array.from({ length: 1_000 }, () => frame(TYPE.CONTINUATION, 0, 1)))
  for (let i = 0; i < 50 && !agent.isClosed; i++) agent.send(empty)
  await agent.closed()
  assert.equal(setting.secure.requests.length, 0)
  await assertAlive()
})

test('a table entry of 4 KB that is named 60,000 times (HPACK bomb) goes nowhere', async () => {
  using agent = await openFrameAgent(to)
  // RFC 7541 §6.2.1: a literal that goes into the table; §6.1: one byte each that names it.
  const value = Buffer.alloc(4_000, 'z')
  const entry = Buffer.concat([Buffer.from([0x40, 1, 0x78, 0x7f, ...varint(value.length - 127)]), value])
  const bomb = Buffer.concat([fieldBlock(get()), entry, Buffer.alloc(11_000, 0xbe)])
  agent.send(
    frame(TYPE.HEADERS, FLAG.END_STREAM, 1, bomb),
    ...Array.from({ length: 4 }, () => frame(TYPE.CONTINUATION, 0, 1, Buffer.alloc(12_000, 0xbe))),
  )
  agent.send(frame(TYPE.CONTINUATION, FLAG.END_HEADERS, 1))
  assert.match(await fateOf(agent), /reset|connection ends/)
  assert.equal(setting.secure.requests.length, 0)
  await assertAlive()
})

function varint(left: number): number[] {
  return left < 128 ? [left] : [(left % 128) + 128, ...varint(Math.floor(left / 128))]
}

test('streams that are opened and reset without end (CVE-2023-44487) end their connection, and no other', async () => {
  using bystander = await openFrameAgent(to)
  using agent = await openFrameAgent(to)
  const pairs = 4_000
  agent.send(...Array.from({ length: pairs }, (_, i) => Buffer.concat([whole(i * 2 + 1, getOf(authority, '/rapid')), reset(i * 2 + 1, 8)])))
  await agent.closed()
  const arrived = setting.secure.requests.length
  assert.ok(arrived <= LIMITS.streamResetsBurstMax + LIMITS.streamsMax, `${arrived} of ${pairs} requests arrived`)
  bystander.send(whole(1, get()))
  await bystander.until(answers(1))
  await assertAlive()
})

test('an agent that opens more streams at once than it agreed to loses its connection, and the upstream sees no more of them', async (t) => {
  const { upstreamKeepAliveMs } = LIMITS
  // A connection that was made for a request that is gone is kept for so long.
  Object.assign(LIMITS, { upstreamKeepAliveMs: 500 })
  t.after(() => Object.assign(LIMITS, { upstreamKeepAliveMs }))
  await using other = await openSetting({ answer: () => {} })
  using agent = await openFrameAgent({ ...to, port: other.gate.port, targetPort: other.secure.port, ca: other.ca })
  await agent.until(({ type, flags }) => type === TYPE.SETTINGS && (flags & FLAG.ACK) !== 0)
  const fields = getOf(`${API}:${other.secure.port}`)
  agent.send(...Array.from({ length: LIMITS.streamsMax }, (_, i) => whole(i * 2 + 1, fields)))
  while (other.secure.open < LIMITS.streamsMax) await new Promise(setImmediate)
  agent.send(whole(LIMITS.streamsMax * 2 + 1, fields))
  await agent.closed()
  while (other.secure.open > 0) await new Promise(setImmediate)
  assert.ok(other.secure.requests.length <= LIMITS.streamsMax)
})

test('settings without end from an agent that reads nothing end its connection, and no other', async () => {
  using agent = await openFrameAgent(to)
  agent.socket.pause()
  const many = Buffer.concat(Array.from({ length: 2_000 }, () => settings([[4, 65_535]])))
  const ended = new Promise((resolve) => agent.socket.once('close', resolve))
  for (let i = 0; i < 200 && !agent.socket.destroyed; i++) {
    if (!agent.socket.write(many)) await Promise.race([new Promise((resolve) => agent.socket.once('drain', resolve)), ended])
  }
  agent.socket.resume()
  await agent.closed()
  await assertAlive()
})

test('20,000 pings at once are answered in turn, and others are served meanwhile', async () => {
  using agent = await openFrameAgent(to)
  const many = Buffer.concat(Array.from({ length: 1_000 }, () => PING))
  for (let i = 0; i < 20; i++) agent.send(many)
  await assertAlive()
  await agent.until(() => agent.frames.length > 20_000)
  assert.ok(agent.frames.filter(isPong).length >= 19_998)
})

test('a stream with an id that goes back is no request', async () => {
  using agent = await openFrameAgent(to)
  agent.send(whole(5, get()), whole(3, getOf(authority, '/back')), PING)
  await agent.until(isPong)
  await agent.until(ends(5))
  assert.deepEqual(
    setting.secure.requests.map(({ url }) => url),
    ['/'],
  )
})

for (const { why, frames } of [
  { why: 'a window that overflows', frames: () => [windowUpdate(0, 0x7fffffff), windowUpdate(0, 0x7fffffff)] },
  { why: 'a window update of nothing', frames: () => [windowUpdate(0, 0)] },
  { why: 'data on a stream that never was', frames: () => [frame(TYPE.DATA, 0, 9, Buffer.from('x'))] },
  { why: 'data on stream 0', frames: () => [frame(TYPE.DATA, 0, 0, Buffer.from('x'))] },
  { why: 'an even stream', frames: () => [whole(2, get())] },
  { why: 'a frame longer than was offered', frames: () => [frame(TYPE.DATA, 0, 1, Buffer.alloc(20_000))] },
  { why: 'a push promise', frames: () => [frame(TYPE.PUSH_PROMISE, FLAG.END_HEADERS, 1, Buffer.from([0, 0, 0, 2]))] },
  { why: 'a HEADERS frame in the middle of another', frames: () => [headers(1, get(), 0), whole(3, get())] },
  {
    why: 'a field block that does not decode',
    frames: () => [frame(TYPE.HEADERS, FLAG.END_HEADERS, 1, Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]))],
  },
  { why: 'bytes that are no frames', frames: () => [Buffer.alloc(4_096, 'GET / HTTP/1.1\r\n\r\n')] },
]) {
  test(`${why} ends the connection, and no other`, async () => {
    using agent = await openFrameAgent(to)
    agent.send(...frames())
    await agent.closed()
    await assertAlive()
  })
}

test('data behind the end of a stream does not come to the upstream', async () => {
  using agent = await openFrameAgent(to)
  agent.send(
    headers(1, replaced(':method', 'POST')),
    frame(TYPE.DATA, FLAG.END_STREAM, 1, Buffer.from('whole')),
    frame(TYPE.DATA, 0, 1, Buffer.from('more')),
  )
  await agent.until(({ type, stream }) => type === TYPE.GOAWAY || (type === TYPE.RST_STREAM && stream === 1))
  await assertAlive()
  assert.ok(setting.secure.requests.every(({ body }) => !body.includes('more')))
})

const PRIOR_KNOWLEDGE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'
const H2C = (target: string): string =>
  `GET ${target} HTTP/1.1\r\nHost: ${API}:${setting.plain.port}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n`

test('h2c with prior knowledge is refused on the proxy’s port, and nothing goes out', async () => {
  assert.doesNotMatch(await exchangeRaw(to.port, PRIOR_KNOWLEDGE), /^HTTP\/1\.1 2/)
  assert.equal(setting.plain.connections, 0)
})

test('h2c with prior knowledge is refused in a tunnel and on the transparent port, and nothing goes out', async () => {
  const { socket } = await openTunnel(to.port, `${API}:${setting.plain.port}`)
  socket.write(PRIOR_KNOWLEDGE)
  assert.equal(await readToEnd(socket), '')
  assert.equal(await exchangeRaw(setting.gate.ports.plain, PRIOR_KNOWLEDGE), '')
  assert.equal(setting.plain.connections, 0)
  const refused = (await setting.gate.audit()).filter(({ code }) => code === 'protocol_not_recognised')
  assert.ok(refused.length >= 2)
})

test('Upgrade: h2c is refused everywhere, and nothing goes out', async () => {
  const said = [
    await exchangeRaw(to.port, H2C(`http://${API}:${setting.plain.port}/`)),
    await exchangeTls(to.port, API, to.targetPort, to.ca, H2C('/')),
  ]
  const { socket } = await openTunnel(to.port, `${API}:${setting.plain.port}`)
  socket.write(H2C('/'))
  said.push(await readToEnd(socket))
  for (const answer of said) {
    assert.ok(statusOf(answer) >= 400, answer)
    assert.match(answer, /upgrade_refused|misdirected_request/)
  }
  assert.deepEqual([setting.plain.connections, setting.secure.requests.length], [0, 0])
})

test('a session whose agent goes away is forgotten, whatever was under way', async () => {
  const agents = await Promise.all(Array.from({ length: 20 }, () => openFrameAgent(to)))
  for (const agent of agents) agent.send(headers(1, replaced(':method', 'POST')), frame(TYPE.DATA, 0, 1, Buffer.alloc(1_000)))
  for (const agent of agents) agent.socket.destroy()
  await assertAlive()
})

test('I22 a credential for one host never goes out with a stream of another, on connections used at the same time', async () => {
  const other: Towards = { ...to, host: OTHER }
  using api = await openHttp2Agent(to)
  using bare = await openHttp2Agent(other)
  const asked = Array.from({ length: 50 }, (_, i) => askStream(i % 2 === 0 ? api : bare, { ':path': `/${i}` }))
  assert.ok((await Promise.all(asked)).every(({ status }) => status === 200 || status === 502))
  for (const { rawHeaders, remotePort } of setting.secure.requests) {
    const isApi = rawHeaders.includes(authority)
    assert.equal(rawHeaders.includes(`Bearer ${CANARY}`), isApi)
    const sharing = setting.secure.requests.filter((one) => one.remotePort === remotePort)
    assert.equal(new Set(sharing.map((one) => one.rawHeaders.includes(authority))).size, 1, 'two hosts share a connection')
  }
})

test('a plain connection to the proxy that opens with frames of HTTP/2 only is closed', async () => {
  const socket = connect(to.port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(settings())
  assert.doesNotMatch(await readToEnd(socket), /^HTTP\/1\.1 2/)
})

test('a ping is answered in the middle of a held request', async () => {
  using agent = await openFrameAgent(to)
  agent.send(headers(1, replaced(':method', 'POST')), PING)
  await agent.until(isPong)
  agent.send(frame(TYPE.DATA, FLAG.END_STREAM, 1, Buffer.from('end')))
  await agent.until(ends(1))
  assert.equal(setting.secure.requests.at(-1)?.body.toString(), 'end')
})
