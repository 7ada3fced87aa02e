import assert from 'node:assert/strict'
import { test } from 'node:test'
import { policyCommand } from '../../../src/cli/policy.ts'
import type { Io } from '../../../src/cli/command.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { explainRequest } from '../../../src/policy/policy.ts'
import { policyOf, policyText, writeFiles, type Parts } from '../../support/policy.ts'

const parts: Parts = {
  rules: [
    { id: 'api', host: 'api.example.com', methods: ['GET'], paths: ['/v1/**'], upgrade: 'https' },
    { id: 'plain', host: 'plain.example.com' },
    { id: 'pin', host: 'pin.example.com', tls: 'passthrough' },
    { id: 'pin-plain', host: '*.example.com', ports: [80], methods: ['GET'] },
    { id: 'local', host: 'db.internal' },
  ],
  credentials: [{ id: 'c', secret: 'TOKEN', inject: { domains: ['*.example.com'], header: 'Authorization', prefix: 'Bearer ' } }],
  secrets: [{ name: 'TOKEN', source: 'exec:print-token --account private' }],
}

test('an explanation names decision, rule, place and credential, and says why near rules do not match', () => {
  const policy = policyOf(parts)
  const allowed = explainRequest(policy, 'http://api.example.com/v1/x?q=1', 'GET')
  assert.equal(allowed.decision, 'allow')
  assert.equal(allowed.rule?.id, 'api')
  assert.match(allowed.rule?.at ?? '', /policy\.yaml:2$/)
  assert.deepEqual([allowed.credential?.id, allowed.credential?.secret], ['c', 'TOKEN'])
  assert.match(allowed.notes.join(), /leaves as https on port 443/)
  const denied = explainRequest(policy, 'https://api.example.com/v2', 'GET')
  assert.equal(denied.code, 'denied_by_rule')
  assert.deepEqual(
    denied.candidates.map((candidate) => `${candidate.id}: ${candidate.why}`),
    ['api: path "/v2" matches none of /v1/**', 'pin-plain: port 443 is not among 80'],
  )
})

test('an explanation says why a bound credential is not written', () => {
  const policy = policyOf(parts)
  const notes = (url: string): string => {
    const { credential, notes: found } = explainRequest(policy, url, 'GET')
    assert.equal(credential, undefined)
    return found.join()
  }
  assert.match(notes('http://plain.example.com/'), /credential "c" is not written over plain http/)
  assert.match(notes('https://pin.example.com/'), /rule "pin" passes TLS through/)
})

test('a special-use name is explained as refused though a rule names it', () => {
  assert.equal(explainRequest(policyOf(parts), 'https://db.internal/', 'GET').code, 'name_refused')
})

for (const url of [
  'api.example.com',
  'ftp://api.example.com/',
  'https://API.example.com:99999/',
  'https://a_b@api.example.com/',
  'https://127.1/',
  'https:///x',
]) {
  test(`explain refuses ${url}, which no request could name`, () => {
    assert.throws(
      () => explainRequest(policyOf(parts), url, 'GET'),
      (error: unknown) => error instanceof SallyportError && error.code === 'usage',
    )
  })
}

async function run(argv: readonly string[], env: Io['env'] = {}): Promise<{ exit: number; out: string }> {
  let out = ''
  const exit = await policyCommand.run(argv, {
    out: (text) => (out += text),
    err: () => undefined,
    env: { SALLYPORT_HOME: '/nonexistent', ...env },
  })
  return { exit, out }
}

test('policy check exits 0 with warnings only, 2 with errors, and prints both with file and line', async () => {
  using files = writeFiles({ 'good.yaml': policyText(parts), 'bad.yaml': 'version: 1\nnetwrk: {}\n' })
  const good = await run(['check', files.at('good.yaml')])
  assert.equal(good.exit, 0)
  assert.match(good.out, /^warning .*good\.yaml:\d+: /m)
  assert.match(good.out, /0 errors, \d+ warnings?\n$/)
  const bad = await run(['check', files.at('bad.yaml')])
  assert.equal(bad.exit, 2)
  assert.match(bad.out, /^error {2}.*bad\.yaml:2: unknown key "netwrk": did you mean "network"\?\n/)
  const json = await run(['check', files.at('bad.yaml'), '--json'])
  assert.equal(json.exit, 2)
  assert.deepEqual(JSON.parse(json.out), {
    ok: false,
    code: 'policy_invalid',
    errors: [{ file: files.at('bad.yaml'), line: 2, column: 1, message: 'unknown key "netwrk": did you mean "network"?' }],
    warnings: [],
  })
  assert.equal((JSON.parse((await run(['check', files.at('none.yaml'), '--json'])).out) as { code: string }).code, 'policy_not_found')
})

