/** The Sessions view in Chromium, against the real daemon and real sessions: what it shows is so, and what it does is done. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { capture } from '../../scripts/steps.ts'
import { homeLabel } from '../../src/controller/sessions/session-names.ts'
import type { SessionView } from '../../src/wire/operator.ts'
import { openContainerUpstream, type ContainerUpstream } from '../support/container-upstream.ts'
import { inspected } from '../support/inspected.ts'
import { inspectView, openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

const API = 'api.demo.internal'
const MARKUP = '<img src=x onerror=globalThis.fired=1>'
/** A name that turns the text around it, and says another. */
const HOSTILE = `work\u202Edrow\u200B ${MARKUP}`
const ESCAPED = `work\\u{202E}drow\\u{200B} ${MARKUP}`
const PRIVATE = 'addresses: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]'
const GLOBAL = `version: 1
network:
  mode: restricted
  rules:
    - {id: api, host: ${API}, methods: [GET], action: allow, tls: intercept, ${PRIVATE}}
    - {id: ask, host: asked.demo.internal, action: ask}
    - {id: never, host: never.demo.internal, action: deny}
credentials:
  - {id: api, secret: API_KEY, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_KEY, source: "vault:API_KEY", resources: [inject]}
filesystem: {hide: ["*.secret"]}
session: {memory: 512m, cpus: 1, pids: 200}
`

let page: OperatorPage
let upstream: ContainerUpstream
let workspace: string
let tab: Page
let session: SessionView

