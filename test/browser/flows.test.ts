/** What a new operator does one after another, from an empty home, across the views: with real sessions, and a daemon that is killed. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { CDPSession, Locator, Page } from 'playwright-core'
import { capture } from '../../scripts/steps.ts'
import { homeLabel } from '../../src/controller/sessions/session-names.ts'
import type { SessionView } from '../../src/wire/operator.ts'
import { openContainerUpstream, seenOf, type ContainerUpstream } from '../support/container-upstream.ts'
import type { DaemonProcess } from '../support/daemon-command.ts'
import { eventually } from '../support/eventually.ts'
import { openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

// A name and an address as public ones are, so that no rule has to open special ones. The network leads nowhere else.
const HOST = 'api.sallyport-test.dev'
const PUBLIC_SUBNET = '100.20.31.0/28'
const NETWORK = `sallyport-test-${randomBytes(6).toString('hex')}`
const VALUE = `key-${randomBytes(18).toString('hex')}`
const TOOL = readFileSync(join(import.meta.dirname, '../support/raw-mcp-server.mjs'), 'utf8')
/** More than a browser has connections to a host. */
const WINDOWS = 7
const ASK_TOOLS = `post() { curl -sS -m 40 -D /tmp/head -H "authorization: Bearer $SALLYPORT_LEASE" -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' \${2:+-H "mcp-session-id: $2"} "$SALLYPORT_URL/mcp/tools" -d "$1"; }
post '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'; S=$(tr -d '\\r' < /tmp/head | sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: //p'); post '{"jsonrpc":"2.0","method":"notifications/initialized"}' "$S" >/dev/null
post '{"jsonrpc":"2.0","id":3,"method":"tools/list"}' "$S"`

let page: OperatorPage
let upstream: ContainerUpstream
let tab: Page
let devices: CDPSession
let workspace: string
let first: SessionView
let second: SessionView
let daemon: DaemonProcess | undefined

