/** The gate's ways in networks beside the jail: whom they serve, what is recorded of it, and that they end when the controller says so. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { VERSION } from '../../src/kernel/version.ts'
import type { Ask, AskAnswer, SideNetwork } from '../../src/wire/control.ts'
import { AGENT_LEASE, createTestSession, openTestController, type TestController, type TestSession } from '../support/control.ts'
import { eventually } from '../support/eventually.ts'
import { ALL_WAYS, openTestGate, type TestGate } from '../support/gate.ts'
import { openUdpClient, queryFor, type UdpClient } from '../support/dns.ts'
import { headerOf } from '../support/http2-upstream.ts'
import { enterOwnNetwork } from '../support/own-network.ts'
import { bodyOf, readToEnd, statusOf } from '../support/raw-client.ts'
import { CANARY } from '../support/setting.ts'
import { clientAt } from '../support/side-client.ts'
import { openRawUpstream, openUpstream, type Upstream } from '../support/upstream.ts'

await enterOwnNetwork(import.meta.filename)

const API = 'api.example.com'
const LOOP = 'loop.example.com'
const ASKED = 'asked.example.com'
const BESIDE = 'beside.example.com'
const DB = 'db.example.com'
const DB_PORT = 5432
const SIDE: SideNetwork = { address: '127.0.1.1', subnet: '127.0.1.0/28', label: 'use-r1' }
const OTHER: SideNetwork = { address: '127.0.2.1', subnet: '127.0.2.0/28', label: 'tool-db' }
const { signal } = new AbortController()

const sibling = clientAt('127.0.1.5')
const neighbour = clientAt('127.0.2.5')
const agent = clientAt('127.0.0.9')

const asked: Ask['subject'][] = []

const parts = new AsyncDisposableStack()
let session: TestSession
let controller: TestController
let gate: TestGate
let api: Upstream
let db: Upstream
/** What somebody in the other side network serves itself. */
let beside: Upstream

const policy = (own: readonly number[] = []): string => `version: 1
network:
  lease: required
  rules:
    - {id: api, host: ${API}, action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
    - {id: loop, host: ${LOOP}, ports: [${[80, ...own].join(', ')}], action: allow, addresses: ["127.0.0.0/8"]}
    - {id: asked, host: ${ASKED}, action: ask, addresses: ["127.0.0.0/8"]}
    - {id: beside, host: ${BESIDE}, action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
    - {id: db, host: ${DB}, ports: [${DB_PORT}], protocol: tcp, action: allow, addresses: ["127.0.0.0/8"]}
routes:
  - {name: api, upstream: "http://${API}", credential: token, plaintext: accept, addresses: ["127.0.0.0/8"]}
credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "vault:API_TOKEN", resources: [inject]}
`

async function openGate(): Promise<TestGate> {
  return openTestGate({
    policy: policy(),
    hosts: { [API]: ['127.0.0.3'], [ASKED]: ['127.0.0.3'], [DB]: ['127.0.0.3'], [LOOP]: [SIDE.address], [BESIDE]: ['127.0.2.5'] },
    config: {
      ...ALL_WAYS,
      version: VERSION,
      session: session.id,
      control: { transport: { kind: 'unix', path: join(session.socketDir, 'control.sock') }, agent: 'agent' },
      allowsClient: (address) => address.startsWith('127.'),
    },
  })
}

before(async () => {
  const onAsk = ({ subject }: Ask): Promise<AskAnswer> => {
    asked.push(subject)
    return Promise.resolve({ decision: 'allow', scope: 'session' })
  }
  session = parts.use(await createTestSession({ API_TOKEN: CANARY }, { onAsk }))
  controller = parts.use(await openTestController(session))
  api = parts.use(await openUpstream(undefined, undefined, { host: '127.0.0.3', port: 80 }))
  beside = parts.use(await openUpstream(undefined, undefined, { host: '127.0.2.5', port: 80 }))
  db = parts.use(await openRawUpstream((socket) => socket.write('greeting\n'), { host: '127.0.0.3', port: DB_PORT }))
  gate = await openGate()
  parts.defer(() => gate[Symbol.asyncDispose]())
  await controller.link.ready(signal)
})
after(() => parts.disposeAsync())

const get = (target: string, host: string, more = ''): string =>
  `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${more}\r\n`
