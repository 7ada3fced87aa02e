import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { credentialFiles } from '../../src/credential/credential.ts'
import { parseHostPattern, hostSpecificity } from '../../src/policy/hosts.ts'
import { formatBodyPlace, parseBodyPlace } from '../../src/policy/places.ts'
import { Inject } from '../../src/policy/schema-credentials.ts'
import { parseSize } from '../../src/policy/sizes.ts'
import type { EffectiveCredential, Facts } from '../../src/policy/policy.ts'
import { factsOf, policyOf, problemsOf } from '../support/policy.ts'

const HOSTS = ['a.example.com', 'b.example.com', 'x.a.example.com', 'example.com', 'a.example.net']
const PATHS = ['/', '/x', '/x/y', '/x/y/z', '/y']

const kind = fc.oneof(
  fc.constantFrom({ header: 'X-Key' }, { query: 'key' }, { body: '/key' }, { basic: { username: 'u' } }),
  fc.constant({ aws: { region: 'eu-west-1', service: 's3', access_key_id: 'T' } }),
  fc.constantFrom({ placeholder: 'P' }, { placeholder: 'P', in: ['basic'] }, { placeholder: 'Q' }),
)
const inject = fc
  .tuple(
    kind,
    fc.record(
      {
        domains: fc.uniqueArray(fc.constantFrom(...HOSTS, '*.example.com', '*.a.example.com', '*.example.net'), {
          minLength: 1,
          maxLength: 2,
        }),
        methods: fc.constantFrom(['GET'], ['GET', 'POST']),
        paths: fc.constantFrom(['/x/**'], ['/x'], ['/**/z', '/y'], ['/*']),
      },
      { requiredKeys: ['domains'] },
    ),
  )
  .map(([what, where]) => ({ ...where, ...what }))

/** By regular expression, which tries everything. */
function matchesText(pattern: string, path: string): boolean {
  const source = pattern
    .split('/')
    .slice(1)
    .map((segment) => (segment === '**' ? '(?:/[^/]*)*' : segment === '*' ? '/[^/]+' : `/${segment}`))
    .join('')
  return new RegExp(`^${source}$`).test(path)
}

type Rank = readonly [host: number, path: number, methods: number]

function specificity(domain: string): number {
  const pattern = parseHostPattern(domain)
  if (typeof pattern === 'string') throw new Error(pattern)
  return hostSpecificity(pattern)
}

/** How specific a credential is for a request at its best; nothing when it is not bound to it. */
function rankOf({ domains, methods, paths }: EffectiveCredential, { host, method, path }: Facts): Rank | undefined {
  const fitting = domains.filter((domain) => (domain.startsWith('*.') ? host.endsWith(domain.slice(1)) : host === domain))
  if (fitting.length === 0 || methods?.includes(method) === false) return undefined
  const fits = paths?.filter((pattern) => matchesText(pattern, path))
  if (fits?.length === 0) return undefined
  const lengths = fits?.map((text) => (text.includes('*') ? 2 * text.indexOf('*') : 2 * text.length + 1)) ?? [0]
  return [Math.max(...fitting.map(specificity)), Math.max(...lengths), methods === undefined ? 0 : 1]
}

/** Every credential, one by one, by the words of the documentation. */
function best(credentials: readonly EffectiveCredential[], facts: Facts): string | undefined {
  const ranked = credentials.flatMap((credential) => {
    const rank = rankOf(credential, facts)
    return rank === undefined ? [] : [{ id: credential.id, rank }]
  })
  return ranked.toSorted((a, b) => b.rank[0] - a.rank[0] || b.rank[1] - a.rank[1] || b.rank[2] - a.rank[2])[0]?.id
}

const request = fc.tuple(fc.constantFrom(...HOSTS), fc.constantFrom('GET', 'POST', 'PUT'), fc.constantFrom(...PATHS))

