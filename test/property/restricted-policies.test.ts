import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { checkPolicy, loadPolicy, type Decision, type Policy, type TunnelDecision } from '../../src/policy/policy.ts'
import { hostname, policyText } from '../support/policy.ts'

const HOSTS = ['a.example.com', 'x.a.example.com', 'db.example.net', 'localhost', 'other.example.org']
const PATTERNS = ['a.example.com', 'b.example.com', '*.example.com', '*.a.example.com', 'db.example.net', 'other.example.org']
const PORTS = [80, 443, 5432]
const PATHS = ['/x', '/x/y', '/y/..;/x', '/x%2Fy']

const ports = fc.uniqueArray(fc.constantFrom(...PORTS), { minLength: 1, maxLength: 3 })
const paths = fc.uniqueArray(fc.constantFrom('/x', '/x/**', '/**/y', '/*'), { minLength: 1, maxLength: 2 })
const methods = fc.uniqueArray(fc.constantFrom('GET', 'POST'), { minLength: 1 })
const shape = { host: fc.constantFrom(...PATTERNS), ports, methods, paths, protocol: fc.constantFrom('http', 'tcp') }
const operatorRule = fc.record(
  {
    ...shape,
    action: fc.constantFrom('allow', 'allow', 'ask', 'deny'),
    tls: fc.constantFrom('intercept', 'passthrough'),
    upgrade: fc.constant('https'),
    addresses: fc.constant(['10.0.0.0/8']),
    plaintext: fc.constant('accept'),
    scrub: fc.constantFrom('block', 'off'),
    own_credentials: fc.constantFrom('drop', 'pass'),
  },
  { requiredKeys: ['host', 'action'] },
)
/** Only what such a file may hold: whether more is refused is another test's. */
const restrictedRule = fc.record({ ...shape, action: fc.constantFrom('ask', 'deny') }, { requiredKeys: ['host', 'action'] })
const route = fc.record({
  name: fc.constantFrom('r1', 'r2'),
  upstream: fc.constantFrom('https://a.example.com/x', 'https://b.example.com', 'http://db.example.net:5432'),
})

const numbered = (rules: readonly object[]): object[] => rules.map((rule, index) => ({ id: `r${index}`, ...rule }))
const STRICTNESS = { allow: 0, ask: 1, deny: 2 }

let tightened = 0

function assertStricter(before: Decision | TunnelDecision, after: Decision | TunnelDecision, what: () => string): void {
  assert.ok(STRICTNESS[after.action] >= STRICTNESS[before.action], `${what()}: ${before.action} became ${after.action}`)
  if (before.action === 'deny' && after.action === 'deny') assert.equal(after.refusal.code, before.refusal.code)
  if (after.action !== before.action) tightened += 1
  if (before.action === 'deny' || after.action === 'deny') return
  // What holds for it is what the operator said: where it may lead, what may pass in clear, what answers are searched for, who looks inside.
  const { id: _before, ...said } = before.rule
  const { id: _after, ...says } = after.rule
  assert.deepEqual(says, said)
  if ('carries' in before) assert.equal('carries' in after && after.carries, before.carries)
}

function assertNeverWider(before: Policy, after: Policy): void {
  for (const name of HOSTS) {
    const host = hostname(name)
    assert.ok(before.knowsName(host) || !after.knowsName(host), `the name ${name}`)
    assert.deepEqual(after.credentialsOf(host), before.credentialsOf(host))
    for (const port of PORTS) {
      assertStricter(before.decideTunnel(host, port), after.decideTunnel(host, port), () => `tunnel ${name}:${port}`)
      for (const method of ['GET', 'POST'])
        for (const path of PATHS)
          for (const scheme of ['http', 'https'] as const) {
            const facts = { scheme, host, port, method, path }
            assertStricter(before.decide(facts), after.decide(facts), () => `${method} ${scheme}://${name}:${port}${path}`)
            before.routes.forEach((entry, index) => {
              const other = after.routes[index]
              assert.ok(other)
              assertStricter(before.decideRoute(entry, facts), after.decideRoute(other, facts), () => `route ${entry.name} ${path}`)
            })
          }
    }
  }
}

