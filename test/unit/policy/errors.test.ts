import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { loadPolicy } from '../../../src/policy/policy.ts'
import { policyOf, problemsOf, writeFiles } from '../../support/policy.ts'

/** A file with one rule whose lines begin on line 5. It allows in its last line unless one of them says otherwise. */
const rule = (lines: string): string => `version: 1
network:
  rules:
    - id: r
${[...lines.split('\n'), ...(/^action:/m.test(lines) ? [] : ['action: allow'])].map((line) => `      ${line}\n`).join('')}`

const TABLE: readonly { title: string; text: string; error: RegExp }[] = [
  {
    title: 'an upper-case host',
    text: rule('host: API.GitHub.com'),
    error: /^policy\.yaml:5: host "API\.GitHub\.com" is not canonical; write "api\.github\.com"$/,
  },
  { title: 'a trailing dot', text: rule('host: example.com.'), error: /:5: host "example\.com\." .*ends with a dot; write "example\.com"/ },
  { title: 'a non-ASCII host', text: rule('host: bücher.example'), error: /:5: .*punycode.*write "xn--bcher-kva\.example"/ },
  { title: 'a URL for a host', text: rule('host: "https://api.github.com/x"'), error: /:5: .*write "api\.github\.com"/ },
  { title: 'a host with a port', text: rule('host: "api.github.com:8443"'), error: /:5: .*write "api\.github\.com" and "ports: \[8443\]"/ },
  { title: 'a short IPv4 address', text: rule('host: "127.1"'), error: /:5: .*write "127\.0\.0\.1"/ },
  { title: 'a long IPv6 address', text: rule('host: "2606:4700:0:0:0:0:0:1"'), error: /:5: .*write "2606:4700::1"/ },
  {
    title: 'a wildcard in the middle',
    text: rule('host: a.*.example.com'),
    error: /:5: host "a\.\*\.example\.com" has a wildcard that is not its whole first label/,
  },
  { title: 'a wildcard as part of a label', text: rule('host: "*api.example.com"'), error: /:5: .*whole first label/ },
  { title: 'a wildcard over all', text: rule('host: "*"'), error: /:5: host "\*" would match every host/ },
  {
    title: 'a wildcard on a top-level domain',
    text: rule('host: "*.com"'),
    error: /:5: host "\*\.com" is too wide: "com" is a whole top-level domain/,
  },
  { title: 'a wildcard on a public suffix', text: rule('host: "*.github.io"'), error: /:5: .*anybody can get a name under "github\.io"/ },
  { title: 'a wildcard on an address', text: rule('host: "*.10.0.0.1"'), error: /:5: .*wildcard on an address/ },
  {
    title: 'an unknown key',
    text: rule('host: a.example.com\nmethod: [GET]'),
    error: /^policy\.yaml:6: unknown key "method": did you mean "methods"\?$/,
  },
  {
    title: 'a key that belongs elsewhere',
    text: 'version: 1\nrules: []\n',
    error: /^policy\.yaml:2: unknown key "rules" here: it belongs under network$/,
  },
  {
    title: 'a wrong action',
    text: rule('host: a.example.com\naction: alow'),
    error: /:6: network\.rules\[0\]\.action must be allow or ask or deny, not "alow": did you mean "allow"\?/,
  },
  {
    title: 'a missing action',
    text: 'version: 1\nnetwork:\n  rules:\n    - id: r\n      host: a.example.com\n',
    error: /^policy\.yaml:4: network\.rules\[0\]\.action is missing: write action: allow or ask or deny$/,
  },
  {
    title: 'an action with nothing',
    text: rule('host: a.example.com\naction:'),
    error: /^policy\.yaml:6: network\.rules\[0\]\.action must be allow or ask or deny, not nothing$/,
  },
  {
    title: 'a lower-case method',
    text: rule('host: a.example.com\nmethods: [get]'),
    error: /:6: method "get" is not canonical; write "GET"/,
  },
  { title: 'CONNECT as a method', text: rule('host: a.example.com\nmethods: [CONNECT]'), error: /:6: method "CONNECT" opens tunnels/ },
  { title: 'TRACE as a method', text: rule('host: a.example.com\nmethods: [TRACE]'), error: /:6: method "TRACE" is never forwarded/ },
  {
    title: 'an empty list of methods',
    text: rule('host: a.example.com\nmethods: []'),
    error: /:6: network\.rules\[0\]\.methods must not be empty/,
  },
  { title: 'the same method twice', text: rule('host: a.example.com\nmethods: [GET, GET]'), error: /:6: "GET" stands in the list twice/ },
  { title: 'port 0', text: rule('host: a.example.com\nports: [0]'), error: /:6: network\.rules\[0\]\.ports\[0\] must be 1 at least/ },
  { title: 'port 65536', text: rule('host: a.example.com\nports: [65536]'), error: /:6: .* must be 65535 at most/ },
  { title: 'a port in quotes', text: rule('host: a.example.com\nports: ["443"]'), error: /:6: .*must be a number, not a text/ },
  {
    title: 'a hexadecimal port',
    text: rule('host: a.example.com\nports: [0x50]'),
    error: /:6: the number 0x50 can be read in more than one way/,
  },
  { title: 'an octal port', text: rule('host: a.example.com\nports: [010]'), error: /:6: the number 010/ },
  {
    title: 'a path with dot segments',
    text: rule('host: a.example.com\npaths: ["/a/../b"]'),
    error: /:6: path "\/a\/\.\.\/b" is not canonical: it has a dot segment; write "\/b"/,
  },
  { title: 'a path without slash', text: rule('host: a.example.com\npaths: ["a"]'), error: /:6: path "a" must start with "\/"/ },
  { title: 'a path with a query', text: rule('host: a.example.com\npaths: ["/a?b=*"]'), error: /:6: .*without query; write "\/a"/ },
  {
    title: 'a path with an encoded letter',
    text: rule('host: a.example.com\npaths: ["/%61dmin"]'),
    error: /:6: .*"%61", which is "a"; write "\/admin"/,
  },
  {
    title: 'two stars within a segment',
    text: rule('host: a.example.com\npaths: ["/a**"]'),
    error: /:6: .*"\*\*" must be a whole segment/,
  },
  {
    title: 'addresses with host bits',
    text: rule('host: a.example.com\naddresses: ["10.1.2.3/16"]'),
    error: /:6: address "10\.1\.2\.3\/16" is not canonical; write "10\.1\.0\.0\/16"/,
  },
  { title: 'addresses that are none', text: rule('host: a.example.com\naddresses: [private]'), error: /:6: address "private" is neither/ },
  {
    title: 'a passthrough rule with paths',
    text: rule('host: a.example.com\ntls: passthrough\npaths: ["/a"]'),
    error: /:4: rule "r": paths cannot be enforced inside a passthrough tunnel/,
  },
  {
    title: 'a passthrough rule with methods',
    text: rule('host: a.example.com\ntls: passthrough\nmethods: [GET]'),
    error: /:4: rule "r": methods cannot be enforced/,
  },
  {
    title: 'a passthrough rule with upgrade',
    text: rule('host: a.example.com\ntls: passthrough\nupgrade: https'),
    error: /:4: rule "r": upgrade cannot be enforced/,
  },
  { title: 'upgrade with port 80 alone', text: rule('host: a.example.com\nupgrade: https\nports: [80]'), error: /:4: .*add 443 to ports/ },
  { title: 'upgrade with port 443 alone', text: rule('host: a.example.com\nupgrade: https\nports: [443]'), error: /:4: .*add 80 to ports/ },
  { title: 'a denial with tls', text: rule('host: a.example.com\naction: deny\ntls: intercept'), error: /:4: rule "r": tls has no effect/ },
  {
    title: 'a question with tls',
    text: rule('host: a.example.com\naction: ask\ntls: passthrough'),
    error: /:4: rule "r": tls has no effect on a rule that asks/,
  },
  {
    title: 'a question with upgrade and port 80 alone',
    text: rule('host: a.example.com\naction: ask\nupgrade: https\nports: [80]'),
    error: /:4: .*add 443 to ports/,
  },
  {
    title: 'scrub: off without quotes',
    text: rule('host: a.example.com\nscrub: off'),
    error: /:6: off is true or false to some readers: write "off" in quotes/,
  },
  {
    title: 'scrub with a word of its own',
    text: rule('host: a.example.com\nscrub: replac'),
    error: /:6: network\.rules\[0\]\.scrub must be replace or block or off, not "replac": did you mean "replace"\?/,
  },
  {
    title: 'own_credentials with a word of its own',
    text: rule('host: a.example.com\nown_credentials: keep'),
    error: /:6: network\.rules\[0\]\.own_credentials must be drop or deny or pass, not "keep"/,
  },
  ...['scrub: block', 'own_credentials: drop'].flatMap((line) => [
    {
      title: `${line} on a rule that denies`,
      text: rule(`host: a.example.com\naction: deny\n${line}`),
      error: /:4: rule "r": (?:scrub|own_credentials) has no effect on a rule that does not allow \(action: deny\): remove it/,
    },
    {
      title: `${line} on a rule about tcp`,
      text: rule(`host: a.example.com\nports: [5432]\nprotocol: tcp\n${line}`),
      error: /:4: rule "r": (?:scrub|own_credentials) is about HTTP, and nothing looks into a tcp connection/,
    },
    {
      title: `${line} with passthrough`,
      text: rule(`host: a.example.com\ntls: passthrough\n${line}`),
      error: /:4: rule "r": (?:scrub|own_credentials) cannot be enforced inside a passthrough tunnel: use tls: intercept/,
    },
  ]),
  {
    title: 'a mode that is none',
    text: 'version: 1\nnetwork: {mode: opn, rules: []}\n',
    error: /:2: network\.mode must be restricted or none or open, not "opn": did you mean "open"\?$/,
  },
  {
    title: 'a lease that is neither',
    text: 'version: 1\nnetwork: {lease: require}\n',
    error: /:2: network\.lease must be required or optional, not "require": did you mean "required"\?$/,
  },
  {
    title: 'a protocol that is none',
    text: rule('host: a.example.com\nprotocol: udp'),
    error: /:6: network\.rules\[0\]\.protocol must be http or tcp, not "udp"/,
  },
  { title: 'a missing version', text: 'network: {rules: []}\n', error: /:1: version is missing: write version: 1/ },
  { title: 'another version', text: 'version: 2\n', error: /:1: version must be 1, not 2/ },
  { title: 'an empty file', text: '', error: /: the file must be a map, not nothing/ },
  {
    title: 'rules with nothing',
    text: 'version: 1\nnetwork:\n  rules:\n',
    error: /:3: network\.rules must be a list, not nothing: write \[\] for an empty list/,
  },
  {
    title: 'a missing host',
    text: 'version: 1\nnetwork:\n  rules:\n    - id: r\n      action: allow\n',
    error: /:4: network\.rules\[0\]\.host is missing/,
  },
  { title: 'extends upwards', text: 'version: 1\nextends: ["../x"]\n', error: /:2: extends "\.\.\/x" must be a name like "service\/npm"/ },
  { title: 'extends an absolute path', text: 'version: 1\nextends: ["/etc/x"]\n', error: /:2: extends "\/etc\/x" must be a name/ },
  { title: '__proto__ as a key', text: 'version: 1\n__proto__: {}\n', error: /:2: unknown key "__proto__"/ },
]

