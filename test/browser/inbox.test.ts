/** The inbox in Chromium, with the approvals of a real controller: what is shown, what a press does, and when it does nothing. */
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { Question, QuestionWish } from '../../src/wire/question.ts'
import { allow as allowOnce, commandSubject, deny, evidenceFor, SHA, wishOf } from '../support/approvals.ts'
import { eventually } from '../support/eventually.ts'
import { allow, armed, articleIn, isSo, openInboxPage, toTheEnd, type InboxPage } from '../support/inbox-page.ts'
import { inPage, inspectView } from '../support/operator-page.ts'
import { hostileWishes } from '../support/questions.ts'

const LONG_MS = 300_000
/** As many as may wait. */
const COUNT = LIMITS.questionsPendingMax
/** What shows as nothing, or turns what stands around it. */
const UNSEEN = /[\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?!\n)\p{Cc}/u
const NOTIFICATIONS = inPage('notifications.js')
let page: InboxPage
let tab: Page

before(async () => {
  page = await openInboxPage()
  tab = await page.openTab()
})
beforeEach(async () => {
  page.clear()
  await page.loadAnew(tab)
})
afterEach(() => assert.deepEqual(page.faults, []))
after(() => page[Symbol.asyncDispose]())

const ask = (more: Parameters<typeof wishOf>[0] = {}) => page.operator.ask(wishOf({ expiresInMs: LONG_MS, ...more }))
const article = (on = tab): Locator => articleIn(on)
const button = (name: string | RegExp, on = tab): Locator => article(on).getByRole('button', { name, exact: typeof name === 'string' })
const rows = (on = tab): Locator => on.getByRole('list', { name: /^Questions that wait/ }).getByRole('listitem')
const stateOf = ({ id }: Question): string => page.operator.approvals.get(id).state
/** A question that is longer than the window. */
const longSubject = () =>
  commandSubject(['long'], { environment: Object.fromEntries(Array.from({ length: 80 }, (_, at) => [`VARIABLE_${at}`, 'value'])) })
/** Looks at the one that has this in its line, and an offer. */
async function pickOffered(text: string): Promise<void> {
  await rows().filter({ hasText: text }).filter({ hasText: 'offer' }).getByRole('button').click()
}

