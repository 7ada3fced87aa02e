import assert from 'node:assert/strict'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { pino } from 'pino'
import { system } from '../../../src/kernel/system.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { backoffMs, openLink, type LinkConfig } from '../../../src/sidecar/link.ts'
import { createTestSession, openTestController, SIDECAR_LEASE } from '../../support/control.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { VERSION } from '../../../src/kernel/version.ts'

const log = pino({ level: 'silent' })
const configOf = (path: string, session = 's'): LinkConfig => ({ transport: { kind: 'unix', path }, version: VERSION, session, agent: 'a' })

for (const [what, prepare] of [
  ['there is no socket', async (dir: string) => writeFile(join(dir, 'lease'), SIDECAR_LEASE)],
  ['there is no lease', () => Promise.resolve()],
  [
    'the lease is no file',
    async (dir: string) => {
      await mkdir(join(dir, 'lease'))
    },
  ],
] as const) {
  test(`where ${what} a sidecar gives up after the bound with control_unreachable that says where`, async (context) => {
    await using folder = await temporaryFolder()
    await chmod(folder.path, 0o700)
    await prepare(folder.path)
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const opening = openLink(configOf(join(folder.path, 'control.sock')), log, system)
    const refused = assert.rejects(opening, { code: 'control_unreachable', message: new RegExp(folder.path), hint: /daemon/ })
    const state = { isOver: false }
    void refused.finally(() => (state.isOver = true))
    while (!state.isOver) {
      context.mock.timers.tick(1_000)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await refused
  })
}

test('attempts begin soon, grow apart up to the bound, and differ by chance', () => {
  const delays = (byte: number): number[] =>
    Array.from({ length: 40 }, (_, attempt) => backoffMs(attempt, { random: () => Buffer.from([byte]) }))
  const [least, most] = [delays(0), delays(255)]
  assert.equal(least[0], LIMITS.controlBackoffMinMs / 2)
  for (const [i, delay] of least.entries()) {
    assert.ok((most[i] ?? 0) > delay * 1.9 && (most[i] ?? 0) <= LIMITS.controlBackoffMaxMs)
    assert.ok(i === 0 || delay === LIMITS.controlBackoffMaxMs / 2 || delay === 2 * (least[i - 1] ?? 0))
  }
})

test('the link gives the secrets out once and keeps none', async () => {
  await using session = await createTestSession({ TOKEN: 'canary-1' })
  await using controller = await openTestController(session)
  await using link = await openLink(configOf(join(controller.link.socketDir, 'control.sock'), session.id), log, system)
  assert.deepEqual(link.takeSecrets().values, { TOKEN: 'canary-1' })
  assert.throws(() => link.takeSecrets())
})

test('a sidecar that serves with an authority already is asked to take no other by the next controller', async () => {
  let made = 0
  const authority = (): { certificatePem: string; keyPem: string } => ({ certificatePem: `certificate ${++made}`, keyPem: 'key' })
  await using session = await createTestSession({ TOKEN: 'canary-1' }, { authority })
  const asked = Promise.withResolvers<void>()
  let link: Awaited<ReturnType<typeof openLink>>
  await using parts = new AsyncDisposableStack()
  {
    await using controller = await openTestController(session)
    link = parts.use(await openLink(configOf(join(controller.link.socketDir, 'control.sock'), session.id), log, system))
    const handlers = {
      onPolicy: () => Promise.resolve(),
      ways: () => [],
      onWays: () => Promise.resolve(),
      onRevoked: () => Promise.resolve(0),
      onServerTest: () => Promise.reject(new Error('no server')),
      onGraceOver: () => undefined,
      policyDigest: () => '',
    }
    link.serve({ ...handlers, onSecrets: () => Promise.resolve(asked.resolve()) }, undefined)
  }
  assert.equal(link.welcome.authority?.certificatePem, 'certificate 1')
  parts.use(await openTestController(session))
  await asked.promise
  assert.equal(made, 1)
})
