/** The inbox in Chromium, with the approvals of a real controller: what is shown, what a press does, and when it does nothing. */
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import type { Question, QuestionWish } from '../../src/wire/question.ts'
import { commandSubject, deny, evidenceFor, SHA, wishOf } from '../support/approvals.ts'
import { eventually } from '../support/eventually.ts'
import { openInboxPage, type InboxPage } from '../support/inbox-page.ts'
import { inspectView } from '../support/operator-page.ts'
import { HOSTILE_TEXTS } from '../support/questions.ts'

const LONG_MS = 300_000
/** What shows as nothing, or turns what stands around it. */
const UNSEEN = /[\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?!\n)\p{Cc}/u
/** A browser whose operator agreed to notifications, and who can look away. */
const NOTIFICATIONS = `
  globalThis.notified = []
  globalThis.Notification = class extends EventTarget {
    static permission = 'granted'
    constructor(title, { body }) {
      super()
      globalThis.notified.push([title, body])
      globalThis.lastNotice = this
    }
    close() {}
  }
  let isHidden = false
  Object.defineProperty(document, 'visibilityState', { get: () => (isHidden ? 'hidden' : 'visible') })
  globalThis.hide = (is) => {
    isHidden = is
    document.dispatchEvent(new Event('visibilitychange'))
  }
`
let page: InboxPage
let tab: Page

before(async () => {
  page = await openInboxPage()
})
beforeEach(async () => {
  page.clear()
  tab = await page.openTab()
})
afterEach(async () => {
  await tab.context().close()
  assert.deepEqual(page.faults, [])
})
after(() => page[Symbol.asyncDispose]())

const ask = (more: Parameters<typeof wishOf>[0] = {}) => page.operator.ask(wishOf({ expiresInMs: LONG_MS, ...more }))
const article = (on = tab): Locator => on.getByRole('article', { name: 'Question' })
const button = (name: string | RegExp, on = tab): Locator => article(on).getByRole('button', { name, exact: typeof name === 'string' })
const body = (on = tab): Locator => article(on).getByRole('region', { name: 'What is asked' })
const rows = (on = tab): Locator => on.getByRole('list', { name: /^Questions that wait/ }).getByRole('listitem')
const stateOf = ({ id }: Question): string => page.operator.approvals.get(id).state
/** A question that is longer than the window. */
const longSubject = () =>
  commandSubject(['long'], { environment: Object.fromEntries(Array.from({ length: 80 }, (_, at) => [`VARIABLE_${at}`, 'value'])) })
/** Presses what says yes, once it is taken. */
async function allow(name: string, on = tab): Promise<void> {
  await toTheEnd(on)
  await article(on).locator('button[aria-disabled="false"]', { hasText: name }).click()
}
async function toTheEnd(on = tab): Promise<void> {
  await article(on).getByRole('button', { name: 'Show all of it' }).waitFor()
  await body(on).focus()
  await on.keyboard.press('End')
}

test('I78 a yes is taken 400 ms after all of a question is there, and from no press that began before', async () => {
  await tab.clock.install()
  const { question, outcome } = await ask()
  await article().getByText('"view"').waitFor()
  await tab.clock.pauseAt(Date.now() + 60_000)
  const yes = button('Allow once')
  await toTheEnd()
  await tab.getByText('A moment.').waitFor()
  await yes.click({ force: true })
  await tab.keyboard.press('a')
  await tab.getByText('Not allowed: A moment.').waitFor()
  await tab.clock.runFor(390)
  // Held down from before: the button and the key.
  await yes.dispatchEvent('pointerdown')
  await tab.keyboard.down('a')
  await tab.clock.runFor(20)
  assert.equal(await yes.getAttribute('aria-disabled'), 'false')
  await tab.keyboard.down('a')
  await yes.dispatchEvent('click')
  assert.equal(stateOf(question), 'claimed')
  await tab.keyboard.up('a')
  await tab.keyboard.press('a')
  assert.equal((await outcome).decision, 'allow')
})

