/** The vault in the page: stored, described, mapped, copied, removed. Real daemon, real files, and values in none of them. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { workspacePolicyDir } from '../../src/controller/sessions/session-layers.ts'
import { filesWith, spellingsOf } from '../support/canary.ts'
import { inspectView, openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

const FIRST = 'canary-page-4f71-first-value'
const SECOND = 'canary-page-4f71-second\nline two of it'
const PASSWORD = 'one password of the operator'
const PASSPHRASE = 'five words that open it'
const HOSTILE = 'аpproved\u202E<img src=x onerror="window.fooled=1">\u200B\u001B[2K'
const ESCAPED = 'аpproved\\u{202E}<img src=x onerror="window.fooled=1">\\u{200B}\\u{1B}[2K'
const NAME = 'the <b>key</b> of <img src=x onerror="window.fooled=1"> аcme'

let page: OperatorPage
let tab: Page

before(async () => {
  page = await openOperatorPage(async ({ home }) => {
    const folder = workspacePolicyDir(home, `/srv/${HOSTILE}`)
    await mkdir(folder, { recursive: true })
    writeFileSync(join(folder, 'workspace'), `/srv/${HOSTILE}\n`)
    await mkdir(join(home, 'policies', 'service'), { recursive: true })
    const credential = { id: 'hostile', secret: 'HOSTILE', inject: { domains: [HOSTILE], header: 'X-Key' } }
    writeFileSync(
      join(home, 'policies', 'service', 'hostile.yaml'),
      `# ${HOSTILE}\n${JSON.stringify({ version: 1, credentials: [credential] })}`,
    )
  })
  tab = await page.openTab({ permissions: ['clipboard-read', 'clipboard-write'] })
  await open()
})
after(() => page[Symbol.asyncDispose]())

async function open(key?: string): Promise<void> {
  await tab.goto(`${page.url}/#/vault${key === undefined ? '' : `/${key}`}`)
  await tab.getByRole('heading', { name: key ?? 'Vault', level: 1 }).waitFor()
}

/** All that the page has of text, attributes and fields. */
async function seenIn(one: Page): Promise<string> {
  return await one.evaluate<string>(
    'document.documentElement.outerHTML + [...document.querySelectorAll("input, textarea, select")].map((field) => field.value).join()',
  )
}

async function assertUnseen(one: Page): Promise<void> {
  for (const value of [FIRST, SECOND, PASSWORD]) assert.ok(!(await seenIn(one)).includes(value.split('\n')[0] ?? ''))
}

/** Without what was said in passing, which lies over the page. */
async function inspect(name: string): Promise<void> {
  await tab.evaluate('document.querySelectorAll(".notices button").forEach((button) => button.click())')
  await inspectView(tab, name)
}

async function store(value: string): Promise<void> {
  const dialog = tab.getByRole('dialog')
  await dialog.getByLabel('Value').fill(value)
  await dialog.getByRole('button', { name: /^(Store|Replace) it$/ }).click()
}

test('an empty vault says what it is for, and the first secret makes it', async () => {
  await tab.getByRole('heading', { name: 'No secrets yet' }).waitFor()
  await tab.getByText('the first secret makes it').waitFor()
  await inspect('vault-empty')
  await tab.getByRole('button', { name: 'Add a secret' }).click()
  const dialog = tab.getByRole('dialog')
  await dialog.getByLabel('Name').fill('GITHUB_TOKEN')
  await dialog.getByLabel('Tags').fill('ci github')
  await inspect('vault-form')
  assert.equal(await tab.evaluate('getComputedStyle(document.querySelector("textarea")).webkitTextSecurity'), 'disc')
  await store(FIRST)
  await tab.getByRole('heading', { name: 'GITHUB_TOKEN', level: 1 }).waitFor()
  await tab.getByText('value stored').waitFor()
  await assertUnseen(tab)
  assert.match(await page.place.must(['secret', 'ls']), /GITHUB_TOKEN +1 +global .* ci github/)
})

test('one that is there already is not replaced by adding it, and replaced it has another version, of several lines', async () => {
  await open()
  await tab.getByRole('button', { name: 'Add a secret' }).click()
  await tab.getByRole('dialog').getByLabel('Name').fill('GITHUB_TOKEN')
  await store(SECOND)
  await tab.getByRole('dialog').getByText('secret_outdated').waitFor()
  assert.equal(await tab.getByRole('dialog').getByLabel('Value').inputValue(), '')
  await tab.keyboard.press('Escape')
  await tab.getByRole('link', { name: 'GITHUB_TOKEN' }).click()
  await tab.getByRole('button', { name: 'Replace', exact: true }).click()
  await store(SECOND)
  await tab.getByText('version 2', { exact: true }).waitFor()
  await assertUnseen(tab)
  assert.match(await page.place.must(['secret', 'ls']), /GITHUB_TOKEN +2 /)
})

