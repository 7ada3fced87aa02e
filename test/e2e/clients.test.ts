/** Programs as agents use them, against `sallyport proxy` as its own process, before real TLS upstreams on loopback. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { cleanEnvironment, runProgram, startProxy, type Ended, type RunningProxy } from '../support/command.ts'
import { makeGitRepository, openGitUpstream } from '../support/git-upstream.ts'
import { without } from '../support/pki.ts'
import { API, CANARY, OTHER } from '../support/setting.ts'
import { createUpstreamCa, leafFor, openUpstream, type Upstream } from '../support/upstream.ts'

const GIT = 'git.example.com'
const DENIED = 'denied.example.net'

const parts = new AsyncDisposableStack()
let proxy: RunningProxy
let secure: Upstream
let plain: Upstream
let git: Upstream
/** What the agent's programs know: where the proxy is, and whom to trust. */
let env: Record<string, string>

before(async () => {
  const upstreamCa = parts.use(await createUpstreamCa())
  const echo: Parameters<typeof openUpstream>[0] = (request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ saw: request.url, sum: createHash('sha256').update(request.body).digest('hex') }))
  }
  secure = parts.use(await openUpstream(echo, leafFor(upstreamCa.authority, API)))
  plain = parts.use(await openUpstream(echo))
  const repositories = join(upstreamCa.file, '..', 'repositories')
  git = parts.use(await openGitUpstream(repositories, { username: 'x-access-token', password: CANARY }, leafFor(upstreamCa.authority, GIT)))
  await makeGitRepository(repositories)
  proxy = parts.use(
    await startProxy({
      policy: policy(secure.port, plain.port, git.port),
      args: ['--upstream-ca', upstreamCa.file, ...[API, OTHER, GIT].flatMap((host) => ['--resolve', `${host}=127.0.0.1`])],
      env: { API_TOKEN: CANARY, GIT_TOKEN: CANARY },
    }),
  )
  env = {
    ...cleanEnvironment(proxy.home),
    http_proxy: proxy.url,
    https_proxy: proxy.url,
    CURL_CA_BUNDLE: proxy.ready.ca,
    SSL_CERT_FILE: proxy.ready.ca,
    GIT_SSL_CAINFO: proxy.ready.ca,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    NODE_EXTRA_CA_CERTS: proxy.ready.ca,
    NODE_USE_ENV_PROXY: '1',
  }
})

after(async () => {
  const { stdout, stderr, code } = await proxy.stop('SIGTERM')
  const audit = await readFile(proxy.ready.audit, 'utf8')
  await parts.disposeAsync()
  assert.equal(code, 0)
  assert.doesNotMatch(stdout + stderr + audit, new RegExp(`${CANARY}|${Buffer.from(`x-access-token:${CANARY}`).toString('base64')}`))
})

/** Runs a program as the agent would, and sees to it that no secret is in what it prints. */
async function run(argv: readonly string[], more: Record<string, string> = {}, cwd?: string): Promise<Ended> {
  const ended = await runProgram(argv, { ...env, ...more }, cwd)
  assert.doesNotMatch(ended.stdout + ended.stderr, new RegExp(CANARY))
  return ended
}

function lastAuthorization(upstream: Upstream): string | undefined {
  const raw = upstream.requests.at(-1)?.rawHeaders ?? []
  return raw[raw.findIndex((name) => name.toLowerCase() === 'authorization') + 1]
}

const curl = ['curl', '--silent', '--show-error', '--max-time', '20']
const noCurl = without('curl', '--version')

test('curl -x gets an HTTPS answer with the credential, trusting the CA of the ready line', { skip: noCurl }, async () => {
  const { code, stdout, stderr } = await run([...curl, '-x', proxy.url, '--cacert', proxy.ready.ca, `https://${API}:${secure.port}/v1/me`])
  assert.equal(code, 0, stderr)
  assert.match(stdout, /"saw":"\/v1\/me"/)
  assert.equal(lastAuthorization(secure), `Bearer ${CANARY}`)
})

test('curl without that CA trusts nothing that comes through', { skip: noCurl }, async () => {
  const count = secure.requests.length
  const empty = join(proxy.home, 'empty.pem')
  await writeFile(empty, '')
  const { code } = await run([...curl, `https://${API}:${secure.port}/`], { CURL_CA_BUNDLE: empty, SSL_CERT_FILE: empty })
  assert.ok(code === 60 || code === 77, `exit ${code}`)
  assert.equal(secure.requests.length, count)
})

