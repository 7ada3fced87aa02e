/** The page's policies in Chromium, against the real daemon and real files: edited, checked, applied, explained and taken back. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { workspacePolicyDir } from '../../src/controller/sessions/session-layers.ts'
import { inspectView, openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

const GLOBAL = `# of every session
version: 1
network:
  rules:
    - {id: api, host: api.example.com, ports: [443], methods: [GET], action: allow} # only reading
    - {id: no-admin, host: api.example.com, paths: ["/admin/**"], action: deny}
host_commands:
  mode: allowlist
  allow:
    - pattern: gh pr view <int>
`
/** A workspace's folder may have any name. */
const HOSTILE = 'w\u202egpj.<img src=x onerror=alert(1)>\u200b\u0430pple'
const OWN = `version: 1
# <script>alert(1)</script><img src=x onerror=alert(1)> \u0430pple
network:
  rules:
    - {id: open, host: evil.example.com, action: allow}
`

let page: OperatorPage
let tab: Page
let workspace: string
const globalFile = (): string => join(page.place.home, 'policies', 'global.yaml')

before(async () => {
  page = await openOperatorPage(async (place) => {
    place.write(join(place.home, 'policies', 'global.yaml'), GLOBAL)
    const plain = join(place.home, '..', 'plain')
    mkdirSync(plain)
    place.write(join(workspacePolicyDir(place.home, plain), 'workspace'), `${plain}\n`)
    workspace = join(place.home, '..', HOSTILE)
    mkdirSync(workspace)
    place.write(join(workspacePolicyDir(place.home, workspace), 'workspace'), `${workspace}\n`)
    place.write(
      join(workspacePolicyDir(place.home, workspace), 'policy.yaml'),
      'version: 1\nnetwork: {rules: [{id: site, host: site.example.com, action: allow}]}\n',
    )
    place.write(join(workspace, '.sallyport', 'policy.yaml'), OWN)
  })
  tab = await page.openTab()
})
after(() => page[Symbol.asyncDispose]())

const editor = () => tab.getByRole('textbox', { name: 'Policy', exact: true })
const show = (part: string) => tab.goto(`${page.url}/#/policies/${part}`)

test('a rule is added by the keyboard alone, with what the schema completes, looked at as a diff and saved; comments stay', async () => {
  await Promise.all([tab.waitForResponse(/policies\/schema$/), show('files')])
  await editor().click()
  await tab.keyboard.press('ControlOrMeta+Home')
  for (let line = 0; line < 3; line += 1) await tab.keyboard.press('ArrowDown')
  await tab.keyboard.press('End')
  await tab.keyboard.press('Enter')
  await tab.keyboard.type('  - {id: docs, host: docs.example.com, act')
  await tab.getByRole('option', { name: /^action/ }).waitFor()
  await tab.keyboard.press('Enter')
  await tab.keyboard.press('Control+Space')
  await tab.getByRole('option', { name: /^ask/ }).waitFor()
  await inspectView(tab, 'policies-files')
  await tab.keyboard.type('al')
  await tab.getByRole('option', { name: /^allow/ }).waitFor()
  await tab.keyboard.press('Enter')
  await tab.keyboard.press('Escape')
  await tab.getByRole('button', { name: 'Save …' }).click()
  const dialog = tab.getByRole('dialog', { name: 'Change the policy' })
  const diff = dialog.getByRole('region', { name: 'The change' })
  await diff.getByText('+    - {id: docs, host: docs.example.com, action: allow}').waitFor()
  await dialog.getByText('no running session').waitFor()
  await inspectView(tab, 'policies-change')
  await dialog.getByRole('button', { name: 'Apply' }).click()
  await tab.getByText('the policy is changed').waitFor()
  await tab.getByRole('button', { name: 'take this notice away' }).click()
  const lines = readFileSync(globalFile(), 'utf8').split('\n')
  assert.deepEqual(
    lines.filter((line) => !GLOBAL.split('\n').includes(line)),
    ['    - {id: docs, host: docs.example.com, action: allow}'],
  )
  await tab.getByText('as it is saved').waitFor()
})

test('an error is told at its line while it is typed, and cannot be saved', async () => {
  await editor().click()
  await tab.keyboard.press('ControlOrMeta+End')
  await tab.keyboard.type('netwrok: {}')
  await tab
    .getByText(/unknown key "netwrok".*network|netwrok/)
    .first()
    .waitFor()
  const problems = tab.getByRole('list', { name: 'Problems' })
  await problems.getByText('line 12').waitFor()
  await tab.locator('.cm-lint-marker-error').waitFor()
  await inspectView(tab, 'policies-problem')
  await tab.getByRole('button', { name: 'Save …' }).click()
  await tab.getByRole('dialog').getByText('This cannot be applied').waitFor()
  assert.ok(await tab.getByRole('button', { name: 'Apply' }).isDisabled())
  await tab.getByRole('button', { name: 'Cancel' }).click()
  await tab.getByRole('button', { name: 'Discard' }).click()
  assert.ok(!readFileSync(globalFile(), 'utf8').includes('netwrok'))
})