test('I78 a yes is not taken of what is not seen to its end, nor after the window was left, and a no always is', async () => {
  const { question } = await ask({ subject: longSubject() })
  await article().getByText('There is more: scroll to the end').waitFor()
  await button('Allow once').click({ force: true })
  await tab.keyboard.press('a')
  await tab.getByText('Not allowed: There is more').waitFor()
  await toTheEnd()
  await tab.locator('button:has-text("Allow once")[aria-disabled="false"]').waitFor()
  await tab.evaluate('dispatchEvent(new Event("blur"))')
  assert.equal(await button('Allow once').getAttribute('aria-disabled'), 'true')
  await tab.locator('button:has-text("Allow once")[aria-disabled="false"]').waitFor()
  await tab.keyboard.press('Home')
  await tab.locator('button:has-text("Allow once")[aria-disabled="true"]').waitFor()
  assert.match(stateOf(question), /pending|claimed/)
  await button('Deny').click()
  await eventually(() => assert.equal(stateOf(question), 'denied'))
})

test('what arrives moves neither the selection, the focus nor the list, and says how many came', async () => {
  await page.askAll(Array.from({ length: 12 }, (_, at) => wishOf({ subject: commandSubject([`first-${at}`]), expiresInMs: LONG_MS })))
  await rows().nth(11).waitFor()
  await tab.getByRole('button', { name: /^\d new$/ }).click()
  await tab.getByRole('button', { name: /^\d new$/ }).waitFor({ state: 'detached' })
  await rows().nth(1).getByRole('button').click()
  await article().getByText('"first-1"').waitFor()
  const focused = 'document.activeElement.getAttribute("aria-label")'
  assert.equal(await tab.evaluate(focused), 'What is asked')
  await page.askAll(Array.from({ length: 3 }, (_, at) => wishOf({ subject: commandSubject([`later-${at}`]), expiresInMs: LONG_MS })))
  await tab.getByRole('button', { name: '3 new' }).waitFor()
  assert.equal(await tab.evaluate('document.querySelector(".inbox-scroll").scrollTop'), 0)
  assert.equal(await tab.evaluate(focused), 'What is asked')
  assert.match(await tab.locator('.inbox-row[aria-current]').innerText(), /first-1/)
  await tab.getByRole('button', { name: '3 new' }).click()
  await tab.getByRole('button', { name: '3 new' }).waitFor({ state: 'detached' })
})

test('all is done by keys: down, up, into it, to its end, yes; the next one is not answered by the same key', async () => {
  const first = await ask({ subject: commandSubject(['one']) })
  const second = await ask({ subject: commandSubject(['two']) })
  const third = await ask({ subject: commandSubject(['three']) })
  await article().getByText('"one"').waitFor()
  await tab.keyboard.press('j')
  await article().getByText('"two"').waitFor()
  await tab.keyboard.press('j')
  await article().getByText('"three"').waitFor()
  await tab.keyboard.press('k')
  await tab.keyboard.press('k')
  await article().getByText('"one"').waitFor()
  await tab.keyboard.press('Enter')
  await tab.keyboard.press('End')
  await tab.locator('button:has-text("Allow once")[aria-disabled="false"]').waitFor()
  await tab.keyboard.down('a')
  await article().getByText('"two"').waitFor()
  await tab.getByText('Allowed: one').waitFor()
  await tab.keyboard.press('End')
  await tab.locator('button:has-text("Allow once")[aria-disabled="false"]').waitFor()
  await tab.keyboard.down('a')
  await tab.keyboard.up('a')
  assert.equal((await first.outcome).decision, 'allow')
  assert.notEqual(stateOf(second.question), 'approved')
  await tab.keyboard.press('d')
  assert.equal((await second.outcome).decision, 'deny')
  await article().getByText('"three"').waitFor()
  await tab.keyboard.press('?')
  await tab.getByRole('dialog', { name: 'Keys' }).getByText('deny with a message').waitFor()
  await tab.keyboard.press('d')
  await tab.keyboard.press('Escape')
  assert.match(stateOf(third.question), /pending|claimed/)
})

