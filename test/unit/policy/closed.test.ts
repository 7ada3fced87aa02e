import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closedPolicy } from '../../../src/policy/policy.ts'
import { factsOf, hostname, policyOf } from '../../support/policy.ts'

test('I9 a closed policy denies what the policy allows, in every way in, and binds no credential', () => {
  const policy = policyOf(`version: 1
network: {rules: [{id: api, host: api.example.com, action: allow}]}
routes: [{name: api, upstream: "https://api.example.com", credential: token}]
credentials: [{id: token, secret: T, inject: {domains: [api.example.com], header: Authorization}}]
secrets: [{name: T, source: "env:T"}]
`)
  const refusal = { code: 'session_revoked', message: 'over' } as const
  const closed = closedPolicy(policy, refusal)
  const facts = factsOf('GET https://api.example.com/')
  const host = hostname('api.example.com')
  const [route] = policy.routes
  assert.ok(route)
  assert.equal(policy.decide(facts).action, 'allow')
  for (const decision of [closed.decide(facts), closed.decideTunnel(host, 443), closed.decideRoute(route, facts)])
    assert.deepEqual(decision, { action: 'deny', refusal })
  assert.equal(closed.knowsName(host), false)
  assert.equal(closed.credentialFor(facts), undefined)
  assert.deepEqual([closed.credentialsOf(host), closed.placeholdersFor(facts)], [[], []])
})
