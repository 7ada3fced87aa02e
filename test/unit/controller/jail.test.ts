import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { chooseJail, jailOfSubnet, subnetsOverlap } from '../../../src/controller/sessions/jail.ts'

const numberOf = (address: string): number => address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)

test('the same workspace gets the same subnet again', () => {
  assert.deepEqual(chooseJail('/home/me/project', []), chooseJail('/home/me/project', []))
})

test('the next free subnet is taken when the first choice is not free', () => {
  const first = chooseJail('seed', [])
  const second = chooseJail('seed', [first.subnet])
  assert.notEqual(second.subnet, first.subnet)
  assert.equal(subnetsOverlap(first.subnet, second.subnet), false)
})

for (const { taken, why } of [
  { taken: '10.0.0.0/8', why: 'a larger one holds it' },
  { taken: '10.213.0.0/16', why: 'a whole pool is somebody else’s' },
]) {
  test(`a subnet inside ${taken} is not chosen: ${why}`, () => {
    assert.equal(subnetsOverlap(chooseJail('seed', [taken]).subnet, taken), false)
  })
}

test('one taken address inside a /24 is enough to leave it', () => {
  const first = chooseJail('seed', [])
  assert.notEqual(chooseJail('seed', [first.subnet.replace('.0/24', '.77/32')]).subnet, first.subnet)
})

test('IPv6 subnets and text that is no subnet take nothing', () => {
  assert.deepEqual(chooseJail('seed', ['fd00::/8', '::/0', '', 'nonsense']), chooseJail('seed', []))
})

test('with every pool taken the error is subnet_exhausted and says how to free one', () => {
  assert.throws(
    () => chooseJail('seed', ['10.0.0.0/8', '172.16.0.0/12']),
    (error: { code?: string; hint?: string }) => error.code === 'subnet_exhausted' && /prune/.test(error.hint ?? ''),
  )
})

test('whatever is taken, a choice overlaps with none of it and keeps the sidecar out of the engine’s range', () => {
  const octet = fc.integer({ min: 0, max: 255 })
  const cidr = fc.tuple(
    fc.constantFrom(10, 172, 192),
    fc.constantFrom(213, 214, 215, 30, 168),
    octet,
    octet,
    fc.integer({ min: 12, max: 32 }),
  )
  fc.assert(
    fc.property(fc.string(), fc.array(cidr, { maxLength: 40 }), (seed, parts) => {
      const taken = parts.map(([a, b, c, d, bits]) => `${a}.${b}.${c}.${d}/${bits}`)
      let jail
      try {
        jail = chooseJail(seed, taken)
      } catch (error) {
        return (error as { code?: string }).code === 'subnet_exhausted'
      }
      const { subnet, sidecar, ipRange } = jail
      return (
        taken.every((other) => !subnetsOverlap(subnet, other)) &&
        subnetsOverlap(subnet, `${sidecar}/32`) &&
        !subnetsOverlap(ipRange, `${sidecar}/32`)
      )
    }),
  )
})

test('overlap is what comparing first and last addresses says', () => {
  const range = fc.tuple(fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.integer({ min: 1, max: 32 })).map(([number, bits]) => {
    const size = 2 ** (32 - bits)
    const first = Math.floor(number / size) * size
    const text = [24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join('.')
    return { first, last: first + size - 1, cidr: `${text}/${bits}` }
  })
  fc.assert(
    fc.property(range, range, (a, b) => {
      let common = false
      for (const edge of [a.first, a.last]) common ||= edge >= b.first && edge <= b.last
      for (const edge of [b.first, b.last]) common ||= edge >= a.first && edge <= a.last
      return subnetsOverlap(a.cidr, b.cidr) === common
    }),
  )
})

test('the jail of a subnet is the one that was chosen with it', () => {
  const jail = chooseJail('seed', [])
  assert.deepEqual(jailOfSubnet(jail.subnet), jail)
  assert.ok(numberOf(jail.sidecar) > 0)
})

for (const text of ['', '10.213.7.0/16', '10.213.7.1/24', '10.213.7/24', '10.999.7.0/24', 'fd00::/24', '10.213.7.0/24 ']) {
  test(`"${text}" is no subnet of a jail`, () => assert.equal(jailOfSubnet(text), undefined))
}
