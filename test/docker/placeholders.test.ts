import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { openSession, type Session } from '../support/session.ts'

const HOST = 'api.demo.internal'
const POLICY = `version: 1
network:
  rules:
    - {id: demo, host: ${HOST}, ports: [443], action: allow, addresses: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]}
credentials:
  - id: api
    secret: DEMO_TOKEN
    inject: {domains: [${HOST}], paths: ["/v1/**"], placeholder: DEMO_API_TOKEN, shape: "demo_<alnum:40>"}
  - id: git
    secret: DEMO_TOKEN
    inject:
      domains: [${HOST}]
      paths: ["/git/**"]
      placeholder: DEMO_API_TOKEN
      shape: "demo_<alnum:40>"
      file: {netrc: {server: ${HOST}, login: x-access-token}}
  - id: npm
    secret: DEMO_TOKEN
    inject: {domains: [${HOST}], paths: ["/npm/**"], placeholder: NPM_TOKEN, shape: "npm_<alnum:36>", file: {npmrc: {server: ${HOST}/npm}}}
  - id: registry
    secret: DEMO_TOKEN
    inject: {domains: [${HOST}], paths: ["/v2/**"], placeholder: REGISTRY_TOKEN, file: {docker: {server: ${HOST}, login: x-access-token}}}
secrets:
  - {name: DEMO_TOKEN, source: "file:/run/secrets/DEMO_TOKEN", resources: [inject]}
`
const FILES = { npmrc: '.npmrc', netrc: '.netrc', docker: '.docker/config.json' } as const

let session: Session
before(async () => void (session = await openSession(undefined, POLICY)))
after(() => session[Symbol.asyncDispose]())

/** What a shell in the agent prints. */
async function shell(script: string): Promise<string> {
  return (await session.agent(['sh', '-c', script])).stdout
}

/** What the upstream answers while something runs. */
async function seenBy(run: () => Promise<unknown>): Promise<readonly string[]> {
  const count = (await session.upstreamSaw()).length
  await run()
  return (await session.upstreamSaw()).slice(count).map(({ path, status, authorization }) => `${path} ${status} ${authorization}`)
}

const TELL = `curl -sS -H "Authorization: Bearer $SALLYPORT_LEASE" http://sallyport:7070/v1`

test('the agent has a placeholder of its shape in each variable, and it is the one that the gate knows', async () => {
  const told = JSON.parse(await shell(`${TELL}/placeholders`)) as Record<string, string>
  assert.deepEqual(Object.keys(told).toSorted(), ['DEMO_API_TOKEN', 'NPM_TOKEN', 'REGISTRY_TOKEN'])
  for (const [name, value] of Object.entries(told)) assert.equal(await shell(`printf %s "$${name}"`), value, name)
  assert.match(told['DEMO_API_TOKEN'] ?? '', /^demo_[A-Za-z0-9]{40}$/)
  assert.match(told['NPM_TOKEN'] ?? '', /^npm_[A-Za-z0-9]{36}$/)
})

for (const [name, path] of Object.entries(FILES)) {
  test(`~/${path} is what the gate tells as ${name}, with the placeholder, for the agent’s eyes only and not for it to write`, async () => {
    const content = await shell(`cat ~/${path}`)
    assert.equal(content, await shell(`${TELL}/files/${name}`))
    assert.ok(content.includes(HOST))
    assert.match(await shell(`stat -c '%a %u' ~/${path}`), new RegExp(`^600 ${session.project.env.get('SALLYPORT_UID')}\n$`))
    for (const attempt of [`echo x >> ~/${path}`, `rm ~/${path}`, `mv ~/${path} ~/elsewhere`]) {
      assert.notEqual((await session.agent(['sh', '-c', attempt])).code, 0, attempt)
    }
  })
}

test('the agent may keep more beside its docker config', async () => {
  assert.equal(await shell('mkdir -p ~/.docker/buildx && echo x > ~/.docker/buildx/x && cat ~/.docker/buildx/x'), 'x\n')
})

test('without the lease the gate does not tell', async () => {
  assert.match(await shell('curl -sS http://sallyport:7070/v1/placeholders'), /"code":"unauthenticated"/)
})

test('a program that sends its variable is let in: the placeholder is swapped on the way', async () => {
  const asked = async (): Promise<string> => shell(`curl -sS -H "Authorization: Bearer $DEMO_API_TOKEN" https://${HOST}/v1/me`)
  let answer = ''
  assert.deepEqual(await seenBy(async () => (answer = await asked())), ['/v1/me 200 Bearer'])
  assert.match(answer, /"authenticated":true/)
})

test('without the placeholder nothing is written into the request', async () => {
  assert.deepEqual(await seenBy(() => shell(`curl -sS https://${HOST}/v1/me`)), ['/v1/me 401 none'])
})

