import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from 'yaml'
import { Rule } from '../../src/policy/schema.ts'
import { policyInHead, presetPolicy, PRESETS, presetProblems, readPreset, secretsInHead, SERVICES } from '../support/service-presets.ts'
import { problemsOf } from '../support/policy.ts'

/** What the loader may say about a preset: that it asks, and that a template is not filled in. */
const EXPECTED = [/action: ask is refused while no controller is there to ask$/, /names under "invalid" are refused unless/]

for (const name of PRESETS) {
  test(`the policy in the head of service/${name} loads: without an error, and with no other warning than that it asks or is a template`, () => {
    const { errors, warnings } = presetProblems(name)
    assert.deepEqual(errors, [])
    assert.deepEqual(
      warnings.filter((warning) => !EXPECTED.some((expected) => expected.test(warning))),
      [],
    )
  })

  test(`service/${name} declares no secret, and without one the error names it`, () => {
    assert.doesNotMatch(readPreset(name), /^secrets:/m)
    const names = secretsInHead(name)
    const { errors } = problemsOf(policyInHead(name).replace(/^secrets:\n[^]*/m, ''), ['policies'])
    for (const secret of names)
      assert.ok(
        errors.some((error) => error.includes(`secret "${secret}" is not declared`)),
        `${secret}: ${errors.join('\n')}`,
      )
    assert.equal(errors.length > 0, names.length > 0)
  })

  test(`service/${name} writes credentials over TLS on port 443 alone, to hosts that are spelled out, on methods that are named`, () => {
    const { rules, credentials } = presetPolicy(name).effective
    for (const rule of rules) {
      assert.deepEqual({ id: rule.id, ports: rule.ports, tls: rule.tls }, { id: rule.id, ports: [443], tls: 'intercept' })
      assert.deepEqual(
        { plaintext: rule.plaintext, addresses: rule.addresses, scrub: rule.scrub },
        { plaintext: 'refuse', addresses: [], scrub: 'replace' },
      )
      // A rule that denies is about all methods: what is missing in it would be open.
      assert.equal(rule.methods === undefined, rule.action === 'deny', rule.id)
    }
    for (const { id, domains, methods } of credentials) {
      assert.ok(methods, id)
      // npm's own name is not written in this project: see the test of names of registries.
      assert.deepEqual(
        domains.filter((domain) => domain.startsWith('*.')),
        name === 'npm-write' ? ['*.npmjs.org'] : [],
        id,
      )
    }
  })
}

for (const { service, read, write } of SERVICES) {
  if (read === undefined || write === undefined) continue
  test(`service/${read} opens no method and path that service/${write} does not, and binds its credentials to nothing more`, () => {
    const [narrow, wide] = [presetPolicy(read).effective, presetPolicy(write).effective]
    const idsOf = (entries: readonly { id: string }[]): string[] => entries.map(({ id }) => id)
    assert.deepEqual(new Set(idsOf(narrow.rules)).difference(new Set(idsOf(wide.rules))), new Set())
    assert.ok(idsOf(wide.rules).length > idsOf(narrow.rules).length, service)
    assert.deepEqual(new Set(idsOf(narrow.credentials)).difference(new Set(idsOf(wide.credentials))), new Set())
  })
}

const WIDEST = SERVICES.map(({ service, read, write }) => write ?? read ?? service)
const hostsOf = (name: string): Set<string> => new Set(presetPolicy(name).effective.rules.map(({ host }) => host))

test('presets that share a host, a secret or a placeholder load together', () => {
  const known = WIDEST.map((name) => ({ name, hosts: hostsOf(name), words: new Set([...secretsInHead(name), ...placeholdersOf(name)]) }))
  const pairs = known.flatMap((a, index) =>
    known.slice(index + 1).flatMap((b) => (a.hosts.isDisjointFrom(b.hosts) && a.words.isDisjointFrom(b.words) ? [] : [[a.name, b.name]])),
  )
  assert.ok(pairs.length >= 5, 'some do')
  for (const pair of pairs) assert.doesNotThrow(() => presetPolicy(...pair), pair.join(' with '))
})

function placeholdersOf(name: string): string[] {
  return presetPolicy(name).placeholders.map((placeholder) => placeholder.name)
}

test('every rule that stands commented out in a preset is one that a policy takes: it is there to be copied', () => {
  let count = 0
  for (const name of PRESETS) {
    for (const [, text = ''] of readPreset(name).matchAll(/^ +# (- (?:\{id: .*action: .*\}|id: .*\n(?: +# {3}.*\n)+))/gm)) {
      for (const rule of parse(text.replaceAll(/^ +# /gm, '')) as unknown[]) {
        assert.deepEqual(Rule.safeParse(rule).error?.issues ?? [], [], `${name}: ${text}`)
        count += 1
      }
    }
  }
  assert.ok(count >= 14)
})
