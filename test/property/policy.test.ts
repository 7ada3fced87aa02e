import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import { METADATA, SPECIAL_NAMES, TABLE } from '../../src/policy/address-table.ts'
import { parseAddressRange } from '../../src/policy/addresses.ts'
import { readDocument } from '../../src/policy/document.ts'
import { parseHostPattern } from '../../src/policy/hosts.ts'
import { parsePathPattern, pathProblem } from '../../src/policy/paths.ts'
import { checkPolicy, classifyAddress, type EffectiveRule, type Facts } from '../../src/policy/policy.ts'
import { parseBodyPlace, parsePlace } from '../../src/policy/places.ts'
import { parseSize } from '../../src/policy/sizes.ts'
import { parseSource } from '../../src/policy/sources.ts'
import { parseTokenUrl } from '../../src/policy/token-urls.ts'
import { factsOf, policyOf, problemsOf, writeFiles } from '../support/policy.ts'

const HOSTS = ['a.example.com', 'b.example.com', 'x.a.example.com', 'a.example.net']
const PATHS = ['/', '/x', '/x/y', '/x/y/z', '/y', '/x/']
const PATTERNS = ['/x/**', '/x', '/*', '/**/z', '/', '/x*y']
/** With what has other spellings: encoded slash and reserved characters, parameters, a slash at the end. */
const RESPELLED = ['/x/', '/x%2Fy', '/*%2fy', '/%40x', '/x;z/y', '/*;z', '/x*@', '/x%2F*y;z']
const requestPath = fc.oneof(
  fc.constantFrom(...PATHS),
  fc
    .array(fc.constantFrom('x', 'y', 'z', '@', '%40', ';', '%3b', '%3B', '/', '%2F', '%2f', '%20'), { maxLength: 7 })
    .map((parts) => `/${parts.join('')}`)
    .filter((text) => pathProblem(text) === undefined),
)

const rule = fc.record(
  {
    host: fc.constantFrom(...HOSTS, '*.example.com', '*.a.example.com', '*.example.net'),
    ports: fc.constantFrom([443], [80, 443], [8443]),
    methods: fc.constantFrom(['GET'], ['GET', 'POST']),
    paths: fc.oneof(
      fc.constant(['/x/*', '/y']),
      fc.constantFrom(...PATTERNS, ...RESPELLED).map((text) => [text]),
    ),
    action: fc.constantFrom('allow', 'ask', 'deny'),
  },
  { requiredKeys: ['host', 'action'] },
)

/** A path or a pattern as each kind of server reads it: decoded, split at `%2F`, without parameters, or none of it. */
function readingsOf(text: string): string[] {
  const exact = text.replace(/%[0-9a-f]{2}/gi, (triplet) => triplet.toUpperCase())
  const decoded = exact.replaceAll('%40', '@').replaceAll('%3B', ';')
  const lenient = [decoded, decoded.replaceAll('%2F', '/')]
    .flatMap((reading) => [reading, reading.replace(/;[^/]*/g, '')])
    .map((reading) => reading.replace(/\/+/g, '/').replace(/\/$/, ''))
  return [exact, ...lenient]
}

/** By regular expression, which tries everything. */
function matchesText(pattern: string, text: string): boolean {
  const source = pattern
    .split('/')
    .slice(1)
    .map((segment) => (segment === '**' ? '(?:/[^/]*)*' : segment === '*' ? '/[^/]+' : `/${segment.replaceAll('*', '[^/]*')}`))
    .join('')
  return new RegExp(`^${source}$`).test(text)
}

/** Every rule, one by one, by the words of the documentation: allowances know the path as it stands, others any reading of it. */
function strictest(rules: readonly EffectiveRule[], facts: Facts): string {
  const matching = rules.filter(({ host, ports, methods, paths, action }) => {
    const fitsHost = host.startsWith('*.') ? facts.host.endsWith(host.slice(1)) : facts.host === host
    const readings = (text: string): string[] => readingsOf(text).slice(0, action === 'allow' ? 1 : undefined)
    const fitsPath = paths?.some((text) =>
      readings(text).some((pattern) => readings(facts.path).some((reading) => matchesText(pattern, reading))),
    )
    return fitsHost && ports.includes(facts.port) && (methods?.includes(facts.method) ?? true) && (fitsPath ?? true)
  })
  return (['deny', 'ask', 'allow'] as const).find((action) => matching.some((entry) => entry.action === action)) ?? 'none'
}

test('decide is what trying every rule and taking the strictest gives, in any order of the rules', () => {
  fc.assert(
    fc.property(
      fc.array(rule, { maxLength: 8 }),
      fc.array(fc.tuple(fc.constantFrom(...HOSTS), fc.constantFrom(80, 443, 8443), fc.constantFrom('GET', 'POST', 'PUT'), requestPath), {
        minLength: 10,
        maxLength: 10,
      }),
      (written, requests) => {
        const rules = written.map((entry, index) => ({ id: `r${index}`, ...entry }))
        // What cannot be loaded decides nothing; other tests are about why.
        fc.pre(problemsOf({ rules }).errors.length === 0)
        const policy = policyOf({ rules })
        const backwards = policyOf({ rules: rules.toReversed() })
        for (const [host, port, method, path] of requests) {
          const facts = factsOf(`${method} https://${host}:${port}${path}`)
          for (const source of [policy, backwards]) {
            const decision = source.decide(facts)
            const code = decision.action === 'deny' ? decision.refusal.code : decision.action
            const expected = strictest(source.effective.rules, facts)
            assert.equal(
              code === 'host_not_allowed' ||
                (code === 'denied_by_rule' && decision.action === 'deny' && decision.refusal.rule === undefined)
                ? 'none'
                : { allow: 'allow', ask: 'ask', denied_by_rule: 'deny' }[code as string],
              expected,
            )
            // I3: a tunnel is open to all that could be allowed inside.
            if (expected === 'allow') assert.equal(source.decideTunnel(facts.host, facts.port).action, 'allow')
          }
        }
      },
    ),
    { numRuns: 300 },
  )
})

