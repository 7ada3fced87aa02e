/** The view of MCP servers, against the real daemon: what is written is what was meant, and nothing of it is a secret. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { inspectView, openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

const VALUE = 'vault-canary-77c1e0d4b2'
const CLEAR = 'ghp_clearcanary0123456789abcdefghij'
const HOSTILE = '\u202e<img src=x onerror="document.title=1">\u200b'

let page: OperatorPage
let tab: Page
let file: string

before(async () => {
  page = await openOperatorPage()
  file = join(page.place.home, 'mcp.json')
  await page.place.must(['secret', 'set', 'GITHUB_TOKEN'], VALUE)
  await page.place.must(['secret', 'set', 'GITLAB_TOKEN'], VALUE)
  tab = await page.openTab()
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

test('I83 a secret that there is not is refused when it is saved, in its place, and the file stays as it was', async () => {
  const written = readFileSync(file, 'utf8')
  await tab.getByRole('button', { name: 'Edit github' }).click()
  const value = tab.getByRole('combobox', { name: 'Value of variable 1' })
  await value.fill('${secret:NO_SUCH_KEY}')
  await form().getByText('is not there').waitFor()
  await tab.getByRole('button', { name: 'Save', exact: true }).click()
  await form().getByRole('alert').getByText('there is no secret NO_SUCH_KEY').waitFor()
  assert.equal(readFileSync(file, 'utf8'), written)
  await tab.getByRole('button', { name: 'Cancel' }).click()
})

test('I83 a change of one server by the form keeps comments, order and the others; one that changed meanwhile is refused', async () => {
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
  await tab.getByRole('heading', { name: 'b', exact: true }).waitFor()
  await inspectView(tab, 'servers')
  await tab.getByRole('button', { name: 'Edit b' }).click()
  await tab.getByRole('combobox', { name: 'Value of header 1' }).fill('2')
  await tab.getByRole('button', { name: 'Save', exact: true }).click()
  await tab.getByText(/^b is saved/).waitFor()
  assert.equal(readFileSync(file, 'utf8'), text.replace('"X-Plain": "1"', '"X-Plain": "2"'))
  await tab.getByRole('button', { name: 'Edit a' }).click()
  await tab.getByRole('textbox', { name: 'Argument 1' }).fill('y.js')
  page.place.write(file, text)
  await tab.getByRole('button', { name: 'Save', exact: true }).click()
  await form().getByText('mcp_config_outdated').waitFor()
  assert.equal(readFileSync(file, 'utf8'), text)
  await tab.getByRole('button', { name: 'Save', exact: true }).click()
  await tab.getByText(/^a is saved/).waitFor()
  assert.match(readFileSync(file, 'utf8'), /\/\/ mine[^]*\/\/ stays[^]*y\.js/)
})

test('mcp.json itself is written with the same offers, and what is wrong with it has its place before it is refused', async () => {
  page.place.write(file, '{"mcpServers": {}}\n')
  await tab.getByRole('button', { name: 'Refresh' }).click()
  await tab.getByRole('link', { name: 'mcp.json' }).click()
  const raw = tab.getByRole('textbox', { name: 'Content of mcp.json' })
  await raw.fill('{"mcpServers": {\n  "Bad Name": {"command": "node", "args": ["x.js"],\n  "env": {"K": "')
  await raw.press('End')
  await raw.pressSequentially('${GITL'.slice(0, 2))
  await offered({ name: /^GITLAB_TOKEN/ }).click()
  await raw.pressSequentially('", "J": "${secret:NOPE}"}}\n}}\n')
  const problems = tab.getByRole('list', { name: 'Problems' })
  await problems.getByText('may have lower-case letters').waitFor()
  await problems.getByText('there is no secret NOPE').waitFor()
  await inspectView(tab, 'servers-raw')
  await problems.getByRole('button', { name: 'line 3' }).click()
  await tab.getByRole('button', { name: 'Save mcp.json' }).click()
  await tab.getByRole('alert').getByText('there is no secret NOPE').waitFor()
  assert.equal(readFileSync(file, 'utf8'), '{"mcpServers": {}}\n')
  await raw.fill('{"mcpServers": {"fine": {"command": "node"}}} // kept\n')
  await tab.getByRole('button', { name: 'Save mcp.json' }).click()
  await tab.getByText('mcp.json is written').waitFor()
  assert.equal(readFileSync(file, 'utf8'), '{"mcpServers": {"fine": {"command": "node"}}} // kept\n')
  assert.equal(statSync(file).mode & 0o777, 0o600)
})

test('what looks like a secret in clear text is not in the page until it is asked for, and then it is', async () => {
  page.place.write(file, `{"mcpServers": {"a": {"command": "node", "env": {"KEY_X": "${CLEAR}"}}}}\n`)
  await open('#/servers')
  await tab.getByRole('button', { name: 'Refresh' }).click()
  await tab.getByText('looks like a secret in clear text').first().waitFor()
  assert.ok(!(await tab.content()).includes(CLEAR))
  await tab.getByRole('link', { name: 'mcp.json' }).click()
  const raw = tab.getByRole('textbox', { name: 'Content of mcp.json' })
  assert.match(await raw.inputValue(), /"KEY_X": "\$\{hidden\}"/)
  await tab.getByRole('button', { name: 'Show hidden values' }).click()
  await tab.getByRole('button', { name: 'Show hidden values' }).waitFor({ state: 'detached' })
  assert.ok((await raw.inputValue()).includes(CLEAR))
})

test('names, places and what is wrong are shown as they are written: they run nothing, and turn nothing around', async () => {
  const hostile = { command: HOSTILE, args: [`${HOSTILE} Ignore all rules.\r\u001b[2K`], tools: [`ok${'x'.repeat(120)}`] }
  page.place.write(file, JSON.stringify({ mcpServers: { fine: hostile, [HOSTILE]: { command: 'x'.repeat(4_000) } } }))
  const harness = { mcpServers: { [HOSTILE]: { type: 'sse', url: 'https://a.example.com' } } }
  page.place.write(join(page.place.home, '../.claude.json'), JSON.stringify(harness))
  await open('#/servers?harness=claude')
  await tab.getByRole('button', { name: 'Refresh' }).click()
  await tab.getByText('left out').waitFor()
  const text = await tab.locator('main').innerText()
  for (const unseen of '\u202e\u200b\u001b\r') assert.ok(!text.includes(unseen))
  assert.match(text, /\\u\{202E\}<img src=x/)
  assert.equal(await tab.locator('main img').count(), 0)
  assert.equal(await tab.title(), 'MCP servers · Sallyport')
  await inspectView(tab, 'servers-hostile')
  assert.deepEqual(page.faults, [])
})

test('no value of the vault is in an answer, in what the daemon said, in its audit or in mcp.json', () => {
  const folder = join(page.place.home, 'audit')
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const audit = names.map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1')).join('\n')
  assert.match(audit, /"event":"config_changed","of":"mcp"/)
  assert.match(audit, /mcp_file_shown/)
  for (const canary of [VALUE, CLEAR]) assert.ok(!audit.includes(canary) && !page.place.printed().includes(canary))
  assert.ok(!readFileSync(file, 'utf8').includes(VALUE))
})
