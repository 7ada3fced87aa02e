import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { subnetsOverlap } from '../../src/controller/sessions/jail.ts'
import type { SessionRecord } from '../../src/controller/sessions/session-parts.ts'
import { engineInventory, leftIn, openSessions } from '../support/controller-sessions.ts'

/** Twenty are measured by `npm run bench -- --sessions`. */
const COUNT = 6

test(`I12 ${COUNT} sessions that are started at once are each what was asked for, in a jail of its own, and leave nothing`, async () => {
  await using under = await openSessions({
    plan: (plan) => ({ ...plan, agent: { ...plan.agent, memoryBytes: 256 * 1024 ** 2 } }),
  })
  await under.sessions.adopt(new AbortController().signal)
  const views = await Promise.all(Array.from({ length: COUNT }, (_, index) => under.up({ name: `many-${index}` })))
  assert.equal(new Set(views.map(({ id }) => id)).size, COUNT)
  assert.ok(views.every(({ agent, sidecar }) => agent.running && sidecar.healthy))
  const subnets = views.flatMap(({ id }) => {
    const { jail, uplink } = (under.state.row(id)?.record ?? {}) as Partial<SessionRecord>
    return [jail?.subnet ?? '', uplink ?? '']
  })
  for (const [index, one] of subnets.entries()) for (const two of subnets.slice(index + 1)) assert.equal(subnetsOverlap(one, two), false)
  const [first, second] = views
  const other = under.state.row(second?.id ?? '')?.record as SessionRecord
  const { stdout } = await under.run(first?.id ?? '', [
    'curl',
    '-sS',
    '-m',
    '3',
    '--noproxy',
    '*',
    '-o',
    '/dev/null',
    '-w',
    '%{http_code}',
    `http://${other.jail?.sidecar}:7070/healthz`,
  ])
  assert.equal(stdout, '000')

  await Promise.all(views.map(({ id }) => under.sessions.down(id)))
  assert.deepEqual(await leftIn(under.engine, under.home), { containers: [], networks: [] })
  const left = await engineInventory()
  assert.deepEqual(
    left.filter((line) => views.some(({ id }) => line.includes(id))),
    [],
  )
  assert.deepEqual(await readdir(join(under.home, 's')), [])
})
