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
  assert.match(notes.join(), /rule "db" lets through a tcp connection to db\.example\.com:5432, opened with CONNECT or SOCKS/)
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