test('policy explain exits 0 whether allowed or denied, reads SALLYPORT_POLICY, and prints one JSON document with --json', async () => {
  using files = writeFiles({ 'p.yaml': policyText(parts) })
  const env = { SALLYPORT_POLICY: files.at('p.yaml') }
  const denied = await run(['explain', 'https://api.example.com/v1/x', '--method', 'POST'], env)
  assert.equal(denied.exit, 0)
  assert.match(denied.out, /^deny {2}POST https:\/\/api\.example\.com\/v1\/x\n {2}why +no rule for/)
  const allowed = await run(['explain', 'https://api.example.com/v1/x', '--policy', files.at('p.yaml'), '--json'])
  assert.equal((JSON.parse(allowed.out) as { decision: string }).decision, 'allow')
})

test('policy show prints every part with its place, and no argument of a secret command', async () => {
  using files = writeFiles({ 'p.yaml': policyText(parts) })
  const { exit, out } = await run(['show', '--policy', files.at('p.yaml')])
  assert.equal(exit, 0)
  assert.match(out, /allow {2}api {2}api\.example\.com:80,443 {2}GET {2}\/v1\/\*\* {2}upgrade https {2}\(.*p\.yaml:2\)/)
  assert.match(out, /TOKEN {2}exec:print-token …/)
  assert.equal(out.includes('private'), false)
  const json = JSON.parse((await run(['show', '--policy', files.at('p.yaml'), '--json'])).out) as { rules: unknown[]; digest: string }
  assert.equal(json.rules.length, 5)
  assert.equal(json.digest.length, 64)
})

for (const argv of [
  [],
  ['nope'],
  ['check'],
  ['explain'],
  ['explain', 'https://a.example.com/'],
  ['show', 'x', '--policy', 'y'],
  ['check', 'x', '--policy', 'y'],
  ['check', '--wrong', 'x'],
]) {
  test(`policy ${argv.join(' ')} is a usage error`, async () => {
    await assert.rejects(run(argv), (error: unknown) => error instanceof SallyportError && error.exit === 2)
  })
}

test('an explanation says that a denial matches another spelling of its path, and that an allowance does not', () => {
  const policy = policyOf({
    rules: [
      { id: 'all', host: 'api.example.com' },
      { id: 'narrow', host: 'api.example.com', paths: ['/admin/x'], methods: ['GET'] },
      { id: 'no', host: 'api.example.com', paths: ['/x', '/admin/**'], action: 'deny' },
    ],
  })
  const { code, candidates } = explainRequest(policy, 'https://api.example.com/admin%2fx;v=1', 'GET')
  assert.equal(code, 'denied_by_rule')
  assert.deepEqual(
    candidates.map(({ id, matches }) => [id, matches]),
    [
      ['all', true],
      ['narrow', false],
      ['no', true],
    ],
  )
  assert.match(candidates[2]?.why ?? '', /"\/admin\/\*\*"/)
})

for (const { argv, message, hint } of [
  { argv: ['check'], message: /^PATH is missing/, hint: /^usage: sallyport policy check PATH…/ },
  { argv: ['explain'], message: /^URL is missing$/, hint: /^usage: sallyport policy explain URL / },
  { argv: ['chek', 'x'], message: /no command "chek": did you mean "check"\?$/, hint: /policy check, .*policy explain, .*policy show$/ },
  { argv: ['check', '--jsn', 'x'], message: /^unknown flag "--jsn": did you mean "--json"\?$/, hint: /^usage: sallyport policy check/ },
  { argv: ['explain', 'https://a.example.com/', 'b'], message: /^unexpected argument "b"$/, hint: /^usage: sallyport policy explain/ },
]) {
  test(`policy ${argv.join(' ')} says what is wrong and how it is written`, async () => {
    await assert.rejects(run(argv), (error: unknown) => {
      assert.ok(error instanceof SallyportError)
      assert.equal(error.code, 'usage')
      assert.match(error.message, message)
      assert.match(error.hint ?? '', hint)
      return true
    })
  })
}

