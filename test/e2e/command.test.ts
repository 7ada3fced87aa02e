import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { connect, createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { VERSION } from '../../src/kernel/version.ts'
import { temporaryFolder } from '../support/audit.ts'
import { cleanEnvironment, runCommand, runProgram, startProxy, type Ended } from '../support/command.ts'
import { bodyOf, exchangeRaw, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, CANARY, policyFor } from '../support/setting.ts'
import { openRawUpstream, openUpstream } from '../support/upstream.ts'

const COMMANDS = ['proxy', 'sidecar', 'policy', 'secret', 'audit', 'compose']
const RESOLVE = ['--resolve', `${API}=127.0.0.1`]
const POLICY = policyFor([443], { inject: '' })
const get = (port: number, path = '/'): string =>
  `GET http://${API}:${port}${path} HTTP/1.1\r\nHost: ${API}:${port}\r\nConnection: close\r\n\r\n`

/** Exit code, and stderr as `code: message` with a hint line; nothing on stdout, no stack. */
function assertRefused(ended: Ended, code: string, exit: 1 | 2): void {
  assert.equal(ended.code, exit, ended.stderr)
  assert.equal(ended.stdout, '')
  assert.match(ended.stderr, new RegExp(`^${code}: .+\n`, 'm'))
  assert.match(ended.stderr, /^hint: .+$/m)
  assert.doesNotMatch(ended.stderr, /^\s+at .*\(?(?:file|node):/m)
}

test('the ready line is the first and only line on stdout, and names what is there', async () => {
  await using proxy = await startProxy({ policy: POLICY, args: ['--gateway', '127.0.0.1:0'] })
  const { ready, home } = proxy
  assert.deepEqual(Object.keys(ready), ['event', 'http', 'gateway', 'ca', 'audit', 'session'])
  assert.equal(ready.event, 'ready')
  assert.match(ready.http, /^127\.0\.0\.1:\d+$/)
  assert.match(ready.gateway ?? '', /^127\.0\.0\.1:\d+$/)
  assert.match(await readFile(ready.ca, 'utf8'), /^-----BEGIN CERTIFICATE-----/)
  const folder = join(home, '.sallyport', 'sessions', ready.session)
  assert.equal(ready.ca, join(folder, 'ca.crt'))
  assert.equal(ready.audit, join(folder, 'audit.jsonl'))
  assert.equal(statSync(ready.audit).mode & 0o777, 0o600)
  const { stdout, code } = await proxy.stop('SIGTERM')
  assert.equal(stdout, `${JSON.stringify(ready)}\n`)
  assert.equal(code, 0)
})

test('ways that were not asked for are absent from the ready line, and files go where they are asked for', async () => {
  await using folder = await temporaryFolder()
  const audit = join(folder.path, 'a.jsonl')
  await using proxy = await startProxy({ policy: POLICY, args: ['--audit', audit, '--ca-dir', join(folder.path, 'ca')] })
  assert.deepEqual(Object.keys(proxy.ready), ['event', 'http', 'ca', 'audit', 'session'])
  assert.equal(proxy.ready.audit, audit)
  assert.equal(proxy.ready.ca, join(folder.path, 'ca', 'ca.crt'))
  assert.ok(existsSync(join(folder.path, 'ca', 'truststore.p12')))
  assert.equal(existsSync(join(proxy.home, '.sallyport')), false)
})

test('logs are JSON lines on stderr, and SALLYPORT_LOG_LEVEL=silent gives none', async () => {
  await using proxy = await startProxy({ policy: POLICY })
  await exchangeRaw(proxy.port, 'GET http://denied.example.net/ HTTP/1.1\r\nHost: denied.example.net\r\n\r\n')
  const { stderr } = await proxy.stop('SIGTERM')
  const lines = stderr.trimEnd().split('\n')
  const messages = lines.map((line) => (JSON.parse(line) as { msg: string }).msg)
  assert.ok(messages.includes('egress denied'))
  await using silent = await startProxy({ policy: POLICY, env: { SALLYPORT_LOG_LEVEL: 'silent' } })
  await exchangeRaw(silent.port, 'GET http://denied.example.net/ HTTP/1.1\r\nHost: denied.example.net\r\n\r\n')
  assert.equal((await silent.stop('SIGTERM')).stderr, '')
})

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`${signal} lets a running download end, takes no new connection, and exits 0`, async () => {
    let finish: () => void = () => {}
    await using upstream = await openUpstream((_request, response) => {
      response.write('first ')
      finish = () => response.end('last')
    })
    await using proxy = await startProxy({ policy: policyFor([upstream.port], { inject: '' }), args: RESOLVE })
    const agent = connect(proxy.port, '127.0.0.1')
    agent.write(get(upstream.port))
    const [head] = (await once(agent, 'data')) as [Buffer]
    const ended = proxy.stop(signal)
    while (!proxy.output().includes('draining')) await once(proxy.child.stderr ?? agent, 'data')
    const late = connect(proxy.port, '127.0.0.1')
    const [refused] = (await once(late, 'error')) as [NodeJS.ErrnoException]
    assert.match(refused.code ?? '', /^ECONN(REFUSED|RESET)$/)
    finish()
    assert.match(head.toString() + (await readToEnd(agent)), /first [^]*last/)
    assert.equal((await ended).code, 0)
    const audit = await readFile(proxy.ready.audit, 'utf8').catch(() => '')
    assert.match(audit, /"event":"finished"[^\n]*"status":200/)
    assert.match(audit.trimEnd().split('\n').at(-1) ?? '', /"event":"stopped"/)
  })
}

