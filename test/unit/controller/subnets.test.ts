import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { subnetsOverlap } from '../../../src/controller/sessions/jail.ts'
import { parseRoutes, releaseJail, reserveJail } from '../../../src/controller/sessions/subnets.ts'
import { temporaryFolder } from '../../support/audit.ts'

test('a project that is down keeps its subnet: another that would choose the same gets the next', async () => {
  await using home = await temporaryFolder()
  for (const name of ['one', 'two']) mkdirSync(join(home.path, name))
  const one = reserveJail(home.path, 'one', undefined, [])
  const two = reserveJail(home.path, 'two', one.subnet, [])
  assert.equal(subnetsOverlap(one.subnet, two.subnet), false)
  assert.deepEqual(reserveJail(home.path, 'one', undefined, []), one)
})

test('the subnet of a project whose state is gone is free again', async () => {
  await using home = await temporaryFolder()
  for (const name of ['one', 'two']) mkdirSync(join(home.path, name))
  const one = reserveJail(home.path, 'one', undefined, [])
  rmSync(join(home.path, 'one'), { recursive: true })
  assert.equal(reserveJail(home.path, 'two', one.subnet, []).subnet, one.subnet)
})

test('a subnet that another network of the engine took meanwhile is given up', async () => {
  await using home = await temporaryFolder()
  mkdirSync(join(home.path, 'one'))
  const { subnet } = reserveJail(home.path, 'one', undefined, [])
  assert.notEqual(reserveJail(home.path, 'one', subnet, [{ project: 'other', subnets: [subnet] }]).subnet, subnet)
})

test('a project’s own network does not count as taken', async () => {
  await using home = await temporaryFolder()
  mkdirSync(join(home.path, 'one'))
  const { subnet } = reserveJail(home.path, 'one', undefined, [])
  assert.equal(reserveJail(home.path, 'one', subnet, [{ project: 'one', subnets: [subnet] }]).subnet, subnet)
})

test('routes are read little-endian, and the default route is none', () => {
  const text = [
    'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT',
    'eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0',
    'tun0\t0007D50A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0',
    'tun1\t000010AC\t00000000\t0001\t0\t0\t0\t0000F0FF\t0\t0\t0',
  ].join('\n')
  assert.deepEqual(parseRoutes(text), ['10.213.7.0/24', '172.16.0.0/12'])
})

test('what a project has reserved is gone when it gives it back, and what others have stays', async () => {
  await using home = await temporaryFolder()
  for (const name of ['one', 'two']) mkdirSync(join(home.path, name))
  const one = reserveJail(home.path, 'one', undefined, [])
  const two = reserveJail(home.path, 'two', undefined, [])
  releaseJail(home.path, 'one')
  releaseJail(home.path, 'never')
  assert.deepEqual(readdirSync(join(home.path, 'subnets')), [two.subnet.replace('/', '_')])
  assert.notEqual(one.subnet, two.subnet)
})

test('giving back where nothing was ever reserved is no fault', async () => {
  await using home = await temporaryFolder()
  assert.doesNotThrow(() => releaseJail(home.path, 'one'))
})