test('policy check and show take files as arguments and by --policy alike', async () => {
  using files = writeFiles({ 'p.yaml': policyText(parts) })
  for (const verb of ['check', 'show']) {
    const plain = await run([verb, files.at('p.yaml'), '--json'])
    assert.equal(plain.exit, 0)
    assert.deepEqual(await run([verb, '--policy', files.at('p.yaml'), '--json']), plain)
  }
})

for (const url of [
  'https://user:hunter2@api.example.com/',
  'https://user:hunter2@/',
  'https://user:hunter2/x@api.example.com/',
  'ftp://user:hunter2@api.example.com/',
  'user:hunter2@api.example.com',
]) {
  test(`I1 explain refuses ${url.replace('hunter2', '…')} with a hint, and repeats no password`, () => {
    assert.throws(
      () => explainRequest(policyOf(parts), url, 'GET'),
      (error: unknown) => {
        assert.ok(error instanceof SallyportError)
        assert.equal(error.code, 'usage')
        assert.match(error.hint ?? '', /leave out what stands before the "@"/)
        assert.doesNotMatch(`${error.message} ${error.hint}`, /hunter2/)
        return true
      },
    )
  })
}

test('an "@" in a path is no password: such a URL is explained', () => {
  assert.equal(explainRequest(policyOf(parts), 'https://api.example.com/v1/@scope/x', 'GET').decision, 'allow')
})

test('a method in lower case is compared as it is given, and the explanation says so', () => {
  const { decision, notes } = explainRequest(policyOf(parts), 'https://api.example.com/v1/x', 'get')
  assert.equal(decision, 'deny')
  assert.match(notes.join(), /"get" is not "GET"; ask with --method GET/)
  assert.match(explainRequest(policyOf(parts), 'https://pin.example.com/', 'get').notes.join(), /"get" is not "GET"/)
  assert.doesNotMatch(explainRequest(policyOf(parts), 'https://api.example.com/v1/x', 'GET').notes.join(), /upper-case/)
})

test('no rule with paths is said to match a path that is refused as not canonical', () => {
  const policy = policyOf({ rules: [{ id: 'wide', host: 'api.example.com', paths: ['/**'] }] })
  const { code, candidates } = explainRequest(policy, 'https://api.example.com/v1/../x', 'GET')
  assert.equal(code, 'path_not_canonical')
  assert.deepEqual(
    candidates.map(({ matches }) => matches),
    [false],
  )
  assert.match(candidates[0]?.why ?? '', /could be read in two ways/)
})

test('a tcp rule is a candidate that never matches a request, and an explanation says that a connection passes', () => {
  const policy = policyOf({ rules: [{ id: 'db', host: 'db.example.com', ports: [5432], protocol: 'tcp' }] })
  const { decision, candidates, notes } = explainRequest(policy, 'http://db.example.com:5432/', 'GET')
  assert.equal(decision, 'deny')
  assert.deepEqual(
    candidates.map(({ id, matches, why }) => [id, matches, why]),
    [['db', false, 'it is about tcp connections, not about HTTP requests']],
  )
  assert.match(
    notes.join(),
    /rule "db" lets through a tcp connection to db\.example\.com:5432, opened by name without a proxy, or with CONNECT or SOCKS/,
  )
  assert.deepEqual(explainRequest(policy, 'http://db.example.com/', 'GET').notes, [])
})

test('what is asked about is explained as asked, with its rule and the credential that would be written', () => {
  const policy = policyOf({
    rules: [{ id: 'q', host: 'api.example.com', action: 'ask' }],
    credentials: [{ id: 'c', secret: 'T', inject: { domains: ['api.example.com'], header: 'Authorization', prefix: 'Bearer ' } }],
    secrets: [{ name: 'T', source: 'env:T' }],
  })
  const asked = explainRequest(policy, 'https://api.example.com/', 'GET')
  assert.deepEqual(
    [asked.decision, asked.why, asked.rule?.id, asked.rule?.plane, asked.credential?.id],
    ['ask', 'rule "q" asks the operator first', 'q', 'agent', 'c'],
  )
})

