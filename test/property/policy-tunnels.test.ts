import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { EffectiveRule } from '../../src/policy/policy.ts'
import { factsOf, hostname, policyOf, problemsOf } from '../support/policy.ts'

const HOSTS = ['a.example.com', 'b.example.com', 'x.a.example.com', 'a.example.net', 'db']
const PORTS = [80, 443, 5432]

const rule = fc
  .record(
    {
      host: fc.constantFrom('a.example.com', 'b.example.com', '*.example.com', '*.a.example.com', 'db'),
      ports: fc.constantFrom([443], [80, 443], [5432], [443, 5432]),
      protocol: fc.constantFrom('http', 'tcp'),
      methods: fc.constantFrom(['GET'], ['GET', 'POST']),
      tls: fc.constant('passthrough'),
      action: fc.constantFrom('allow', 'allow', 'ask', 'deny'),
    },
    { requiredKeys: ['host', 'ports', 'action'] },
  )
  .map(({ methods, tls, ...entry }) => {
    if (entry.protocol === 'tcp') return entry
    if (methods !== undefined) return { ...entry, methods }
    return tls !== undefined && entry.action === 'allow' ? { ...entry, tls } : entry
  })
const mode = fc.constantFrom('restricted', 'open', 'none')
const method = fc.constantFrom('GET', 'POST', 'PUT')

function policyWith(written: readonly object[], value: string) {
  const parts = { network: { mode: value }, rules: written.map((entry, index) => ({ id: `r${index}`, ...entry })) }
  // What cannot be loaded decides nothing; other tests are about why.
  fc.pre(problemsOf(parts).errors.length === 0)
  return policyOf(parts)
}

/** The rules in force for a host and port, by the words of the documentation. */
function about(rules: readonly EffectiveRule[], host: string, port: number, value: string): EffectiveRule[] {
  return rules.filter(
    (entry) =>
      (entry.host.startsWith('*.') ? host.endsWith(entry.host.slice(1)) : host === entry.host) &&
      entry.ports.includes(port) &&
      (value !== 'none' || entry.action === 'deny'),
  )
}

test('a request is decided by the strictest rule that is not about tcp, and mode open lets through what none is about', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 6 }), mode, method, (written, value, verb) => {
      const policy = policyWith(written, value)
      for (const host of HOSTS) {
        for (const port of PORTS) {
          const matching = about(policy.effective.rules, host, port, value)
          const web = matching.filter((entry) => entry.protocol !== 'tcp' && (entry.methods?.includes(verb) ?? true))
          const isOpen =
            value === 'open' &&
            host.includes('.') &&
            port !== 5432 &&
            !matching.some((entry) => entry.protocol === 'tcp' && entry.action !== 'deny')
          const expected = (['deny', 'ask', 'allow'] as const).find((action) => web.some((entry) => entry.action === action))
          const decision = policy.decide(factsOf(`${verb} https://${host}:${port}/`))
          assert.equal(decision.action, expected ?? (isOpen ? 'allow' : 'deny'))
          // A tunnel is there for all that may pass inside.
          if (decision.action !== 'deny') assert.notEqual(policy.decideTunnel(hostname(host), port).action, 'deny')
        }
      }
    }),
    {
      numRuns: 400,
      examples: [
        [
          [
            { host: 'a.example.com', ports: [443], action: 'deny', methods: ['GET'] },
            { host: 'a.example.com', ports: [443, 5432], protocol: 'tcp', action: 'allow' },
            { host: 'a.example.com', ports: [443], action: 'ask' },
          ],
          'restricted',
          'PUT',
        ],
      ],
    },
  )
})

test('what is carried unseen is what no rule about HTTP allows, denies or asks about, but for questions about all of it', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 6 }), mode, (written, value) => {
      const policy = policyWith(written, value)
      for (const host of HOSTS) {
        for (const port of PORTS) {
          const tunnel = policy.decideTunnel(hostname(host), port)
          if (tunnel.action === 'deny') continue
          const matching = about(policy.effective.rules, host, port, value)
          const isAbout = (entry: EffectiveRule): boolean => entry.protocol === 'http' || entry.action === 'deny'
          if (tunnel.carries === 'tcp') {
            assert.ok(matching.some((entry) => entry.protocol === 'tcp' && entry.action !== 'deny'))
            assert.ok(!matching.some(isAbout))
            assert.equal(
              tunnel.action === 'ask',
              matching.some((entry) => entry.action === 'ask'),
            )
          } else if (tunnel.rule.tls === 'passthrough') {
            const web = matching.filter((entry) => entry.protocol !== 'tcp')
            assert.ok(web.length > 0 && web.every((entry) => entry.tls === 'passthrough' && entry.action === 'allow'))
          }
        }
      }
    }),
    { numRuns: 400 },
  )
})

test('a name is known exactly where some port of it is open', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 6 }), mode, (written, value) => {
      const policy = policyWith(written, value)
      for (const host of HOSTS) {
        const isOpen = PORTS.some((port) => policy.decideTunnel(hostname(host), port).action !== 'deny')
        assert.equal(policy.knowsName(hostname(host)), isOpen, `${host} in mode ${value}`)
      }
    }),
    { numRuns: 400 },
  )
})
