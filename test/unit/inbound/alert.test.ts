import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectTls } from 'node:tls'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { writeAlert } from '../../../src/sidecar/inbound/alert.ts'
import { recognise } from '../../../src/sidecar/inbound/recognise.ts'
import { openSocketPair } from '../../support/socket-pair.ts'

for (const { alert, number } of [
  { alert: 'unrecognized_name', number: 112 },
  { alert: 'access_denied', number: 49 },
  { alert: 'internal_error', number: 80 },
  { alert: 'handshake_failure', number: 40 },
] as const) {
  test(`${alert} is one record that a TLS client understands as that, and the end`, async () => {
    for (const maxVersion of ['TLSv1.3', 'TLSv1.2'] as const) {
      await using sockets = await openSocketPair()
      const secure = connectTls({ socket: sockets.client, servername: 'api.example.com', maxVersion })
      const failed = once(secure, 'secureConnect').then(
        () => undefined,
        (error: unknown) => error,
      )
      assert.equal((await recognise(sockets.server)).kind, 'tls')
      writeAlert(sockets.server, alert)
      assert.match(String(await failed), new RegExp(`SSL alert number ${number}\\b`))
      assert.ok(sockets.server.writableEnded)
    }
    await using bare = await openSocketPair()
    writeAlert(bare.server, alert)
    bare.client.end()
    assert.deepEqual(Buffer.concat((await bare.client.toArray()) as Buffer[]), Buffer.of(21, 3, 3, 0, 2, 2, number))
  })
}

test('a client that says nothing to an alert and does not close is let go when the farewell is over', async (t) => {
  await using sockets = await openSocketPair()
  t.mock.timers.enable({ apis: ['setTimeout'] })
  writeAlert(sockets.server, 'access_denied')
  t.mock.timers.tick(LIMITS.farewellMs - 1)
  assert.equal(sockets.server.destroyed, false)
  t.mock.timers.tick(1)
  assert.equal(sockets.server.destroyed, true)
})
