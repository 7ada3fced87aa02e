/** Programs of the field read the ready files, and send the placeholder that stands in them to the server that it is for. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { credentialFiles } from '../../src/credential/credential.ts'
import type { CredentialFile } from '../../src/wire/credential.ts'
import { temporaryFolder } from '../support/audit.ts'
import { cleanEnvironment, runProgram, type Ended } from '../support/command.ts'
import { without } from '../support/pki.ts'
import { openUpstream, type Recorded } from '../support/upstream.ts'

const TOKEN = 'npm_SALLYPORT4hVq0sZr9Lx2Kc7Tb5Wn8Jd3Gf1Ma6'
const BASIC = `Basic ${Buffer.from(`x-access-token:${TOKEN}`).toString('base64')}`

/** A HOME with the ready files of these credentials, all of one placeholder, and a program that runs in it. */
async function openHome(...files: readonly CredentialFile[]) {
  const folder = await temporaryFolder()
  const place = { kind: 'placeholder', name: 'TOKEN', shape: '<alnum:40>', places: [] } as const
  for (const { path, content } of credentialFiles(
    files.map((file) => ({ place, file })),
    { TOKEN },
  )) {
    mkdirSync(dirname(join(folder.path, path)), { recursive: true })
    writeFileSync(join(folder.path, path), content, { mode: 0o400 })
  }
  return {
    run: (...argv: readonly string[]): Promise<Ended> =>
      runProgram(
        argv,
        { ...cleanEnvironment(folder.path), GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_NOSYSTEM: '1', no_proxy: '*' },
        folder.path,
      ),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

/** An upstream that wants a login of everybody, and what those sent who had one. */
async function openAsking(body: string) {
  const upstream = await openUpstream((request, response) => {
    const isKnown = authorizationOf(request) !== undefined
    response.writeHead(isKnown ? 200 : 401, {
      'content-type': 'application/json',
      ...(!isKnown && { 'www-authenticate': 'Basic realm="x"' }),
    })
    response.end(body)
  })
  return {
    port: upstream.port,
    shown: () => new Set(upstream.requests.flatMap((request) => authorizationOf(request) ?? [])),
    [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose](),
  }
}

function authorizationOf({ rawHeaders }: Recorded): string | undefined {
  const at = rawHeaders.findIndex((name) => name.toLowerCase() === 'authorization')
  return at < 0 ? undefined : rawHeaders[at + 1]
}

test('npm shows the placeholder of .npmrc to its registry, and to no other', async () => {
  await using registry = await openAsking('{"username":"me"}')
  await using other = await openAsking('{"username":"me"}')
  await using home = await openHome({ kind: 'npmrc', server: `127.0.0.1:${registry.port}/npm` })
  const whoami = await home.run('npm', 'whoami', `--registry=http://127.0.0.1:${registry.port}/npm/`)
  assert.equal(whoami.stdout, 'me\n', whoami.stderr)
  assert.deepEqual(registry.shown(), new Set([`Bearer ${TOKEN}`]))
  assert.notEqual((await home.run('npm', 'whoami', `--registry=http://127.0.0.1:${other.port}/npm/`)).code, 0)
  assert.equal(other.shown().size, 0)
})

test('curl -n shows login and placeholder of .netrc to the machine, and to no other', async () => {
  await using upstream = await openAsking('{}')
  await using home = await openHome(
    { kind: 'netrc', server: 'first.example.com', login: 'first' },
    { kind: 'netrc', server: '127.0.0.1', login: 'x-access-token' },
  )
  await home.run('curl', '-sSn', `http://localhost:${upstream.port}/`)
  assert.equal(upstream.shown().size, 0)
  assert.equal((await home.run('curl', '-sSn', `http://127.0.0.1:${upstream.port}/`)).stdout, '{}')
  assert.deepEqual(upstream.shown(), new Set([BASIC]))
})

test('git shows login and placeholder of .netrc when it is asked for them', async () => {
  await using upstream = await openAsking('0000')
  await using home = await openHome({ kind: 'netrc', server: '127.0.0.1', login: 'x-access-token' })
  await home.run('git', 'ls-remote', `http://127.0.0.1:${upstream.port}/acme/x.git`)
  assert.deepEqual(upstream.shown(), new Set([BASIC]))
})

test('python reads login and placeholder of .netrc, whose owner and mode it looks at', async () => {
  await using home = await openHome({ kind: 'netrc', server: 'git.example.com', login: 'x-access-token' })
  const script = 'import netrc, json; print(json.dumps(netrc.netrc().authenticators("git.example.com")))'
  const { stdout, stderr } = await home.run('python3', '-c', script)
  const [login, , password] = JSON.parse(stdout || stderr) as string[]
  assert.deepEqual([login, password], ['x-access-token', TOKEN])
})

for (const parser of ['ConfigParser', 'RawConfigParser']) {
  test(`python’s ${parser} reads .pypirc as those who upload do`, async () => {
    await using home = await openHome(
      { kind: 'pypirc', server: 'https://upload.pypi.example.com/legacy/' },
      { kind: 'pypirc', server: 'https://pkg.example.com/simple/', login: 'me' },
    )
    const script = `
import configparser, json, os
config = configparser.${parser}()
config.read(os.path.expanduser("~/.pypirc"))
names = [name.strip() for name in config.get("distutils", "index-servers").split("\\n") if name.strip()]
print(json.dumps([[name, *(config.get(name, key) for key in ("repository", "username", "password"))] for name in names]))`
    const { stdout, stderr } = await home.run('python3', '-c', script)
    assert.deepEqual(JSON.parse(stdout || stderr), [
      ['pypi', 'https://upload.pypi.example.com/legacy/', '__token__', TOKEN],
      ['pkg.example.com', 'https://pkg.example.com/simple/', 'me', TOKEN],
    ])
  })
}

test('the docker command shows login and placeholder of its config to the registry', { skip: without('docker', '--version') }, async () => {
  await using registry = await openAsking('{}')
  await using home = await openHome({ kind: 'docker', server: `127.0.0.1:${registry.port}`, login: 'x-access-token' })
  await home.run('docker', 'manifest', 'inspect', '--insecure', `127.0.0.1:${registry.port}/acme/x:1`)
  assert.deepEqual(registry.shown(), new Set([BASIC]))
})
