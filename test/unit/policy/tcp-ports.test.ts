import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { explainRequest } from '../../../src/policy/policy.ts'
import { policyOf, problemsOf } from '../../support/policy.ts'

const tcp = (id: string, host: string, ports: readonly number[], more: object = {}): object => ({
  id,
  host,
  ports,
  protocol: 'tcp',
  ...more,
})

for (const { why, rules, served } of [
  { why: 'one host, one port', rules: [tcp('a', 'db.example.com', [5432])], served: { 5432: 'db.example.com' } },
  { why: 'a rule that asks', rules: [tcp('a', 'db.example.com', [5432], { action: 'ask' })], served: { 5432: 'db.example.com' } },
  {
    why: 'two rules for one host',
    rules: [tcp('a', 'db.example.com', [5432]), tcp('b', 'db.example.com', [5432, 5433])],
    served: { 5432: 'db.example.com', 5433: 'db.example.com' },
  },
  { why: 'two hosts for one port', rules: [tcp('a', 'db.example.com', [5432]), tcp('b', 'db.example.net', [5432])], served: {} },
  {
    why: 'a host and all names of another for one port',
    rules: [tcp('a', 'db.example.com', [5432]), tcp('b', '*.example.net', [5432])],
    served: {},
  },
  { why: 'all names below one', rules: [tcp('a', '*.example.com', [5432])], served: {} },
  { why: 'an address, which nobody looks up', rules: [tcp('a', '192.0.2.7', [5432])], served: {} },
  {
    why: 'an address beside a name',
    rules: [tcp('a', '192.0.2.7', [5432]), tcp('b', 'db.example.com', [5432])],
    served: { 5432: 'db.example.com' },
  },
  {
    why: 'ports of the gate itself',
    rules: [tcp('a', 'db.example.com', [53, 80, 443, 1080, 3128, 7070, 22])],
    served: { 22: 'db.example.com' },
  },
  {
    why: 'a list of ports that is long',
    rules: [
      tcp(
        'a',
        'db.example.com',
        Array.from({ length: LIMITS.tcpRulePortsMax + 1 }, (_, n) => 9000 + n),
      ),
    ],
    served: {},
  },
  {
    why: 'a denial of the whole port',
    rules: [tcp('a', 'db.example.com', [5432, 5433]), { id: 'no', host: 'db.example.com', ports: [5433], action: 'deny' as const }],
    served: { 5432: 'db.example.com' },
  },
  {
    why: 'HTTP on the same port, which is looked into',
    rules: [tcp('a', 'db.example.com', [8080]), { id: 'h', host: 'db.example.com', ports: [8080] }],
    served: {},
  },
]) {
  test(`I17 without a proxy: ${why} ${Object.keys(served).length > 0 ? 'leads somewhere' : 'leads nowhere'}`, () => {
    assert.deepEqual(Object.fromEntries(policyOf({ rules }).tcpPorts), served)
  })
}

test('ports that two hosts have, and the gate itself, are warned about where the rules are', () => {
  const { warnings, errors } = problemsOf({
    rules: [tcp('one', 'db.example.com', [5432, 1080]), tcp('two', 'db.example.net', [5432]), tcp('three', 'db.example.org', [5433])],
  })
  assert.deepEqual(errors, [])
  assert.deepEqual(warnings, [
    'policy.yaml:2: rule "one": rule "two" has port 5432 too, for db.example.net: without a proxy nobody can tell which is meant, and no connection is carried; use SOCKS or CONNECT, or different ports',
    'policy.yaml:2: rule "one": port 1080 is the gate\'s own: programs get to db.example.com there by SOCKS or CONNECT only',
  ])
})

test('beyond the bound of ports the rest is left to proxies, with one warning', () => {
  const rules = Array.from({ length: LIMITS.tcpPortsMax + 2 }, (_, n) => tcp(`r${n}`, 'db.example.com', [9000 + n]))
  assert.equal(policyOf({ rules }).tcpPorts.size, LIMITS.tcpPortsMax)
  const { warnings } = problemsOf({ rules })
  assert.deepEqual([warnings.length, /rule "r64": .*not at 9064/.test(warnings[0] ?? '')], [1, true])
})

test('in mode none no rule of the agent opens a port', () => {
  assert.equal(policyOf({ network: { mode: 'none' }, rules: [tcp('a', 'db.example.com', [5432])] }).tcpPorts.size, 0)
})

for (const { host, port, note } of [
  { host: 'db.example.com', port: 5432, note: /opened by name without a proxy, or with CONNECT or SOCKS$/ },
  { host: 'a.example.net', port: 5433, note: /arrive there: that takes a rule for this host by its name, with 16 ports at most/ },
  { host: 'db.example.com', port: 1080, note: /arrive there: port 1080 is the gate's own/ },
  { host: 'one.example.com', port: 5434, note: /arrive there: rules "one" and "two" have port 5434 for different hosts/ },
  { host: '192.0.2.7', port: 5435, note: /arrive there: an address is reached by a proxy only/ },
]) {
  test(`explain says whether a program without a proxy arrives at ${host}:${port}`, () => {
    const policy = policyOf({
      rules: [
        tcp('db', 'db.example.com', [5432, 1080]),
        tcp('wide', '*.example.net', [5433]),
        tcp('one', 'one.example.com', [5434]),
        tcp('two', 'two.example.com', [5434]),
        tcp('address', '192.0.2.7', [5435], { addresses: ['192.0.2.0/24'] }),
      ],
    })
    assert.match(explainRequest(policy, `https://${host}:${port}/`, 'GET').notes.at(-1) ?? '', note)
  })
}
