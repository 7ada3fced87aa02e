/** What an agent in its container asks of the host, answered in the inbox by whoever the question wants, and told to the end by the audit. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { capture } from '../../scripts/steps.ts'
import type { DaemonProcess } from '../support/daemon-command.ts'
import { armed, articleIn } from '../support/inbox-page.ts'
import { openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

const WAIT_MS = 8_000
const PASSWORD = 'correct horse battery'
const WORDS = `said-by-the-host-${randomBytes(6).toString('hex')}`
const OUTPUT = `${WORDS}\n`
const GLOBAL = `version: 1
host_commands:
  mode: allowlist
  ask:
    - {pattern: id -u, presence: T1}
    - {pattern: id -g, presence: T3}
`

/** A request of the agent, as the gateway tells it. */
type Told = {
  readonly id: string
  readonly status: string
  readonly stdout?: string
  readonly error?: { readonly code: string; readonly message: string }
}

let page: OperatorPage
let tab: Page
let agent: string
let workspace: string
let again: DaemonProcess | undefined

before(async () => {
  page = await openOperatorPage((place) => place.write(join(place.home, 'policies', 'global.yaml'), GLOBAL))
  const { place } = page
  const [id] = await Promise.all([up(), place.must(['approver', 'password', '--stdin'], `${PASSWORD}\n`)])
  agent = `sallyport-${id}-agent`
  tab = await page.openTab()
  tab.setDefaultTimeout(WAIT_MS)
  await registerPasskey()
})
beforeEach(async () => {
  await tab.getByRole('link', { name: /^Inbox/ }).click()
  await tab.getByText('Nothing waits', { exact: true }).waitFor()
})
after(async () => {
  await page.place.run(['down', '--all'])
  await again?.[Symbol.asyncDispose]()
  await page[Symbol.asyncDispose]()
})

async function up(): Promise<string> {
  workspace = await page.place.workspace('work')
  return (await page.place.must(['up', '--detach', '--no-selftest', '--workspace', workspace, '--name', 'main'])).trim()
}

/** An authenticator of the browser's own, registered with the password. */
async function registerPasskey(): Promise<void> {
  const devices = await tab.context().newCDPSession(tab)
  await devices.send('WebAuthn.enable')
  await devices.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true },
  })
  await tab.getByRole('link', { name: 'Access' }).click()
  await tab.getByLabel('Name of a new passkey').fill('laptop')
  await tab.getByRole('button', { name: 'Register a passkey' }).click()
  await givePassword()
  await tab.getByRole('heading', { name: 'laptop' }).waitFor()
}

async function givePassword(): Promise<void> {
  await proof().getByLabel('Password of the operator').fill(PASSWORD)
  await tab.keyboard.press('Enter')
}

/** The agent's own curl. */
async function call(...argv: readonly string[]): Promise<Told> {
  const curl = `curl -sS -m 60 -H "authorization: Bearer $SALLYPORT_LEASE" ${argv.join(' ')}`
  const { stdout, stderr } = await capture('docker', ['exec', agent, 'sh', '-c', curl])
  assert.match(stdout, /^\{/, stderr)
  return JSON.parse(stdout) as Told
}

/** Asks for a command. `ended` is what the agent, which waits for it, hears. */
async function run(...argv: readonly string[]): Promise<{ readonly id: string; readonly ended: Promise<Told> }> {
  const wish = JSON.stringify({ argv, reason: 'to see who you are' })
  const { id } = await call(`-H 'content-type: application/json' -d '${wish}' "$SALLYPORT_URL/v1/host/run"`)
  const ended = call(`"$SALLYPORT_URL/v1/requests/${id}?wait=30"`)
  ended.catch(() => undefined)
  return { id, ended }
}

const article = (): Locator => articleIn(tab)
const proof = (): Locator => tab.getByRole('dialog', { name: 'Prove that it is you' })

/** By keys alone: into the question, to its end, until a yes is taken. */
async function lookAt(text: string): Promise<void> {
  await article().getByText(text).waitFor()
  await tab.keyboard.press('Enter')
  await armed(tab)
}

test('what an agent asks for is there at once, is allowed by keys, and its output is what the agent gets and the audit has the digest of', async () => {
  const { id, ended } = await run('printf', '%s\\n', WORDS)
  await lookAt(`"${WORDS}"`)
  await tab.keyboard.press('a')
  const { status, stdout } = await ended
  assert.deepEqual([status, stdout], ['done', OUTPUT])
  await tab.evaluate(`location.hash = '#/audit/${id}'`)
  const story = tab.getByRole('region', { name: 'Story of the event' })
  await story.getByText(createHash('sha256').update(OUTPUT).digest('hex')).waitFor()
  assert.deepEqual(await story.getByRole('listitem').getByRole('heading').allInnerTexts(), [
    'The agent asked for a command, and the policy was looked at',
    'The operator was asked',
    'The question was settled',
    'The approval was used: it is good once',
    'What was approved is over',
    'The command ended',
  ])
})

test('a message with a no is what the agent hears, and nothing runs', async () => {
  const { ended } = await run('touch', `not-${WORDS}`)
  await lookAt(`"not-${WORDS}"`)
  await tab.keyboard.press('m')
  await tab.getByLabel('For the agent').fill('use the API')
  await tab.keyboard.press('Enter')
  const { status, error } = await ended
  assert.deepEqual([status, error?.code], ['denied', 'approval_denied'])
  assert.match(error?.message ?? '', /use the API/)
  assert.equal(existsSync(join(workspace, `not-${WORDS}`)), false)
})

test('where the policy wants a password no key is enough, and the password is', async () => {
  const { ended } = await run('id', '-u')
  await lookAt('"-u"')
  await tab.keyboard.press('a')
  await proof().getByText('Allow it once').waitFor()
  await givePassword()
  assert.equal((await ended).stdout, `${process.getuid?.()}\n`)
})

test('where it wants a passkey neither key nor password is, and the passkey is', async () => {
  const { ended } = await run('id', '-g')
  await lookAt('"-g"')
  await tab.keyboard.press('a')
  await proof().getByRole('button', { name: 'Use a passkey' }).waitFor()
  assert.equal(await proof().getByLabel('Password of the operator').count(), 0)
  await proof().getByRole('button', { name: 'Use a passkey' }).click()
  assert.equal((await ended).stdout, `${process.getgid?.()}\n`)
})

test('a page whose daemon ends says so, wants a log-in of the next one, and calls nothing waiting that is withdrawn', async () => {
  await run('touch', `lost-${WORDS}`)
  await lookAt(`"lost-${WORDS}"`)
  await page.daemon.stop('SIGKILL')
  await tab.getByText('The daemon does not answer. What is shown may be old').waitFor()
  await tab.keyboard.press('d')
  await article().getByText('the daemon does not answer').waitFor()
  again = await page.place.startDaemon({ web: `127.0.0.1:${new URL(page.url).port}` })
  await tab.getByLabel('Password of the operator').fill(PASSWORD)
  await tab.keyboard.press('Enter')
  await tab.getByText('Nothing waits', { exact: true }).waitFor()
  assert.equal(await article().count(), 0)
  await tab.getByRole('link', { name: 'Recent' }).click()
  await tab
    .getByRole('row')
    .filter({ hasText: `lost-${WORDS}` })
    .getByText('withdrawn: the controller ended while it waited')
    .waitFor()
  assert.equal(existsSync(join(workspace, `lost-${WORDS}`)), false)
  assert.deepEqual(page.faults, [])
})
