/** The operator's page in Chromium, against the real daemon: that it loads, and nothing else than it. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { OPERATOR_LIMITS } from '../../src/kernel/operator-limits.ts'
import { inspectView, openOperatorPage, watchedTab, type OperatorPage } from '../support/operator-page.ts'

const FIRST_LOAD_BYTES_MAX = 120_000

let page: OperatorPage

before(async () => {
  page = await openOperatorPage()
})
after(() => page[Symbol.asyncDispose]())

test('I87 a link of sallyport open logs a tab in, and is neither in its address nor in its history', async () => {
  const tab = await watchedTab(page.browser, page.url, page.faults)
  await tab.goto((await page.place.must(['open', '--print'])).trim())
  await tab.getByRole('navigation', { name: 'Views' }).waitFor()
  assert.equal(new URL(tab.url()).hash, '#/inbox')
  await tab.getByText('live', { exact: true }).waitFor()
  assert.equal(await tab.evaluate('history.length'), 2)
  assert.deepEqual(await tab.evaluate('[document.cookie, JSON.stringify(sessionStorage), Object.keys(localStorage)]'), ['', '{}', []])
  assert.deepEqual(page.faults, [])
})

test('a daemon that hangs is not called live, and is again when it goes on', async () => {
  const tab = await watchedTab(page.browser, page.url, page.faults)
  await tab.clock.install()
  await tab.goto((await page.place.must(['open', '--print'])).trim())
  const live = tab.getByText('live', { exact: true })
  await live.waitFor()
  process.kill(page.daemon.pid, 'SIGSTOP')
  try {
    await tab.clock.fastForward(4 * OPERATOR_LIMITS.feedAliveMs)
    await tab.getByText('The daemon does not answer. What is shown may be old').waitFor()
    assert.equal(await live.count(), 0)
  } finally {
    process.kill(page.daemon.pid, 'SIGCONT')
  }
  await live.waitFor()
})

test('colours are those of the system until the operator chooses, and that is all that the browser keeps', async () => {
  const tab = await page.openTab({ colorScheme: 'dark' })
  const shown = () => tab.evaluate<string>('getComputedStyle(document.documentElement).colorScheme')
  assert.equal(await shown(), 'dark')
  await tab.emulateMedia({ colorScheme: 'light' })
  assert.equal(await shown(), 'light')
  await tab.getByLabel('Colours').selectOption('dark')
  await tab.reload()
  assert.equal(await shown(), 'dark')
  assert.deepEqual(await tab.evaluate('Object.entries(localStorage)'), [['sallyport-theme', 'dark']])
})

test('what is loaded first has at most 120 kB, compressed', async () => {
  const tab = await page.openTab()
  const sizes = await tab.evaluate<number[]>(
    'performance.getEntries().filter((entry) => entry.entryType === "navigation" || /assets/.test(entry.name)).map((entry) => entry.transferSize)',
  )
  assert.ok(sizes.length > 3)
  const sum = sizes.reduce((a, b) => a + b, 0)
  assert.ok(sum > 10_000 && sum <= FIRST_LOAD_BYTES_MAX, `${sum} bytes`)
})

test('a tab without a login shows nothing but how to get one', async () => {
  const context = await page.browser.newContext()
  const tab = await context.newPage()
  await tab.goto(page.url)
  await tab.getByText('sallyport open').waitFor()
  await inspectView(tab, 'login')
  await context.close()
})
