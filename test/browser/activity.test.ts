/** The live list of what sessions do in the network, of chains that an earlier daemon kept: how much there is, and what it says. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { mkdirSync } from 'node:fs'
import { after, before, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { openAudit, type AuditEvent } from '../../src/audit/audit.ts'
import { system } from '../../src/kernel/system.ts'
import { decided, finished, recordingLog } from '../support/audit.ts'
import { eventually } from '../support/eventually.ts'
import { inspectView, openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

const COUNT = 10_000
const ROWS_IN_DOCUMENT_MAX = 80
const HOSTILE = `a\u202Eb\u200Bc<img src=x onerror="document.title='run'">\u001B[31m\r\u0430pi.example.com`

/** How many rows are in the document at each of ten places on the way to the end, and on the way back. */
const SCROLLED = `(async () => {
  const element = document.querySelector('.activity-list')
  const end = element.scrollHeight - element.clientHeight
  const seen = []
  for (let step = 1; step <= 20; step += 1) {
    element.scrollTop = step <= 10 ? (end * step) / 10 : end - (end * (step - 10)) / 10
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))
    seen.push(element.querySelectorAll('[role=option]').length)
  }
  return seen
})()`
const DRAWN = "document.querySelector('.activity-drawing canvas').toDataURL()"

/** Of what the hostile text has: nothing of it may be in the document as it is. */
const UNSEEN = /[\u202E\u200B]|\p{Cc}/u

let page: OperatorPage
let tab: Page

async function record(folder: string, session: string, events: readonly AuditEvent[]): Promise<void> {
  await using audit = await openAudit({ file: join(folder, `${session}.jsonl`), session }, system, recordingLog().log)
  for (let from = 0; from < events.length; from += 5_000)
    await Promise.all(events.slice(from, from + 5_000).map((event) => audit.append(event)))
}

function many(): AuditEvent[] {
  return Array.from({ length: COUNT - 4 }, (_, index): AuditEvent[] => {
    const id = `r${index}`
    const isDenied = index % 10 === 0
    const more = { method: 'GET', scheme: 'https', path: `/items/${index}`, host: index % 3 === 0 ? 'api.example.com' : 'example.org' }
    return isDenied
      ? [decided(id, { ...more, decision: 'deny', code: 'host_not_allowed', rule: undefined }), finished(id)]
      : [decided(id, { ...more, credential: index % 7 === 0 ? 'github' : undefined }), finished(id)]
  }).flat()
}

before(async () => {
  page = await openOperatorPage(async ({ home }) => {
    const folder = join(home, 'audit', 'sessions')
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    await record(folder, 'many', many())
    await record(folder, 'hostile', [
      decided('h1', { host: HOSTILE, path: `/${HOSTILE}`, method: HOSTILE, scheme: 'https', rule: HOSTILE, credential: HOSTILE }),
      decided('h2', { host: `${'x'.repeat(16_384)}.example`, path: '/', method: 'GET', scheme: 'https' }),
      decided('h3', {
        host: '169.254.169.254',
        port: 80,
        path: '/latest',
        method: 'GET',
        scheme: 'http',
        decision: 'deny',
        code: 'address_refused',
      }),
      decided('model', { host: 'model.example', plane: 'control_plane', method: 'POST', path: '/v1', scheme: 'https' }),
      finished('h1'),
    ])
  })
  tab = await page.openTab()
})
after(() => page[Symbol.asyncDispose]())