test('a message goes with a no to whoever asked', async () => {
  const { outcome } = await ask()
  // Even a no is refused of a question that was just put: it has been there long enough once a yes would be taken.
  await toTheEnd()
  await article().locator('button[aria-disabled="false"]', { hasText: 'Allow once' }).waitFor()
  await tab.keyboard.press('m')
  await tab.getByLabel('For the agent').fill('use the API')
  await tab.keyboard.press('Enter')
  const ended = await outcome
  assert.deepEqual(ended.decision === 'deny' && [ended.code, ended.message], ['approval_denied', 'use the API'])
})

test('I79 of equal questions those that are chosen are answered, each by its digest, and one that differs is none of them', async () => {
  const alike = []
  for (const reason of ['first', 'second', 'third']) alike.push(await ask({ reason, session: 's-many' }))
  const odd = await ask({
    session: 's-many',
    subject: commandSubject(undefined, { environment: { PATH: '/usr/bin:/bin', HOME: '/home/op', X: '1' } }),
  })
  await rows().nth(1).waitFor()
  assert.equal(await rows().count(), 2)
  const bundle = article().getByRole('group', { name: /^3 that ask for the same/ })
  await bundle.getByText('| second').waitFor()
  await inspectView(tab, 'inbox-bundle')
  await bundle.getByRole('checkbox').nth(1).check()
  await allow('Allow once (2)')
  assert.deepEqual(await Promise.all(alike.slice(0, 2).map(async ({ outcome }) => (await outcome).decision)), ['allow', 'allow'])
  assert.equal(stateOf((alike[2] as (typeof alike)[0]).question), 'pending')
  assert.equal(stateOf(odd.question), 'pending')
})

test('a rule is remembered as it was offered or narrower, and a wider one is refused where it is written', async () => {
  const host = {
    kind: 'domain',
    rule: 'r',
    lane: 'forward',
    scheme: 'https',
    host: 'api.example.com',
    port: 443,
    method: 'CONNECT',
  } as const
  const rule = JSON.stringify({ host: host.host, ports: [443], methods: ['CONNECT'] })
  const { question } = await ask({ subject: host, remember: { kind: 'network', rule } })
  await button('Remember…').click()
  const field = tab.getByLabel('Rule: requests')
  assert.deepEqual(JSON.parse(await field.inputValue()), JSON.parse(rule))
  await field.fill(rule.replace('[443]', '[443, 8443]'))
  await allow('Allow and remember')
  await article().getByText('it has more ports').first().waitFor()
  assert.deepEqual(page.operator.approvals.remembered(), [])
  await inspectView(tab, 'inbox-remember')
  const narrower = JSON.stringify({ ...(JSON.parse(rule) as object), paths: ['/me'] })
  await field.fill(narrower)
  await tab.getByLabel('It ends after').selectOption('1 day')
  await allow('Allow and remember')
  await eventually(() => assert.equal(stateOf(question), 'approved'))
  const [kept] = page.operator.approvals.remembered()
  assert.equal(kept?.rule, narrower)
  assert.ok(Math.abs((kept?.expiresAt ?? 0) - Date.now() - 86_400_000) < 60_000)
})

test('of two operators one wins, and the other is told who has it and how it ended', async () => {
  const other = await page.openTab()
  const { question } = await ask()
  await article().waitFor()
  await button('Remember…', other).click()
  await article()
    .getByText(/page \w+ has it in hand/)
    .waitFor()
  await toTheEnd()
  await tab.keyboard.press('a')
  await tab.getByText(/Not allowed: page \w+ has it/).waitFor()
  await allow('Allow and remember', other)
  await article()
    .getByText(/It is over: allowed and remembered, by page/)
    .waitFor()
  assert.equal(stateOf(question), 'approved')
  await other.context().close()
})

