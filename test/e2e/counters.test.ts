/**
 * What the gate does for each request, counted where it can be seen from outside: connections, look-ups, certificates, pieces,
 * writes, memory. None of it depends on how fast the machine is.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import fs from 'node:fs'
import { existsSync, readFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { test, type TestContext } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import type { Authority } from '../../src/pki/pki.ts'
import { openTestEgress } from '../support/egress.ts'
import { keepAsking, openKeptAgent, type KeptAgent } from '../support/kept-agent.ts'
import { heapBytes, MB } from '../support/memory.ts'
import { exchangeRaw, openTlsTunnel, statusOf } from '../support/raw-client.ts'
import { API, CANARY, openSetting, OTHER, policyFor } from '../support/setting.ts'
import { startProxy } from '../support/command.ts'
import { createUpstreamCa, leafFor, listenAsUpstream, openRawUpstream, type Upstream } from '../support/upstream.ts'

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello'
const MANY = 64

function get(port: number, path = '/'): string {
  return `GET http://${API}:${port}${path} HTTP/1.1\r\nHost: ${API}:${port}\r\n\r\n`
}

function getInside(port: number, path = '/', host = API): string {
  return `GET ${path} HTTP/1.1\r\nHost: ${host}:${port}\r\n\r\n`
}

async function times(count: number, work: (i: number) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < count; i++) await work(i)
}

function together(count: number, work: (i: number) => Promise<unknown>): Promise<unknown[]> {
  return Promise.all(Array.from({ length: count }, (_, i) => work(i)))
}

// ---- connections

test('64 requests one after another take one connection to the upstream, plain and intercepted', async () => {
  await using setting = await openSetting()
  const { gate, secure, plain, ca } = setting
  using agent = await openKeptAgent(gate.port)
  await times(MANY, () => agent.ask(get(plain.port)))
  using inside = keepAsking(await openTlsTunnel(gate.port, API, secure.port, ca))
  await times(MANY, () => inside.ask(getInside(secure.port)))
  assert.deepEqual([plain.requests.length, plain.connections], [MANY, 1])
  assert.deepEqual([secure.requests.length, secure.connections], [MANY, 1])
})

test('agents that come one after another, each with a connection of its own, share one to the upstream', async () => {
  await using setting = await openSetting()
  const { gate, secure, plain, ca } = setting
  await times(MANY, async () => {
    using agent = await openKeptAgent(gate.port)
    await agent.ask(get(plain.port))
    using inside = keepAsking(await openTlsTunnel(gate.port, API, secure.port, ca))
    await inside.ask(getInside(secure.port))
  })
  assert.deepEqual([plain.requests.length, plain.connections], [MANY, 1])
  assert.deepEqual([secure.requests.length, secure.connections], [MANY, 1])
})

test('64 agents at the same time, again and again, take no more connections than there are requests at a time', async () => {
  await using setting = await openSetting()
  const { gate, plain } = setting
  await using agents = new AsyncDisposableStack()
  const all: KeptAgent[] = []
  await times(MANY, async () => void all.push(agents.use(asAsync(await openKeptAgent(gate.port)))))
  for (const _ of [1, 2, 3, 4, 5]) await Promise.all(all.map((agent) => agent.ask(get(plain.port))))
  assert.equal(plain.requests.length, 5 * MANY)
  assert.ok(plain.connections <= MANY, `${plain.connections} connections`)
})

function asAsync(agent: KeptAgent): KeptAgent & AsyncDisposable {
  return { ...agent, [Symbol.asyncDispose]: async () => agent[Symbol.dispose]() }
}

// ---- look-ups

test('a name is looked up once for as long as its answer lives, whoever asks at whatever time', async () => {
  await using upstream = await openRawUpstream((socket) => void socket.on('data', () => socket.write(ANSWER)))
  await using egress = await openTestEgress({
    policy: policyFor([upstream.port], { inject: '' }),
    answer: (_host, family) => (family === 4 ? [{ address: '127.0.0.1', ttl: 30 }] : []),
  })
  await together(MANY, () => askOnce(egress.port, upstream))
  await times(MANY, () => askOnce(egress.port, upstream))
  assert.deepEqual(egress.asked.toSorted(), [`${API} 4`, `${API} 6`])
  egress.clock.ms += 29_000
  await together(MANY, () => askOnce(egress.port, upstream))
  assert.equal(egress.asked.length, 2)
  egress.clock.ms += 2_000
  await together(MANY, () => askOnce(egress.port, upstream))
  assert.equal(egress.asked.length, 4)
})

async function askOnce(port: number, upstream: Upstream): Promise<void> {
  using agent = await openKeptAgent(port)
  assert.equal(statusOf((await agent.ask(get(upstream.port))).text), 200)
}

// ---- certificates

test('no leaf is made twice: agents at the same time and one after another see one certificate a host', async () => {
  await using setting = await openSetting({ isBoth: true })
  const { gate, secure, ca } = setting
  const seen = new Map<string, Set<string>>([
    [API, new Set()],
    [OTHER, new Set()],
  ])
  const look = async (host: string): Promise<void> => {
    const tunnel = await openTlsTunnel(gate.port, host, secure.port, ca)
    seen.get(host)?.add(tunnel.getPeerX509Certificate()?.fingerprint256 ?? 'none')
    tunnel.destroy()
  }
  await together(32, (i) => look(i % 2 === 0 ? API : OTHER))
  await times(8, (i) => look(i % 2 === 0 ? API : OTHER))
  assert.deepEqual(
    [...seen.values()].map((fingerprints) => fingerprints.size),
    [1, 1],
  )
  assert.notDeepEqual(seen.get(API), seen.get(OTHER))
})

test('an agent that comes back resumes its TLS session: no second full handshake', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  const first = await openTlsTunnel(gate.port, API, secure.port, ca)
  const ticket = once(first, 'session') as Promise<[Buffer]>
  await keepAsking(first).ask(getInside(secure.port))
  const [session] = await ticket
  first.destroy()
  const second = await openTlsTunnel(gate.port, API, secure.port, ca, { session })
  assert.equal(second.isSessionReused(), true)
  second.destroy()
})

// ---- pieces

/** An upstream that answers each request with one write, and notes in how many pieces requests arrive. */
async function openCountingUpstream(): Promise<{ upstream: Upstream; pieces: string[] } & AsyncDisposable> {
  const pieces: string[] = []
  const upstream = await openRawUpstream((socket) => {
    socket.on('data', (chunk) => {
      pieces.push(chunk.toString('latin1'))
      if (pieces.at(-1)?.endsWith('\r\n\r\n') === true || pieces.at(-1)?.endsWith('end') === true) socket.write(ANSWER)
    })
  })
  return { upstream, pieces, [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose]() }
}

