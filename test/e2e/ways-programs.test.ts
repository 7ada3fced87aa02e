/** Programs that know SOCKS, a proxy, or nothing but DNS and an address, each by the way that it can. */
import assert from 'node:assert/strict'
import { Resolver } from 'node:dns/promises'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { connect as connectHttp2, type Http2Session } from 'node:http2'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { DIALLED, dialTlsBy } from '../support/dial-ways.ts'
import { makeGitRepository, openGitUpstream } from '../support/git-upstream.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { openPackageRegistry } from '../support/package-registry.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'
import { BEARER, CANARY, openPlaces, portOf, type Ways } from '../support/ways.ts'

const API = 'api.example.com'
const GIT = 'git.example.com'
const REGISTRY = 'registry.example.com'
const DENIED = 'denied.example.net'

const parts = new AsyncDisposableStack()
let api: Http2Upstream
let git: Upstream
let registry: Upstream
let denied: Upstream
let ways: Ways

before(async () => {
  const places = parts.use(await openPlaces())
  api = parts.use(await openHttp2Upstream(places.tls(API), { place: places.at(API, 443) }))
  denied = parts.use(await openUpstream(undefined, places.tls(DENIED), places.at(DENIED, 443)))
  registry = parts.use(
    await openPackageRegistry(
      [
        {
          name: 'demo-package',
          version: '1.2.3',
          dependencies: { 'demo-dependency': '^2.0.0' },
          files: { 'index.js': `export { two } from 'demo-dependency'\n` },
        },
        { name: 'demo-dependency', version: '2.0.1', files: { 'index.js': 'export const two = 2\n' } },
      ],
      { host: REGISTRY, authorization: `Bearer ${CANARY}`, tls: places.tls(REGISTRY), place: places.at(REGISTRY, 443) },
    ),
  )
  ways = parts.use(
    await places.open({
      hosts: { [API]: { inject: BEARER }, [GIT]: { inject: 'basic: {username: x-access-token}' }, [REGISTRY]: { inject: BEARER } },
      denied: [DENIED],
    }),
  )
  const repositories = join(ways.proxy.home, 'repositories')
  await makeGitRepository(repositories)
  const account = { username: 'x-access-token', password: CANARY }
  git = parts.use(await openGitUpstream(repositories, account, places.tls(GIT), places.at(GIT, 443)))
})
after(() => parts.disposeAsync())

for (const [way, proxy] of [
  ['socks5h', () => `socks5h://${ways.socks}`],
  ['an HTTP proxy', () => ways.proxy.url],
] as const) {
  test(`git by ${way} clones and pushes with a credential that it does not have`, async () => {
    const work = join(ways.proxy.home, `work-${way.replaceAll(' ', '-')}`)
    const config = ['-c', `http.proxy=${proxy()}`, '-c', 'user.name=Agent', '-c', 'user.email=agent@example.com']
    const clone = await ways.run(['git', ...config, 'clone', `https://${GIT}/acme/x.git`, work])
    assert.equal(clone.code, 0, clone.stderr)
    assert.equal((await readFile(join(work, 'blob'))).length, 2_000_000)
    await writeFile(join(work, way), 'from the agent\n')
    for (const argv of [
      ['add', '.'],
      ['commit', '-m', way],
      ['push', 'origin', 'HEAD'],
    ]) {
      const ended = await ways.run(['git', ...config, ...argv], {}, work)
      assert.equal(ended.code, 0, ended.stderr)
    }
    const basic = Buffer.from(`x-access-token:${CANARY}`).toString('base64')
    assert.equal(headerOf(git.requests.at(-1), 'authorization'), `Basic ${basic}`)
    assert.ok(!(await readFile(join(work, '.git', 'config'), 'utf8')).includes(CANARY))
  })

  test(`git by ${way} fails for a host that no rule allows, and nobody is connected to`, async () => {
    const { code } = await ways.run(['git', '-c', `http.proxy=${proxy()}`, 'ls-remote', `https://${DENIED}/acme/x.git`])
    assert.equal(code, 128)
    assert.equal(denied.connections, 0)
  })
}