for (const { title, text, error } of TABLE) {
  test(`${title} is refused with file, line and the way out`, () => {
    const { errors } = problemsOf(text)
    assert.equal(errors.length, 1, errors.join('\n'))
    assert.match(errors[0] ?? '', error)
  })
}

for (const { title, text, error } of [
  { title: 'a duplicate key', text: 'version: 1\nversion: 1\n', error: /:2: the key stands in this map twice/ },
  { title: 'a tab', text: 'version: 1\nnetwork:\n\trules: []\n', error: /:3: a tab: write spaces/ },
  { title: 'an anchor', text: 'version: 1\nnetwork: &n {rules: []}\n', error: /:2: the anchor "&n"/ },
  { title: 'an alias', text: 'version: 1\nextends: &a [x]\nsecrets: *a\n', error: /:3: the alias "\*a"/ },
  { title: 'a merge key', text: 'version: 1\nnetwork: {<<: {rules: []}}\n', error: /:2: the merge key "<<"/ },
  { title: 'a tag', text: 'version: !!int 1\n', error: /:1: the tag/ },
  { title: 'a custom tag', text: 'version: 1\nnetwork: !include x.yaml\n', error: /:2: / },
  { title: 'a second document', text: 'version: 1\n---\nversion: 1\n', error: /:2: a second document/ },
  { title: 'a directive', text: '%YAML 1.1\n---\nversion: 1\n', error: /:1: a YAML directive/ },
  {
    title: 'a word that YAML 1.1 takes for a boolean',
    text: rule('host: no'),
    error: /:5: no is true or false to some readers: write "no" in quotes/,
  },
  { title: 'a right-to-left override', text: 'version: 1 # \u202e x\n', error: /:1: a control or invisible character \(U\+202E\)/ },
  { title: 'a zero-width space', text: rule('host: "a\u200b.example.com"'), error: /:5: a control or invisible character \(U\+200B\)/ },
  { title: 'a key that is a list', text: 'version: 1\n? [a]\n: b\n', error: /:2: a key that is not a plain word/ },
  { title: 'an unclosed bracket', text: 'version: 1\nextends: [\n', error: /: not valid YAML/ },
  { title: 'a thousand open brackets', text: `version: 1\nnetwork: ${'['.repeat(20_000)}\n`, error: /policy\.yaml/ },
]) {
  test(`${title} is refused, as readers differ on it`, () => assert.match(problemsOf(text).errors.join('\n'), error))
}

