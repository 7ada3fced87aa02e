/** The first run, the terminal and the logs in Chromium, with the real daemon and one real session. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import type { SessionView } from '../../src/wire/operator.ts'
import { eventually } from '../support/eventually.ts'
import { inspectView, openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

const SECRET = `key-${randomBytes(20).toString('hex')}`
const GLOBAL = `version: 1
network:
  rules:
    - {id: api, host: api.demo.internal, methods: [GET], action: allow}
credentials:
  - {id: api, secret: API_KEY, inject: {domains: [api.demo.internal], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_KEY, source: "vault:API_KEY", resources: [inject]}
`
/** Resident memory of the daemon after a flood, above what it had. */
const FLOOD_GROWTH_KB_MAX = 120_000

let page: OperatorPage
let tab: Page
let workspace: string
let session: SessionView

before(async () => {
  page = await openOperatorPage(async (place) => {
    place.write(join(place.home, 'policies', 'global.yaml'), GLOBAL)
    await place.must(['secret', 'set', 'API_KEY', '--unlock', 'key-file'], SECRET)
  })
  workspace = await page.place.workspace('first\u202Eproject', { 'package.json': '{}', '<img src=x onerror=alert(1)>.csproj': '' })
  tab = await page.openTab({ permissions: ['clipboard-read', 'clipboard-write'] })
})
after(() => page[Symbol.asyncDispose]())

const screen = () => tab.locator('.terminal-place .xterm-rows')
const button = (name: string) => tab.getByRole('button', { name, exact: true })

async function typed(text: string): Promise<void> {
  await tab.keyboard.type(text)
  await tab.keyboard.press('Enter')
}

test('before the first session the inbox leads to three steps: the machine is looked at, and each finding is told', async () => {
  await tab.getByRole('link', { name: 'Begin' }).click()
  await tab.getByRole('heading', { name: 'Start', exact: true }).waitFor()
  await button('Look at this machine').click()
  await tab.getByText(/\d+ ok, \d+ warnings, \d+ failures/).waitFor()
  const rows = await tab.locator('.start-row').allTextContents()
  assert.ok(rows.length > 15, rows.join('\n'))
  assert.ok(
    rows.some((row) => row.startsWith('okthe engine answers')),
    rows.join('\n'),
  )
  assert.ok(!rows.some((row) => row.startsWith('failure')), rows.join('\n'))
})