test('what is written, swapped and searched for is what trying every credential gives', () => {
  const seen = { written: 0, swapped: 0 }
  fc.assert(
    fc.property(fc.array(inject, { maxLength: 6 }), fc.array(request, { minLength: 10, maxLength: 10 }), (written, requests) => {
      const parts = {
        rules: HOSTS.map((host, index) => ({ id: `r${index}`, host })),
        secrets: [{ name: 'T', source: 'env:T' }],
        credentials: written.map((entry, index) => ({ id: `c${index}`, secret: 'T', inject: entry })),
      }
      // What cannot be loaded decides nothing; other tests are about why.
      fc.pre(problemsOf(parts).errors.length === 0)
      const policy = policyOf(parts)
      const { credentials } = policy.effective
      const nameOf = ({ place }: { place: EffectiveCredential['place'] }): string | undefined =>
        place.kind === 'placeholder' ? place.name : undefined
      for (const [host, method, path] of requests) {
        const facts = factsOf(`${method} https://${host}${path}`)
        const bound = policy.credentialFor(facts)
        const swapped = policy.placeholdersFor(facts)
        const all = policy.credentialsOf(facts.host)
        assert.equal(
          bound?.id,
          best(
            credentials.filter((entry) => nameOf(entry) === undefined),
            facts,
          ),
        )
        for (const name of ['P', 'Q']) {
          const expected = best(
            credentials.filter((entry) => nameOf(entry) === name),
            facts,
          )
          assert.deepEqual(
            swapped.filter((entry) => nameOf(entry) === name).map(({ id }) => id),
            expected === undefined ? [] : [expected],
          )
        }
        // Whatever goes out with a request is searched for in its answer.
        for (const used of [bound ?? [], swapped].flat()) assert.ok(all.includes(used))
        for (const { id } of all)
          assert.ok(
            credentials.some(
              (entry) => entry.id === id && rankOf({ ...entry, paths: ['/**'] }, { ...facts, method: entry.methods?.[0] ?? method }),
            ),
          )
        for (const entry of swapped) assert.ok(policy.placeholders.some(({ name }) => name === nameOf(entry)))
        for (const entry of credentials) {
          assert.deepEqual(
            policy.placeholdersFor(facts, entry.id).map(({ id }) => id),
            nameOf(entry) !== undefined && rankOf(entry, facts) ? [entry.id] : [],
          )
          assert.equal(
            policy.credentialFor(facts, entry.id)?.id,
            nameOf(entry) === undefined && rankOf(entry, facts) ? entry.id : undefined,
          )
        }
        seen.written += bound === undefined ? 0 : 1
        seen.swapped += swapped.length
      }
    }),
    { numRuns: 300 },
  )
  assert.ok(seen.written > 100 && seen.swapped > 100, JSON.stringify(seen))
})

test('a JSON pointer is written and read as RFC 6901 says, whatever its keys are', () => {
  const key = fc.string({ unit: fc.constantFrom('~', '/', '0', '1', 'a', 'é', ' ', '"'), maxLength: 6 })
  fc.assert(
    fc.property(fc.array(key, { minLength: 1, maxLength: 8 }), (keys) => {
      const text = keys.map((segment) => `/${segment.replace(/[~/]/g, (char) => (char === '~' ? '~0' : '~1'))}`).join('')
      assert.deepEqual(parseBodyPlace(text), { kind: 'json', pointer: keys })
      assert.equal(formatBodyPlace({ kind: 'json', pointer: keys }), text)
    }),
    { numRuns: 2_000 },
  )
})

test('an amount of data is its number times its unit', () => {
  const units = { KB: 1e3, MB: 1e6, GB: 1e9, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100_000 }), fc.constantFrom(...Object.entries(units)), (count, [unit, factor]) =>
      assert.equal(parseSize(`${count}${unit}`), count * factor),
    ),
  )
})

test('a file that the policy takes can be written for its program', () => {
  const server = fc.oneof(
    fc.constantFrom(
      'a.example.com',
      'a.example.com/npm',
      'https://upload.example.com/legacy/',
      'registry.example.com:443',
      '-a',
      'a b',
      'a/',
      '//a',
      'a..b',
    ),
    fc.string({ unit: fc.constantFrom('a', '.', '-', ':', '/', '1', '_', '~', '"', '\n'), minLength: 1, maxLength: 8 }),
    fc.string({ unit: fc.constantFrom('a', '.', '-', ':', '/', '1'), minLength: 1, maxLength: 8 }).map((text) => `https://${text}`),
  )
  const login = fc.option(
    fc.oneof(fc.constantFrom('x-access-token', '__token__', 'me@example.com'), fc.string({ minLength: 1, maxLength: 5 })),
    { nil: undefined },
  )
  let taken = 0
  fc.assert(
    fc.property(fc.constantFrom('npmrc', 'netrc', 'pypirc', 'docker'), server, login, (program, name, user) => {
      const file = { [program]: { server: name, ...(user !== undefined && { login: user }) } }
      const { success } = Inject.safeParse({ domains: ['a.example.com'], placeholder: 'P', file })
      if (!success) return
      taken += 1
      const [credential] = policyOf({
        rules: [{ id: 'r', host: 'a.example.com' }],
        secrets: [{ name: 'T', source: 'env:T' }],
        credentials: [{ id: 'c', secret: 'T', inject: { domains: ['a.example.com'], placeholder: 'P', file } }],
      }).credentials
      assert.ok(credential)
      assert.equal(credentialFiles([credential], { P: 'a'.repeat(40) }).length, 1)
    }),
    { numRuns: 3_000 },
  )
  assert.ok(taken > 50, String(taken))
})