test('a small request arrives at the upstream in one piece, and its answer at the agent in one', async () => {
  await using counting = await openCountingUpstream()
  const { upstream, pieces } = counting
  await using setting = await openSetting({
    gate: { policy: policyFor([upstream.port], { inject: '' }), env: {} },
  })
  using agent = await openKeptAgent(setting.gate.port)
  await times(MANY, async (i) => {
    const answer = await agent.ask(get(upstream.port, `/${i}`))
    assert.equal(answer.pieces, 1, `the answer came in ${answer.pieces} pieces`)
    assert.equal(pieces.length, i + 1, pieces.slice(i).join('\n--\n'))
  })
})

test('a small upload that came in one piece leaves in one, its head and its body together', async () => {
  await using counting = await openCountingUpstream()
  const { upstream, pieces } = counting
  await using setting = await openSetting({
    gate: { policy: policyFor([upstream.port], { inject: '' }), env: {} },
  })
  using agent = await openKeptAgent(setting.gate.port)
  await times(MANY, async (i) => {
    const head = `POST http://${API}:${upstream.port}/${i} HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\nContent-Length: 8\r\n\r\n`
    await agent.ask(`${head}body end`)
    assert.equal(pieces.length, i + 1, pieces.slice(i).join('\n--\n'))
  })
})

/** The same behind TLS: `onRecord` gets what each record holds, as TLS gives one after the other. */
function openTlsUpstream(authority: Authority, onRecord: (record: string) => void): Promise<Upstream> {
  const server = createTlsServer(leafFor(authority, API), (socket) => {
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      onRecord(chunk.toString('latin1'))
      socket.write(ANSWER)
    })
  })
  return listenAsUpstream(server, [])
}

test('inside intercepted TLS too: one record for a small request with its credential, one for a small answer', async () => {
  await using upstreamCa = await createUpstreamCa()
  const records: string[] = []
  await using upstream = await openTlsUpstream(upstreamCa.authority, (record) => records.push(record))
  const { port } = upstream
  await using setting = await openSetting({
    gate: { policy: policyFor([port]), env: { API_TOKEN: CANARY }, upstreamCa: [upstreamCa.file] },
  })
  using agent = keepAsking(await openTlsTunnel(setting.gate.port, API, port, setting.ca))
  await times(MANY, async (i) => {
    const answer = await agent.ask(getInside(port, `/${i}`))
    assert.equal(answer.pieces, 1, `the answer came in ${answer.pieces} records`)
    assert.equal(records.length, i + 1)
    assert.match(records[i] ?? '', new RegExp(`Bearer ${CANARY}`))
  })
})

// ---- writes

/** Counts the calls by which lines of the audit reach its file. */
function countAuditWrites(context: TestContext): { readonly writes: number; readonly lines: number } {
  const counted = { writes: 0, lines: 0 }
  const { writeSync } = fs
  const counting = (...args: Parameters<typeof writeSync>): number => {
    const text: string = args[1]
    if (text.includes('"prev":"')) {
      counted.writes += 1
      counted.lines += text.split('\n').length - 1
    }
    return writeSync(...args)
  }
  fs.writeSync = counting as typeof writeSync
  syncBuiltinESMExports()
  context.after(() => {
    fs.writeSync = writeSync
    syncBuiltinESMExports()
  })
  return counted
}

