import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { createTestSession, openTestController } from '../support/control.ts'
import { openProvenPeer, requestOf } from '../support/raw-peer.ts'

test('a sidecar that connects again and again has no more secrets looked up than one that stays', async () => {
  await using session = await createTestSession({ TOKEN: 'canary-7f3a9c5e1b-42' })
  await using _ = await openTestController(session)
  const tries = 4 * LIMITS.controlBurstAsksMax
  let said: string | undefined = ''
  for (let i = 0; i < tries && !/again and again/.test(said ?? ''); i += 1) {
    using peer = await openProvenPeer(session.socketDir)
    peer.send(requestOf(2, 'GET_SECRETS'))
    said = await peer.said()
    peer.socket.end()
    await peer.toEnd()
  }
  assert.match(said ?? '', /again and again/)
  assert.ok(session.secretsAsked < tries / 2, `${session.secretsAsked} of ${tries}`)
})

test('what a sidecar had looked up and does not wait for is ended', async () => {
  const begun = Promise.withResolvers<AbortSignal>()
  const ended = Promise.withResolvers<void>()
  const secrets = (signal: AbortSignal): Promise<never> => {
    begun.resolve(signal)
    return new Promise((_resolve, reject) =>
      signal.addEventListener('abort', () => {
        ended.resolve()
        reject(signal.reason as Error)
      }),
    )
  }
  await using session = await createTestSession({}, { secrets })
  await using _ = await openTestController(session)
  using peer = await openProvenPeer(session.socketDir)
  peer.send(requestOf(2, 'GET_SECRETS'))
  assert.equal((await begun.promise).aborted, false)
  peer.socket.destroy()
  await ended.promise
})