const lastEvent = async (event: string): Promise<Record<string, unknown> | undefined> =>
  (await gate.audit()).findLast((entry) => entry['event'] === event)

async function closedAtOnce(socket: Socket): Promise<void> {
  assert.equal(await readToEnd(socket), '')
}

async function refusesConnections(address: string, port: number): Promise<void> {
  const socket = connect({ host: address, port, localAddress: '127.0.1.5' })
  await assert.rejects(once(socket, 'connect'), { code: 'ECONNREFUSED' })
}

test('I13 without a word of the controller the gate listens in no network but its own', async () => {
  for (const port of [gate.port, ...Object.values(gate.ports), DB_PORT]) await refusesConnections(SIDE.address, port)
})

test('I62 in a side network every way carries its clients without a lease, with their credentials, and the audit names the network', async () => {
  await controller.link.ways(SIDE, true, signal)
  await controller.link.ways(SIDE, true, signal)
  const { socks, plain, dns, gateway } = gate.ports
  const ways: Record<string, () => Promise<string>> = {
    http: () => sibling.exchange(SIDE.address, gate.port, get(`http://${API}/http`, API)),
    connect: async () => {
      const socket = await sibling.dial(SIDE.address, gate.port)
      socket.write(`CONNECT ${API}:80 HTTP/1.1\r\nHost: ${API}:80\r\n\r\n`)
      await once(socket, 'data')
      socket.write(get('/connect', API))
      return readToEnd(socket)
    },
    socks: async () => {
      const socket = await sibling.dial(SIDE.address, socks)
      socket.write(Buffer.of(5, 1, 0))
      await once(socket, 'data')
      socket.write(Buffer.concat([Buffer.of(5, 1, 0, 3, API.length), Buffer.from(API), Buffer.of(0, 80)]))
      await once(socket, 'data')
      socket.write(get('/socks', API))
      return readToEnd(socket)
    },
    transparent: () => sibling.exchange(SIDE.address, plain, get('/transparent', API)),
    route: () => sibling.exchange(SIDE.address, gateway, get('/route/api/route', 'sallyport:7070')),
  }
  // The policy's own ports are 80 for what knows no proxy.
  for (const [lane, carried] of Object.entries(ways)) {
    const answer = await carried()
    assert.equal(statusOf(answer), 200, `${lane}: ${answer}`)
    assert.equal(api.requests.at(-1)?.url, `/${lane}`)
    assert.equal(headerOf(api.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
    const decided = await lastEvent('decided')
    assert.deepEqual([decided?.['lane'], decided?.['network'], decided?.['decision']], [lane, 'use-r1', 'allow'])
  }
  assert.equal(await sibling.resolve(SIDE.address, dns, API), SIDE.address)
  assert.equal(await agent.resolve('127.0.0.1', dns, API), '127.0.0.1')
  assert.equal(await sibling.resolve(SIDE.address, dns, 'unknown.example.net'), undefined)
  const socket = await sibling.dial(SIDE.address, DB_PORT)
  assert.equal(String((await once(socket, 'data'))[0]), 'greeting\n')
  socket.destroy()
  assert.deepEqual([(await lastEvent('decided'))?.['network'], (await lastEvent('decided'))?.['note']], ['use-r1', 'tcp'])
  const health = await sibling.exchange(SIDE.address, gateway, get('/healthz', 'sallyport:7070'))
  assert.equal(statusOf(health), 200)
  assert.match(bodyOf(await sibling.exchange(SIDE.address, gateway, get('/ca.crt', 'sallyport:7070'))), /^-----BEGIN CERTIFICATE/)
})

test('I60 a side network is no proof anywhere else: the agent still shows the lease, and its events name no network', async () => {
  const refused = await agent.exchange('127.0.0.1', gate.port, get(`http://${API}/`, API))
  assert.equal(statusOf(refused), 407)
  const proof = `Proxy-Authorization: Bearer ${AGENT_LEASE}\r\n`
  assert.equal(statusOf(await agent.exchange('127.0.0.1', gate.port, get(`http://${API}/`, API, proof))), 200)
  assert.equal((await lastEvent('decided'))?.['network'], undefined)
  await closedAtOnce(await agent.dial('127.0.0.1', DB_PORT))
  assert.equal((await lastEvent('decided'))?.['code'], 'lease_required')
})

test('I21 a yes to who is in a side network is none to the agent, and the question says who asks', async () => {
  const proof = `Proxy-Authorization: Bearer ${AGENT_LEASE}\r\n`
  for (const [client, address] of [
    [sibling, SIDE.address],
    [sibling, SIDE.address],
    [agent, '127.0.0.1'],
    [agent, '127.0.0.1'],
  ] as const)
    assert.equal(statusOf(await client.exchange(address, gate.port, get(`http://${ASKED}/`, ASKED, proof))), 200)
  assert.deepEqual(
    asked.map(({ host, network }) => [host, network]),
    [
      [ASKED, 'use-r1'],
      [ASKED, undefined],
    ],
  )
})

test("I60 nobody of a side network is the agent at the gateway, not even with the agent's lease", async () => {
  const served: string[] = []
  for (const path of [
    '/v1/placeholders',
    '/v1/files',
    '/v1/policy/explain?url=http://x.example/',
    '/v1/requests/x',
    '/mcp',
    '/mcp/x',
    '/openapi.json',
  ]) {
    const bearer = `Authorization: Bearer ${AGENT_LEASE}\r\n`
    for (const method of ['GET', 'POST', 'DELETE']) {
      const answer = await sibling.exchange(
        SIDE.address,
        gate.ports.gateway,
        get(path, 'sallyport:7070', `${bearer}Content-Length: 0\r\n`).replace('GET', method),
      )
      if (statusOf(answer) !== 404) served.push(`${method} ${path}: ${answer}`)
    }
  }
  assert.deepEqual(served, [])
  assert.equal(
    statusOf(
      await agent.exchange(
        '127.0.0.1',
        gate.ports.gateway,
        get('/v1/placeholders', 'sallyport', `Authorization: Bearer ${AGENT_LEASE}\r\n`),
      ),
    ),
    200,
  )
})

test('I13 each network has its own clients: others get no byte, at the ways of a neighbour, of the jail, and of the resolver', async () => {
  await controller.link.ways(OTHER, true, signal)
  const connections = [api.connections, db.connections]
  const events = (await gate.audit()).length
  const proof = `Proxy-Authorization: Bearer ${AGENT_LEASE}\r\n`
  for (const [client, address] of [
    [neighbour, SIDE.address],
    [agent, SIDE.address],
    [sibling, OTHER.address],
    [sibling, '127.0.0.1'],
    [neighbour, '127.0.0.1'],
  ] as const) {
    assert.equal(await client.exchange(address, gate.port, get(`http://${API}/`, API, proof)), '')
    for (const port of [gate.ports.socks, gate.ports.plain, gate.ports.secure, gate.ports.gateway, DB_PORT])
      await closedAtOnce(await client.dial(address, port))
  }
  // One that is answered behind it shows that the question before was not.
  await using asker = await openUdp(SIDE.address, gate.ports.dns, '127.0.2.5')
  await using allowed = await openUdp(SIDE.address, gate.ports.dns, '127.0.1.5')
  asker.send(queryFor(API))
  allowed.send(queryFor(API))
  await allowed.next()
  assert.equal(asker.waiting.length, 0)
  assert.deepEqual([api.connections, db.connections], connections)
  assert.equal((await gate.audit()).length, events)
})

test('I4 nobody gets by the gate to who is in a side network, whatever a rule opens', async () => {
  const refused = /a network beside the agent.*"code":"address_refused"/
  const proof = `Proxy-Authorization: Bearer ${AGENT_LEASE}\r\n`
  for (const [client, address] of [
    [agent, '127.0.0.1'],
    [sibling, SIDE.address],
    [neighbour, OTHER.address],
  ] as const) {
    const asksFor = (target: string): string => get(target, BESIDE, proof)
    assert.match(bodyOf(await client.exchange(address, gate.port, asksFor(`http://${BESIDE}/`))), refused)
    assert.match(
      bodyOf(await client.exchange(address, gate.port, `${asksFor(`${BESIDE}:80`).replace('GET', 'CONNECT')}${get('/', BESIDE)}`)),
      refused,
    )
  }
  assert.equal(beside.connections, 0)
})

test('I4 an address of the gate in a side network is its own at once: a rule that leads there leads nowhere', async () => {
  const loop = await sibling.exchange(SIDE.address, gate.port, get(`http://${LOOP}/`, LOOP))
  assert.match(bodyOf(loop), /"code":"address_refused"/)
  await gate.setPolicy(policy([gate.port, gate.ports.gateway]))
  for (const port of [gate.port, gate.ports.gateway]) {
    const answer = await sibling.exchange(SIDE.address, gate.port, get(`http://${LOOP}:${port}/healthz`, `${LOOP}:${port}`))
    assert.match(bodyOf(answer), /"code":"address_refused".*/)
  }
})

test('I61 closed ways end what came by them, listeners and connections, and nothing else', async () => {
  const tunnel = async (client: typeof sibling, address: string): Promise<Socket> => {
    const socket = await client.dial(address, DB_PORT)
    await once(socket, 'data')
    return socket
  }
  const held = await tunnel(sibling, SIDE.address)
  const idle = await sibling.dial(SIDE.address, gate.port)
  const routed = await sibling.dial(SIDE.address, gate.ports.gateway)
  const kept = await tunnel(neighbour, OTHER.address)
  await controller.link.ways(SIDE, false, signal)
  // Resolved is closed: what the sockets still have to say is their own end.
  for (const socket of [held, idle, routed]) await readToEnd(socket)
  for (const port of [gate.port, ...Object.values(gate.ports), DB_PORT]) await refusesConnections(SIDE.address, port)
  await controller.link.ways(SIDE, false, signal)
  assert.equal(kept.destroyed, false)
  assert.equal(await neighbour.resolve(OTHER.address, gate.ports.dns, API), OTHER.address)
  await eventually(() => assert.equal(db.open, 1))
  kept.destroy()
})

test('ways are opened when the address comes, and not at all once nobody waits for it', async () => {
  const late: SideNetwork = { address: '10.99.7.2', subnet: '10.99.7.0/29', label: 'late' }
  const waiting = new AbortController()
  const given = controller.link.ways({ ...late, address: '10.99.7.3' }, true, waiting.signal)
  const coming = Promise.all([controller.link.ways(late, true, signal), controller.link.ways(late, true, signal)])
  waiting.abort(new Error('nobody wants it any more'))
  await assert.rejects(given, /nobody wants it any more/)
  addAddress('lo:1', late.address)
  addAddress('lo:2', '10.99.7.3')
  await coming
  const client = clientAt('10.99.7.3')
  assert.equal(await client.resolve(late.address, gate.ports.dns, API), late.address)
  await controller.link.ways(late, false, signal)
  await assert.rejects(client.dial('10.99.7.3', gate.port), { code: 'ECONNREFUSED' })
  await assert.rejects(controller.link.ways({ ...late, subnet: '10.99.8.0/29' }, true, signal), { code: 'config_invalid' })
})

test('a gate that comes again has the same ways, and one whose controller comes again has none that nobody wants', async () => {
  await controller.link.ways(OTHER, true, signal)
  await gate[Symbol.asyncDispose]()
  gate = await openGate()
  await eventually(async () => assert.equal(await statusAt(OTHER), 200))
  const held = await neighbour.dial(OTHER.address, gate.port)
  await controller[Symbol.asyncDispose]()
  controller = parts.use(await openTestController(session))
  await controller.link.ready(signal)
  await readToEnd(held)
  await eventually(() => refusesConnections(OTHER.address, gate.port))
  await assert.rejects(controller.link.ways(SIDE, true, AbortSignal.abort(new Error('over'))), /over/)
})

async function statusAt({ address }: SideNetwork): Promise<number> {
  return statusOf(await neighbour.exchange(address, gate.port, get(`http://${API}/`, API)))
}

/** There is no other program for this that is on every machine. */
function addAddress(name: string, address: string): void {
  const program = `import fcntl, socket, struct, sys
request = struct.pack('16sH2s4s8s', sys.argv[1].encode(), socket.AF_INET, b'', socket.inet_aton(sys.argv[2]), b'')
fcntl.ioctl(socket.socket(), 0x8916, request)`
  const { status, stderr } = spawnSync('python3', ['-c', program, name, address], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
}

function openUdp(address: string, port: number, from: string): Promise<UdpClient> {
  return openUdpClient(`${address}:${port}`, from)
}