before(async () => {
  upstream = await openContainerUpstream([API])
  page = await openOperatorPage(async (place) => {
    place.env['SALLYPORT_EXTRA_CA'] = upstream.authorityFile
    place.write(join(place.home, 'policies', 'global.yaml'), GLOBAL)
    place.write(join(place.home, 'policies', 'roles', 'reviewer.yaml'), 'version: 1\n')
    place.write(
      join(place.home, '..', 'broken.yaml'),
      'version: 1\nnetwork:\n  rules:\n    - {id: x, host: API.Example.com, action: allow}\n',
    )
    workspace = await place.workspace(HOSTILE, {
      [`${MARKUP.replaceAll('/', '')}\u202E.secret`]: 'x',
      '.sallyport/policy.yaml': 'version: 1\n',
    })
  })
  tab = await page.openTab()
  await tab.evaluate('location.hash = "#/sessions"')
})
after(async () => {
  await page[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

async function sessions(): Promise<SessionView[]> {
  return JSON.parse(await page.place.must(['ls', '--json'])) as SessionView[]
}

/** Of a session's, or of any of this home, in the engine. */
async function leftOf(filter: string): Promise<string[]> {
  const lists = await Promise.all(
    [
      ['ps', '--all', '--format', '{{.Names}}'],
      ['network', 'ls', '--format', '{{.Name}}'],
    ].map((argv) => capture('docker', [...argv, '--filter', filter])),
  )
  return lists.flatMap(({ stdout }) => stdout.split('\n').filter(Boolean))
}

/** A request of the agent's own program. */
async function fetched(): Promise<string> {
  const { container = '' } = session.agent
  const url = `https://${API}/me`
  return (await capture('docker', ['exec', container, 'curl', '-s', '-m', '10', '-o', '/dev/null', '-w', '%{http_code}', url])).stdout
}

async function fill(fields: Readonly<Record<string, string>>): Promise<void> {
  await tab.evaluate('location.hash = "#/sessions"')
  await tab.getByRole('heading', { name: 'Sessions', exact: true }).waitFor()
  await tab.evaluate('location.hash = "#/sessions/new"')
  await tab.getByRole('heading', { name: 'New session' }).waitFor()
  const more = tab.getByText('More', { exact: true })
  if (!(await tab.getByLabel('Command').isVisible())) await more.click()
  // What was filled in before is kept by the form.
  for (const label of ['Workspace', 'Name', 'Role', 'Policies of this session', 'Image', 'Command', 'Environment'])
    await tab.getByLabel(label, { exact: true }).fill(fields[label] ?? '')
  for (const [label, text] of Object.entries(fields)) await tab.getByLabel(label, { exact: true }).fill(text)
}

const press = (name: string): Promise<void> => tab.getByRole('button', { name, exact: true }).click()

test('where no session runs the view says how one is started', async () => {
  await tab.getByText('No session runs').waitFor()
  await inspectView(tab, 'sessions-empty')
  await press('New session')
  await tab.getByRole('form', { name: 'New session' }).waitFor()
})

test('what cannot start is refused in place: by field, by file and line of a policy, by name, and nothing is made', async () => {
  await fill({ Workspace: 'relative', Environment: 'no equals sign' })
  await press('Start')
  await tab.getByText('one NAME=value a line').waitFor()
  assert.equal(await tab.getByLabel('Workspace', { exact: true }).getAttribute('aria-invalid'), 'true')
  await inspectView(tab, 'sessions-form')

  await fill({ Workspace: workspace, 'Policies of this session': join(page.place.home, '..', 'broken.yaml') })
  await press('Preview')
  await tab
    .getByRole('alert')
    .getByText(/broken\.yaml:4: .*"API\.Example\.com" is not canonical/)
    .waitFor()
  await fill({ Workspace: workspace, Name: HOSTILE })
  await press('Preview')
  await tab.getByRole('alert').getByText(ESCAPED).waitFor()
  assert.deepEqual(await sessions(), [])
})

test('a start that fails halfway was warned of by the preview, says why with its code, and leaves nothing', async () => {
  await fill({ Workspace: workspace })
  await press('Preview')
  await tab
    .getByRole('region', { name: 'Preview' })
    .getByText(/secret "API_KEY" has no value: there is no vault yet/)
    .waitFor()
  await press('Start')
  await tab.getByText('Could not start').waitFor()
  await tab.getByRole('alert').getByText('secret_unavailable').waitFor()
  assert.deepEqual(await sessions(), [])
  assert.deepEqual(await leftOf(`label=sallyport.home=${homeLabel(page.place.home)['sallyport.home']}`), [])
  await press('Dismiss')
  await page.place.must(['secret', 'set', 'API_KEY', '--unlock', 'key-file'], 'the-value-of-the-key\n')
})

test('a preview shows what a session could reach, use and see, and starts nothing', async () => {
  await fill({ Workspace: workspace, Name: 'main' })
  await press('Preview')
  const shown = tab.getByRole('region', { name: 'Preview' })
  await shown.waitFor()
  const text = await shown.innerText()
  for (const part of [
    ESCAPED,
    `${API}:80,443 GET`,
    'asked.demo.internal',
    'never.demo.internal',
    'secret API_KEY',
    'header Authorization: Bearer …',
    'global.yaml:5',
    '537 MB of memory, 1 processor, 200 processes',
    `${MARKUP}\\u{202E}.secret`,
    '.git/',
    'which is not accepted',
    'sallyport/agent:',
  ])
    assert.ok(text.includes(part), `${part} is not in:\n${text}`)
  await inspectView(tab, 'sessions-preview')
  assert.equal(await tab.evaluate('globalThis.fired'), undefined)
  assert.deepEqual(await sessions(), [])
})

test('a session started from the form runs as the form says, and its page shows the flags that the engine has', async () => {
  await press('Start')
  await tab.getByRole('heading', { name: 'main', exact: true, level: 1 }).waitFor({ timeout: 40_000 })
  ;[session] = (await sessions()) as [SessionView]
  assert.equal(session.workspace, workspace)
  const sandbox = tab.getByRole('region', { name: 'Sandbox' })
  const found = async (flag: string): Promise<string> => await sandbox.locator(`[data-flag="${flag}"]`).innerText()
  await sandbox.locator('[data-flag="jail"]').waitFor()
  const host = await inspected<Record<string, unknown>>(session.agent.container, '.HostConfig')
  assert.deepEqual([host['ReadonlyRootfs'], host['CapDrop'], host['Memory'], host['PidsLimit']], [true, ['ALL'], 512 * 1024 ** 2, 200])
  assert.match(await found('read_only_root'), /^holds.*read-only$/s)
  assert.match(await found('capabilities'), /^holds.*dropped: ALL; added: none$/s)
  assert.match(await found('no_new_privileges'), /^holds.*on$/s)
  assert.match(await found('memory'), new RegExp(`^holds.*at most ${String(host['Memory'])} bytes$`, 's'))
  assert.match(await found('pids'), new RegExp(`^holds.*at most ${String(host['PidsLimit'])}$`, 's'))
  assert.match(await found('jail'), /^holds.*internal, no address of this machine/s)
  assert.match(await found('user'), new RegExp(await inspected<string>(session.agent.container, '.Config.User')))
  assert.match(await found('git'), /^holds.*on; \d+ places/s)
  assert.match(await found('selftest'), /^holds.*every way out was found shut/s)
  assert.equal(await sandbox.getByText('It is not what was asked for').count(), 0)
  await inspectView(tab, 'sessions-detail')
})

test('the selftest of a session that runs is tried again from its page, and every way of it is listed', async () => {
  await press('Try every way out')
  const table = tab.getByRole('region', { name: 'Ways out' })
  await table.waitFor({ timeout: 40_000 })
  const rows = await table.getByRole('row').count()
  const { stdout } = await page.place.run(['selftest', session.id, '--json'])
  assert.equal(rows - 1, (JSON.parse(stdout) as unknown[]).length)
})

test('cards show what a session is and uses: a busy agent has processor time, and its bounds are those of the engine', async () => {
  await capture('docker', ['exec', '-d', session.agent.container ?? '', 'sh', '-c', 'while :; do :; done'])
  await tab.evaluate('location.hash = "#/sessions"')
  const card = tab.locator(`[data-session="${session.id}"]`)
  await card.getByText('running', { exact: true }).waitFor()
  // One that waits has none; how much one gets that does not is the machine's.
  await card.getByText(/^[1-9]\d*\.\d %$/).waitFor()
  const text = await card.innerText()
  assert.match(text, /of 537 MB/)
  assert.match(text, /\d+ of 200/)
  assert.ok(text.includes(ESCAPED), text)
  await card.getByText('Hardened container').click()
  await card.locator('[data-flag="jail"]').waitFor()
  await inspectView(tab, 'sessions')
  assert.equal(await tab.locator('img').count(), 0)
})

test('a lease that is revoked on the page lets nothing through any more, and the card says so', async () => {
  await upstream.join(`sallyport-${session.id}-uplink`)
  assert.equal(await fetched(), '200')
  const seen = (await upstream.saw()).length
  await tab.getByText('Leases', { exact: true }).click()
  await tab
    .getByRole('region', { name: 'Leases' })
    .getByRole('button', { name: /^Revoke the lease/ })
    .click()
  await press('Cancel')
  assert.equal(await fetched(), '200')
  await tab
    .getByRole('region', { name: 'Leases' })
    .getByRole('button', { name: /^Revoke the lease/ })
    .click()
  await press('Revoke it')
  await tab.locator(`[data-session="${session.id}"]`).getByText('lease revoked').waitFor()
  assert.notEqual(await fetched(), '200')
  assert.equal((await upstream.saw()).length, seen + 1)
  await upstream.leave(`sallyport-${session.id}-uplink`)
})

test('a session that is stopped leaves no container and no network, what was planted is told, and the page faulted nowhere', async () => {
  mkdirSync(join(workspace, 'nested'))
  await capture('git', ['-C', join(workspace, 'nested'), 'init', '-q'])
  writeFileSync(join(workspace, 'nested', 'file'), 'x')
  assert.notDeepEqual(await leftOf(`label=sallyport.session=${session.id}`), [])
  await press('Stop main')
  await press('Stop it')
  const told = tab.getByRole('dialog', { name: 'Look at this in the workspace' })
  await told
    .getByText(/nested/)
    .first()
    .waitFor({ timeout: 40_000 })
  await press('Close')
  await tab.getByText('No session runs').waitFor()
  assert.deepEqual(await leftOf(`label=sallyport.session=${session.id}`), [])
  assert.equal(await tab.evaluate('globalThis.fired'), undefined)
  assert.deepEqual(page.faults, [])
})
