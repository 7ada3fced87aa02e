import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { capture } from '../../scripts/steps.ts'
import { eventually } from '../support/eventually.ts'
import { leftIn, makeHome, openSessions } from '../support/controller-sessions.ts'
import { openOwnEngine, type OwnEngine } from '../support/own-engine.ts'

const canHaveOwn = process.getuid?.() === 0 && (await capture('unshare', ['--net', 'dockerd', '--version'])).code === 0
const skip = canHaveOwn ? false : 'an engine of its own needs root and dockerd'

let own: OwnEngine
before(async () => {
  if (canHaveOwn) own = await openOwnEngine()
})
after(async () => {
  if (canHaveOwn) await own[Symbol.asyncDispose]()
})

test('I40 a session is there when its engine comes back, and can be taken down', { skip }, async () => {
  await using under = await openSessions({ base: own.engine })
  await under.sessions.adopt(new AbortController().signal)
  const { id } = await under.up()
  await own.kill()
  await assert.rejects(under.sessions.exec(id, ['true'], { tty: false }), { code: 'engine_unavailable' })
  assert.equal(under.sessions.list()[0]?.id, id)
  await own.start()
  // Without live-restore it ends containers as it starts; the gate comes back, the agent has ended, and that is seen.
  await eventually(async () =>
    assert.equal(
      under.sessions.list()[0]?.agent.running,
      (await own.engine.inspect(under.sessions.list()[0]?.agent.container ?? ''))?.State.Running,
    ),
  )
  await under.sessions.down(id)
  assert.deepEqual(await leftIn(own.engine, under.home), { containers: [], networks: [] })
})

for (const at of ['networks', 'containers', 'gate', 'agent']) {
  test(`I40 an engine that is killed at the step ${at} leaves no half session`, { skip }, async () => {
    const home = await makeHome()
    {
      await using under = await openSessions({ home, base: own.engine, keeps: true })
      const killed: Promise<void>[] = []
      const up = under.sessions.up(under.request(), new AbortController().signal, (step) => {
        if (step === at) killed.push(own.kill())
      })
      await assert.rejects(up, (error: Error & { code?: string }) =>
        ['engine_unavailable', 'sidecar_not_ready', 'engine_refused'].includes(error.code ?? ''),
      )
      await Promise.all(killed)
      await own.start()
    }
    await using next = await openSessions({ home, base: own.engine })
    await next.sessions.adopt(new AbortController().signal)
    assert.deepEqual(next.sessions.list(), [])
    assert.deepEqual(await leftIn(own.engine, home), { containers: [], networks: [] })
    await rm(home, { recursive: true, force: true })
  })
}
