import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, test } from 'node:test'
import { openState } from '../../../src/controller/state.ts'

let folder: string
let file: string
let now = 1000
const system = { now: () => (now += 1) }

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sallyport-state-'))
  file = join(folder, 'state.db')
})
afterEach(() => rmSync(folder, { recursive: true }))

test('what is recorded is there for whoever opens the file next, and nobody else may read it', () => {
  {
    using state = openState(file, system)
    state.begin({ id: 'a', name: 'one', step: 'begin', record: { x: 1 } })
    state.step('a', 'networks')
    state.save('a', { x: 2 })
  }
  using state = openState(file, system)
  const row = state.row('a')
  assert.deepEqual([row?.state, row?.step, row?.record], ['starting', 'networks', { x: 2 }])
  assert.equal(statSync(file).mode & 0o777, 0o600)
})

test('those that ended are not among the live, and are found by id and by name', () => {
  using state = openState(file, system)
  for (const id of ['a', 'b', 'c']) state.begin({ id, name: 'same', step: 'begin', record: {} })
  state.move('a', 'ended')
  state.move('c', 'failed')
  assert.deepEqual(
    state.live().map(({ id }) => id),
    ['b'],
  )
  assert.equal(state.find('same')?.id, 'b')
  assert.equal(state.find('a')?.state, 'ended')
  assert.equal(state.find('nobody'), undefined)
})

test('a lease is live while its session starts or runs, and never of another session', () => {
  using state = openState(file, system)
  state.begin({ id: 'a', name: 'a', step: 'begin', record: {} })
  state.begin({ id: 'b', name: 'b', step: 'begin', record: {} })
  state.addLease('l1', 'a')
  assert.ok(state.isLive('a', 'l1'))
  state.move('a', 'running')
  assert.ok(state.isLive('a', 'l1'))
  assert.equal(state.isLive('b', 'l1'), false)
  assert.equal(state.isLive('a', 'l2'), false)
  state.move('a', 'stopping')
  assert.equal(state.isLive('a', 'l1'), false)
})

test('a revoked lease stays revoked for whoever opens the file next', () => {
  {
    using state = openState(file, system)
    state.begin({ id: 'a', name: 'a', step: 'begin', record: {} })
    state.move('a', 'running')
    state.addLease('l1', 'a')
    state.revokeLeases('a')
    state.addLease('l2', 'a')
  }
  using state = openState(file, system)
  assert.equal(state.isLive('a', 'l1'), false)
  assert.ok(state.isLive('a', 'l2'))
})

test('of sessions that ended a bounded number is kept, the latest', () => {
  using state = openState(file, system)
  for (let index = 0; index < 1_005; index += 1) {
    state.begin({ id: `s${index}`, name: `s${index}`, step: 'begin', record: {} })
    state.move(`s${index}`, 'ended')
  }
  assert.equal(state.row('s4'), undefined)
  assert.equal(state.row('s5')?.state, 'ended')
})

for (const { what, spoil } of [
  {
    what: 'is no database',
    spoil: () => writeFileSync(file, 'not a database at all, but long enough to be looked at as one\n'.repeat(20)),
  },
  { what: 'was cut', spoil: () => truncateSync(file, 5_000) },
  {
    what: 'is of a newer version',
    spoil: () => {
      const database = new DatabaseSync(file)
      database.exec('PRAGMA user_version = 99')
      database.close()
    },
  },
])
  test(`a file that ${what} is refused and left as it is`, () => {
    {
      using state = openState(file, system)
      state.begin({ id: 'a', name: 'a', step: 'begin', record: { text: 'x'.repeat(20_000) } })
    }
    spoil()
    const before = statSync(file)
    assert.throws(() => openState(file, system), { code: 'state_invalid' })
    assert.equal(statSync(file).size, before.size)
  })