for (const way of DIALLED) {
  test(`node http2 by ${way} has 50 streams at once on one session, each with the credential`, async () => {
    const session = await http2By(way)
    const count = api.requests.length
    const paths = Array.from({ length: 50 }, (_, n) => `/stream/${n}`)
    assert.deepEqual(new Set(await Promise.all(paths.map((path) => answerOf(session, { ':path': path })))), new Set(['200 ok']))
    const seen = api.requests.slice(count)
    assert.deepEqual(seen.map(({ url }) => url).toSorted(), paths.toSorted())
    for (const request of seen) assert.equal(headerOf(request, 'authorization'), `Bearer ${CANARY}`)
    session.close()
  })

  test(`node http2 by ${way} is told 421 for another host on the same session, and nothing arrives there`, async () => {
    const session = await http2By(way)
    const count = registry.requests.length
    assert.match(await answerOf(session, { ':path': '/', ':authority': REGISTRY }), /^421 /)
    assert.equal(registry.requests.length, count)
    assert.equal(await answerOf(session, { ':path': '/after' }), '200 ok')
    session.close()
  })
}

async function http2By(way: (typeof DIALLED)[number]): Promise<Http2Session & ReturnType<typeof connectHttp2>> {
  const socket = await dialTlsBy(way, ways, API, { ALPNProtocols: ['h2'] })
  assert.equal(socket.alpnProtocol, 'h2')
  return connectHttp2(`https://${API}`, { createConnection: () => socket })
}

async function answerOf(session: ReturnType<typeof connectHttp2>, headers: Record<string, string>): Promise<string> {
  const stream = session.request(headers)
  const [head] = (await once(stream, 'response')) as [{ ':status': number }]
  return `${head[':status']} ${Buffer.concat(await stream.toArray()).toString()}`
}

