/** I3: with the audit's disk full nothing new leaves, what runs goes on, and its end is recorded when there is space again. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { verifyAudit } from '../../src/audit/audit.ts'
import { eventually } from '../support/eventually.ts'
import { CARRYING, openEveryWay, type EveryWay } from '../support/every-way.ts'
import { limitedFileSize, type Disk } from '../support/full-disk.ts'
import { bodyOf, readToEnd, statusOf } from '../support/raw-client.ts'
import {
  openRunningPeers,
  RUNNING,
  RUNNING_HOSTS,
  RUNNING_NAMES,
  RUNNING_POLICY,
  type Running,
  type RunningPeers,
} from '../support/running.ts'

const { api: API, pinned: PINNED, mail: MAIL } = RUNNING_HOSTS

const parts = new AsyncDisposableStack()
let disk: Disk
let setting: EveryWay
let peers: RunningPeers

before(async () => {
  disk = parts.use(await limitedFileSize())
  setting = parts.use(await openEveryWay(RUNNING_POLICY, [API, PINNED, MAIL], { config: { audit: disk.file } }))
  peers = parts.use(await openRunningPeers(setting))
})
after(() => parts.disposeAsync())

test('I3 with a full disk every way refuses with audit_unavailable and the upstream hears nothing; all that runs goes on', async () => {
  const all: Running[] = []
  for (const name of RUNNING_NAMES.filter((one) => one !== 'an idle tunnel')) all.push(await RUNNING[name](setting, peers))
  const heard = peers.secure.requests.length
  const connected = peers.pinned.connections
  await disk.fill(0)
  try {
    for (const way of ['absolute form', ...CARRYING, 'route'] as const) {
      const { socket, target, authority } = await setting.open(way, 'https', API)
      socket.write(`GET ${target('/new')} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)
      const answer = await readToEnd(socket)
      assert.equal(statusOf(answer), 503, way)
      assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'audit_unavailable', way)
    }
    await assert.rejects(setting.dialTls('CONNECT', PINNED), /closed/)
    await assert.rejects(setting.dial('SOCKS5', MAIL, 25), /SOCKS 1|closed/)
    await assert.rejects(setting.dial('CONNECT', 'denied.example.net', 443), /HTTP 503/)
    assert.equal(peers.secure.requests.length, heard)
    assert.equal(peers.pinned.connections, connected)
    for (const running of all) await running.ping()
  } finally {
    for (const running of all) running.end()
    await disk.free()
  }
  await eventually(async () => {
    const events = await setting.gate.audit()
    const of = (event: string): Set<unknown> => new Set(events.filter((entry) => entry['event'] === event).map(({ request }) => request))
    assert.deepEqual(of('finished'), of('decided'))
  })
  await verifyAudit(disk.file)
})

test('an answer that ends while the disk is full reaches the agent whole, and its connection takes the next request', async () => {
  const { socket } = await setting.open('CONNECT', 'https', API)
  const ask = (): void => void socket.write(`POST /echo HTTP/1.1\r\nHost: ${API}\r\nContent-Length: 8\r\n\r\nhalf`)
  ask()
  let read = ''
  socket.on('data', (chunk: Buffer) => (read += chunk.toString()))
  const heard = (text: string): Promise<void> => eventually(() => assert.ok(read.includes(text), read))
  await heard('half')
  await disk.fill(0)
  try {
    socket.write('done')
    await heard('done')
    await heard('0\r\n\r\n')
    assert.equal(socket.destroyed, false)
  } finally {
    await disk.free()
  }
  await eventually(async () => assert.equal((await setting.gate.audit()).at(-1)?.['event'], 'finished'))
  read = ''
  ask()
  await heard('half')
  socket.destroy()
})
