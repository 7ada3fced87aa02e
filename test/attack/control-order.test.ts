/** What a hostile sidecar that has proven itself says at the wrong time, or again and again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sealUnderLease } from '../../src/channel/channel.ts'
import { system } from '../../src/kernel/system.ts'
import { createTestSession, openTestController, SIDECAR_LEASE, type TestController, type TestSession } from '../support/control.ts'
import { openProvenPeer, requestOf } from '../support/raw-peer.ts'

type Setting = AsyncDisposable & { readonly session: TestSession; readonly controller: TestController; readonly dir: string }

async function openSession(change: Parameters<typeof createTestSession>[1]): Promise<Setting> {
  await using parts = new AsyncDisposableStack()
  const session = parts.use(await createTestSession({ TOKEN: 'x' }, change))
  const controller = parts.use(await openTestController(session))
  const open = parts.move()
  return { session, controller, dir: session.socketDir, [Symbol.asyncDispose]: () => open.disposeAsync() }
}

for (const frame of [
  requestOf(2, 'READY'),
  requestOf(2, 'AUTHORITY', { sealed: '' }),
  requestOf(2, 'AGENT', { lease: 'x', method: 'explain', params: {} }),
  requestOf(2, 'ASK', { request: 'r', subject: { kind: 'domain', rule: 'r', lane: 'http', host: 'h.example', port: 443, method: 'GET' } }),
])
  test(`I55 a sidecar that sends ${String(frame['method'])} and has asked for no secrets is cut off: it is nobody's yet`, async () => {
    let asked = 0
    const count = (): Promise<never> => Promise.reject(new Error(`asked ${(asked += 1)} times`))
    await using setting = await openSession({ keepAuthority: () => void (asked += 1), onAgent: count, onAsk: count })
    using peer = await openProvenPeer(setting.dir)
    peer.send(frame)
    assert.match((await peer.said()) ?? '', /"fault","id":2,"code":"control_broken","message":"GET_SECRETS comes first"/)
    await peer.toEnd()
    assert.equal(asked, 0)
    assert.deepEqual(setting.session.states, ['connected', 'lost'])
  })

test('a sidecar that says READY without end has its policy looked at once for each connection', async () => {
  let looked = 0
  await using setting = await openSession({ policyDigest: () => String((looked += 1)) })
  using peer = await openProvenPeer(setting.dir)
  peer.send(requestOf(2, 'GET_SECRETS'))
  await peer.said()
  peer.send(...Array.from({ length: 300 }, (_, at) => requestOf(3 + at, 'READY')))
  await peer.toEnd()
  assert.equal(looked, 1)
})

test('a sidecar that brings an authority without end is heard once for each connection', async () => {
  const kept: unknown[] = []
  await using setting = await openSession({ keepAuthority: (authority) => void kept.push(authority) })
  using peer = await openProvenPeer(setting.dir)
  const sealed = sealUnderLease(SIDECAR_LEASE, JSON.stringify(setting.session.authority()), system)
  peer.send(requestOf(2, 'GET_SECRETS'))
  await peer.said()
  peer.send(...Array.from({ length: 50 }, (_, at) => requestOf(3 + at, 'AUTHORITY', { sealed })))
  await peer.toEnd()
  assert.equal(kept.length, 1)
})