test('SIGTERM ends it though idle connections, half a request and a half-open tunnel stand, also at the gateway', async () => {
  await using proxy = await startProxy({ policy: POLICY, args: ['--gateway', '127.0.0.1:0'] })
  const gatewayPort = Number(proxy.ready.gateway?.split(':').at(-1))
  const sockets = [proxy.port, proxy.port, gatewayPort, gatewayPort].map((port) => connect(port, '127.0.0.1'))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  for (const socket of sockets) socket.on('error', () => {})
  sockets[1]?.write('GET http://api.exam')
  sockets[3]?.write('GET /heal')
  const { socket: tunnel } = await openTunnel(proxy.port, `${API}:443`)
  assert.equal((await proxy.stop('SIGTERM')).code, 0)
  for (const socket of [...sockets, tunnel]) socket.destroy()
})

test('SIGHUP makes it read its policy anew, and does not end it', async () => {
  await using proxy = await startProxy({ policy: POLICY, args: ['--gateway', '127.0.0.1:0'] })
  proxy.child.kill('SIGHUP')
  while (!proxy.output().includes('reloaded')) await once(proxy.child.stderr ?? proxy.child, 'data')
  assert.equal((await fetch(`http://${proxy.ready.gateway}/healthz`)).status, 200)
})

test('--ca-persist: the second start presents the same authority, without it each start has its own', async () => {
  await using folder = await temporaryFolder()
  const certificates: string[] = []
  for (const args of [['--ca-persist', folder.path], ['--ca-persist', folder.path], []]) {
    await using proxy = await startProxy({ policy: POLICY, args })
    certificates.push(readFileSync(proxy.ready.ca, 'utf8'))
    assert.equal((await proxy.stop('SIGTERM')).code, 0)
  }
  assert.equal(certificates[0], certificates[1])
  assert.notEqual(certificates[1], certificates[2])
})

test('I11 without --ca-persist no key of the authority is on disk', async () => {
  await using proxy = await startProxy({ policy: POLICY })
  const found = await runProgram(['grep', '-rlE', 'PRIVATE KEY', proxy.home], cleanEnvironment(proxy.home))
  assert.equal(found.stdout, '')
})

