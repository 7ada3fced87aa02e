import assert from 'node:assert/strict'
import { METHODS as PARSER_METHODS } from 'node:http'
import { test } from 'node:test'
import { METHODS } from '../../../src/policy/methods.ts'
import { checkPolicy, formatDiagnostic } from '../../../src/policy/policy.ts'
import { problemsOf, writeFiles, type Parts } from '../../support/policy.ts'

const bearer = { domains: ['a.example.com'], methods: ['GET'], header: 'Authorization', prefix: 'Bearer ' }

/** That each of these is among the findings. */
function assertFound(found: readonly string[], ...expected: readonly RegExp[]): void {
  for (const one of expected)
    assert.ok(
      found.some((text) => one.test(text)),
      `${one} is not in\n${found.join('\n')}`,
    )
}

test('a structural error hides no duplicate id, undeclared secret or ask: one run tells all', () => {
  const { errors, warnings } = problemsOf({
    rules: [
      { id: 'a', host: 'a.example.com', ports: [0] },
      { id: 'a', host: 'b.example.com' },
      { id: 'b', host: 'c.example.com', action: 'ask' },
    ],
    credentials: [{ id: 'c', secret: 'TOKEN', inject: bearer }],
  })
  assert.equal(errors.length, 3, errors.join('\n'))
  assertFound(
    errors,
    /yaml:2: network\.rules\[0\]\.ports\[0\]/,
    /yaml:3: rule "a" stands at policy\.yaml:2 already/,
    /credential "c": secret "TOKEN" is not declared/,
  )
  assert.deepEqual(warnings, ['policy.yaml:4: rule "b": action: ask is refused while no controller is there to ask'])
})

test('an entry with an error of its own still counts: its id, its secret, and what its other fields say', () => {
  const { errors, warnings } = problemsOf({
    rules: [
      { id: 'a', host: 'a.example.com', methods: ['POTS'], plaintext: 'accept', colour: 'red' },
      { id: 'b', host: 'b.example.com', action: 'ask', ports: [0] },
      { id: 'p', host: 'p.example.com', action: 'deny', tls: 'intercept', ports: [0] },
    ],
    credentials: [
      { id: 'c', secret: 'NONE', inject: { ...bearer, header: 'Host' } },
      { id: 'c', secret: 'USED', inject: { ...bearer, header: 'Host' } },
    ],
    secrets: [
      { name: 'S', source: 'env:S' },
      { name: 'S', source: 'nowhere' },
      { name: 'USED', source: 'nowhere' },
    ],
  })
  assertFound(
    errors,
    /credential "c": secret "NONE" is not declared/,
    /credential "c" stands at .* already/,
    /secret "S" stands at .* already/,
    /rule "p": tls has no effect/,
  )
  assert.doesNotMatch(errors.join(), /secret "USED" is not declared/)
  assertFound(warnings, /rule "a": method "POTS"/, /rule "a": plaintext: accept/, /rule "b": action: ask/, /secret "S" is used by no/)
  assert.doesNotMatch(warnings.join(), /secret "USED"/)
})

test('ties, unreachable rules, rules that say the same and credentials without a rule are told beside an error elsewhere', () => {
  const { errors, warnings } = problemsOf({
    rules: [
      { id: 'bad', host: 'bad.example.com', ports: [0] },
      { id: 'a', host: 'a.example.com' },
      { id: 'no', host: 'a.example.com', action: 'deny' },
      { id: 'x', host: 'x.example.com' },
      { id: 'y', host: 'x.example.com' },
      { id: 'pin', host: 'pin.example.com', tls: 'passthrough' },
    ],
    credentials: [
      { id: 'c', secret: 'T', inject: { ...bearer, domains: ['x.example.com'] } },
      { id: 'd', secret: 'T', inject: { ...bearer, domains: ['x.example.com'] } },
      { id: 'e', secret: 'T', inject: { ...bearer, domains: ['nowhere.example.com'] } },
      { id: 'f', secret: 'T', inject: { ...bearer, domains: ['pin.example.com'] } },
    ],
    secrets: [{ name: 'T', source: 'env:T' }],
  })
  assertFound(
    errors,
    /rule "a" is unreachable/,
    /rule "y" says the same as rule "x"/,
    /neither is more specific/,
    /"f": pin\.example\.com .*passthrough/,
  )
  assertFound(warnings, /credential "e": no rule allows nowhere\.example\.com/)
})

const ONE_CREDENTIAL = { credentials: [{ id: 'c', secret: 'T', inject: bearer }], secrets: [{ name: 'T', source: 'env:T' }] }
for (const { title, parts, absent } of [
  {
    title: 'a credential whose rule has an error is not said to have none',
    parts: { ...ONE_CREDENTIAL, rules: [{ id: 'a', host: 'a.example.com', ports: [0] }] },
    absent: /no rule/,
  },
  {
    title: 'a credential is not said to have no rule while a rule names no host that can be read',
    parts: { ...ONE_CREDENTIAL, rules: [{ id: 'a', host: 'A.example.com' }] },
    absent: /no rule/,
  },
  {
    title: 'a rule whose ports are wrong is not said to be unreachable or to say the same as another',
    parts: {
      rules: [
        { id: 'a', host: 'a.example.com', ports: [0] },
        { id: 'b', host: 'a.example.com', action: 'deny' },
        { id: 'c', host: 'c.example.com', ports: [0] },
        { id: 'd', host: 'c.example.com' },
      ],
    },
    absent: /unreachable|says the same/,
  },
  {
    title: 'a rule whose addresses are wrong is not said to lack them',
    parts: { rules: [{ id: 'a', host: 'db.internal', addresses: ['10.1.2.3/8'] }] },
    absent: /are refused unless/,
  },
  {
    title: 'a secret is not said to be undeclared while one has no name that can be read',
    parts: { credentials: ONE_CREDENTIAL.credentials, secrets: [{ nmae: 'T', source: 'env:T' }] },
    absent: /not declared/,
  },
  {
    title: 'a secret is not said to be unused while a credential names none that can be read',
    parts: { credentials: [{ id: 'c', secrt: 'T', inject: bearer }], secrets: ONE_CREDENTIAL.secrets },
    absent: /used by no/,
  },
] satisfies { title: string; parts: Parts; absent: RegExp }[]) {
  test(title, () => {
    const { errors, warnings } = problemsOf(parts)
    assert.ok(errors.length > 0)
    assert.doesNotMatch([...errors, ...warnings].join('\n'), absent)
  })
}

