import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openSession, type Session } from '../support/session.ts'

const API = 'https://api.demo.internal'
let session: Session
before(async () => void (session = await openSession()))
after(() => session[Symbol.asyncDispose]())

const NODE_FETCH = 'fetch(process.argv[1]).then(async (r) => console.log(r.status, await r.text()))'
const NODE_HTTPS =
  "require('https').get(process.argv[1], (r) => { let b = ''; r.on('data', (c) => b += c).on('end', () => console.log(r.statusCode, b)) })"
const URLLIB = 'import sys, urllib.request as u; r = u.urlopen(sys.argv[1]); print(r.status, r.read().decode())'

for (const { tool, argv } of [
  { tool: 'curl', argv: ['curl', '-sS', '-w', '%{http_code}'] },
  { tool: 'node fetch', argv: ['node', '-e', NODE_FETCH] },
  { tool: 'node https', argv: ['node', '-e', NODE_HTTPS] },
  { tool: 'python urllib', argv: ['python3', '-c', URLLIB] },
]) {
  test(`${tool} in the agent gets the authenticated answer over HTTPS without a key`, async () => {
    const seen = (await session.upstreamSaw()).length
    const { stdout, stderr } = await session.agent([...argv, `${API}/v1/me`])
    assert.match(stdout, /"authenticated":true/, stderr)
    assert.match(stdout, /\b200\b/)
    assert.deepEqual((await session.upstreamSaw()).slice(seen), [{ method: 'GET', path: '/v1/me', status: 200, authorization: 'Bearer' }])
  })
}

test('git clones over HTTPS with basic credentials that it does not have', async () => {
  const { code, stderr } = await session.agent(['git', 'clone', '-q', `${API}/git/hello.git`, '/workspace/hello'])
  assert.equal(code, 0, stderr)
  const { stdout } = await session.agent(['git', '-C', '/workspace/hello', 'log', '--format=%s'])
  assert.equal(stdout.trim(), 'hello')
  const config = await session.agent(['cat', '/workspace/hello/.git/config'])
  assert.ok(!config.stdout.includes(session.token))
})

test('a plain http call leaves as https and is authenticated', async () => {
  const { stdout } = await session.agent(['curl', '-sS', 'http://api.demo.internal/v1/me'])
  assert.match(stdout, /"authenticated":true/)
})

for (const { what, headers } of [
  { what: 'in the same place', headers: ['Authorization: Bearer mine'] },
  { what: 'in another case', headers: ['aUTHORIZATION: Bearer mine'] },
  { what: 'twice', headers: ['Authorization: Bearer mine', 'Authorization: Basic bWluZTptaW5l'] },
]) {
  test(`what the agent itself sends ${what} is replaced`, async () => {
    const { stdout } = await session.agent(['curl', '-sS', ...headers.flatMap((header) => ['-H', header]), `${API}/v1/me`])
    assert.match(stdout, /"authenticated":true/)
  })
}

test('another host is refused with its reason, over https, and nothing arrives there', async () => {
  const seen = (await session.upstreamSaw()).length
  const { code, stdout } = await session.agent(['curl', '-sS', '-o', '/dev/null', '-D', '-', 'https://elsewhere.demo.internal/v1/me'])
  assert.notEqual(code, 0)
  assert.match(stdout, /^HTTP\/1\.1 403 /)
  assert.match(stdout, /^proxy-status: sallyport; error=http_request_denied; details="host_not_allowed: /im)
  assert.equal((await session.upstreamSaw()).length, seen)
})

test('another host is refused with problem+json over plain http, and nothing arrives there', async () => {
  const seen = (await session.upstreamSaw()).length
  const { stdout } = await session.agent(['curl', '-sS', '-w', '\n%{content_type}', 'http://elsewhere.demo.internal/v1/me'])
  const [body = '', type] = stdout.trim().split(/\n+/)
  assert.equal(type, 'application/problem+json')
  assert.deepEqual((({ status, code, host, port }) => ({ status, code, host, port }))(JSON.parse(body) as Record<string, unknown>), {
    status: 403,
    code: 'host_not_allowed',
    host: 'elsewhere.demo.internal',
    port: 80,
  })
  assert.equal((await session.upstreamSaw()).length, seen)
})

for (const { what, args } of [
  { what: 'a method that no rule allows', args: ['-X', 'DELETE', `${API}/v1/me`] },
  { what: 'a path that no rule allows', args: [`${API}/admin`] },
]) {
  test(`${what} is refused inside the tunnel, and nothing arrives`, async () => {
    const seen = (await session.upstreamSaw()).length
    const { stdout } = await session.agent(['curl', '-sS', ...args])
    assert.equal((JSON.parse(stdout) as { code: string }).code, 'denied_by_rule')
    assert.equal((await session.upstreamSaw()).length, seen)
  })
}

for (const [variable, value] of Object.entries({
  SSL_CERT_FILE: '/sallyport/bundle.crt',
  CURL_CA_BUNDLE: '/sallyport/bundle.crt',
  GIT_SSL_CAINFO: '/sallyport/bundle.crt',
  NODE_EXTRA_CA_CERTS: '/sallyport/ca.crt',
})) {
  test(`${variable} leads to a readable file with our authority in it`, async () => {
    const { stdout } = await session.agent(['sh', '-c', `printf %s "$${variable}"; cat "$${variable}"`])
    const ca = (await session.agent(['cat', '/sallyport/ca.crt'])).stdout.trim()
    assert.ok(stdout.startsWith(value))
    assert.ok(ca.startsWith('-----BEGIN CERTIFICATE-----'))
    assert.ok(stdout.includes(ca))
  })
}

test('the bundle keeps the roots of the image', async () => {
  const { stdout } = await session.agent([
    'sh',
    '-c',
    'grep -c BEGIN /sallyport/bundle.crt; grep -c BEGIN /etc/ssl/certs/ca-certificates.crt',
  ])
  const [bundle = 0, system = 0] = stdout.trim().split('\n').map(Number)
  assert.ok(bundle > 100)
  assert.equal(system, bundle)
})

for (const { tool, argv } of [
  { tool: 'curl', argv: ['env', '-u', 'CURL_CA_BUNDLE', '-u', 'SSL_CERT_FILE', 'curl', '-sS', `${API}/v1/me`] },
  {
    tool: 'git',
    argv: ['env', '-u', 'GIT_SSL_CAINFO', '-u', 'SSL_CERT_FILE', '-u', 'CURL_CA_BUNDLE', 'git', 'ls-remote', `${API}/git/hello.git`],
  },
  { tool: 'python', argv: ['env', '-u', 'SSL_CERT_FILE', 'python3', '-c', URLLIB, `${API}/v1/me`] },
]) {
  test(`${tool} trusts the gate by the system’s store alone, without its variables`, async () => {
    const { code, stderr } = await session.agent(argv)
    assert.equal(code, 0, stderr)
  })
}

test('the CA can be fetched from the gate by its name', async () => {
  const { stdout } = await session.agent(['curl', '-sS', 'http://sallyport:7070/ca.crt'])
  assert.equal(stdout.trim(), (await session.agent(['cat', '/sallyport/ca.crt'])).stdout.trim())
})