test('name, tags and scope are changed without the value, and what is odd in them shows as it is written', async () => {
  await tab.getByRole('button', { name: 'Name, tags, scope' }).click()
  const dialog = tab.getByRole('dialog')
  await dialog.getByLabel('Name for people').fill(NAME)
  await dialog.getByLabel('Tags').fill('ci prod')
  await dialog.getByLabel('For', { exact: true }).selectOption({ label: `workspace /srv/${ESCAPED}` })
  await dialog.getByRole('button', { name: 'Save' }).click()
  // There is no such folder: the vault cannot know its real path.
  await dialog.getByText('config_invalid').waitFor()
  await dialog.getByLabel('For', { exact: true }).selectOption('global')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await tab.getByText(NAME, { exact: true }).waitFor()
  await open()
  await tab.getByLabel('Tag', { exact: true }).selectOption('prod')
  await tab.getByText('1 secret', { exact: true }).waitFor()
  await tab.getByLabel('Search', { exact: true }).fill('nothing like it')
  await tab.getByText('No secret is like that').waitFor()
  await tab.getByLabel('Search', { exact: true }).fill('')
  await tab.getByLabel('Tag', { exact: true }).selectOption('')
  await inspect('vault')
  assert.equal(await tab.evaluate('window.fooled'), undefined)
})

test('a mapping by a preset is looked at as a diff, made in the policy, and shown with the layer that it came from', async () => {
  await open('GITHUB_TOKEN')
  await tab.getByText('Nowhere yet').waitFor()
  await tab.getByRole('button', { name: 'Add a mapping' }).click()
  const dialog = tab.getByRole('dialog')
  await dialog.getByLabel('Search services').fill('hostile')
  await dialog.getByText(ESCAPED).first().waitFor()
  await dialog.getByLabel('Search services').fill('github')
  await dialog.getByRole('radio', { name: /^github GitHub: reading/ }).check()
  await inspect('vault-mapping')
  await dialog.getByRole('button', { name: 'Look at the change' }).click()
  const diff = tab.getByRole('dialog').getByText('vault:GITHUB_TOKEN').first()
  await diff.waitFor()
  await tab.getByRole('dialog').getByText('service/github').first().waitFor()
  await tab.getByRole('dialog').getByRole('button', { name: 'Apply' }).click()
  await tab.getByText('preset service/github', { exact: false }).first().waitFor()
  await tab.getByText('api.github.com').first().waitFor()
  assert.match(readFileSync(join(page.place.home, 'policies', 'global.yaml'), 'utf8'), /service\/github[\s\S]*vault:GITHUB_TOKEN/)
  await inspect('vault-secret')
  await tab.goto(`${page.url}/#/vault`)
  await tab.getByRole('button', { name: 'Apply to sessions' }).click()
  await tab.getByText('No session runs').waitFor()
})

test('a mapping to hosts of one’s own has a credential of its own in the policy', async () => {
  await open('GITHUB_TOKEN')
  await tab.getByRole('button', { name: 'Add a mapping' }).click()
  const dialog = tab.getByRole('dialog')
  await dialog.getByRole('radio', { name: 'Hosts of your choice' }).check()
  await dialog.getByRole('button', { name: 'Look at the change' }).click()
  await dialog.getByText('Name the hosts that get it.').waitFor()
  await dialog.getByLabel('Hosts', { exact: true }).fill('git.example.com')
  await dialog.getByLabel('Name of the credential').fill('own-git')
  await dialog.getByLabel('Written into').selectOption('basic')
  await dialog.getByLabel('User').fill('x-token')
  await dialog.getByRole('button', { name: 'Look at the change' }).click()
  await tab.getByRole('dialog').getByText('git.example.com').first().waitFor()
  await tab.getByRole('dialog').getByRole('button', { name: 'Apply' }).click()
  await tab.getByText('basic as x-token').waitFor()
})

test('a reference is tested without its value, a program only where a policy names it, and a value in its place is not repeated', async () => {
  const form = tab.getByLabel('Test a reference')
  const answered = async (reference: string, text: string): Promise<void> => {
    await form.fill(reference)
    await tab.getByRole('button', { name: 'Test', exact: true }).click()
    await tab.getByText(text).first().waitFor()
  }
  await open()
  await answered('vault:GITHUB_TOKEN', 'leads to a value')
  await answered('vault:NOT_THERE', 'secret_missing')
  await answered(`file:${join(page.place.home, 'policies', 'global.yaml')}`, 'leads to a value')
  await answered(`exec:/usr/bin/touch ${join(page.place.home, 'touched')}`, 'provider_cannot')
  assert.ok(!existsSync(join(page.place.home, 'touched')))
  await answered(`env:${HOSTILE}`, 'this is no reference of')
  await answered(`${FIRST} is no reference`, 'usage')
  await form.fill('')
  assert.equal(await tab.evaluate('window.fooled'), undefined)
})