const RANGES = [...TABLE.map(([, cidr]) => cidr), ...METADATA.map(([cidr]) => cidr)]
const inRange = fc.tuple(fc.constantFrom(...RANGES), fc.bigInt(0n, (1n << 128n) - 1n)).map(([cidr, random]) => {
  const range = parseAddressRange(cidr)
  if (typeof range === 'string') throw new Error(range)
  const value = range.first + (random % (range.last - range.first + 1n))
  const bytes = [...Buffer.from(value.toString(16).padStart(range.family === 4 ? 8 : 32, '0'), 'hex')]
  return { cidr, bytes }
})

test('every address of every refused range is refused, in every spelling that is an address', () => {
  fc.assert(
    fc.property(inRange, ({ cidr, bytes }) => {
      const address = ipaddr.fromByteArray(bytes)
      const spellings =
        address instanceof ipaddr.IPv6
          ? [address.toString(), address.toNormalizedString(), address.toRFC5952String().toUpperCase()]
          : [address.toString(), `::ffff:${address.toString()}`, `::${address.toString()}`, `64:ff9b::${address.toString()}`]
      for (const text of spellings) assert.notEqual(classifyAddress(text), undefined, `${text} of ${cidr}`)
    }),
    { numRuns: 3_000 },
  )
})

const octal = (part: number): string => `0${part.toString(8)}`
const hex = (part: number): string => `0x${part.toString(16)}`

test('an IPv4 spelling that is a number to some readers never becomes a host', () => {
  fc.assert(
    fc.property(fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255)), ([a, b, c, d]) => {
      const value = a * 2 ** 24 + b * 2 ** 16 + c * 2 ** 8 + d
      for (const text of [
        String(value),
        hex(value),
        octal(value),
        [a, b, c * 256 + d].join('.'),
        [a, value % 2 ** 24].join('.'),
        [a, b, c, d].map(hex).join('.'),
        [a, b, c, d].map(octal).join('.'),
      ]) {
        assert.equal(isHostname(parseHostname(text)), false, text)
      }
    }),
  )
})

test('special names are refused with any label before them', () => {
  fc.assert(
    fc.property(fc.constantFrom(...SPECIAL_NAMES), fc.constantFrom('', 'x.', 'a.b.', '127-0-0-1.'), (name, prefix) => {
      const { warnings } = problemsOf({ rules: [{ id: 'r', host: `${prefix}${name}` }] })
      assert.match(warnings.join(), /are refused unless the rule lists addresses/)
    }),
    { numRuns: 60 },
  )
})

const nasty = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string(),
  fc
    .array(
      fc.constantFrom(
        'version: 1',
        '\n',
        '  ',
        '- ',
        '[',
        ']',
        '{',
        '}',
        ': ',
        '*',
        '&a',
        '!!x',
        '<<',
        '---',
        '|',
        '>',
        '"',
        "'",
        '#',
        '?',
        '%',
        'rules',
        'network',
        ',',
        '\t',
        '..',
        '/',
      ),
    )
    .map((parts) => parts.join('')),
)

test('no text makes a parser throw: each gives a value or a reason', () => {
  fc.assert(
    fc.property(nasty, (text) => {
      for (const parse of [
        parseHostPattern,
        parsePathPattern,
        parseAddressRange,
        parseSource,
        parsePlace,
        parseBodyPlace,
        parseSize,
        parseTokenUrl,
      ])
        parse(text)
      for (const error of readDocument('f', text).errors) assert.ok(error.message.length > 0)
    }),
    { numRuns: 3_000 },
  )
})

test('no content of a policy file makes the check throw, and what is refused has a place', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        nasty,
        fc.json(),
        fc.object().map((value) => JSON.stringify({ version: 1, network: value, credentials: [value], secrets: [value] })),
        fc
          .tuple(fc.constantFrom('also', 'aws', 'in', 'file', 'body', 'placeholder', 'shape', 'oauth2', 'budget'), fc.anything())
          .map(([key, value]) => {
            const credential = { id: 'c', secret: 'T', inject: { domains: ['a.example.com'], [key]: value }, [key]: value }
            return JSON.stringify({ version: 1, credentials: [credential], network: { rules: [{ [key]: value }] } }) ?? ''
          }),
      ),
      (text) => {
        using files = writeFiles({ 'p.yaml': text })
        const { errors } = checkPolicy([files.at('p.yaml')], { policyDirs: [files.dir] })
        for (const error of errors) assert.equal(error.file, files.at('p.yaml'))
      },
    ),
    { numRuns: 300 },
  )
})
