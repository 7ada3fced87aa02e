/** Programs in the agent that are told of no proxy, or of SOCKS only. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openSession, type Session } from '../support/session.ts'

const HOST = 'api.demo.internal'
const DENIED = 'elsewhere.demo.internal'
const PROXY_VARIABLES = ['http_proxy', 'https_proxy', 'all_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NODE_USE_ENV_PROXY']
/** Runs a program without anything that names a proxy. */
const PROXYLESS = ['env', ...PROXY_VARIABLES.flatMap((name) => ['-u', name])]

let session: Session
before(async () => void (session = await openSession()))
after(() => session[Symbol.asyncDispose]())

const NODE_HTTP2 = `
const session = require('http2').connect(new URL(process.argv[1]).origin)
const stream = session.request({ ':path': new URL(process.argv[1]).pathname })
let body = ''
stream.on('response', (head) => stream.on('data', (chunk) => body += chunk).on('end', () => { console.log(head[':status'], session.alpnProtocol, body); session.close() }))`
const NODE_FETCH = 'fetch(process.argv[1]).then(async (r) => console.log(r.status, await r.text()))'
const URLLIB = 'import sys, urllib.request as u; r = u.urlopen(sys.argv[1]); print(r.status, r.read().decode())'

for (const { tool, argv, says = /"authenticated":true/ } of [
  { tool: 'curl', argv: ['curl', '-sS'] },
  { tool: 'curl with HTTP/1.1', argv: ['curl', '-sS', '--http1.1', '-w', ' %{http_version}'], says: /"authenticated":true.* 1\.1$/s },
  { tool: 'curl with HTTP/2', argv: ['curl', '-sS', '--http2', '-w', ' %{http_version}'], says: /"authenticated":true.* 2$/s },
  { tool: 'node http2', argv: ['node', '-e', NODE_HTTP2], says: /^200 h2 .*"authenticated":true/ },
  { tool: 'node fetch', argv: ['node', '-e', NODE_FETCH] },
  { tool: 'python urllib', argv: ['python3', '-c', URLLIB] },
]) {
  test(`${tool} that knows no proxy finds the host by DNS and gets the authenticated answer without a key`, async () => {
    const seen = (await session.upstreamSaw()).length
    const { stdout, stderr } = await session.agent([...PROXYLESS, ...argv, `https://${HOST}/v1/me`])
    assert.match(stdout, says, stderr)
    assert.deepEqual((await session.upstreamSaw()).slice(seen), [{ method: 'GET', path: '/v1/me', status: 200, authorization: 'Bearer' }])
    assert.ok(!(stdout + stderr).includes(session.token))
  })
}

test('plain HTTP that knows no proxy leaves as HTTPS and is authenticated', async () => {
  const { stdout, stderr } = await session.agent([...PROXYLESS, 'curl', '-sS', `http://${HOST}/v1/me`])
  assert.match(stdout, /"authenticated":true/, stderr)
})

for (const { way, argv } of [
  { way: 'no proxy at all', argv: ['git'] },
  { way: 'socks5h', argv: ['git', '-c', 'http.proxy=socks5h://sallyport:1080'] },
]) {
  test(`git by ${way} clones with credentials that it does not have`, async () => {
    const folder = `/tmp/${way.replaceAll(' ', '-')}`
    const clone = await session.agent([...PROXYLESS, ...argv, 'clone', '-q', `https://${HOST}/git/hello.git`, folder])
    assert.equal(clone.code, 0, clone.stderr)
    assert.equal((await session.agent(['git', '-C', folder, 'log', '--format=%s'])).stdout.trim(), 'hello')
  })
}

for (const { how, option } of [
  { how: 'names the host to SOCKS', option: '--socks5-hostname' },
  { how: 'resolves the host itself and names an address to SOCKS', option: '--socks5' },
]) {
  test(`curl that ${how} gets the authenticated answer`, async () => {
    const { stdout, stderr } = await session.agent([...PROXYLESS, 'curl', '-sS', option, 'sallyport:1080', `https://${HOST}/v1/me`])
    assert.match(stdout, /"authenticated":true/, stderr)
  })
}

/** What getaddrinfo gives in the agent: addresses, or its error. */
async function resolved(name: string): Promise<string> {
  const script = `
import socket, sys
try:
    print(*sorted({entry[4][0] for entry in socket.getaddrinfo(sys.argv[1], 443)}))
except socket.gaierror as error:
    print({socket.EAI_NONAME: "EAI_NONAME", socket.EAI_AGAIN: "EAI_AGAIN"}.get(error.errno, error))`
  return (await session.agent(['python3', '-c', script, name])).stdout.trim()
}

test('a name that a rule allows is resolved to the sidecar, by IPv4 alone', async () => {
  assert.equal(await resolved(HOST), await session.address('sidecar', 'jail'))
})

for (const { what, name } of [
  { what: 'a name that no rule allows', name: DENIED },
  { what: 'a name that carries data out', name: 'c2VjcmV0.exfiltrate.example.com' },
  { what: 'a service of the compose project outside the jail', name: 'upstream' },
]) {
  test(`${what} does not exist for the agent: an answer, not a time-out`, async () => {
    assert.equal(await resolved(name), 'EAI_NONAME')
  })
}

test('a host that no rule allows is refused by name at the transparent port, and nothing arrives there', async () => {
  const seen = (await session.upstreamSaw()).length
  const to = `${DENIED}:443:${await session.address('sidecar', 'jail')}`
  const { code, stderr } = await session.agent([...PROXYLESS, 'curl', '-sS', '--resolve', to, `https://${DENIED}/v1/me`])
  assert.equal(code, 35, stderr)
  assert.match(stderr, /alert/)
  assert.equal((await session.upstreamSaw()).length, seen)
})

test('by SOCKS a host that no rule allows is refused with reply 2, and nothing arrives there', async () => {
  const seen = (await session.upstreamSaw()).length
  const argv = [...PROXYLESS, 'curl', '-sS', '--socks5-hostname', 'sallyport:1080', `https://${DENIED}/v1/me`]
  const { code, stderr } = await session.agent(argv)
  assert.equal(code, 97, stderr)
  assert.match(stderr, /\(2\)/)
  assert.equal((await session.upstreamSaw()).length, seen)
})