test('a file over the limit, one that is not UTF-8, a folder and a missing file are refused without being read on', () => {
  using files = writeFiles({
    'big.yaml': `version: 1\n#${'x'.repeat(LIMITS.policyFileBytesMax)}`,
    'latin.yaml': Buffer.from('version: 1 # \xe9', 'latin1'),
    'sub/x.yaml': '',
  })
  const failure = (name: string): SallyportError => {
    try {
      loadPolicy([files.at(name)], { policyDirs: [] })
    } catch (error) {
      if (error instanceof SallyportError) return error
    }
    throw new Error('loaded')
  }
  assert.match(failure('big.yaml').message, /larger than 1048576 bytes/)
  assert.match(failure('latin.yaml').message, /not UTF-8/)
  assert.equal(failure('sub').code, 'policy_not_found')
  assert.equal(failure('missing.yaml').code, 'policy_not_found')
  assert.match(failure('missing.yaml').message, /missing\.yaml" does not exist/)
})

test('all errors of a file are told at once, in the order of their lines, and none is loaded', () => {
  using files = writeFiles({ 'p.yaml': rule('host: A.example.com\nports: [0]\nmethods: [get]\npaths: ["x"]') })
  assert.throws(
    () => loadPolicy([files.at('p.yaml')], { policyDirs: [] }),
    (error: unknown) => {
      assert.ok(error instanceof SallyportError)
      assert.equal(error.code, 'policy_invalid')
      assert.deepEqual(
        error.message.split('\n').map((line) => /^.*p\.yaml:(\d+): /.exec(line)?.[1]),
        ['5', '6', '7', '8'],
      )
      return true
    },
  )
})

/** Two rules, the second with this after its host, on line 5. */
const second = (more: string): string => `version: 1
network:
  rules:
    - {id: first, host: a.example.com, action: allow}
    - {id: second, host: b.example.com${more}}
`

test('a forgotten action opens no host: the whole policy is refused at the line of that rule, with the choices', () => {
  assert.deepEqual(problemsOf(second('')).errors, ['policy.yaml:5: network.rules[1].action is missing: write action: allow or ask or deny'])
  assert.throws(
    () => policyOf(second('')),
    (error: unknown) => error instanceof SallyportError && error.code === 'policy_invalid',
  )
  for (const choice of ['allow', 'ask', 'deny']) assert.deepEqual(problemsOf(second(`, action: ${choice}`)).errors, [], choice)
})

test('rules that can never decide are errors that name both places', () => {
  const { errors } = problemsOf({
    rules: [
      { id: 'a', host: 'api.example.com', paths: ['/x'] },
      { id: 'no', host: '*.example.com', action: 'deny' },
      { id: 'b', host: 'b.example.net', ports: [443, 80], methods: ['GET', 'PUT'] },
      { id: 'c', host: 'b.example.net', methods: ['PUT', 'GET'] },
      { id: 'part', host: 'c.example.net', methods: ['GET', 'POST'] },
      { id: 'no-post', host: 'c.example.net', methods: ['POST'], action: 'deny' },
      { id: 'b', host: 'd.example.net' },
    ],
  })
  assert.deepEqual(errors, [
    'policy.yaml:2: rule "a" is unreachable: rule "no" (policy.yaml:3) denies all that it is about',
    'policy.yaml:5: rule "c" says the same as rule "b" (policy.yaml:4): remove one of them',
    'policy.yaml:8: rule "b" stands at policy.yaml:4 already: give one of them another name',
  ])
})

test('what is allowed but unwise is warned about, and loads', () => {
  const parts = {
    rules: [
      { id: 'a', host: 'a.example.com', paths: ['/**'] },
      { id: 'b', host: 'b.example.com', plaintext: 'accept' },
      { id: 'c', host: 'c.example.com', addresses: ['0.0.0.0/0'] },
      { id: 'd', host: 'd.example.com', action: 'ask' },
      { id: 'e', host: 'db.internal' },
      { id: 'f', host: '*.amazonaws.com' },
      { id: 'i', host: '10.0.0.5' },
      { id: 'g', host: 'g.example.com' },
      { id: 'h', host: 'g.example.com', tls: 'passthrough' },
    ],
    credentials: [
      { id: 'x', secret: 'T', inject: { domains: ['a.example.com'], header: 'X' } },
      { id: 'y', secret: 'T', inject: { domains: ['nowhere.example.com'], header: 'X' } },
    ],
    secrets: [
      { name: 'T', source: 'env:T' },
      { name: 'U', source: 'env:U' },
    ],
  }
  const warnings = problemsOf(parts).warnings.join('\n')
  for (const expected of [
    /yaml:2: rule "a": path "\/\*\*" matches nearly every path/,
    /yaml:3: rule "b": plaintext: accept/,
    /yaml:4: rule "c": addresses "0\.0\.0\.0\/0" opens every private network/,
    /yaml:5: rule "d": action: ask is refused/,
    /yaml:6: rule "e": names under "internal" are refused/,
    /yaml:7: rule "f": host "\*\.amazonaws\.com" covers names under "/,
    /yaml:8: rule "i": 10\.0\.0\.5 is refused \(private\) unless/,
    /yaml:10: rule "h": tls: passthrough never takes effect, as rule "g" \(policy\.yaml:9\)/,
    /credential "x": it goes on requests of any method: rule "a"/,
    /credential "y": no rule allows nowhere\.example\.com/,
    /secret "U" is used by no credential/,
  ])
    assert.match(warnings, expected)
  assert.equal(policyOf(parts).warnings.length, 11)
})