test('Tab indents, and after Escape leaves the editor', async () => {
  await editor().click()
  await tab.keyboard.press('Tab')
  assert.ok(await editor().evaluate((element) => element.getRootNode().activeElement === element))
  await tab.keyboard.press('Escape')
  await tab.keyboard.press('Tab')
  await tab.waitForFunction('!document.activeElement.matches(".editor-host")')
  await tab.getByRole('button', { name: 'Discard' }).click()
})

test('every line of the effective policy stands where it is said to', async () => {
  await show('effective')
  const lines = tab.getByRole('region', { name: 'Effective policy' }).getByRole('listitem')
  await lines.filter({ hasText: 'no-admin' }).waitFor()
  let looked = 0
  for (const text of await lines.allTextContents()) {
    const [said = '', line] = text.split(`${globalFile()}:`)
    const id = line === undefined ? undefined : /^(?:allow|deny|ask) +(\S+) /.exec(said)?.[1]
    if (id === undefined || said.includes('gh pr')) continue
    assert.match(readFileSync(globalFile(), 'utf8').split('\n')[Number(line) - 1] ?? '', new RegExp(`id: ${id},`))
    looked += 1
  }
  assert.equal(looked, 3)
  await tab.getByRole('searchbox', { name: 'Search' }).fill('no-admin')
  await tab.getByText(/^1 of \d+ lines$/).waitFor()
  await inspectView(tab, 'policies-effective')
})

for (const { url, action, why } of [
  { url: 'https://api.example.com/v1', action: 'allow', why: 'rule "api" allows it' },
  { url: 'https://api.example.com/admin/x', action: 'deny', why: 'rule "no-admin" denies it' },
])
  test(`explains that ${url} is ${action}, and by which rule`, async () => {
    await show('explain')
    await tab.getByRole('textbox', { name: 'URL' }).fill(url)
    await tab.getByRole('button', { name: 'Explain' }).click()
    const answer = tab.getByRole('region', { name: 'Explanation' })
    await answer.getByRole('heading', { name: `${action} GET ${url}` }).waitFor()
    await answer.getByText(why).first().waitFor()
    await answer.getByText(`${action} ${action === 'allow' ? 'api' : 'no-admin'} (${globalFile()}`).waitFor()
  })

test('explains a command, with the rule that allows it, and one that no rule is about', async () => {
  await show('explain')
  await tab.getByRole('combobox', { name: 'About' }).selectOption('command')
  for (const [command, action] of [
    ['gh pr view 12', 'allow'],
    ['gh repo delete x', 'ask'],
  ] as const) {
    await tab.getByRole('textbox', { name: 'Command' }).fill(command)
    await tab.getByRole('button', { name: 'Explain' }).click()
    await tab.getByRole('heading', { name: `${action} ${command}` }).waitFor()
  }
  await inspectView(tab, 'policies-explain')
})

test('a workspace’s own policy is shown, trusted as it is, and never written; its names and texts run nothing', async () => {
  const own = join(workspace, '.sallyport', 'policy.yaml')
  await show('files')
  await tab.getByRole('region', { name: 'What workspaces bring themselves' }).getByRole('link').click()
  await tab.getByText('No session starts while it says').waitFor()
  await tab.getByRole('region', { name: 'File' }).getByText('w\\u{202E}gpj.').first().waitFor()
  await inspectView(tab, 'policies-own')
  await tab.getByRole('button', { name: 'Trust it as it is …' }).click()
  await tab.getByRole('dialog').getByRole('button', { name: 'Trust it' }).click()
  await tab.getByText('trusted, as it is').waitFor()
  assert.match(await page.place.must(['trust', 'ls']), /^[0-9a-f]{64} /)
  await tab.getByRole('button', { name: 'Trust it no longer' }).click()
  await tab.getByText('No session starts while it says').waitFor()
  assert.equal(readFileSync(own, 'utf8'), OWN)
})

test('history has the change with its diff, takes it back, and the file is as it was', async () => {
  await show('history')
  await tab
    .getByRole('button', { name: /^Look at the change page-/ })
    .first()
    .click()
  const dialog = tab.getByRole('dialog', { name: 'A change of a policy' })
  await dialog.getByText('+    - {id: docs, host: docs.example.com, action: allow}').waitFor()
  await dialog.getByRole('button', { name: 'Take back' }).click()
  await tab.getByText('the change is taken back').waitFor()
  assert.equal(readFileSync(globalFile(), 'utf8'), GLOBAL)
  await tab.getByText('reverted').waitFor()
  await inspectView(tab, 'policies-history')
})

test('what holds for a time is listed with its end, and taken back', async () => {
  await show('remembered')
  await tab.getByText('Nothing holds for a time').waitFor()
  await inspectView(tab, 'policies-remembered')
  assert.ok(!existsSync(join(page.place.home, 'policies', 'timed')))
})

test('nothing of it broke the policy of the document', () => {
  assert.deepEqual(page.faults, [])
})