test('curl -x gets a plain HTTP answer, without the credential', { skip: noCurl }, async () => {
  const { code, stdout } = await run([...curl, '-x', proxy.url, `http://${API}:${plain.port}/plain`])
  assert.equal(code, 0)
  assert.match(stdout, /"saw":"\/plain"/)
  assert.equal(plain.requests.at(-1)?.rawHeaders.includes(`Bearer ${CANARY}`), false)
})

test('curl --proxytunnel carries plain HTTP through CONNECT', { skip: noCurl }, async () => {
  const { stdout } = await run([...curl, '--proxytunnel', '-x', proxy.url, `http://${API}:${plain.port}/in-a-tunnel`])
  assert.match(stdout, /"saw":"\/in-a-tunnel"/)
})

test('curl shows why a host is refused, over plain HTTP and over CONNECT', { skip: noCurl }, async () => {
  const overHttp = await run([...curl, '-i', `http://${DENIED}/`])
  assert.match(overHttp.stdout, /^HTTP\/1\.1 403 [^]*application\/problem\+json[^]*"code":"host_not_allowed"/)
  const overConnect = await run([...curl, '-i', `https://${DENIED}/`])
  assert.equal(overConnect.code, 56)
  assert.match(overConnect.stdout + overConnect.stderr, /403[^]*host_not_allowed|response 403/)
})

for (const { why, target } of [
  { why: 'a host that is denied', target: () => `http://${DENIED}/upload` },
  { why: 'a path that is denied, in TLS', target: () => `https://${OTHER}:${secure.port}/closed/upload` },
]) {
  test(`curl sends 30 MB to ${why}: it gets the 403 and its reason, not a broken connection`, { skip: noCurl }, async () => {
    const file = join(proxy.home, 'upload')
    await writeFile(file, Buffer.alloc(30_000_000))
    const { stdout, stderr } = await run([...curl, '-i', '-T', file, '-H', 'Expect:', target()])
    assert.match(stdout, /HTTP\/(?:1\.1|2) 403 [^]*"code":"(host_not_allowed|denied_by_rule)"/, stderr)
  })
}

test('curl uploads 30 MB unchanged, also when it asks first with Expect: 100-continue', { skip: noCurl }, async () => {
  const file = join(proxy.home, 'upload-random')
  const bytes = randomBytes(30_000_000)
  await writeFile(file, bytes)
  for (const expect of ['Expect:', 'Expect: 100-continue']) {
    const { stdout, stderr } = await run([...curl, '-T', file, '-H', expect, `https://${API}:${secure.port}/upload`])
    assert.ok(stdout.includes(createHash('sha256').update(bytes).digest('hex')), stderr)
  }
})

test(
  'git clones, fetches and pushes over HTTPS with a credential that it does not have',
  { skip: without('git', '--version') },
  async () => {
    const work = join(proxy.home, 'work')
    const url = `https://${GIT}:${git.port}/acme/x.git`
    const clone = await run(['git', 'clone', url, work])
    assert.equal(clone.code, 0, clone.stderr)
    assert.equal(await readFile(join(work, 'README'), 'utf8'), 'hello\n')
    assert.equal(await readFile(join(work, 'blob'), 'hex').then((hex) => hex.length), 4_000_000)
    await writeFile(join(work, 'new'), 'from the agent\n')
    const identity = ['-c', 'user.name=Agent', '-c', 'user.email=agent@example.com']
    for (const argv of [
      ['git', 'add', 'new'],
      ['git', ...identity, 'commit', '-m', 'new'],
      ['git', 'push', 'origin', 'HEAD'],
      ['git', 'fetch'],
    ]) {
      const ended = await run(argv, {}, work)
      assert.equal(ended.code, 0, `${argv.join(' ')}: ${ended.stderr}`)
    }
    const again = await run(['git', 'clone', url, join(proxy.home, 'again')])
    assert.equal(again.code, 0)
    assert.equal(await readFile(join(proxy.home, 'again', 'new'), 'utf8'), 'from the agent\n')
    const config = await readFile(join(work, '.git', 'config'), 'utf8')
    assert.doesNotMatch(config, new RegExp(CANARY))
  },
)

test('git with a wrong credential of its own gets ours in its place', { skip: without('git', '--version') }, async () => {
  const { code, stderr } = await run(['git', 'ls-remote', `https://agent:wrong@${GIT}:${git.port}/acme/x.git`])
  assert.equal(code, 0, stderr)
})

