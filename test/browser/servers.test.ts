/** The view of MCP servers, against the real daemon: what is written is what was meant, and nothing of it is a secret. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { inspectView, openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

const VALUE = 'vault-canary-77c1e0d4b2'
const CLEAR = 'ghp_clearcanary0123456789abcdefghij'
const HOSTILE = '\u202e‮<img src=x onerror="document.title=1">\u200b'

let page: OperatorPage
let tab: Page
let file: string

before(async () => {
  page = await openOperatorPage()
  file = join(page.place.home, 'mcp.json')
  await page.place.must(['secret', 'set', 'GITHUB_TOKEN'], VALUE)
  await page.place.must(['secret', 'set', 'GITLAB_TOKEN'], VALUE)
  tab = await page.openTab()
  tab.setDefaultTimeout(8_000)
})
after(() => page[Symbol.asyncDispose]())

const open = async (hash: string): Promise<void> => {
  await tab.goto(`${page.url}/${hash}`)
}
const offered = (options: Parameters<Page['getByRole']>[1]) => tab.getByRole('listbox', { name: 'Secrets' }).getByRole('option', options)
const form = () => tab.getByRole('dialog')

test('a server with a secret is added with the keyboard: `${` offers the secrets, and the file has the reference', async () => {
  await open('#/servers')
  await tab.getByText('No server of your own yet').waitFor()
  await inspectView(tab, 'servers-empty')
  await tab.getByRole('button', { name: 'Add a server' }).click()
  await tab.getByRole('textbox', { name: 'Name', exact: true }).fill('github')
  await tab.getByRole('textbox', { name: 'Program' }).fill('node')
  await tab.getByRole('button', { name: 'Add an argument' }).click()
  await tab.getByRole('textbox', { name: 'Argument 1' }).fill('server.js')
  await tab.getByRole('button', { name: 'Add a variable' }).click()
  await tab.getByRole('textbox', { name: 'Name of variable 1' }).fill('GITHUB_TOKEN')
  const value = tab.getByRole('combobox', { name: 'Value of variable 1' })
  await value.pressSequentially('${')
  await offered({ name: /^GITHUB_TOKEN/ }).waitFor()
  await value.press('ArrowDown')
  assert.equal(await offered({ selected: true }).textContent(), 'GITLAB_TOKEN vault')
  await value.press('Escape')
  assert.equal(await form().count(), 1)
  await value.pressSequentially('secret:GITH')
  assert.equal(await offered({}).count(), 1)
  await value.press('Enter')
  assert.equal(await value.inputValue(), '${secret:GITHUB_TOKEN}')
  await inspectView(tab, 'servers-form')
  await tab.getByRole('button', { name: 'Save', exact: true }).click()
  await tab.getByRole('heading', { name: 'github' }).waitFor()
  assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), {
    mcpServers: { github: { command: 'node', args: ['server.js'], env: { GITHUB_TOKEN: '${secret:GITHUB_TOKEN}' } } },
  })
  await tab.getByText('in a container of its own').waitFor()
  assert.deepEqual(page.faults, [])
})

test('a secret that there is not is refused when it is saved, in its place, and the file stays as it was', async () => {
  const before = readFileSync(file, 'utf8')
  await tab.getByRole('button', { name: 'Edit github' }).click()
  const value = tab.getByRole('combobox', { name: 'Value of variable 1' })
  await value.fill('${secret:NO_SUCH_KEY}')
  await form().getByText('is not there').waitFor()
  await tab.getByRole('button', { name: 'Save', exact: true }).click()
  await form().getByRole('alert').getByText('there is no secret NO_SUCH_KEY').waitFor()
  assert.equal(readFileSync(file, 'utf8'), before)
  await tab.getByRole('button', { name: 'Cancel' }).click()
})

test('a change of one server by the form keeps comments, order and the others; one that changed meanwhile is refused', async () => {
  const text = `{
  // mine
  "mcpServers": {
    "b": {"url": "https://b.example.com/mcp", "headers": {"X-Plain": "1"}}, // stays
    "a": {"command": "node", "args": ["x.js"], "env": {"K": "\${secret:GITHUB_TOKEN}"}}
  }
}
`
  page.place.write(file, text)
  await tab.getByRole('button', { name: 'Refresh' }).click()
  await tab.getByRole('button', { name: 'Edit b' }).click()
  await tab.getByRole('combobox', { name: 'Value of header 1' }).fill('2')
  await tab.getByRole('button', { name: 'Save', exact: true }).click()
  await tab.getByText('b is saved').waitFor()
  assert.equal(readFileSync(file, 'utf8'), text.replace('"X-Plain": "1"', '"X-Plain": "2"'))
  await tab.getByRole('button', { name: 'Edit a' }).click()
  await tab.getByRole('textbox', { name: 'Argument 1' }).fill('y.js')
  page.place.write(file, text)
  await tab.getByRole('button', { name: 'Save', exact: true }).click()
  await form().getByText('mcp_config_outdated').waitFor()
  assert.equal(readFileSync(file, 'utf8'), text)
  await tab.getByRole('button', { name: 'Save', exact: true }).click()
  await tab.getByText('a is saved').waitFor()
  assert.match(readFileSync(file, 'utf8'), /\/\/ mine[^]*\/\/ stays[^]*y\.js/)
})
