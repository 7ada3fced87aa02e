import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { LeaseClaims } from '../../src/lease/lease.ts'
import { CLAIMS, leaseSetting, outcome } from '../support/leases.ts'

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 32 })
const claims: fc.Arbitrary<LeaseClaims> = fc
  .record({
    session: text,
    workspace: text,
    agent: text,
    audience: fc.constantFrom('sidecar' as const, 'agent' as const),
    role: fc.option(text, { nil: undefined }),
    methods: fc.option(fc.array(text, { maxLength: 4 }), { nil: undefined }),
  })
  .map(({ role, methods, ...rest }) => ({ ...rest, ...(role !== undefined && { role }), ...(methods !== undefined && { methods }) }))

test('what is issued is verified to the same claims, for its own session and audience only', async () => {
  using setting = await leaseSetting()
  await fc.assert(
    fc.asyncProperty(claims, text, async (asked, other) => {
      const { token, short, id } = await setting.leases.issue(asked)
      const { session, audience } = asked
      assert.deepEqual(setting.leases.verify(token, { session, audience }), { ...asked, id })
      assert.equal(setting.leases.verifyShort(short, session), audience === 'agent')
      assert.match(short, /^[\x21-\x7e]{32,255}$/)
      assert.equal(outcome(setting.leases, token, { session, audience: audience === 'agent' ? 'sidecar' : 'agent' }), 'audience')
      if (other !== session) {
        assert.equal(outcome(setting.leases, token, { session: other, audience }), 'session')
        assert.equal(setting.leases.verifyShort(short, other), false)
      }
    }),
    { numRuns: 150 },
  )
})

test('a lease changed in any places, or any other text, is never accepted, and never throws anything but its class', async () => {
  using setting = await leaseSetting()
  const { token, short } = await setting.leases.issue(CLAIMS)
  const change = fc.record({ at: fc.nat(400), to: fc.string({ unit: 'binary', maxLength: 3 }), remove: fc.nat(3) })
  const changed = fc
    .tuple(fc.constantFrom(token, short), fc.array(change, { minLength: 1, maxLength: 4 }))
    .map(([text_, changes]) =>
      changes.reduce((before, { at, to, remove }) => `${before.slice(0, at)}${to}${before.slice(at + remove)}`, text_),
    )
  fc.assert(
    fc.property(fc.oneof(changed, fc.string({ unit: 'binary' }), fc.base64String()), (candidate) => {
      if (candidate === token || candidate === short) return
      assert.notEqual(outcome(setting.leases, candidate), 'ok')
      assert.equal(setting.leases.verifyShort(candidate, CLAIMS.session), false)
    }),
    { numRuns: 3_000 },
  )
})