test('git reads .netrc and is let in: the placeholder is swapped inside basic', async () => {
  const clone = `git clone -q https://${HOST}/git/hello.git /tmp/hello && git -C /tmp/hello log --format=%s`
  assert.equal(await shell(clone), 'hello\n')
})

test('curl -n reads .netrc as well', async () => {
  const script = `curl -sSn -o /dev/null -w '%{http_code}' 'https://${HOST}/git/hello.git/info/refs?service=git-upload-pack'`
  assert.equal(await shell(script), '200')
})

test('python, which wants .netrc to be its user’s own, reads it', async () => {
  const script = `import netrc; login, _, password = netrc.netrc().authenticators("${HOST}"); print(login, password)`
  assert.equal(await shell(`python3 -c '${script}'`), `x-access-token ${await shell('printf %s "$DEMO_API_TOKEN"')}\n`)
})

test('npm reads .npmrc and is let in', async () => {
  // The demo's API has no registry: 404 is what it says to those whom it knows, 401 to others.
  const seen = await seenBy(() => shell(`npm whoami --no-update-notifier --registry=https://${HOST}/npm/`))
  assert.deepEqual(seen, ['/npm/-/whoami 404 Bearer'])
})

for (const { what, script } of [
  { what: 'in a query', script: `curl -sS "https://${HOST}/v1/me?token=$DEMO_API_TOKEN"` },
  { what: 'of another credential', script: `curl -sS -H "Authorization: Bearer $NPM_TOKEN" https://${HOST}/v1/me` },
]) {
  test(`a placeholder ${what} is refused and never arrives`, async () => {
    let answer = ''
    assert.deepEqual(await seenBy(async () => (answer = await shell(script))), [])
    assert.match(answer, /"code":"placeholder_misplaced"/)
  })
}

test('I1 the secret is in no configuration, no environment, no argument and no file that the agent or the engine has', async () => {
  const { env, envFile } = session.project
  const basic = Buffer.from(`x-access-token:${session.token}`).toString('base64')
  const search =
    '(env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find /tmp /run /home /workspace /sallyport -type f -exec cat {} +) 2>/dev/null'
  const places = {
    agent: await shell(search),
    'the agent’s container': JSON.stringify(await session.inspect('agent')),
    'the sidecar’s container': JSON.stringify(await session.inspect('sidecar')),
    '.env': readFileSync(envFile, 'utf8'),
    'compose files': (env.get('COMPOSE_FILE') ?? '')
      .split(':')
      .map((file) => readFileSync(file, 'utf8'))
      .join(''),
    'compose config': (await session.project.compose(['config'])).stdout,
    'ready files': Object.keys(FILES)
      .map((name) => readFileSync(join(env.get('SALLYPORT_STATE_DIR') ?? '', 'files', name), 'utf8'))
      .join(''),
    logs: await session.project.compose(['logs']).then(({ stdout, stderr }) => stdout + stderr),
  }
  for (const [place, text] of Object.entries(places)) {
    assert.notEqual(text, '', place)
    for (const value of [session.token, basic]) assert.ok(!text.includes(value), place)
  }
  // That the search would find it: the placeholder, which is as long, is found.
  const placeholder = await shell('printf %s "$DEMO_API_TOKEN"')
  assert.ok(places.agent.includes(placeholder) && places['the agent’s container'].includes(placeholder))
})

test('I14 the agent has the ready files as further mounts, each read-only, and no other', async () => {
  const { Mounts, HostConfig } = await session.inspect('agent')
  const home = Mounts.filter(({ Destination }) => Destination.startsWith('/home'))
  assert.deepEqual(
    home.map(({ Destination, RW, Type }) => `${Type} ${Destination} ${RW ? 'rw' : 'ro'}`).toSorted(),
    Object.values(FILES)
      .map((path) => `bind /home/agent/${path} ro`)
      .toSorted(),
  )
  assert.equal(Mounts.length - home.length, 9)
  const { '/home/agent/.docker': options } = HostConfig['Tmpfs'] as Record<string, string>
  for (const option of ['nosuid', 'nodev', 'size=']) assert.ok(options?.includes(option), options)
})

test('the sidecar starts anew with the placeholders that the agent holds', async () => {
  assert.equal((await session.project.compose(['restart', '-t', '2', 'sidecar'])).code, 0)
  assert.equal((await session.project.compose(['up', '-d', '--wait', '--no-build', '--no-recreate', 'sidecar'])).code, 0)
  assert.match(await shell(`curl -sS -H "Authorization: Bearer $DEMO_API_TOKEN" https://${HOST}/v1/me`), /"authenticated":true/)
})