test('the policy of a folder is shown before it is written, where it goes, and what its files told, escaped', async () => {
  await tab.getByLabel('Folder of the project').fill(workspace)
  await tab.getByLabel('Harness').selectOption('')
  await button('Look at the folder').click()
  const text = tab.getByLabel('text of the policy')
  await text.waitFor()
  assert.match(await text.innerText(), /service\/npm/)
  const shown = await tab.locator('main').innerText()
  assert.ok(shown.includes('<img src=x onerror=alert(1)>.csproj'))
  assert.ok(shown.includes('first\\u{202E}project') && !shown.includes('\u202E'), shown)
  await inspectView(tab, 'start')
  const place = (await tab.locator('dd.mono').last().innerText()).trim()
  assert.throws(() => readFileSync(place), { code: 'ENOENT' })
  await button('Write this policy').click()
  await tab.getByText('Written.').waitFor()
  assert.match(readFileSync(place, 'utf8'), /service\/npm/)
  const start = await tab.getByRole('link', { name: 'Choose the rest and start it' }).getAttribute('href')
  assert.equal(new URLSearchParams(start?.split('?')[1]).get('workspace'), workspace)
  assert.match(start ?? '', /^#\/sessions\/new\?/)
})

test('what is typed in the terminal reaches the agent’s program, and what it answers is shown; a secret as asterisks', async () => {
  const id = (await page.place.must(['up', '--detach', '--workspace', workspace, '--', 'bash', '--norc', '--noprofile'])).trim()
  const all = JSON.parse(await page.place.must(['ls', '--json'])) as SessionView[]
  session = all.find((one) => one.id === id) as SessionView
  await tab.evaluate(`location.hash = '#/sessions/${id}/terminal'`)
  await button('Attach to the agent').click()
  await tab.getByText('attached to the agent').waitFor()
  await typed('echo answer-$((40+2))')
  await screen().getByText('answer-42', { exact: true }).waitFor()
  await typed(`printf '%s\\n' ${SECRET.slice(0, 20)}'${SECRET.slice(20)}' after-it`)
  await screen().getByText('after-it', { exact: true }).waitFor()
  const text = await screen().innerText()
  assert.ok(text.includes('*****'), text)
  assert.ok(!(await tab.content()).includes(SECRET))
})

test('the program has the size of the terminal, also when that changes', async () => {
  const sizeOf = async (mark: string): Promise<readonly [number, number]> => {
    await typed(`echo ${mark}-$(stty size | tr ' ' x)-`)
    const found = await screen()
      .getByText(new RegExp(`^${mark}-\\d+x\\d+-`))
      .textContent()
    const [, rows, columns] = /-(\d+)x(\d+)-/.exec(found ?? '') ?? []
    return [Number(rows), Number(columns)]
  }
  const first = await sizeOf('first')
  await tab.setViewportSize({ width: 800, height: 900 })
  await eventually(async () => {
    const [, columns] = await sizeOf(`after${randomBytes(2).toString('hex')}`)
    assert.ok(columns > 20 && columns < first[1], `${columns} of ${first[1]}`)
  })
  await tab.setViewportSize({ width: 1_280, height: 900 })
})

test('what a program prints sets no title, no clipboard and no link, and leaves no style out: colours and the cursor are drawn', async () => {
  await tab.evaluate("navigator.clipboard.writeText('mine')")
  const title = await tab.title()
  const stolen = Buffer.from('stolen').toString('base64')
  await typed(
    `clear; printf '\\033]52;c;${stolen}\\a\\033]0;evil\\a\\033]8;;https://evil.test/\\alink\\033]8;;\\a \\033[31mred\\033[0m \\033[38;2;10;200;30mtrue\\033[0m <b>bold</b> done-%s\\n' x`,
  )
  await screen().getByText('done-x').first().waitFor()
  assert.equal(await tab.title(), title)
  assert.equal(await tab.evaluate('navigator.clipboard.readText()'), 'mine')
  assert.equal(await tab.locator('.terminal-place a').count(), 0)
  const colours = await tab.evaluate<string[]>(
    `[...document.querySelectorAll('.terminal-place .xterm-rows span')].filter((one) => ['red', 'true'].includes(one.textContent))
      .concat(document.querySelector('.terminal-place .xterm-rows')).slice(-3).map((one) => getComputedStyle(one).color)`,
  )
  assert.equal(new Set(colours).size, 3, colours.join(' '))
  assert.equal(await tab.locator('.xterm-cursor').count(), 1)
  await inspectView(tab, 'terminal')
  assert.deepEqual(page.faults, [])
})

test('the terminal is left by the keys that it names, and what is selected is copied by the operator alone', async () => {
  await tab.locator('.xterm-helper-textarea').focus()
  await tab.keyboard.press('Tab')
  assert.equal(await tab.evaluate('document.activeElement.className'), 'xterm-helper-textarea')
  await tab.keyboard.press('Control+Shift+L')
  assert.equal(await tab.evaluate('document.activeElement.textContent'), 'Detach')
  const word = await screen().getByText('true', { exact: true }).last().boundingBox()
  await tab.mouse.dblclick((word?.x ?? 0) + 4, (word?.y ?? 0) + 4)
  await button('Copy').click()
  assert.equal((await tab.evaluate<string>('navigator.clipboard.readText()')).trim(), 'true')
})

test('fifty megabytes neither freeze the tab nor grow the daemon, and in the middle of them it can be left, joined and interrupted', async () => {
  const memory = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${page.daemon.pid}/status`, 'utf8'))?.[1])
  const calm = memory()
  let most = 0
  const watch = setInterval(() => (most = Math.max(most, memory())), 50)
  try {
    await tab.locator('.xterm-helper-textarea').focus()
    await typed(`clear; yes | head -c 50000000; echo over-$((1+1))`)
    await screen().getByText('y', { exact: true }).first().waitFor()
    // The tab answers in the middle of it.
    assert.equal(await tab.evaluate('1 + 1'), 2)
    await button('Detach').click()
    await tab.getByText('detached: the agent goes on').waitFor()
    await button('Attach again').click()
    await tab.getByText('attached to the agent').waitFor()
    await tab.keyboard.press('Control+C')
    await typed('clear; echo still-$((1+1))')
    await screen().getByText('still-2', { exact: true }).waitFor()
  } finally {
    clearInterval(watch)
  }
  assert.ok(most - calm < FLOOD_GROWTH_KB_MAX, `${calm} kB before, ${most} kB at most`)
})

test('a shell beside the agent ends with its code, and another can be opened', async () => {
  await button('Detach').click()
  await button('Open a shell').click()
  await tab.getByText('a shell beside the agent').waitFor()
  await typed('cat /proc/1/comm; exit 7')
  await tab.getByText('the program has ended with code 7').waitFor()
  assert.ok(await button('Open another shell').isVisible())
})

test('logs are followed, searched and shown as text, whatever the program prints', async () => {
  await page.place.must([
    'exec',
    session.id,
    '--',
    'sh',
    '-c',
    `printf '\\033]0;evil\\a<img src=x onerror=alert(1)> \\342\\200\\256turned ${SECRET} log-%s\\n' one > /proc/1/fd/1`,
  ])
  await tab.evaluate(`location.hash = '#/sessions/${session.id}/logs'`)
  await tab.getByLabel('Only lines with').fill('onerror')
  const line = tab.locator('.logs-list .logs-text', { hasText: 'log-one' })
  await line.waitFor()
  const text = (await line.textContent()) ?? ''
  assert.ok(text.includes('<img src=x onerror=alert(1)>') && text.includes('\\u{202E}turned') && text.includes('***'), text)
  await page.place.must(['exec', session.id, '--', 'sh', '-c', 'echo onerror log-two > /proc/1/fd/1'])
  await tab.locator('.logs-list .logs-text', { hasText: 'log-two' }).waitFor()
  await inspectView(tab, 'logs')
  const [download] = await Promise.all([tab.waitForEvent('download'), button('Download').click()])
  const whole = readFileSync((await download.path()) ?? '', 'utf8')
  assert.ok(whole.includes('log-two') && !whole.includes(SECRET) && !whole.includes('\u001b]'))
  assert.ok(!(await tab.content()).includes(SECRET))
  assert.deepEqual(page.faults, [])
})

test('the end of a session ends its terminals', async () => {
  await tab.evaluate(`location.hash = '#/sessions/${session.id}/terminal'`)
  await button('Open a shell').click()
  await tab.getByText('a shell beside the agent').waitFor()
  const down = page.place.must(['down', session.id])
  await tab
    .getByText(/has ended with code|not connected|Sessions/)
    .first()
    .waitFor()
  await down
  assert.equal(await tab.getByText('a shell beside the agent').count(), 0)
})