test('a name that a rule allows is resolved to the gate by its DNS, and what node sends there arrives with the credential', async () => {
  const resolver = new Resolver({ timeout: 5_000, tries: 1 })
  resolver.setServers([ways.dns])
  assert.deepEqual(await resolver.resolve4(API), ['127.0.0.1'])
  assert.deepEqual(await resolver.resolve4(API.toUpperCase()), ['127.0.0.1'])
  await assert.rejects(resolver.resolve6(API), { code: 'ENODATA' })
  await assert.rejects(resolver.resolve4(DENIED), { code: 'ENOTFOUND' })
  const script = `
    const https = require('node:https')
    const [host, port, dns] = process.argv.slice(1)
    const resolver = new (require('node:dns').Resolver)()
    resolver.setServers([dns])
    const lookup = (name, options, done) => resolver.resolve4(name, (error, [address]) => options.all ? done(error, [{ address, family: 4 }]) : done(error, address, 4))
    https.get({ agent: false, host, port, servername: host, headers: { Host: host }, path: '/by-dns', lookup }, (answer) => answer.resume().on('end', () => console.log(answer.statusCode)))`
  const { stdout, stderr } = await ways.run([process.execPath, '-e', script, '--', API, String(portOf(ways.transparent.https)), ways.dns])
  assert.equal(stdout, '200\n', stderr)
  assert.equal(api.requests.at(-1)?.url, '/by-dns')
  assert.equal(headerOf(api.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
})

test('python that knows no proxy gets its answer at the transparent port, with the credential', async () => {
  const script = `
import http.client, socket, ssl, sys
host, port, denied = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def connect(name):
    raw = socket.create_connection(("127.0.0.1", port), 20)
    return ssl.create_default_context().wrap_socket(raw, server_hostname=name)
connection = http.client.HTTPSConnection(host)
connection.sock = connect(host)
for path in ("/1", "/2"):
    connection.request("POST", path, body=b"x" * 100000)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
try:
    connect(denied)
except ssl.SSLError as error:
    print(error.reason)`
  const { code, stdout, stderr } = await ways.run(['python3', '-c', script, API, String(portOf(ways.transparent.https)), DENIED])
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^200 ok\n200 ok\n.*ALERT.*\n$/)
  const [first, second] = api.requests.slice(-2)
  assert.deepEqual([first?.url, second?.url], ['/1', '/2'])
  assert.equal(headerOf(second, 'authorization'), `Bearer ${CANARY}`)
  assert.equal(denied.connections, 0)
})

for (const { way, args, said, reason } of [
  {
    way: 'an HTTP proxy',
    args: () => ['-proxy', ways.proxy.ready.http, '-connect', `${API}:443`],
    said: /unexpected eof|alert/,
    reason: 'sni_mismatch',
  },
  { way: 'a transparent port', args: () => ['-connect', ways.transparent.https], said: /alert access denied/, reason: 'host_not_allowed' },
]) {
  const openssl = (...more: string[]) =>
    ways.run(['openssl', 's_client', ...args(), '-CAfile', ways.proxy.ready.ca, '-verify_return_error', '-verify_hostname', API, ...more])

  for (const [offered, chosen] of [
    ['h2,http/1.1', 'h2'],
    ['http/1.1,h2', 'h2'],
    ['http/1.1', 'http/1.1'],
  ] as const) {
    test(`openssl s_client by ${way} verifies the host's certificate and agrees on ${chosen} out of ${offered}`, async () => {
      const { code, stdout, stderr } = await openssl('-servername', API, '-alpn', offered)
      assert.equal(code, 0, stderr)
      assert.match(stdout, /Verify return code: 0 \(ok\)/)
      assert.match(stdout, new RegExp(`^ALPN protocol: ${chosen}$`, 'm'))
    })
  }

  test(`openssl s_client by ${way} gets no handshake when it names a host that no rule allows`, async () => {
    const { code, stdout, stderr } = await openssl('-servername', DENIED)
    assert.notEqual(code, 0)
    assert.match(stderr, said)
    assert.doesNotMatch(stdout, /BEGIN CERTIFICATE/)
    assert.equal(denied.connections, 0)
    const line = (await ways.audit()).findLast(({ event }) => event === 'decided')
    assert.deepEqual([line?.['decision'], line?.['code']], ['deny', reason])
  })
}

test('openssl s_client without a server name is refused at a transparent port by an alert, and the audit says why', async () => {
  const { code, stderr } = await ways.run(['openssl', 's_client', '-connect', ways.transparent.https, '-noservername'])
  assert.notEqual(code, 0)
  assert.match(stderr, /unrecognized name/)
  const line = (await ways.audit()).findLast(({ event }) => event === 'decided')
  assert.deepEqual([line?.['lane'], line?.['decision'], line?.['code']], ['transparent', 'deny', 'server_name_missing'])
})

test('npm installs a package and its dependency from a private registry, without the token of it', async () => {
  const folder = join(ways.proxy.home, 'npm-project')
  await mkdir(folder)
  await writeFile(join(folder, 'package.json'), '{"private": true, "type": "module"}')
  await writeFile(join(folder, 'main.js'), `import { two } from 'demo-package'\nconsole.log(two)\n`)
  const npm = ['npm', 'install', '--no-audit', '--no-fund', '--no-update-notifier', '--fetch-retries=0', `--registry=https://${REGISTRY}/`]
  const { code, stderr } = await ways.run([...npm, 'demo-package'], { HTTPS_PROXY: ways.proxy.url, https_proxy: ways.proxy.url }, folder)
  assert.equal(code, 0, stderr)
  assert.equal((await ways.run([process.execPath, 'main.js'], {}, folder)).stdout, '2\n')
  assert.deepEqual(registry.requests.map(({ url }) => url).toSorted(), [
    '/demo-dependency',
    '/demo-dependency/-/demo-dependency-2.0.1.tgz',
    '/demo-package',
    '/demo-package/-/demo-package-1.2.3.tgz',
  ])
  assert.ok(!(await readFile(join(folder, 'package-lock.json'), 'utf8')).includes(CANARY))
})

test('npm fails for a registry that no rule allows, and nobody is connected to', async () => {
  const npm = ['npm', 'view', '--no-update-notifier', '--fetch-retries=0', `--registry=https://${DENIED}/`, 'demo-package']
  const { code } = await ways.run(npm, { HTTPS_PROXY: ways.proxy.url, https_proxy: ways.proxy.url }, ways.proxy.home)
  assert.notEqual(code, 0)
  assert.equal(denied.connections, 0)
})

test('wget by an HTTP proxy gets its answer with the credential, and is told why a host is refused', async () => {
  const proxied = { https_proxy: ways.proxy.url, http_proxy: ways.proxy.url }
  const wget = ['wget', '-nv', '-O', '-', '--timeout=20', '--tries=1', `--ca-certificate=${ways.proxy.ready.ca}`]
  const { code, stdout, stderr } = await ways.run([...wget, `https://${API}/wget`], proxied)
  assert.deepEqual([code, stdout], [0, 'ok'], stderr)
  assert.equal(headerOf(api.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
  const refused = await ways.run([...wget, `https://${DENIED}/wget`], proxied)
  assert.notEqual(refused.code, 0)
  assert.match(refused.stderr, /host_not_allowed/)
  assert.equal(denied.connections, 0)
})