test('the gateway answers /healthz and /ca.crt, 405 to another method, and 404 with a hint elsewhere', async () => {
  await using proxy = await startProxy({ policy: POLICY, args: ['--gateway', '127.0.0.1:0'] })
  const at = `http://${proxy.ready.gateway}`
  const health = await fetch(`${at}/healthz`)
  assert.equal(health.status, 200)
  assert.deepEqual(await health.json(), { status: 'ok' })
  const ca = await fetch(`${at}/ca.crt`)
  assert.equal(await ca.text(), await readFile(proxy.ready.ca, 'utf8'))
  const missing = await fetch(`${at}/v1/secrets`)
  assert.equal(missing.status, 404)
  assert.match(missing.headers.get('content-type') ?? '', /^application\/problem\+json/)
  assert.match(await missing.text(), /healthz/)
  assert.equal((await fetch(`${at}/healthz`, { method: 'POST' })).status, 405)
})

test('I4 the gate is no way to its own gateway, though the rule excepts its address', async () => {
  await using other = await startProxy({ policy: POLICY, args: ['--gateway', '127.0.0.1:0'] })
  const otherPort = Number(other.ready.gateway?.split(':').at(-1))
  const free = await freePort()
  await using proxy = await startProxy({
    policy: policyFor([otherPort, free], { inject: '' }),
    args: [...RESOLVE, '--gateway', `127.0.0.1:${free}`],
  })
  assert.equal(statusOf(await exchangeRaw(proxy.port, get(otherPort, '/healthz'))), 200, 'the gateway of another is an upstream like any')
  const answer = await exchangeRaw(proxy.port, get(free, '/healthz'))
  assert.equal(statusOf(answer), 403)
  assert.match(bodyOf(answer), /"code":"address_refused"/)
})

for (const command of COMMANDS) {
  for (const flag of ['--help', '-h']) {
    test(`sallyport ${command} ${flag} prints its usage and exits 0`, async () => {
      const { code, stdout, stderr } = await runCommand([command, flag])
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, new RegExp(`sallyport ${command}`))
    })
  }

  test(`sallyport ${command} refuses a flag that it does not have, with exit 2`, async () => {
    assertRefused(await runCommand([command, ...(command === 'policy' ? ['check'] : []), '--no-such-flag']), 'usage', 2)
  })
}

test('sallyport without a command, --help and help list every command and exit 0', async () => {
  for (const argv of [[], ['--help'], ['-h'], ['help']]) {
    const { code, stdout } = await runCommand(argv)
    assert.equal(code, 0)
    for (const command of COMMANDS) assert.match(stdout, new RegExp(`^ {2}${command} +\\S`, 'm'))
  }
})

test('--version and -V print the version', async () => {
  for (const flag of ['--version', '-V']) assert.equal((await runCommand([flag])).stdout, `${VERSION}\n`)
})