test('what somebody wrote into the file past the vault is told as it is written, and can be removed', async () => {
  using database = new DatabaseSync(join(page.place.home, 'vault.db'))
  database
    .prepare('INSERT INTO secrets (id, name, key, value, scope, tags, created_at, updated_at, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)')
    .run('f'.repeat(16), HOSTILE, HOSTILE, Buffer.alloc(64), 'global', '[]', 1, 1, 1)
  await tab.reload()
  await tab.goto((await page.place.must(['open', '--print'])).trim())
  await open()
  await tab.getByRole('link', { name: ESCAPED }).click()
  await tab.getByText('it was not stored by this vault').waitFor()
  await inspect('vault-damaged')
  await tab.getByRole('button', { name: 'Remove', exact: true }).click()
  await tab.getByRole('dialog').getByText(ESCAPED).waitFor()
  await tab.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click()
  await tab.getByRole('heading', { name: 'Vault', level: 1 }).waitFor()
  await tab.getByText(ESCAPED).waitFor({ state: 'detached' })
  assert.equal(await tab.evaluate('window.fooled'), undefined)
})

test('removing asks, and says who uses it', async () => {
  await page.place.must(['secret', 'set', 'OTHER'], FIRST)
  await open()
  await tab.getByRole('link', { name: 'GITHUB_TOKEN' }).click()
  await tab.getByRole('button', { name: 'Remove', exact: true }).click()
  const dialog = tab.getByRole('dialog')
  await dialog.getByText('credential github-api').waitFor()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await open('OTHER')
  await tab.getByText('sallyport secret set').waitFor()
  await tab.getByRole('button', { name: 'Remove', exact: true }).click()
  await tab.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click()
  await tab.getByRole('heading', { name: 'Vault', level: 1 }).waitFor()
  assert.doesNotMatch(await page.place.must(['secret', 'ls']), /OTHER/)
})

test('a vault whose lock was changed is closed, and is opened by its passphrase alone', async () => {
  const file = join(page.place.home, '..', 'passphrase')
  writeFileSync(file, PASSPHRASE, { mode: 0o600 })
  await page.place.must(['secret', 'rotate-key', '--to', 'passphrase', '--passphrase-file', file])
  rmSync(file)
  await tab.goto(`${page.url}/#/inbox`)
  await tab.getByRole('heading', { name: 'Inbox', level: 1 }).waitFor()
  await open()
  await tab.getByRole('heading', { name: 'The vault is closed' }).waitFor()
  await inspect('vault-locked')
  await tab.getByLabel('Passphrase of the vault').fill('another passphrase, of nobody')
  await tab.getByRole('button', { name: 'Unlock' }).click()
  await tab.getByText('vault_key_wrong').waitFor()
  await tab.getByLabel('Passphrase of the vault').fill(PASSPHRASE)
  await tab.getByRole('button', { name: 'Unlock' }).click()
  await tab.getByRole('link', { name: 'GITHUB_TOKEN' }).waitFor()
  assert.ok(!(await seenIn(tab)).includes(PASSPHRASE))
})

test('I82 a value is copied with the operator’s password alone, is in nothing that the page has, and is taken off the clipboard again', async () => {
  await open('GITHUB_TOKEN')
  await tab.clock.install()
  const copy = tab.getByRole('button', { name: 'Copy the value' })
  const dialog = tab.getByRole('dialog')
  await copy.click()
  await dialog.getByText('there is none yet').waitFor()
  await tab.getByRole('button', { name: 'Cancel' }).click()
  await page.place.must(['approver', 'password', '--stdin'], `${PASSWORD}\n`)
  await copy.click()
  await dialog.getByLabel('Password of the operator').fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Confirm' }).click()
  await tab.getByText('is on the clipboard').waitFor()
  assert.equal(await tab.evaluate('navigator.clipboard.readText()'), SECOND)
  await assertUnseen(tab)
  await tab.clock.fastForward(45_000)
  await tab.waitForFunction('navigator.clipboard.readText().then((text) => text === "")')
  await copy.click()
  await dialog.getByLabel('Password of the operator').fill('not the password')
  await dialog.getByRole('button', { name: 'Confirm' }).click()
  await dialog.getByText('presence_failed').waitFor()
  await tab.getByRole('button', { name: 'Cancel' }).click()
  assert.equal(await tab.evaluate('navigator.clipboard.readText()'), '')
})

test('I82 no file of the home and no line that was printed has a value, and the audit says who copied', async () => {
  for (const value of [FIRST, SECOND, PASSPHRASE, PASSWORD]) {
    assert.deepEqual(await filesWith(page.place.home, spellingsOf(value)), [])
    for (const one of spellingsOf(value)) assert.ok(!page.place.printed().includes(one.toString()))
  }
  const audit = await page.place.must(['audit', 'list', '--json'])
  assert.equal(audit.match(/"GITHUB_TOKEN version \d+ by the page, login [0-9a-f]+"/g)?.length, 1)
  assert.deepEqual(page.faults, [])
})