for (const { title, text, found } of [
  { title: 'a misspelled section', text: 'secret: [{name: T, source: "env:T"}]', found: false },
  { title: 'a layer that is missing', text: 'extends: [none]', found: false },
  { title: 'a section that has nothing to do with secrets', text: 'presence: {}', found: true },
  { title: 'a harness that is missing', text: 'network: {harness: none}', found: false },
  { title: 'a misspelled harness', text: 'network: {harnes: none}', found: false },
  { title: 'a misspelled network', text: 'netwrk: {}', found: true },
]) {
  test(`beside ${title} a secret is ${found ? '' : 'not '}said to be undeclared`, () => {
    const { errors } = problemsOf(`version: 1\n${text}\ncredentials: [${JSON.stringify(ONE_CREDENTIAL.credentials[0])}]\n`)
    assert.equal(/not declared/.test(errors.join('\n')), found, errors.join('\n'))
  })
}

test('a file that cannot be read as YAML hides nothing of the others, and what it may hold is not said to be missing', () => {
  using files = writeFiles({
    'bad.yaml': 'version: 1\nsecrets: [\n',
    'good.yaml': `{version: 1, network: {rules: [{id: r, host: r.example.com, action: ask}]}, credentials: [${JSON.stringify(ONE_CREDENTIAL.credentials[0])}]}\n`,
  })
  const { errors, warnings } = checkPolicy([files.at('bad.yaml'), files.at('good.yaml')], { policyDirs: [] })
  assert.doesNotMatch(errors.map(formatDiagnostic).join('\n'), /not declared/)
  assert.deepEqual(
    warnings.map(({ message }) => message),
    ['rule "r": action: ask is refused while no controller is there to ask'],
  )
})

for (const { prefix, warned } of [
  { prefix: 'Bearer', warned: true },
  { prefix: 'token', warned: true },
  { prefix: 'Bearer ', warned: false },
  { prefix: 'Token token=', warned: false },
]) {
  test(`the prefix ${JSON.stringify(prefix)} is ${warned ? '' : 'not '}warned about`, () => {
    const { warnings } = problemsOf({
      rules: [{ id: 'a', host: 'a.example.com' }],
      credentials: [{ id: 'c', secret: 'T', inject: { ...bearer, prefix } }],
      secrets: [{ name: 'T', source: 'env:T' }],
    })
    assert.equal(warnings.join().includes(`prefix "${prefix}" would send "${prefix}<secret>": write "${prefix} "`), warned)
  })
}

test('methods that the gate lets in are those of its parser, without CONNECT and TRACE', () => {
  assert.deepEqual([...METHODS].toSorted(), PARSER_METHODS.filter((method) => method !== 'CONNECT' && method !== 'TRACE').toSorted())
})

test('a method that no request can have is warned about, in rules and credentials, with the nearest one', () => {
  const { warnings } = problemsOf({
    rules: [{ id: 'a', host: 'a.example.com', methods: ['GET', 'POTS', 'FROBNICATE'] }],
    credentials: [{ id: 'c', secret: 'T', inject: { ...bearer, methods: ['PATHC'] } }],
    secrets: [{ name: 'T', source: 'env:T' }],
  })
  assertFound(
    warnings,
    /rule "a": method "POTS" .*did you mean "POST"\?$/,
    /rule "a": method "FROBNICATE" [^:]*$/,
    /credential "c": method "PATHC" .*did you mean "PATCH"\?$/,
  )
  assert.equal(warnings.length, 3)
})

for (const { address, warned } of [
  { address: '169.254.169.254/32', warned: true },
  { address: 'fd00:ec2::254/128', warned: true },
  { address: '::ffff:a9fe:a9fe/128', warned: true },
  { address: '169.254.0.0/16', warned: false },
  { address: '10.0.0.5/32', warned: false },
]) {
  test(`addresses: ${address} ${warned ? 'opens' : 'does not open'} a metadata address, and is ${warned ? '' : 'not '}warned about`, () => {
    const { warnings } = problemsOf({ rules: [{ id: 'a', host: 'a.example.com', addresses: [address] }] })
    assert.equal(/opens a metadata or host address/.test(warnings.join()), warned)
  })
}

for (const { word, action } of [
  ...['block', 'drop', 'reject', 'forbid', 'Deny'].map((other) => ({ word: other, action: 'deny' })),
  ...['permit', 'accept'].map((other) => ({ word: other, action: 'allow' })),
]) {
  test(`action: ${word} is refused and answered with "${action}"`, () => {
    const { errors } = problemsOf({ rules: [{ id: 'a', host: 'a.example.com', action: word }] })
    assert.equal(errors.length, 1)
    assert.ok(errors[0]?.endsWith(`not "${word}": did you mean "${action}"?`), errors[0])
  })
}