/** The view as its address has it: nothing of what was open before is left. */
async function look(query = '', own = tab): Promise<void> {
  await own.evaluate("location.hash = '#/nowhere'")
  await own.getByText('There is no such view').waitFor()
  await own.evaluate(`location.hash = ${JSON.stringify(`#/activity${query}`)}`)
  await own.getByRole('heading', { name: 'Activity', level: 1 }).waitFor()
}
const list = (): Locator => tab.getByRole('listbox', { name: 'Requests and connections' })
const rows = (): Locator => list().getByRole('option')
const panel = (): Locator => tab.getByRole('complementary', { name: 'One request' })

test(`of ${COUNT} lines only those in sight are in the document, from the newest to the oldest and back`, async (context) => {
  await look('?plane=all')
  await tab.getByText(`${COUNT.toLocaleString('en')} lines`).waitFor()
  await tab.evaluate(`window.tasks = []
    new PerformanceObserver((found) => window.tasks.push(...found.getEntries().map((entry) => entry.duration))).observe({ entryTypes: ['longtask'] })`)
  const counts = await tab.evaluate<number[]>(SCROLLED)
  assert.ok(
    Math.min(...counts) >= 10 && Math.max(...counts) <= ROWS_IN_DOCUMENT_MAX,
    `${Math.min(...counts)} to ${Math.max(...counts)} rows`,
  )
  context.diagnostic(`long tasks, ms: ${JSON.stringify(await tab.evaluate('window.tasks'))}`)
  await list().focus()
  await tab.keyboard.press('End')
  await list().getByText('/items/0', { exact: true }).waitFor()
  await tab.keyboard.press('Home')
  assert.equal(await rows().first().getAttribute('aria-posinset'), '1')
  assert.equal(await rows().first().getAttribute('aria-setsize'), String(COUNT))
})

test('filters narrow the list, stand in the address, and a page that is opened with them shows the same', async () => {
  await look()
  await tab.getByLabel('Host').fill('*.example.com')
  await tab.getByLabel('Decision').selectOption('deny')
  await tab.getByText('334 lines').waitFor()
  await tab.getByLabel('Session').selectOption('many')
  const hash = await tab.evaluate<string>('location.hash')
  assert.deepEqual(Object.fromEntries(new URLSearchParams(hash.split('?')[1])), {
    host: '*.example.com',
    decision: 'deny',
    session: 'many',
  })
  const other = await page.openTab()
  await look(`?${hash.split('?')[1] ?? ''}`, other)
  await other.getByText('334 lines').waitFor()
  assert.equal(await other.getByLabel('Host').inputValue(), '*.example.com')
  await other.close()
  await tab.getByRole('button', { name: 'Show all' }).click()
  await tab.getByLabel('Credential').selectOption('github')
  assert.match((await rows().first().textContent()) ?? '', /github/)
})

test('the traffic of the agents’ own services is apart', async () => {
  await look('?session=hostile')
  await tab.getByText('3 lines').waitFor()
  await tab.getByRole('button', { name: 'Agents’ own services' }).click()
  await tab.getByText('1 line', { exact: true }).waitFor()
  await list().getByText('model.example').waitFor()
})

test('j, k, Enter and Escape lead through the list, into a request and out of it', async () => {
  await look('?session=many&decision=deny')
  await rows().first().waitFor()
  // Lines that were filtered anew have none of them chosen.
  await eventually(async () => {
    await tab.keyboard.press('j')
    assert.equal(await list().getByRole('option', { selected: true }).count(), 1)
  })
  for (let press = 0; press < 3; press += 1) await tab.keyboard.press('k')
  assert.equal(await list().getByRole('option', { selected: true }).getAttribute('aria-posinset'), '1')
  await tab.keyboard.press('Enter')
  await panel().getByText('host_not_allowed').first().waitFor()
  await panel().getByText('The session is over, and its policy went with it.').waitFor()
  assert.match(await tab.evaluate<string>('location.hash'), /^#\/activity\/many\/r\d+\?/)
  await panel()
    .getByText(/line \d+ of/)
    .first()
    .click()
  await panel().getByText('api.example.com').first().waitFor()
  await inspectView(tab, 'activity-request')
  await tab.keyboard.press('Escape')
  await panel().waitFor({ state: 'detached' })
})

test('I85 what an agent wrote into hosts, methods and paths is shown escaped, and runs nothing', async () => {
  await look('?session=hostile')
  await rows().first().waitFor()
  assert.equal(await list().locator('img').count(), 0)
  const text = (await list().textContent()) ?? ''
  assert.ok(text.includes('\\u{202E}') && text.includes('\\u{200B}') && text.includes('\\u{1B}') && text.includes('\\u{D}'))
  assert.doesNotMatch(text, UNSEEN)
  await list().getByText('<img src=x').first().click()
  await panel().getByText('In the audit').waitFor()
  assert.equal(await panel().locator('img').count(), 0)
  assert.doesNotMatch((await panel().textContent()) ?? '', UNSEEN)
  await inspectView(tab, 'activity-hostile')
  assert.notEqual(await tab.title(), 'run')
})

test('I86 no rule is offered for what Sallyport itself refuses', async () => {
  await look('/hostile/h3?session=hostile')
  await panel().getByText('A rule that allows it would not help').waitFor()
  assert.equal(await panel().getByRole('button', { name: 'Allow this host for…' }).count(), 0)
})

test('charts have their figures in a table too, and are drawn anew in other colours', async () => {
  await look('?session=many')
  await tab.locator('.activity-drawing canvas').nth(3).waitFor()
  await tab.getByLabel('The last').selectOption('24 hours')
  await tab.getByText('The figures of the charts').click()
  const table = tab.getByRole('region', { name: 'The figures of the charts' })
  await table.waitFor()
  const requests = await table.locator('tbody tr td:nth-child(2)').allTextContents()
  assert.equal(
    requests.reduce((sum, text) => sum + Number(text), 0),
    COUNT - 4,
  )
  const light = await tab.evaluate<string>(DRAWN)
  await tab.evaluate("document.documentElement.dataset.theme = 'dark'")
  await tab.waitForFunction(`${DRAWN} !== ${JSON.stringify(light)}`)
  await tab.evaluate('delete document.documentElement.dataset.theme')
  await tab.getByText('The figures of the charts').click()
  await inspectView(tab, 'activity')
  assert.deepEqual(page.faults, [])
})