test('what was is listed with who, how and what became of it', async () => {
  const { question, outcome } = await ask({ subject: commandSubject(['past']) })
  await allow(tab, 'Allow once')
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

test('of a thousand questions a hundred are drawn, keys go through all of them, and a press turns to the others', async () => {
  const each = (_: unknown, at: number): QuestionWish =>
    wishOf({ session: `s-many-${Math.floor(at / 50)}`, subject: commandSubject([`c-${COUNT + at}`]), expiresInMs: LONG_MS })
  await page.askAll(Array.from({ length: COUNT }, each))
  await tab.getByText(`${COUNT} questions wait`).waitFor()
  assert.equal(await rows().count(), 100)
  const names = page.programs()
  const shown = (at: number): Promise<void> => article().getByText(`"${names[at]}"`).waitFor()
  await rows().nth(98).getByRole('button').click()
  await shown(98)
  for (const at of [99, 100]) {
    await tab.keyboard.press('j')
    await shown(at)
  }
  await tab.locator('.inbox-row[aria-current]', { hasText: names[100] ?? '' }).waitFor()
  assert.equal(await rows().count(), 100)
  await tab.keyboard.press('d')
  await tab.getByText(`Denied: ${names[100]}`).waitFor()
  await tab.keyboard.press('k')
  await shown(99)
  await rows().nth(99).locator('[aria-current]').waitFor()
  await allow(tab, 'Allow once')
  await tab.getByText(`Allowed: ${names[99]}`).waitFor()
  for (const first of [102, 202]) {
    await tab.getByRole('button', { name: 'The next 100 of' }).click()
    await rows()
      .first()
      .getByText(names[first] ?? '')
      .waitFor()
  }
  await tab.getByRole('button', { name: 'The 100 before' }).click()
  await rows()
    .first()
    .getByText(names[102] ?? '')
    .waitFor()
  await ask({ subject: commandSubject(['the-last']) })
  await tab.getByRole('button', { name: /^\d+ new$/ }).click()
  await rows().last().getByText('the-last').waitFor()
})

test('I78 a yes is taken 400 ms after all of a question is there, and from no press that began before', async () => {
  const timed = await page.openTab()
  await timed.clock.install()
  const { question, outcome } = await ask()
  await article(timed).getByText('"view"').waitFor()
  await timed.clock.pauseAt(Date.now() + 60_000)
  const yes = button('Allow once', timed)
  await toTheEnd(timed)
  await timed.getByText('A moment.').waitFor()
  await yes.click({ force: true })
  await timed.keyboard.press('a')
  await timed.getByText('Not allowed: A moment.').waitFor()
  await timed.clock.runFor(390)
  // Held down from before: the button and the key.
  await yes.dispatchEvent('pointerdown')
  await timed.keyboard.down('a')
  await timed.clock.runFor(20)
  assert.equal(await yes.getAttribute('aria-disabled'), 'false')
  await timed.keyboard.down('a')
  await yes.dispatchEvent('click')
  assert.equal(stateOf(question), 'claimed')
  await timed.keyboard.up('a')
  await timed.keyboard.press('a')
  assert.equal((await outcome).decision, 'allow')
  await timed.context().close()
})

test('I78 a yes is not taken of what is not seen to its end, nor after the window was left, and a no always is', async () => {
  const { question } = await ask({ subject: longSubject() })
  await article().getByText('There is more: scroll to the end').waitFor()
  await button('Allow once').click({ force: true })
  await tab.keyboard.press('a')
  await tab.getByText('Not allowed: There is more').waitFor()
  await toTheEnd(tab)
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
  await page.loadAnew(tab)
  await rows().nth(1).getByRole('button').click()
  const [, second = ''] = page.programs()
  await article().getByText(`"${second}"`).waitFor()
  const focused = 'document.activeElement.getAttribute("aria-label")'
  assert.equal(await tab.evaluate(focused), 'What is asked')
  await page.askAll(Array.from({ length: 3 }, (_, at) => wishOf({ subject: commandSubject([`later-${at}`]), expiresInMs: LONG_MS })))
  await tab.getByRole('button', { name: '3 new' }).waitFor()
  assert.equal(await tab.evaluate('document.querySelector(".inbox-scroll").scrollTop'), 0)
  assert.equal(await tab.evaluate(focused), 'What is asked')
  assert.ok((await tab.locator('.inbox-row[aria-current]').innerText()).includes(second))
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
  await armed(tab)
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
  await allow(tab, 'Allow once (2)')
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
  await allow(tab, 'Allow and remember')
  await article().getByText('it has more ports').first().waitFor()
  assert.deepEqual(page.operator.approvals.remembered(), [])
  await inspectView(tab, 'inbox-remember')
  const narrower = JSON.stringify({ ...(JSON.parse(rule) as object), paths: ['/me'] })
  await field.fill(narrower)
  await tab.getByLabel('It ends after').selectOption('1 day')
  await allow(tab, 'Allow and remember')
  await eventually(() => assert.equal(stateOf(question), 'approved'))
  const [kept] = page.operator.approvals.remembered()
  assert.equal(kept?.rule, narrower)
  assert.ok(Math.abs((kept?.expiresAt ?? 0) - Date.now() - 86_400_000) < 60_000)
})

test('of two operators one wins, and the other is told who has it and how it ended', async () => {
  const other = await page.openBeside(tab.context())
  const { question } = await ask()
  await article().waitFor()
  await button('Remember…', other).click()
  await article()
    .getByText(/page \w+ has it in hand/)
    .waitFor()
  await toTheEnd(tab)
  await tab.keyboard.press('a')
  await tab.getByText(/Not allowed: page \w+ has it/).waitFor()
  await allow(other, 'Allow and remember')
  await article()
    .getByText(/It is over: allowed and remembered, by page/)
    .waitFor()
  assert.equal(stateOf(question), 'approved')
  await other.close()
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

test('after three equal noes, and after five equal yeses to what is not dangerous, the same for the session is offered and never chosen', async () => {
  const { approvals } = page.operator
  const answered = async (count: number, wish: Parameters<typeof wishOf>[0], by: typeof deny): Promise<void> => {
    const asked = []
    for (let at = 0; at < count; at += 1) asked.push((await ask(wish)).question)
    for (const question of asked) await eventually(() => approvals.answer(question.id, by(question), evidenceFor(question.digest)))
  }
  await answered(3, { subject: commandSubject(['again']) }, deny)
  await ask({ subject: commandSubject(['again']) })
  await pickOffered('again')
  await article().getByText('You denied the last 3 like it').waitFor()
  await inspectView(tab, 'inbox')
  const wish = { subject: commandSubject(['often']) }
  await answered(4, wish, allowOnce)
  const fifth = await ask(wish)
  assert.equal(fifth.question.offer, undefined)
  await eventually(() => approvals.answer(fifth.question.id, allowOnce(fifth.question), evidenceFor(fifth.question.digest)))
  const sixth = await ask(wish)
  await pickOffered('often')
  await article().getByText('You allowed the last 5 like it').waitFor()
  assert.match(stateOf(sixth.question), /pending|claimed/)
  await allow(tab, 'Allow for the session')
  assert.equal((await sixth.outcome).decision, 'allow')
  assert.equal((await approvals.ask(wishOf(wish), new AbortController().signal)).decision, 'allow')
  const dangerous = { subject: commandSubject(['rm']), risk: { level: 'dangerous' as const, reasons: ['it removes'] } }
  await answered(5, dangerous, allowOnce)
  assert.equal((await ask(dangerous)).question.offer, undefined)
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
  const wishes = hostileWishes(alert)
  await page.askAll(wishes.map((wish) => ({ ...wish, expiresInMs: LONG_MS })))
  await rows()
    .nth(wishes.length - 1)
    .waitFor()
  const count = wishes.length
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

test('of the hidden tabs of a browser one listens and tells; one that is seen again knows all that waits, and how what it showed ended', async () => {
  const first = await page.openTab(NOTIFICATIONS)
  const second = await page.openBeside(first.context(), NOTIFICATIONS)
  const { question } = await ask({ subject: commandSubject(['unheard']) })
  await article(second).waitFor()
  for (const one of [first, second]) await one.evaluate('globalThis.hide(true)')
  await isSo(
    second,
    'navigator.locks.query().then(({ held, pending }) => [held, pending].every((all) => all.some(({ name }) => name === "sallyport-listens-hidden")))',
  )
  await eventually(() => page.operator.approvals.answer(question.id, deny(question), evidenceFor(question.digest)))
  await ask()
  await isSo(first, 'globalThis.notified.length === 1')
  assert.equal(await second.evaluate('globalThis.notified.length'), 0)
  await isSo(second, 'document.title.startsWith("(1) ")')
  await second.evaluate('globalThis.hide(false)')
  await article(second).getByText('It is over: denied once').waitFor()
  await rows(second).filter({ hasText: 'denied once' }).getByText('unheard').waitFor()
  assert.equal(await rows(second).count(), 2)
  await first.context().close()
})
