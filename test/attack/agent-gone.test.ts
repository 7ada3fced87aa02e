/** An agent that goes away in the middle keeps nothing: not at the gate, not at the upstream. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { openEveryWay, type EveryWay } from '../support/every-way.ts'
import { openRunningPeers, RUNNING, RUNNING_HOSTS, RUNNING_NAMES, RUNNING_POLICY, type RunningPeers } from '../support/running.ts'

const { api: API, pinned: PINNED, mail: MAIL } = RUNNING_HOSTS

const parts = new AsyncDisposableStack()
let setting: EveryWay
let peers: RunningPeers

before(async () => {
  setting = parts.use(await openEveryWay(RUNNING_POLICY, [API, PINNED, MAIL]))
  peers = parts.use(await openRunningPeers(setting))
})
after(() => parts.disposeAsync())

for (const name of RUNNING_NAMES) {
  test(`an agent that leaves ${name} ends its exchange`, async () => {
    const since = (await setting.gate.audit()).length
    const running = await RUNNING[name](setting, peers)
    await running.ping()
    running.end()
    await eventually(async () => {
      const events = (await setting.gate.audit()).slice(since)
      const of = (event: string): unknown[] => events.filter((entry) => entry['event'] === event).map(({ request }) => request)
      assert.ok(of('decided').length > 0)
      assert.deepEqual(new Set(of('finished')), new Set(of('decided')))
    })
  })
}