before(async () => {
  upstream = await openContainerUpstream([HOST])
  await docker('network', 'create', '--internal', '--subnet', PUBLIC_SUBNET, NETWORK)
  await upstream.join(NETWORK)
  page = await openOperatorPage((place) => void (place.env['SALLYPORT_EXTRA_CA'] = upstream.authorityFile))
  workspace = await page.place.workspace('acme', { 'package.json': '{}', 'tool.mjs': TOOL })
  await capture('chown', ['-R', '10001:10001', workspace])
  tab = await page.openTab({ permissions: ['clipboard-read', 'clipboard-write'] })
})
after(async () => {
  await daemon?.[Symbol.asyncDispose]()
  await page[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await docker('network', 'rm', NETWORK)
})

async function docker(...argv: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await capture('docker', argv)
  assert.equal(code, 0, stderr)
  return stdout
}

/** A program of the agent's. */
async function agent({ id }: SessionView, ...argv: readonly string[]): Promise<string> {
  return (await capture('docker', ['exec', `sallyport-${id}-agent`, ...argv])).stdout
}

async function fetched(session: SessionView, path = '/me'): Promise<string> {
  return await agent(session, 'curl', '-s', '-m', '10', '-o', '/dev/null', '-w', '%{http_code}', `https://${HOST}${path}`)
}

/** A gate with a network more than was asked for is none that the controller takes over, or starts something beside. */
async function connected(how: 'connect' | 'disconnect', ...all: readonly SessionView[]): Promise<void> {
  for (const { id } of all) await docker('network', how, NETWORK, `sallyport-${id}-sidecar`)
}

async function sessions(): Promise<SessionView[]> {
  return JSON.parse(await page.place.must(['ls', '--json'])) as SessionView[]
}

async function ofThisHome(): Promise<string[]> {
  const filter = `label=sallyport.home=${homeLabel(page.place.home)['sallyport.home']}`
  const lists = await Promise.all([
    docker('ps', '--all', '--filter', filter, '--format', '{{.Names}}'),
    docker('network', 'ls', '--filter', filter, '--format', '{{.Name}}'),
  ])
  return lists.flatMap((names) => names.split('\n').filter(Boolean))
}

const press = (name: string | RegExp, of: Page | Locator = tab): Promise<void> =>
  of.getByRole('button', { name, ...(typeof name === 'string' && { exact: true }) }).click()
const show = (hash: string, of = tab): Promise<unknown> => of.evaluate(`location.hash = ${JSON.stringify(hash)}`)
const cardOf = ({ id }: SessionView, of = tab): Locator => of.locator(`[data-session="${id}"]`)
const form = (): Locator => tab.getByRole('form', { name: 'New session' })
const rows = (): Locator => tab.getByRole('listbox', { name: 'Requests and connections' }).getByRole('option')

test('a policy that would not be the one that was shown is not written: the new text is there, with the reason, and is written then', async () => {
  await tab.getByRole('link', { name: 'Begin' }).click()
  await tab.getByLabel('Folder of the project').fill(workspace)
  await press('Look at the folder')
  const text = tab.getByLabel('text of the policy')
  await text.getByText('service/npm').first().waitFor()
  writeFileSync(join(workspace, 'go.mod'), 'module acme\n')
  await press('Write this policy')
  await tab.getByRole('alert').getByText('files of the folder have changed meanwhile').waitFor()
  assert.match(await text.innerText(), /service\/go/)
  await press('Write this policy')
  await tab.getByText('Written.').waitFor()
  assert.equal(await tab.getByRole('alert').count(), 0)
})

test('the start form has the folder and the harness that were chosen, and keeps what was typed while another view is looked at', async () => {
  const other = await page.place.workspace('other', { 'CLAUDE.md': 'x' })
  await tab.getByLabel('Folder of the project').fill(other)
  await press('Look at the folder')
  await press('Write this policy')
  await tab.getByRole('link', { name: 'Choose the rest and start it' }).click()
  await form().waitFor()
  await form().getByRole('option', { name: 'claude' }).waitFor({ state: 'attached' })
  assert.equal(await form().getByLabel('Harness').inputValue(), 'claude')
  assert.equal(await form().getByLabel('Workspace', { exact: true }).inputValue(), other)
  await form().getByLabel('Name', { exact: true }).fill('kept')
  await press('Start')
  await tab.getByText('Could not start').waitFor()
  await tab.getByRole('link', { name: 'Look into the vault' }).click()
  await tab.getByRole('heading', { name: 'Vault', level: 1 }).waitFor()
  await tab.goBack()
  assert.equal(await form().getByLabel('Name', { exact: true }).inputValue(), 'kept')
  await press('Dismiss')
})

test('a start that is called off when its containers are there leaves nothing', async () => {
  await show('#/start')
  await tab.getByLabel('Folder of the project').fill(workspace)
  await press('Look at the folder')
  await press('Go on with it')
  await tab.getByRole('link', { name: 'Choose the rest and start it' }).click()
  await form().getByLabel('Name', { exact: true }).fill('first')
  await press('Start')
  const starting = tab.getByRole('region', { name: 'Session on its way up' })
  await starting.getByText('gate').waitFor()
  await press('Cancel', starting)
  await starting.waitFor({ state: 'detached' })
  await eventually(async () => assert.deepEqual(await ofThisHome(), []))
  assert.deepEqual(await sessions(), [])
  assert.doesNotMatch(await page.place.must(['lease', 'ls']), /\blive\b/)
})

test('what the agent was denied is allowed for its session from Activity: the same request passes, in no other session', async () => {
  await press('Start')
  await tab.getByRole('navigation', { name: 'Of this session' }).waitFor({ timeout: 40_000 })
  ;[first] = (await sessions()) as [SessionView]
  assert.equal(first.name, 'first')
  await connected('connect', first)
  await tab.getByRole('link', { name: 'Terminal' }).click()
  await press('Attach to the agent')
  await tab.getByText('attached to the agent').waitFor()
  await tab.keyboard.type(`curl -s -o /dev/null -w 'code=%{http_connect}\\n' https://${HOST}/me`)
  await tab.keyboard.press('Enter')
  await tab.locator('.xterm-rows').getByText('code=403', { exact: true }).waitFor()
  await tab.getByRole('navigation', { name: 'Of this session' }).getByRole('link', { name: 'Activity' }).click()
  await rows().filter({ hasText: HOST }).click()
  await press('Allow this host for…')
  await press('Look at the change')
  const change = tab.getByRole('dialog', { name: 'Change the policy' })
  await change.getByRole('region', { name: 'The change' }).getByText(HOST).first().waitFor()
  await press('Apply', change)
  await change.waitFor({ state: 'detached' })
  assert.equal(await fetched(first), '200')
})

test('a secret that is stored and mapped in the vault is in the next request of a session that runs, and never in its agent', async () => {
  await show('#/vault')
  await press('Add a secret')
  await tab.getByRole('dialog').getByLabel('Name').fill('ACME_KEY')
  await tab.getByRole('dialog').getByLabel('Value').fill(VALUE)
  await press('Store it')
  await tab.getByRole('heading', { name: 'ACME_KEY', level: 1 }).waitFor()
  await press('Add a mapping')
  await tab.getByRole('dialog').getByRole('radio', { name: 'Hosts of your choice' }).check()
  await tab.getByRole('dialog').getByLabel('Hosts', { exact: true }).fill(HOST)
  await press('Look at the change')
  const change = tab.getByRole('dialog', { name: 'Change the policy' })
  await press('Apply', change)
  await change.waitFor({ state: 'detached' })
  await tab.getByText('Running with it: first').waitFor()
  assert.equal(await tab.getByText('keeps the policy that it had').count(), 0)
  assert.equal(await fetched(first, '/with-key'), '200')
  assert.deepEqual((await upstream.saw()).at(-1), { host: HOST, path: '/with-key', seen: seenOf(`Bearer ${VALUE}`) })
  assert.ok(!(await agent(first, 'sh', '-c', 'env; cat /proc/1/environ')).includes(VALUE))
  await show('#/vault')
  await press('Apply to sessions')
  await tab
    .getByText(/first.*has version|has .*first|version \d+/)
    .first()
    .waitFor()
})

test('a session that starts after an MCP server was added has its tools, as narrowed in the form, and what another was allowed not', async () => {
  // Another one: what the gate writes into requests is for no tool unless a policy says so.
  await page.place.must(['secret', 'set', 'TOOL_KEY'], `tool-${VALUE}`)
  await show('#/servers')
  await press('Add a server')
  const dialog = tab.getByRole('dialog', { name: 'Add a server' })
  await dialog.getByLabel('Name', { exact: true }).fill('tools')
  await dialog.getByRole('textbox', { name: 'Program' }).fill('node')
  await press('Add an argument', dialog)
  await dialog.getByRole('textbox', { name: 'Argument 1' }).fill('/workspace/tool.mjs')
  await press('Add a variable', dialog)
  await dialog.getByRole('textbox', { name: 'Name of variable 1' }).fill('TOOL_SECRET')
  await dialog.getByRole('combobox', { name: 'Value of variable 1' }).fill('${secret:TOOL_KEY}')
  await dialog.getByLabel('Tools that agents have').fill('read')
  await dialog.getByLabel('Workspace').selectOption({ label: 'it may read it' })
  await press('Save', dialog)
  await tab.getByText(/^tools is saved/).waitFor()
  const id = (await page.place.must(['up', '--detach', '--no-selftest', '--workspace', workspace, '--name', 'second'])).trim()
  second = (await sessions()).find((one) => one.id === id) as SessionView
  const said = await agent(second, 'bash', '-c', ASK_TOOLS)
  assert.match(said, /serverInfo[^]*"name":"read"/)
  assert.doesNotMatch(said, /"name":"(?:leak|remove)"/)
  await connected('connect', second)
  const seen = (await upstream.saw()).length
  assert.equal(await fetched(second), '000')
  assert.equal((await upstream.saw()).length, seen)
})

test('more windows than a browser has connections all work: those used last hear what happens, the others say that they do not', async () => {
  const windows: Page[] = []
  for (let count = 0; count < WINDOWS; count += 1) {
    const one = await tab.context().newPage()
    await one.goto((await page.place.must(['open', '--print'])).trim())
    await show('#/sessions', one)
    await cardOf(second, one).waitFor()
    windows.push(one)
  }
  await tab.getByText('Three other windows of this page listen').waitFor()
  const last = windows.at(-1) as Page
  await last.getByText('live', { exact: true }).waitFor()
  await show('#/vault', windows[0])
  await windows[0]?.getByRole('link', { name: 'ACME_KEY' }).waitFor()
  for (const one of windows) await one.close()
  await tab.getByText('live', { exact: true }).waitFor()
})

test('a passkey is registered, and the value of a secret is copied with it', async () => {
  devices = await tab.context().newCDPSession(tab)
  await devices.send('WebAuthn.enable')
  const options = {
    protocol: 'ctap2',
    transport: 'internal',
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
  } as const
  await devices.send('WebAuthn.addVirtualAuthenticator', { options: { ...options, automaticPresenceSimulation: true } })
  await show('#/settings')
  await tab.getByLabel('Name of a new passkey').fill('laptop')
  await press('Register a passkey')
  await tab.getByText('laptop').first().waitFor()
  await show('#/vault/ACME_KEY')
  await press('Copy the value')
  await press('Use a passkey', tab.getByRole('dialog', { name: 'Prove that it is you' }))
  await tab.getByText('is on the clipboard').waitFor()
  assert.equal(await tab.evaluate('navigator.clipboard.readText()'), VALUE)
})

test('a daemon that is killed takes no session with it: the page says so, asks who is there, and shows what is', async () => {
  await show('#/sessions')
  await page.daemon.stop('SIGKILL')
  await tab.getByText('The daemon does not answer').waitFor()
  assert.equal(await fetched(first, '/alone'), '200')
  await connected('disconnect', first, second)
  daemon = await page.place.startDaemon({ web: `localhost:${new URL(page.url).port}` })
  await tab.getByText('The login of this tab has ended').waitFor()
  await press('Log in with a passkey')
  for (const one of [first, second]) await cardOf(one).getByText('running', { exact: true }).waitFor()
  await connected('connect', first, second)
  assert.equal(await fetched(first, '/after'), '200')
  await show('#/activity')
  for (const path of ['/with-key', '/alone', '/after'])
    await rows()
      .filter({ hasText: `GET ${HOST}${path}` })
      .waitFor()
})

test('of two operators each sees what the other does: an agent that is reset, and a session that ends, whose host is no other one’s then', async () => {
  const other = await page.openTab()
  await show('#/sessions', other)
  await show(`#/sessions/${first.id}`)
  await connected('disconnect', first)
  await press('Reset agent…')
  await press('Reset it')
  await tab.getByText('was made anew').waitFor()
  assert.notEqual((await sessions()).find(({ id }) => id === first.id)?.agent.container, first.agent.container)
  await connected('connect', first)
  assert.equal(await fetched(first, '/anew'), '200')
  await press('stop first')
  await press('Stop it')
  await cardOf(first, other).waitFor({ state: 'detached', timeout: 30_000 })
  await cardOf(second, other).waitFor()
  assert.equal(await fetched(second), '000')
  assert.ok(!page.place.printed().includes(VALUE) && !(await tab.content()).includes(VALUE))
  assert.deepEqual(page.faults, [])
})