test('what many requests at a time have audited goes out in far fewer writes than lines', async (context) => {
  await using setting = await openSetting()
  const { gate, plain } = setting
  await using agents = new AsyncDisposableStack()
  const all: KeptAgent[] = []
  await times(MANY, async () => void all.push(agents.use(asAsync(await openKeptAgent(gate.port)))))
  const counted = countAuditWrites(context)
  for (const _ of [1, 2, 3, 4]) await Promise.all(all.map((agent) => agent.ask(get(plain.port))))
  await gate.sidecar[Symbol.asyncDispose]()
  assert.ok(counted.lines >= 4 * MANY * 2, `${counted.lines} lines`)
  assert.ok(counted.writes > 0, 'the audit writes in another way than this test counts')
  assert.ok(counted.writes * 4 <= counted.lines, `${counted.writes} writes for ${counted.lines} lines`)
})

/** read(2), write(2) and their relatives of a process so far, and what it wrote; Linux only. */
function callsOf(pid: number | undefined): { reads: number; writes: number } {
  const text = readFileSync(`/proc/${pid}/io`, 'utf8')
  const field = (name: string): number => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(text)?.[1])
  return { reads: field('syscr'), writes: field('syscw') }
}

test(
  'a request of one agent costs at most seven writes and seven reads of the kernel: both sides, two audit lines, the log, waking up',
  { skip: !existsSync('/proc/self/io') },
  async () => {
    await using upstream = await openRawUpstream((socket) => void socket.on('data', () => socket.write(ANSWER)))
    await using gate = await startProxy({
      policy: policyFor([upstream.port], { inject: '' }),
      args: ['--resolve', `${API}=127.0.0.1`],
    })
    using agent = await openKeptAgent(gate.port)
    await times(200, () => agent.ask(get(upstream.port)))
    const before = callsOf(gate.child.pid)
    const requests = 500
    await times(requests, () => agent.ask(get(upstream.port)))
    const after = callsOf(gate.child.pid)
    const [reads, writes] = [(after.reads - before.reads) / requests, (after.writes - before.writes) / requests]
    assert.ok(writes >= 3, `only ${writes} writes a request are seen: they are not counted here`)
    assert.ok(writes <= 7, `${writes} writes a request`)
    assert.ok(reads <= 7, `${reads} reads a request`)
  },
)

// ---- memory

test('2,000 requests, plain and intercepted, leave nothing behind: no memory, no timer, no socket', async () => {
  await using upstreamCa = await createUpstreamCa()
  await using secure = await openTlsUpstream(upstreamCa.authority, () => {})
  const { port } = secure
  await using plain = await openRawUpstream((socket) => void socket.on('data', () => socket.write(ANSWER)))
  await using egress = await openTestEgress({
    policy: policyFor([port, plain.port]),
    answer: (_host, family) => (family === 4 ? [{ address: '127.0.0.1', ttl: 60 }] : []),
    env: { API_TOKEN: CANARY },
    upstreamCa: upstreamCa.authority.certificatePem,
  })
  using agent = await openKeptAgent(egress.port)
  using inside = keepAsking(await openTlsTunnel(egress.port, API, port, egress.ca))
  const ask = async (): Promise<void> => {
    // Credentials do not go over plain http: this name has none.
    const answer = await agent.ask(`GET http://${OTHER}:${plain.port}/ HTTP/1.1\r\nHost: ${OTHER}:${plain.port}\r\n\r\n`)
    assert.equal(statusOf(answer.text), 200)
    assert.equal(statusOf((await inside.ask(getInside(port))).text), 200)
  }
  await times(500, ask)
  const before = { heap: heapBytes(), resources: process.getActiveResourcesInfo().length }
  await times(1_000, ask)
  const after = { heap: heapBytes(), resources: process.getActiveResourcesInfo().length }
  assert.ok(after.heap - before.heap < 2 * MB, `${after.heap - before.heap} bytes more after 2,000 requests`)
  assert.ok(after.resources - before.resources <= 4, `${after.resources - before.resources} timers, sockets and requests more`)
})

test('agents that come and go leave nothing behind either', async () => {
  await using upstream = await openRawUpstream((socket) => void socket.on('data', () => socket.write(ANSWER)))
  await using egress = await openTestEgress({
    policy: policyFor([upstream.port], { inject: '' }),
    answer: (_host, family) => (family === 4 ? [{ address: '127.0.0.1', ttl: 60 }] : []),
  })
  const come = (): Promise<void> => askOnce(egress.port, upstream)
  await times(300, come)
  await exchangeRaw(egress.port, get(upstream.port).replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
  const before = heapBytes()
  await times(1_000, come)
  const growth = heapBytes() - before
  assert.ok(growth < 2 * MB, `${growth} bytes more after 1,000 agents`)
})