test('I29 a restricted layer never allows, asks about or names anything that was not allowed without it, whatever both say', () => {
  let compared = 0
  tightened = 0
  fc.assert(
    fc.property(
      fc.array(operatorRule, { maxLength: 6 }),
      fc.array(restrictedRule, { minLength: 1, maxLength: 6 }),
      fc.uniqueArray(route, { maxLength: 2, selector: ({ name }) => name }),
      fc.constantFrom('restricted', 'none', 'open'),
      (rules, taken, routes, mode) => {
        const input = { file: 'operator.yaml', text: policyText({ rules: numbered(rules), routes, network: { mode } }) }
        const restricted = [{ file: 'workspace.yaml', text: JSON.stringify({ version: 1, network: { rules: numbered(taken) } }) }]
        // What cannot be loaded decides nothing; other tests are about why.
        fc.pre(checkPolicy([input], { policyDirs: [], restricted }).errors.length === 0)
        assertNeverWider(loadPolicy([input], { policyDirs: [] }), loadPolicy([input], { policyDirs: [], restricted }))
        compared += 1
      },
    ),
    { numRuns: 120 },
  )
  assert.ok(compared === 120 && tightened > 100, `${compared} ${tightened}`)
})

test('what a restricted layer denies is denied, and what it asks about is asked about, wherever it passed', () => {
  fc.assert(
    fc.property(
      fc.constantFrom('deny' as const, 'ask' as const),
      fc.constantFrom('GET', 'POST'),
      fc.constantFrom('/x', '/x/y'),
      (action, method, path) => {
        const input = { file: 'a.yaml', text: policyText({ rules: [{ id: 'all', host: '*.example.com' }] }) }
        const rules = [{ id: 'w', host: 'a.example.com', methods: [method], paths: [path], action }]
        const restricted = [{ file: 'w.yaml', text: JSON.stringify({ version: 1, network: { rules } }) }]
        const policy = loadPolicy([input], { policyDirs: [], restricted })
        const facts = { scheme: 'https', host: hostname('a.example.com'), port: 443, method, path } as const
        const decision = policy.decide(facts)
        assert.equal(decision.action, action)
        assert.equal(decision.action === 'deny' ? decision.refusal.rule : decision.rule.id, 'workspace:w')
        assert.equal(policy.decide({ ...facts, host: hostname('b.example.com') }).action, 'allow')
      },
    ),
  )
})

const section = fc.oneof(
  fc.record({ credentials: fc.constant([{ id: 'c', secret: 'S', inject: { domains: ['a.example.com'], header: 'X-Key' } }]) }),
  fc.record({ secrets: fc.constantFrom([{ name: 'S', source: 'exec:cat /etc/passwd' }], [{ name: 'S', source: 'env:HOME' }]) }),
  fc.record({ routes: fc.constant([{ name: 'r', upstream: 'https://a.example.com' }]) }),
  fc.record({ extends: fc.constant(['service/npm']) }),
  fc.record({ session: fc.constantFrom({ image: 'evil' }, { user: 'root' }, { runtime: 'runc' }, {}) }),
  fc.record({ filesystem: fc.constantFrom({ workspace: 'rw' }, { git_metadata: 'writable' }, { hide: ['x'] }) }),
  fc.record({
    network: fc.constantFrom(
      { mode: 'open' },
      { harness: 'claude' },
      { lease: 'optional' },
      { rules: [{ id: 'r', host: 'a.example.com', action: 'allow' }] },
    ),
  }),
  fc.record({
    network: fc.constantFrom(
      ...[{ addresses: ['10.0.0.0/8'] }, { plaintext: 'accept' }, { scrub: 'off' }, { own_credentials: 'pass' }, { upgrade: 'https' }].map(
        (more) => ({
          rules: [{ id: 'r', host: 'a.example.com', action: 'ask', ...more }],
        }),
      ),
    ),
  }),
)

test('I29 a restricted file with anything but denials and questions is refused by file and line, and nothing of it is loaded', () => {
  fc.assert(
    fc.property(fc.array(section, { minLength: 1, maxLength: 3 }), (sections) => {
      const text = JSON.stringify(Object.assign({ version: 1 }, ...sections), null, 1)
      const input = { file: 'a.yaml', text: policyText({ rules: [{ id: 'all', host: '*.example.com' }] }) }
      const restricted = [{ file: 'w.yaml', text }]
      assert.throws(
        () => loadPolicy([input], { policyDirs: ['policies'], restricted }),
        (error: Error & { code?: string }) => {
          assert.equal(error.code, 'policy_untrusted', `${text}\n${error.message}`)
          for (const line of error.message.split('\n')) assert.match(line, /^w\.yaml:\d+: .*may only deny or ask until it is trusted$/)
          return true
        },
      )
    }),
    { numRuns: 200 },
  )
})
