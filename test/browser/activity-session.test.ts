/** What a real agent does in the network, as the page shows it while it happens, and a host that is allowed from there. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { capture } from '../../scripts/steps.ts'
import { openContainerUpstream, type ContainerUpstream } from '../support/container-upstream.ts'
import { inspectView, openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

// Names and addresses as public ones are, so that no rule has to open special ones. The network leads nowhere else.
const ALLOWED = 'allowed.sallyport-test.dev'
const WANTED = 'wanted.sallyport-test.dev'
const PUBLIC_SUBNET = '100.20.30.0/28'
const NETWORK = `sallyport-test-${randomBytes(6).toString('hex')}`
const GLOBAL = `version: 1
network:
  mode: restricted
  rules:
    - {id: allowed, host: ${ALLOWED}, methods: [GET], action: allow}
`

let upstream: ContainerUpstream
let page: OperatorPage
let tab: Page
let session: string

before(async () => {
  upstream = await openContainerUpstream([ALLOWED, WANTED])
  page = await openOperatorPage((place) => {
    place.env['SALLYPORT_EXTRA_CA'] = upstream.authorityFile
    place.write(join(place.home, 'policies', 'global.yaml'), GLOBAL)
  })
  tab = await page.openTab()
  await mustDocker('network', 'create', '--internal', '--subnet', PUBLIC_SUBNET, NETWORK)
})

after(async () => {
  await page[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await mustDocker('network', 'rm', NETWORK)
})

async function mustDocker(...argv: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await capture('docker', argv)
  assert.equal(code, 0, stderr)
  return stdout
}

/** Status of what the agent's own curl gets. */
async function fetched(url: string): Promise<string> {
  const curl = ['curl', '-s', '-m', '10', '-o', '/dev/null', '-w', '%{http_code} %{http_connect}', url]
  const { stdout } = await capture('docker', ['exec', `sallyport-${session}-agent`, ...curl])
  return stdout
}

const rows = (): Locator => tab.getByRole('listbox', { name: 'Requests and connections' }).getByRole('option')
const panel = (): Locator => tab.getByRole('complementary', { name: 'One request' })

test('before a session does anything the view says what will be there', async () => {
  await tab.evaluate("location.hash = '#/activity'")
  await tab.getByText('Nothing has happened yet').waitFor()
  await inspectView(tab, 'activity-empty')
})

test('what the agent does is there at once, with what decided it', async () => {
  const workspace = await page.place.workspace('work')
  session = (await page.place.must(['up', '--detach', '--no-selftest', '--workspace', workspace, '--name', 'main'])).trim()
  await upstream.join(NETWORK)
  await mustDocker('network', 'connect', NETWORK, `sallyport-${session}-sidecar`)
  assert.match(await fetched(`https://${ALLOWED}/me`), /^200/)
  await rows()
    .filter({ hasText: `GET ${ALLOWED}/me` })
    .filter({ hasText: 'allowed' })
    .filter({ hasText: 'main' })
    .waitFor()
  assert.match(await fetched(`https://${WANTED}/me`), /403$/)
  await rows().filter({ hasText: WANTED }).filter({ hasText: 'denied' }).click()
  await panel().getByText('host_not_allowed').first().waitFor()
  await panel().getByText('No rule is about this host.').waitFor()
  await panel().getByText('In the audit').waitFor()
  assert.equal(
    (await upstream.saw()).some(({ host }) => host === WANTED),
    false,
  )
})

test('a host is allowed from a line that was denied, for this session alone, and the same request passes without a restart', async () => {
  await panel().getByRole('button', { name: 'Allow this host for…' }).click()
  const dialog = tab.getByRole('dialog', { name: 'Allow this host' })
  await dialog.getByLabel('the session main alone').waitFor()
  await inspectView(tab, 'activity-allow')
  await dialog.getByRole('button', { name: 'Look at the change' }).click()
  const change = tab.getByRole('dialog', { name: 'Change the policy' })
  await change.getByRole('region', { name: 'The change' }).getByText(WANTED).first().waitFor()
  await change.getByRole('button', { name: 'Apply' }).click()
  await change.waitFor({ state: 'detached' })
  await panel().getByText('The policy of the session was changed since').waitFor()
  assert.match(await fetched(`https://${WANTED}/me`), /^200/)
  assert.equal((await upstream.saw()).filter(({ host, path }) => host === WANTED && path === '/me').length, 1)
  await tab.keyboard.press('Escape')
  await tab.keyboard.press('Escape')
  await rows()
    .filter({ hasText: `GET ${WANTED}/me` })
    .filter({ hasText: 'allowed' })
    .waitFor()
})

test('while it is paused nothing moves, and what came meanwhile is counted', async () => {
  await tab.getByRole('button', { name: 'Pause' }).click()
  const count = await rows().count()
  assert.match(await fetched('http://169.254.169.254/latest'), /^403/)
  await tab.getByRole('button', { name: 'Show 1 new' }).waitFor()
  assert.equal(await rows().count(), count)
  await tab.getByRole('button', { name: 'Show 1 new' }).click()
  await rows().filter({ hasText: '169.254.169.254' }).click()
  await panel().getByText('A rule that allows it would not help').waitFor()
  assert.equal(await panel().getByRole('button', { name: 'Allow this host for…' }).count(), 0)
  assert.deepEqual(page.faults, [])
})