test('one that expires while it is looked at says so, and keeps its place until it is left', async () => {
  await ask({ subject: commandSubject(['short']), expiresInMs: 1_500 })
  await article().getByText('"short"').waitFor()
  await ask({ subject: commandSubject(['after']) })
  await article().getByText('It is over: expired: nobody answered in time').waitFor()
  assert.equal(await rows().count(), 2)
  assert.equal(await button('Allow once').count(), 0)
  await tab.keyboard.press('j')
  await article().getByText('"after"').waitFor()
})

test('an offer is said and never chosen', async () => {
  const { approvals } = page.operator
  for (let at = 0; at < 3; at += 1) {
    const { question } = await ask({ subject: commandSubject(['again']) })
    await eventually(() => approvals.answer(question.id, deny(question), evidenceFor(question.digest)))
  }
  await ask({ subject: commandSubject(['again']) })
  await rows().last().getByRole('button').click()
  await article().getByText('You denied the last 3 like it').waitFor()
  await inspectView(tab, 'inbox')
})

test('of 150 questions 100 are drawn, moved through and answered, and the rest is a press away', async () => {
  const wishes = (count: number, from: number): QuestionWish[] =>
    Array.from({ length: count }, (_, at) =>
      wishOf({ session: `s-many-${Math.floor((at + from) / 50)}`, subject: commandSubject([`c-${at + from}`]), expiresInMs: LONG_MS }),
    )
  await page.askAll(wishes(100, 0))
  await rows().nth(99).waitFor()
  await rows().nth(97).getByRole('button').click()
  await article().getByText('"c-97"').waitFor()
  for (let at = 0; at < 2; at += 1) await tab.keyboard.press('j')
  await article().getByText('"c-99"').waitFor()
  await tab.keyboard.press('d')
  await tab.getByText('Denied: c-99').waitFor()
  await page.askAll(wishes(50, 100))
  await tab.getByText('149 questions wait').waitFor()
  assert.equal(await rows().count(), 100)
  await tab.getByRole('button', { name: 'Show 49 more of 49' }).click()
  await rows().nth(148).waitFor()
})

test('what was is listed with who, how and what became of it', async () => {
  const { question, outcome } = await ask({ subject: commandSubject(['past']) })
  await allow('Allow once')
  await outcome
  await page.operator.approvals.consume(question.id, question.digest)
  await page.operator.approvals.finished(question.id, { exitCode: 3 })
  await tab.getByRole('link', { name: 'Recent' }).click()
  const line = tab.getByRole('row').filter({ hasText: 'past' })
  await line.getByText('ended with 3').waitFor()
  assert.match(await line.innerText(), /allowed once[^]*page \w+, by T0/)
  await inspectView(tab, 'inbox-recent')
  await line.getByRole('button').click()
  await tab.getByRole('dialog', { name: 'What was asked' }).getByText('"past"').waitFor()
  await tab.keyboard.press('Escape')
  await tab.getByRole('link', { name: 'Waiting' }).click()
})

test('a change of a file is shown as its diff', async () => {
  const subject = { kind: 'proposal', of: 'policy', target: '/home/op/p.yaml', diff: '@@ -1 +1 @@\n-a\n+b\u202e', after: SHA } as const
  await ask({ subject })
  const diff = article().getByRole('region', { name: 'the change' })
  assert.equal(await diff.locator('.added').innerText(), '+b\\u{202E}')
  assert.equal(await button('Allow for the session').count(), 0)
})