test('mode open is explained by where it is written, and mode none by what it leaves without effect', () => {
  const open = explainRequest(policyOf({ network: { mode: 'open' } }), 'https://a.example.com/', 'GET')
  assert.deepEqual([open.decision, open.rule?.id], ['allow', 'open'])
  assert.match(`${open.rule?.at} ${open.why}`, /policy\.yaml:1 network\.mode: open lets public hosts through/)
  const none = explainRequest(
    policyOf({ network: { mode: 'none' }, rules: [{ id: 'a', host: 'a.example.com' }] }),
    'https://a.example.com/',
    'GET',
  )
  assert.deepEqual(
    [none.decision, none.candidates[0]?.matches, none.candidates[0]?.why],
    ['deny', false, 'network.mode: none leaves it without effect'],
  )
  assert.match(none.why, /network\.mode is none/)
})

test('policy show prints mode, harness, lease, routes and tcp rules, each with its place', async () => {
  using files = writeFiles({
    'policies/harness/mine.yaml': 'version: 1\nnetwork: {rules: [{id: model, host: m.example.com, action: allow}]}\n',
    'p.yaml': policyText({
      network: { mode: 'open', harness: 'mine', lease: 'required' },
      rules: [{ id: 'db', host: 'db.example.com', ports: [5432], protocol: 'tcp' }],
      routes: [{ name: 'r', upstream: 'https://api.example.com/v1' }],
    }),
  })
  const { out } = await run(['show', files.at('p.yaml')], { SALLYPORT_HOME: files.dir })
  for (const expected of [
    /^mode open \(.*p\.yaml:1\)$/m,
    /^harness mine \(.*p\.yaml:1\)$/m,
    /^lease required \(.*p\.yaml:1\)$/m,
    /^ {2}allow {2}db {2}db\.example\.com:5432 {2}tcp {2}\(/m,
    /^ {2}allow {2}model {2}m\.example\.com:80,443 {2}of the harness {2}\(.*mine\.yaml:2\)$/m,
    /^ {2}r {2}https:\/\/api\.example\.com\/v1 {2}\(/m,
  ])
    assert.match(out, expected)
})

const bound: Parts = {
  rules: [
    { id: 'api', host: 'api.example.com', methods: ['GET'], scrub: 'block', own_credentials: 'deny' },
    { id: 'git', host: 'git.example.com', methods: ['GET'] },
    { id: 'off', host: 'off.example.com', methods: ['GET'], scrub: 'off', own_credentials: 'pass' },
    { id: 'none', host: 'none.example.com', own_credentials: 'drop' },
    { id: 's3', host: 's3.example.com', methods: ['GET'] },
  ],
  routes: [
    { name: 'bare', upstream: 'https://api.example.com' },
    { name: 'git', upstream: 'https://git.example.com', credential: 'git' },
  ],
  credentials: [
    {
      id: 'api',
      secret: 'T',
      inject: { domains: ['api.example.com'], header: 'Authorization', prefix: 'Bearer ', also: [{ header: 'X-App', secret: 'U' }] },
      oauth2: { grant: 'refresh_token', token_url: 'https://auth.example.com/t?k=private', client_id: 'me', client_secret: 'V' },
      budget: { requests_per_minute: 600, bytes_up: '100MB' },
    },
    { id: 'git', secret: 'T', inject: { domains: ['git.example.com'], placeholder: 'GH_TOKEN', in: ['header', 'body:/t~1'] } },
    { id: 'off', secret: 'U', inject: { domains: ['off.example.com'], query: 'key' } },
    { id: 's3', secret: 'U', inject: { domains: ['s3.example.com'], aws: { region: 'eu-west-1', service: 's3', access_key_id: 'T' } } },
  ],
  secrets: ['T', 'U', 'V'].map((name) => ({ name, source: 'env:X' })),
}

test('an explanation says kind, place, budget and further fields of what is written, and what its answers are searched for', () => {
  const { credential, placeholders, answers, notes } = explainRequest(policyOf(bound), 'https://api.example.com/', 'GET')
  assert.deepEqual(
    { ...credential, at: '' },
    {
      id: 'api',
      secret: 'T',
      place: 'header Authorization: Bearer …',
      also: ['header X-App of secret U'],
      oauth2: 'oauth2 refresh_token at https://auth.example.com/t',
      budget: '600 requests a minute, 100000000 bytes up',
      at: '',
    },
  )
  assert.equal(placeholders, undefined)
  assert.deepEqual(answers, { scrub: 'block', secrets: ['U'], accessTokens: ['api'] })
  assert.deepEqual(notes, ['a request with a credential of its own is refused'])
})

for (const { url, place, scrub, secrets } of [
  { url: 'https://off.example.com/', place: 'query key', scrub: 'off', secrets: ['U'] },
  { url: 'https://s3.example.com/', place: 'aws eu-west-1/s3', scrub: 'replace', secrets: ['T'] },
]) {
  test(`an explanation of ${url} says "${place}"`, () => {
    const { credential, answers } = explainRequest(policyOf(bound), url, 'GET')
    assert.equal(credential?.place, place)
    assert.deepEqual(answers, { scrub, secrets })
  })
}

test('an explanation lists placeholders apart, says where they may stand, and nothing where none is bound', () => {
  const policy = policyOf(bound)
  const swapped = explainRequest(policy, 'https://git.example.com/', 'GET')
  assert.equal(swapped.credential, undefined)
  assert.deepEqual(
    swapped.placeholders?.map(({ id, place }) => [id, place]),
    [['git', 'placeholder GH_TOKEN in header, body:/t~1']],
  )
  const plain = explainRequest(policy, 'http://git.example.com/', 'GET')
  assert.equal(plain.placeholders, undefined)
  assert.match(plain.notes.join('\n'), /placeholder GH_TOKEN is not swapped over plain http: add upgrade: https to rule "git"/)
  const none = explainRequest(policy, 'https://none.example.com/', 'GET')
  assert.deepEqual([none.credential, none.placeholders, none.answers], [undefined, undefined, undefined])
  assert.deepEqual(none.notes, ['no credential is bound to it', 'credentials that the agent sends itself are dropped'])
})

test('a route is explained with the credential that it names alone: without one none is written', () => {
  const policy = policyOf(bound)
  const bare = explainRequest(policy, 'http://sallyport:7070/route/bare/', 'GET')
  assert.equal(bare.credential, undefined)
  assert.match(bare.notes.join('\n'), /route "bare" names no credential, so none is written/)
  assert.deepEqual(bare.answers, { scrub: 'replace', secrets: ['U'], accessTokens: ['api'] })
  assert.deepEqual(
    explainRequest(policy, 'http://sallyport:7070/route/git/', 'GET').placeholders?.map(({ id }) => id),
    ['git'],
  )
})

test('policy explain and show print kind, place, budget and scrubbing, and no query of a token URL', async () => {
  using files = writeFiles({ 'p.yaml': policyText(bound) })
  const explain = async (url: string): Promise<string> => (await run(['explain', url, '--policy', files.at('p.yaml')])).out
  const api = await explain('https://api.example.com/')
  for (const line of [
    /^ {2}credential {2}api: header Authorization: Bearer …, secret T \(.*p\.yaml:\d+\)$/m,
    /^ {14}also header X-App of secret U$/m,
    /^ {14}oauth2 refresh_token at https:\/\/auth\.example\.com\/t$/m,
    /^ {14}budget 600 requests a minute, 100000000 bytes up$/m,
    /^ {2}answers {5}refused where U, access tokens of api would be in them \(scrub: block\)$/m,
  ])
    assert.match(api, line)
  assert.match(await explain('https://git.example.com/'), /^ {2}placeholder git: placeholder GH_TOKEN in header, body:\/t~1, secret T/m)
  assert.match(await explain('https://git.example.com/'), /^ {2}answers {5}T written over in them \(scrub: replace\)$/m)
  assert.match(await explain('https://off.example.com/'), /^ {2}answers {5}not searched for U \(scrub: off\)$/m)
  const { out } = await run(['show', files.at('p.yaml')])
  for (const line of [
    /^ {2}allow {2}api .* {2}scrub block {2}own credentials deny {2}\(/m,
    /^ {2}api {2}api\.example\.com {2}header Authorization: Bearer … {2}secret T {2}also header X-App of secret U {2}oauth2 .*\/t {2}secret V {2}budget 600 requests a minute, /m,
    /^ {2}s3 {2}s3\.example\.com {2}aws eu-west-1\/s3 {2}secret U {2}secret T {2}\(/m,
    /^ {2}git {2}git\.example\.com {2}placeholder GH_TOKEN in header, body:\/t~1 {2}secret T {2}\(/m,
  ])
    assert.match(out, line)
  assert.doesNotMatch(`${api}${out}`, /private/)
})
