import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createAllowance } from '../../../src/sidecar/resolver/allowance.ts'
import { createDeniedNames } from '../../../src/sidecar/resolver/denied-names.ts'

function fakeClock(): { ms: number; elapsed(): number } {
  return {
    ms: 0,
    elapsed() {
      return this.ms
    },
  }
}

test('a client may ask a burst at once, then as many a second as the limit says, and no more', () => {
  const clock = fakeClock()
  const allowance = createAllowance(clock)
  const takeAll = (): number => {
    let taken = 0
    while (allowance.take('10.0.0.2')) taken += 1
    return taken
  }
  assert.equal(takeAll(), LIMITS.dnsBurstQueriesMax)
  clock.ms += 1_000
  assert.equal(takeAll(), LIMITS.dnsQueriesPerSecondMax)
  clock.ms += 3_600_000
  assert.equal(takeAll(), LIMITS.dnsBurstQueriesMax)
})

test('one client that asks too much takes nothing from another', () => {
  const allowance = createAllowance(fakeClock())
  while (allowance.take('10.0.0.2'));
  assert.equal(allowance.take('10.0.0.3'), true)
})

test('with ever new addresses nobody gets more: the table is full, and who is not in it shares one bucket', () => {
  const clock = fakeClock()
  const allowance = createAllowance(clock)
  while (allowance.take('10.0.0.2'));
  for (let i = 1; i < LIMITS.dnsClientsMax; i++) assert.equal(allowance.take(`client ${i}`), true)
  let taken = 0
  for (let i = 0; i < 3 * LIMITS.dnsBurstQueriesMax; i++) taken += Number(allowance.take(`newcomer ${i}`))
  assert.equal(taken, LIMITS.dnsBurstQueriesMax)
  assert.equal(allowance.take('10.0.0.2'), false, 'it was not driven out of the table')
  clock.ms += 3_600_000
  assert.equal(allowance.take('late'), true)
  while (allowance.take('late'));
  assert.equal(allowance.take('10.0.0.4'), true, 'it has its own bucket again')
})

test('with a full table who was not heard of for the longest time gives way, not who came first', () => {
  const clock = fakeClock()
  const allowance = createAllowance(clock)
  for (let i = 0; i < LIMITS.dnsClientsMax; i++) allowance.take(`client ${i}`)
  clock.ms += 3_600_000
  while (allowance.take('client 0'));
  while (allowance.take('newcomer 1'));
  assert.equal(allowance.take('newcomer 2'), true, 'each has a bucket of its own')
  assert.equal(allowance.take('client 0'), false)
})

type Line = { readonly level: string; readonly fields: { name?: string; type?: string; names?: number }; readonly message: string }

function openDenied(): { clock: { ms: number }; lines: Line[]; deny: (name: string, type?: string) => void } {
  const clock = fakeClock()
  const lines: Line[] = []
  const write = (level: string) => (fields: Line['fields'], message: string) => void lines.push({ level, fields, message })
  const deny = createDeniedNames({ info: write('info'), warn: write('warn') } as Parameters<typeof createDeniedNames>[0], clock)
  return { clock, lines, deny: (name, type = 'A') => deny(name, type) }
}

test('a denied name is logged once a minute, whatever its case and type', () => {
  const { clock, lines, deny } = openDenied()
  for (const name of ['Evil.example', 'evil.example', 'EVIL.EXAMPLE']) for (const type of ['A', 'AAAA', 'HTTPS']) deny(name, type)
  assert.deepEqual(lines, [{ level: 'info', fields: { name: 'Evil.example', type: 'A' }, message: 'dns name not allowed' }])
  clock.ms += LIMITS.dnsDeniedLogMs
  deny('evil.example')
  assert.equal(lines.length, 2)
})

test('no byte of a name but visible ASCII is in the log, and not more than 120 characters of it', () => {
  const { lines, deny } = openDenied()
  deny(`\u001B]52;c;\n\r\0\u00FF${'x'.repeat(240)}`)
  assert.match(String(lines[0]?.fields.name), /^[\x20-\x7e]{1,123}$/)
})

test('of ever new names so many are logged as the limit says, then that there are more, once a minute', () => {
  const { clock, lines, deny } = openDenied()
  for (let i = 0; i < 5 * LIMITS.dnsDeniedNamesMax; i++) deny(`data-${i}.evil.example`)
  assert.equal(lines.length, LIMITS.dnsDeniedNamesMax + 1)
  assert.deepEqual(lines.at(-1), {
    level: 'warn',
    fields: { names: LIMITS.dnsDeniedNamesMax },
    message: 'more dns names not allowed than are logged',
  })
  clock.ms += LIMITS.dnsDeniedLogMs
  deny('later.evil.example')
  assert.deepEqual(lines.at(-1)?.fields, { name: 'later.evil.example', type: 'A' })
})