test('I85 texts of agents in every field are shown escaped, and run nothing', async () => {
  const alert = '<img src=x onerror="globalThis.wasRun = true">'
  for (const text of [...HOSTILE_TEXTS, alert].filter((one) => !one.includes('\x00'))) {
    const name = text.slice(0, 200)
    const asker = { session: 's-evil', sessionName: name, workspace: `/w/${name}`, role: name, agent: name }
    const command = commandSubject(['x', text], {
      cwd: { path: `/c/${name}`, device: '1', inode: '2' },
      environment: { EVIL: text },
      secrets: [name],
    })
    await ask({ asker, subject: command, reason: text, rule: text, nearMiss: text, risk: { level: 'dangerous', reasons: [text] } })
  }
  const domain = {
    kind: 'domain',
    rule: alert,
    lane: alert,
    host: `\u202e${alert}`,
    port: 1,
    method: alert,
    path: `/\u200b${alert}`,
  } as const
  await ask({ subject: domain })
  await ask({ subject: { kind: 'proposal', of: 'skill', target: `/t/\u202e${alert}`, diff: `+${alert}\u2066`, after: SHA } })
  const count = HOSTILE_TEXTS.length + 2
  for (let at = 0; at < count; at += 1) {
    await button(/^Show all of it/).click()
    await article().getByRole('region', { name: 'All of it, as JSON' }).waitFor()
    const text = (await tab.locator('main').textContent()) ?? ''
    assert.doesNotMatch(text, UNSEEN)
    assert.equal(await tab.locator('main img, main script').count(), 0)
    await tab.keyboard.press('j')
    await rows()
      .nth(Math.min(count - 1, at + 1))
      .locator('[aria-current]')
      .waitFor()
  }
  await inspectView(tab, 'inbox-hostile')
  assert.equal(await tab.evaluate('globalThis.wasRun'), undefined)
})

test('a notification names the session and nothing of the agent, and comes only while nobody sees the page; a number stands in the title', async () => {
  const watched = await page.openTab(NOTIFICATIONS)
  await ask({ reason: 'words of the agent' })
  await article(watched).waitFor()
  assert.equal(await watched.evaluate('globalThis.notified.length'), 0)
  await watched.evaluate('globalThis.hide(true)')
  await isSo(watched, 'document.title.startsWith("(1) ")')
  const { question } = await ask({ session: 's-second', subject: commandSubject(['secret-words']) })
  await isSo(watched, 'globalThis.notified.length === 1')
  assert.deepEqual(await watched.evaluate('globalThis.notified'), [['name of s-second', '2 questions wait']])
  assert.match(await watched.evaluate<string>('document.querySelector("link[rel=icon]").href'), /^data:image\/svg/)
  await watched.evaluate('globalThis.lastNotice.dispatchEvent(new Event("click"))')
  await watched.evaluate('globalThis.hide(false)')
  await article(watched).getByText(question.id, { exact: true }).waitFor()
  await isSo(watched, '!document.title.startsWith("(")')
  await watched.context().close()
})

test('of the hidden tabs of a browser one listens and tells; one that is seen again knows all that waits', async () => {
  const first = await page.openTab(NOTIFICATIONS)
  const second = await page.openBeside(first.context(), NOTIFICATIONS)
  for (const one of [first, second]) await one.evaluate('globalThis.hide(true)')
  await isSo(
    second,
    'navigator.locks.query().then(({ held, pending }) => [held, pending].every((all) => all.some(({ name }) => name === "sallyport-listens-hidden")))',
  )
  await ask()
  await isSo(first, 'globalThis.notified.length === 1')
  assert.equal(await second.evaluate('globalThis.notified.length'), 0)
  await isSo(second, 'document.title.startsWith("(1) ")')
  await second.evaluate('globalThis.hide(false)')
  await article(second).waitFor()
  await first.context().close()
})

/** Waits until an expression holds in a tab: the page's policy lets no function wait in it. */
async function isSo(on: Page, expression: string): Promise<void> {
  await eventually(async () => assert.equal(await on.evaluate(expression), true, expression))
}
