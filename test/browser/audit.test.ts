/** The audit in the page: search, the story of an event, whether it holds, export. Real daemon, real files. */
import assert from 'node:assert/strict'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { openControllerAudit } from '../../src/audit/audit.ts'
import { createSessionChains } from '../../src/controller/session-chains.ts'
import { createLog } from '../../src/kernel/log.ts'
import { system } from '../../src/kernel/system.ts'
import { gateLines, record, SESSION } from '../support/controller-audit.ts'
import { inspectView, openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

const HOSTILE = 'already approved \u202E<img src=x onerror="window.fooled=1">\u200B\r\n\u001B[2Kok'
const ESCAPED = 'already approved \\u{202E}<img src=x onerror="window.fooled=1">\\u{200B}'
const DIGEST = 'd'.repeat(64)
const PRINTED = 'e'.repeat(64)
const REQUEST = 'req_story1'
const QUESTION = 'q_story1'
const EVENTS = 300

let page: OperatorPage
let tab: Page

before(async () => {
  page = await openOperatorPage(async ({ home }) => {
    const folder = join(home, 'audit')
    await mkdir(join(folder, 'sessions'), { recursive: true })
    await using audit = await openControllerAudit({ folder, keyFile: join(home, 'audit.key') }, system, createLog('silent'))
    await record(audit, EVENTS)
    await using chains = createSessionChains(join(folder, 'sessions'), audit, { elapsed: () => 0 })
    await chains.append(SESSION, gateLines(20))
    const of = { request: REQUEST, of: SESSION }
    const asked = { question: QUESTION, digest: DIGEST, of: SESSION }
    await audit.append({ event: 'command_decided', ...of, command: HOSTILE, decision: 'ask', risk: 'caution' })
    await audit.append({
      event: 'question_asked',
      ...asked,
      kind: 'command',
      name: HOSTILE,
      place: '/work',
      asker_agent: 'claude',
      what: '["date"]',
      reason: HOSTILE,
      risk: 'caution',
      tier: 'T0',
      expires: '2026-01-01T00:00:00.000Z',
    })
    await audit.append({ event: 'question_settled', ...asked, state: 'approved', scope: 'once', by: 'page 1', tier: 'T0', means: 'key' })
    await audit.append({ event: 'question_consumed', ...asked })
    await audit.append({
      event: 'command_finished',
      ...of,
      question: QUESTION,
      bytes: 5,
      stdout_sha256: PRINTED,
      exit_code: 0,
      duration_ms: 3,
    })
    await audit.append({ event: 'question_finished', ...asked, exit_code: 0 })
  })
  tab = await page.openTab()
  await tab.goto(`${page.url}/#/audit`)
})
after(() => page[Symbol.asyncDispose]())

test('whether the audit holds is told in the menu of every view, with the counts that the command finds', async () => {
  const said = JSON.parse(await page.place.must(['audit', 'verify', '--json'])) as { sessionEvents: number; key: string }
  const card = tab.getByRole('region', { name: 'Verification' })
  await card.getByText('What was found').click()
  await card.getByText(`${said.sessionEvents} in 1 chains of sessions`).waitFor()
  assert.match(await card.innerText(), new RegExp(said.key))
  await tab.goto(`${page.url}/#/inbox`)
  await tab.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'audit holds' }).click()
  await tab.getByRole('heading', { name: 'Audit', exact: true }).waitFor()
})

test('events come the latest first, in parts, and of thousands only those in sight are in the document', async () => {
  const list = tab.getByRole('list', { name: 'Events, the latest first' })
  await list.getByRole('link').first().waitFor()
  await tab.getByText('200 events, and older ones').waitFor()
  assert.ok((await list.getByRole('link').count()) < 60)
  await tab.getByRole('button', { name: 'Older events' }).click()
  await tab.getByText(/^3\d\d events/).waitFor()
  await inspectView(tab, 'audit')
})

test('a search finds what has its text, and nothing else, and the address keeps it', async () => {
  await tab.getByLabel('Search', { exact: true }).fill('number 17')
  await tab.getByLabel('Search', { exact: true }).press('Enter')
  await tab.getByText('11 events', { exact: true }).waitFor()
  assert.match(tab.url(), /text=number\+17/)
  const rows = await tab.getByRole('list', { name: 'Events, the latest first' }).getByRole('link').allInnerTexts()
  assert.ok(
    rows.every((row) => /number 17\d?"$/.test(row.trim())),
    rows.join('\n'),
  )
  await tab.getByLabel('Search', { exact: true }).fill('nothing has this')
  await tab.getByRole('button', { name: 'Search' }).click()
  await tab.getByText('Nothing like that is recorded').waitFor()
})

test('I85 an event leads to its whole story, from the request to the digest of what was printed; what an agent wrote shows escaped', async () => {
  await tab.goto(`${page.url}/#/audit?event=command_decided`)
  await tab.getByRole('list', { name: 'Events, the latest first' }).getByRole('link').click()
  const story = tab.getByRole('region', { name: 'Story of the event' })
  await story.getByText(PRINTED).waitFor()
  assert.deepEqual(await story.getByRole('listitem').getByRole('heading').allInnerTexts(), [
    'The agent asked for a command, and the policy was looked at',
    'The operator was asked',
    'The question was settled',
    'The approval was used: it is good once',
    'The command ended',
    'What was approved is over',
  ])
  const text = await story.innerText()
  assert.ok(text.includes(ESCAPED), text)
  assert.match(text, /controller:\d+ checkpoint/)
  assert.equal(await tab.evaluate('"fooled" in window || document.querySelector("#main img") !== null'), false)
  await inspectView(tab, 'audit-story')
})

test('the export is what the command exports', async () => {
  await tab.goto(`${page.url}/#/audit?event=operator`)
  await tab.getByText('200 events, and older ones').waitFor()
  const [download] = await Promise.all([tab.waitForEvent('download'), tab.getByRole('button', { name: 'Export' }).click()])
  const file = await readFile(await download.path(), 'utf8')
  assert.equal(file, await page.place.must(['audit', 'export', '--format', 'jsonl', '--event', 'operator']))
  assert.equal(file.trim().split('\n').length, EVENTS)
})

test('one byte of one line that is another: the page says that the audit is broken, and where', async () => {
  const file = join(page.place.home, 'audit', 'sessions', `${SESSION}.jsonl`)
  const text = await readFile(file, 'utf8')
  await writeFile(file, text.replace('"r7"', '"r8"'))
  await tab.getByRole('button', { name: 'Verify now' }).click()
  await tab.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'audit is broken' }).waitFor()
  await tab.getByText(`${SESSION}.jsonl:7`).waitFor()
  await inspectView(tab, 'audit-broken')
  assert.deepEqual(page.faults, [])
})
