/** How placeholders and ready files reach an agent from the command line: the ready line and the gateway. */
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { runCommand, startProxy, type RunningProxy } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { writeFiles } from '../support/policy.ts'

const LEASE = 'lease-of-this-session-77c3a9'
const SECRET = 'canary-91b7e2d405'
const EMPTY = 'version: 1\nnetwork: {rules: []}\n'
const POLICY = `version: 1
network:
  rules:
    - {id: api, host: api.example.com, action: allow}
credentials:
  - id: api
    secret: API_TOKEN
    inject:
      domains: [api.example.com]
      placeholder: API_TOKEN
      shape: "key_<alnum:32>"
      file: {npmrc: {server: registry.example.com}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN", resources: [inject]}
`

function start(policy: string, env: Record<string, string> = {}): Promise<RunningProxy> {
  return startProxy({ policy, args: ['--gateway', '127.0.0.1:0'], env: { API_TOKEN: SECRET, ...env } })
}

function ask(proxy: RunningProxy, path: string, lease?: string): Promise<Response> {
  return fetch(`http://${proxy.ready.gateway}${path}`, { headers: lease === undefined ? {} : { authorization: `Bearer ${lease}` } })
}

test('the ready line has the placeholders by their variables, each of its shape, and the gateway tells the same', async () => {
  await using proxy = await start(POLICY)
  const { placeholders = {} } = proxy.ready
  assert.deepEqual(Object.keys(placeholders), ['API_TOKEN'])
  assert.match(placeholders['API_TOKEN'] ?? '', /^key_[A-Za-z0-9]{32}$/)
  assert.deepEqual(await (await ask(proxy, '/v1/placeholders')).json(), placeholders)
  assert.equal(await (await ask(proxy, '/v1/files/npmrc')).text(), `//registry.example.com/:_authToken=${placeholders['API_TOKEN']}\n`)
  assert.doesNotMatch(proxy.output(), new RegExp(SECRET))
})

test('without placeholders the ready line has no such key', async () => {
  await using proxy = await start(EMPTY)
  assert.equal(Object.hasOwn(proxy.ready, 'placeholders'), false)
  assert.deepEqual(await (await ask(proxy, '/v1/placeholders')).json(), {})
})

test('the same SALLYPORT_PLACEHOLDER_SEED gives the same placeholders, and without it each run has its own', async () => {
  const found: (string | undefined)[] = []
  for (const seed of ['mine', 'mine', 'other', '', '']) {
    await using proxy = await start(POLICY, { SALLYPORT_PLACEHOLDER_SEED: seed })
    found.push(proxy.ready.placeholders?.['API_TOKEN'])
  }
  assert.equal(found[0], found[1])
  assert.equal(new Set(found).size, 4)
})

test('with a lease the gateway tells who shows it and nobody else, whether the policy wants it or not', async () => {
  await using proxy = await start(POLICY, { SALLYPORT_LEASE: LEASE })
  for (const lease of [undefined, 'lease-of-another-session']) assert.equal((await ask(proxy, '/v1/files/npmrc', lease)).status, 401)
  assert.equal((await ask(proxy, '/v1/files/npmrc', LEASE)).status, 200)
})

test('a reload changes what the gateway tells, and keeps the value of what stays', async () => {
  await using proxy = await start(POLICY)
  const more = POLICY.replace(
    'secrets:',
    `  - {id: b, secret: API_TOKEN, inject: {domains: [b.example.com], placeholder: B_TOKEN}}\nsecrets:`,
  )
  await writeFile(join(proxy.home, 'policy.yaml'), more)
  proxy.child.kill('SIGHUP')
  const told = async (): Promise<Record<string, string>> => (await (await ask(proxy, '/v1/placeholders')).json()) as Record<string, string>
  await eventually(async () => assert.deepEqual(Object.keys(await told()), ['API_TOKEN', 'B_TOKEN']))
  assert.equal((await told())['API_TOKEN'], proxy.ready.placeholders?.['API_TOKEN'])
})

test('two credentials for one server of a file are policy_invalid at the start', async () => {
  const file = 'file: {netrc: {server: git.example.com, login: me}}'
  const policy = POLICY.replace(
    'secrets:',
    `  - {id: b, secret: API_TOKEN, inject: {domains: [b.example.com], placeholder: B_TOKEN, ${file}}}
  - {id: c, secret: API_TOKEN, inject: {domains: [c.example.com], placeholder: C_TOKEN, ${file}}}
secrets:`,
  )
  using files = writeFiles({ 'policy.yaml': policy })
  const argv = ['proxy', '--policy', files.at('policy.yaml'), '--http', '127.0.0.1:0']
  const { code, stderr } = await runCommand(argv, { API_TOKEN: SECRET })
  assert.equal(code, 2)
  assert.match(stderr, /^policy_invalid: /)
  assert.match(stderr, /git\.example\.com/)
})

test('the placeholders are in no log line and no audit line', async () => {
  await using proxy = await start(POLICY)
  await ask(proxy, '/v1/files/npmrc')
  const { stderr } = await proxy.stop('SIGTERM')
  const value = proxy.ready.placeholders?.['API_TOKEN'] ?? ''
  assert.ok(!stderr.includes(value))
  assert.ok(!(await readFile(proxy.ready.audit, 'utf8')).includes(value))
})