for (const { why, argv, env, code, exit, names } of [
  { why: 'an unknown command', argv: ['frobnicate'], code: 'usage', exit: 2, names: 'frobnicate' },
  { why: 'a command by the name of a method of objects', argv: ['constructor'], code: 'usage', exit: 2, names: 'constructor' },
  { why: 'no policy', argv: ['proxy'], code: 'usage', exit: 2, names: 'policy' },
  { why: 'a flag without its value', argv: ['proxy', '--policy'], code: 'usage', exit: 2, names: '--policy' },
  { why: 'a surplus argument', argv: ['proxy', '--policy', 'x', 'y'], code: 'usage', exit: 2, names: '"y"' },
  {
    why: 'a policy that does not exist',
    argv: ['proxy', '--policy', '/nonexistent/p.yaml'],
    code: 'policy_not_found',
    exit: 2,
    names: '/nonexistent/p.yaml',
  },
  {
    why: 'an address that is none',
    argv: ['proxy', '--policy', 'POLICY', '--http', 'localhost'],
    code: 'config_invalid',
    exit: 2,
    names: 'localhost',
  },
  {
    why: 'a port that is none',
    argv: ['proxy', '--policy', 'POLICY', '--http', '127.0.0.1:99999'],
    code: 'config_invalid',
    exit: 2,
    names: '99999',
  },
  {
    why: '--resolve without an address',
    argv: ['proxy', '--policy', 'POLICY', '--resolve', 'a.example'],
    code: 'config_invalid',
    exit: 2,
    names: 'a.example',
  },
  {
    why: '--resolve with a name for an address',
    argv: ['proxy', '--policy', 'POLICY', '--resolve', 'a.example=b'],
    code: 'config_invalid',
    exit: 2,
    names: 'a.example=b',
  },
  {
    why: '--resolve with a host that is not canonical',
    argv: ['proxy', '--policy', 'POLICY', '--resolve', 'a.example.=127.0.0.1'],
    code: 'config_invalid',
    exit: 2,
    names: 'a.example.',
  },
  {
    why: 'a log level that is none',
    argv: ['proxy', '--policy', 'POLICY'],
    env: { SALLYPORT_LOG_LEVEL: 'loud' },
    code: 'config_invalid',
    exit: 2,
    names: 'loud',
  },
  {
    why: 'authorities that cannot be read',
    argv: ['proxy', '--policy', 'POLICY', '--upstream-ca', '/nonexistent/ca.pem'],
    code: 'ca_file_invalid',
    exit: 2,
    names: '/nonexistent/ca.pem',
  },
  {
    why: 'authorities that are not PEM',
    argv: ['proxy', '--policy', 'POLICY', '--upstream-ca', 'POLICY'],
    code: 'ca_file_invalid',
    exit: 2,
    names: 'policy.yaml',
  },
  {
    why: 'an audit in a folder that does not exist',
    argv: ['proxy', '--policy', 'POLICY', '--audit', '/nonexistent/a.jsonl'],
    code: 'audit_open_failed',
    exit: 1,
    names: '/nonexistent/a.jsonl',
  },
  {
    why: 'an address that this machine does not have',
    argv: ['proxy', '--policy', 'POLICY', '--http', '192.0.2.1:0'],
    code: 'listen_failed',
    exit: 1,
    names: '192.0.2.1',
  },
  { why: 'a sidecar without its settings', argv: ['sidecar'], code: 'config_invalid', exit: 2, names: 'SALLYPORT_SIDECAR_IP' },
  {
    why: 'an audit that does not exist',
    argv: ['audit', 'verify', '/nonexistent/a.jsonl'],
    code: 'audit_open_failed',
    exit: 1,
    names: '/nonexistent/a.jsonl',
  },
  { why: 'an unknown audit command', argv: ['audit', 'erase', 'x'], code: 'usage', exit: 2, names: 'erase' },
  { why: 'an unknown policy command', argv: ['policy', 'forget'], code: 'usage', exit: 2, names: 'forget' },
] as const) {
  test(`${why}: exit ${exit} with ${code}, the value and a hint`, async () => {
    await using folder = await temporaryFolder()
    const policy = join(folder.path, 'policy.yaml')
    await writeFile(policy, POLICY)
    const http = argv[0] === 'proxy' && !(argv as readonly string[]).includes('--http') && argv.length > 2 ? ['--http', '127.0.0.1:0'] : []
    const ended = await runCommand([...argv.map((arg) => (arg === 'POLICY' ? policy : arg)), ...http], env ?? {})
    assertRefused(ended, code, exit)
    assert.ok(ended.stderr.includes(names), ended.stderr)
  })
}

test('a port that is taken: listen_failed, exit 1, and the port is named', async () => {
  await using folder = await temporaryFolder()
  const policy = join(folder.path, 'policy.yaml')
  await writeFile(policy, POLICY)
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  for (const flag of ['--http', '--gateway']) {
    const other = flag === '--http' ? [] : ['--http', '127.0.0.1:0']
    const ended = await runCommand(['proxy', '--policy', policy, flag, `127.0.0.1:${port}`, ...other])
    assertRefused(ended, 'listen_failed', 1)
    assert.match(ended.stderr, new RegExp(`127\\.0\\.0\\.1:${port}`))
  }
  server.close()
})

