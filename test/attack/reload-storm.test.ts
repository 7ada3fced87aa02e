/** I18: one policy with its secrets is replaced by another with its own, as a whole, however often and under whatever load. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/audit.ts'
import { eventually } from '../support/eventually.ts'
import { openTestGate } from '../support/gate.ts'
import { headerOf } from '../support/http2-upstream.ts'
import { exchangeRaw, openTunnel, statusOf } from '../support/raw-client.ts'
import { API } from '../support/setting.ts'
import { openUpstream } from '../support/upstream.ts'

const RELOADS = 100
const CLIENTS = 8

for (const { claim, prefix, statuses: expected } of [
  { claim: 'that leave its rule as it is no request is lost', prefix: () => 'rules', statuses: [200] },
  {
    // What is on its way with a credential that is now written otherwise is cut, and says so.
    claim: 'that change how its credential is written none leaves with the rules of one and the secret of another',
    prefix: (n: number) => `rules-${n}`,
    statuses: [200, 403],
  },
])
  test(`I18 of a hundred reloads under load ${claim}`, async () => {
    await using upstream = await openUpstream()
    await using folder = await temporaryFolder()
    const secret = join(folder.path, 'secret')
    const policy = (n: number): string => `version: 1
network:
  rules:
    - {id: rule-${n}, host: ${API}, ports: [${upstream.port}], action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
credentials:
  - {id: token, secret: TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "${prefix(n)} "}}
secrets:
  - {name: TOKEN, source: "file:${secret}"}
`
    writeFileSync(secret, 'secret-0')
    await using gate = await openTestGate({ policy: policy(0), hosts: { [API]: ['127.0.0.1'] } })
    const authority = `${API}:${upstream.port}`
    const { socket: idle } = await openTunnel(gate.port, authority)
    idle.write(`GET / HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
    await once(idle, 'data')
    const over = new AbortController()
    const statuses: number[] = []
    const client = async (): Promise<void> => {
      while (!over.signal.aborted)
        statuses.push(
          statusOf(await exchangeRaw(gate.port, `GET http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)),
        )
    }
    const clients = Array.from({ length: CLIENTS }, client)
    const reloads: Promise<boolean>[] = []
    for (let n = 1; n <= RELOADS; n++) {
      // In one turn, so that no look at the files finds them half changed.
      writeFileSync(secret, `secret-${n}`)
      writeFileSync(join(gate.folder, 'policy.yaml'), policy(n))
      reloads.push(gate.sidecar.reload())
      const seen = upstream.requests.length
      // Five in a row, and then one that is let through.
      if (n % 5 === 0) while (upstream.requests.length === seen) await new Promise((resolve) => setImmediate(resolve))
    }
    assert.deepEqual([...new Set(await Promise.all(reloads))], [true])
    over.abort()
    await Promise.all(clients)
    assert.deepEqual(
      [...new Set([200, ...statuses])].filter((status) => !expected.includes(status)),
      [],
    )
    const pairs = upstream.requests.map((request) => headerOf(request, 'authorization') ?? '')
    for (const pair of pairs) assert.match(pair, /^rules(?:-(\d+) secret-\1| secret-\d+)$/)
    assert.ok(new Set(pairs).size > 5, 'requests came under many policies')
    assert.equal(idle.destroyed, false, 'a tunnel that every one of them allows is never cut')
    idle.destroy()
    await eventually(async () => {
      const events = await gate.audit()
      const count = (event: string): number => events.filter((entry) => entry['event'] === event).length
      assert.equal(count('finished'), count('decided'))
      assert.ok(count('reloaded') >= RELOADS)
      const codes = new Set(events.filter(({ event }) => event === 'finished').map(({ code }) => code))
      assert.deepEqual(
        [...codes].filter((code) => code !== undefined && code !== 'policy_changed'),
        [],
      )
    })
  })