test('node fetch with NODE_USE_ENV_PROXY gets HTTPS and HTTP, and the status of a refusal', async () => {
  const script = `
    const [secure, plain, denied] = process.argv.slice(1)
    const answer = await fetch(secure)
    console.log(answer.status, await answer.text())
    console.log((await fetch(plain)).status)
    await fetch(denied).catch((error) => console.log(error.cause.cause?.message ?? error.cause.message))`
  const urls = [`https://${API}:${secure.port}/node`, `http://${API}:${plain.port}/node`, `http://${DENIED}/`]
  const { code, stdout, stderr } = await run([process.execPath, '--input-type=module', '--eval', script, '--', ...urls])
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^200 .*"saw":"\/node".*\n200\n.*403.*\n$/)
  assert.equal(lastAuthorization(secure), `Bearer ${CANARY}`)
})

const noPython = without('python3', '--version')

test('python3 urllib gets HTTPS and HTTP, and sees the reason of a refusal', { skip: noPython }, async () => {
  const script = `
import sys, json, urllib.request, urllib.error
print(json.load(urllib.request.urlopen(sys.argv[1], timeout=20))["saw"])
print(json.load(urllib.request.urlopen(sys.argv[2], timeout=20))["saw"])
try:
    urllib.request.urlopen(sys.argv[3], timeout=20)
except urllib.error.HTTPError as error:
    print(error.code, json.load(error)["code"])`
  const urls = [`https://${API}:${secure.port}/urllib`, `http://${API}:${plain.port}/urllib`, `http://${DENIED}/`]
  const { code, stdout, stderr } = await run(['python3', '-c', script, ...urls])
  assert.equal(code, 0, stderr)
  assert.equal(stdout, '/urllib\n/urllib\n403 host_not_allowed\n')
  assert.equal(lastAuthorization(secure), `Bearer ${CANARY}`)
})

test(
  'python3 http.client reuses one tunnel for several requests, and sees the reason of a refused CONNECT',
  { skip: noPython },
  async () => {
    const script = `
import sys, http.client, json
proxy, host, port, denied = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
connection = http.client.HTTPSConnection("127.0.0.1", int(proxy), timeout=20)
connection.set_tunnel(host, port)
for path in ("/1", "/2"):
    connection.request("POST", path, body=b"x" * 100000)
    print(json.load(connection.getresponse())["saw"])
refused = http.client.HTTPSConnection("127.0.0.1", int(proxy), timeout=20)
refused.set_tunnel(denied, 443)
try:
    refused.request("GET", "/")
except OSError as error:
    print(error)`
    const { code, stdout, stderr } = await run(['python3', '-c', script, String(proxy.port), API, String(secure.port), DENIED])
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^\/1\n\/2\nTunnel connection failed: 403 .*host_not_allowed\n$/)
  },
)

test('wget gets HTTPS and HTTP', { skip: without('wget', '--version') }, async () => {
  for (const url of [`https://${API}:${secure.port}/wget`, `http://${API}:${plain.port}/wget`]) {
    const { code, stdout, stderr } = await run([
      'wget',
      '-q',
      '-O',
      '-',
      '--timeout=20',
      '--tries=1',
      `--ca-certificate=${proxy.ready.ca}`,
      url,
    ])
    assert.equal(code, 0, stderr)
    assert.match(stdout, /"saw":"\/wget"/)
  }
  assert.equal(lastAuthorization(secure), `Bearer ${CANARY}`)
})

function policy(securePort: number, plainPort: number, gitPort: number): string {
  const allow = (id: string, host: string, ports: readonly number[], more = ''): string =>
    `    - {id: ${id}, host: ${host}, ports: [${ports.join(', ')}], action: allow, addresses: ["127.0.0.0/8"]${more}}\n`
  return `version: 1
network:
  mode: restricted
  rules:
${allow('api', API, [securePort, plainPort])}${allow('other', OTHER, [securePort], ', paths: ["/open/**"]')}${allow('git', GIT, [gitPort])}credentials:
  - {id: api, secret: API_TOKEN, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
  - {id: git, secret: GIT_TOKEN, inject: {domains: [${GIT}], basic: {username: x-access-token}}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN", resources: [inject]}
  - {name: GIT_TOKEN, source: "env:GIT_TOKEN", resources: [inject]}
`
}