test('every error of a policy is told at once, with file and line', async () => {
  await using folder = await temporaryFolder()
  const policy = join(folder.path, 'policy.yaml')
  await writeFile(policy, POLICY.replace(`host: ${API}`, 'host: API.Example.com').replace('action: allow', 'action: perhaps'))
  const ended = await runCommand(['proxy', '--policy', policy])
  assert.equal(ended.code, 2)
  assert.match(ended.stderr, /^policy_invalid: /)
  assert.match(ended.stderr, /policy\.yaml:\d+: .*api\.example\.com/)
  assert.match(ended.stderr, /policy\.yaml:\d+: .*perhaps/)
})

for (const source of ['env:API_TOKEN', 'file:/nonexistent/API_TOKEN']) {
  test(`a missing secret (${source}) is refused at the start: exit 2, naming it and where it was looked for`, async () => {
    await using folder = await temporaryFolder()
    const policy = join(folder.path, 'policy.yaml')
    await writeFile(policy, policyFor([443], { source }))
    const ended = await runCommand(['proxy', '--policy', policy, '--http', '127.0.0.1:0'])
    assertRefused(ended, 'secret_missing', 2)
    assert.ok(ended.stderr.includes('API_TOKEN') && ended.stderr.includes(source.slice(source.indexOf(':') + 1)))
  })
}

test('I1 a secret is in no output, no file and no argument of a proxy that used it', async () => {
  await using upstream = await openUpstream()
  await using proxy = await startProxy({
    policy: policyFor([upstream.port], { rule: 'plaintext: accept' }),
    args: [...RESOLVE, '--gateway', '127.0.0.1:0'],
    env: { API_TOKEN: CANARY, SALLYPORT_LOG_LEVEL: 'debug' },
  })
  assert.equal(statusOf(await exchangeRaw(proxy.port, get(upstream.port))), 200)
  assert.ok(upstream.requests[0]?.rawHeaders.includes(`Bearer ${CANARY}`))
  await exchangeRaw(proxy.port, get(upstream.port).replace('GET ', 'GET  \0'))
  await exchangeRaw(proxy.port, get(1))
  const env = cleanEnvironment(proxy.home)
  const processLine = await runProgram(['ps', '-o', 'args=', '-p', String(proxy.child.pid)], env)
  await proxy.stop('SIGTERM')
  const files = await runProgram(['grep', '-rl', CANARY, proxy.home], env)
  assert.equal(files.stdout, '')
  assert.doesNotMatch(proxy.output() + processLine.stdout, new RegExp(CANARY))
})

test('I1 a bad secret value is not in the message that refuses it', async () => {
  await using folder = await temporaryFolder()
  const policy = join(folder.path, 'policy.yaml')
  await writeFile(policy, policyFor([443]))
  const ended = await runCommand(['proxy', '--policy', policy, '--http', '127.0.0.1:0'], { API_TOKEN: `${CANARY}\u00e9` })
  assertRefused(ended, 'secret_invalid', 2)
  assert.doesNotMatch(ended.stderr, new RegExp(CANARY))
})

test('a proxy that is killed leaves an audit that verifies, and one that was altered does not', async () => {
  await using upstream = await openRawUpstream((socket) => void socket.once('data', () => socket.end('HTTP/1.1 204 No Content\r\n\r\n')))
  await using proxy = await startProxy({ policy: policyFor([upstream.port], { inject: '' }), args: RESOLVE })
  assert.equal(statusOf(await exchangeRaw(proxy.port, get(upstream.port))), 204)
  await proxy.stop('SIGKILL')
  const verified = await runCommand(['audit', 'verify', proxy.ready.audit, '--json'])
  assert.equal(verified.code, 0)
  assert.equal((JSON.parse(verified.stdout) as { ok: boolean }).ok, true)
  await writeFile(proxy.ready.audit, (await readFile(proxy.ready.audit, 'utf8')).replace(API, 'bpi.example.com'))
  assertRefused(await runCommand(['audit', 'verify', proxy.ready.audit]), 'audit_broken', 1)
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
