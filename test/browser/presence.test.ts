/** Who is there, in Chromium with authenticators that are made of software, against the real listener with real questions. */
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser, CDPSession, Page } from 'playwright-core'
import { ROOT } from '../../scripts/steps.ts'
import { readPage } from '../../src/controller/operator/page-files.ts'
import { APPROVAL_LIMITS } from '../../src/kernel/approval-limits.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { UpRequest } from '../../src/wire/operator.ts'
import type { Question } from '../../src/wire/question.ts'
import { wishOf } from '../support/approvals.ts'
import { softwarePasskey } from '../support/authenticator.ts'
import { openBrowser } from '../support/browser.ts'
import { eventually } from '../support/eventually.ts'
import { openOperator, type Operator } from '../support/operator.ts'
import { inspectView } from '../support/operator-page.ts'
import { PASSWORD, standingClock } from '../support/presence.ts'
import { HOSTILE_TEXTS } from '../support/questions.ts'

const clock = standingClock()
let operator: Operator
let browser: Browser
let tab: Page
let devices: CDPSession
let laptop: string
let key: string
const parts = new AsyncDisposableStack()
const faults: string[] = []

before(async () => {
  operator = parts.use(await openOperator({ system: clock, files: readPage(path.join(ROOT, 'dist', 'page')) }))
  browser = parts.use(await openBrowser({ args: [] })).browser
  tab = await openTab()
  devices = await tab.context().newCDPSession(tab)
  await devices.send('WebAuthn.enable')
  laptop = await addAuthenticator('internal')
  key = await addAuthenticator('usb')
})
after(async () => {
  await parts.disposeAsync()
})

async function openTab(): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 900 }, reducedMotion: 'reduce' })
  const opened = await context.newPage()
  opened.on('pageerror', (error) => faults.push(`exception: ${error.message}`))
  opened.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) faults.push(message.text())
  })
  await opened.goto(`${operator.web.url}/#ticket=${operator.logins.ticket()}`)
  await opened.getByRole('navigation', { name: 'Views' }).waitFor()
  return opened
}

async function addAuthenticator(transport: 'internal' | 'usb'): Promise<string> {
  const { authenticatorId } = await devices.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', transport, hasResidentKey: true, hasUserVerification: true, isUserVerified: true },
  })
  return authenticatorId
}

/** Which of the two the operator touches. */
async function touch(touched: string): Promise<void> {
  for (const authenticatorId of [laptop, key])
    await devices.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled: authenticatorId === touched })
}

const names = (): string[] => operator.presence.passkeys.view().passkeys.map(({ name }) => name)

async function register(name: string): Promise<void> {
  await tab.getByLabel('Name of a new passkey').fill(name)
  await tab.getByRole('button', { name: 'Register a passkey' }).click()
}

test('the view Access is usable before anything is set up', async () => {
  await tab.getByRole('link', { name: 'Access' }).click()
  await tab.getByText('None is registered.').waitFor()
  assert.equal(await tab.getByText('not set up').count(), 3)
  await tab.getByText('this tab').waitFor()
  await inspectView(tab, 'access-empty')
})

test('the first passkey is registered with the login, the second with the first, which the dialog asks for', async () => {
  await touch(laptop)
  await register('laptop')
  await tab.getByRole('heading', { name: 'laptop' }).waitFor()
  assert.deepEqual(names(), ['laptop'])
  await touch(key)
  await register('blue key')
  const dialog = tab.getByRole('dialog')
  await dialog.getByText('Register a passkey').waitFor()
  await dialog.locator('dd.mono', { hasText: /^[0-9a-f]{16}$/ }).waitFor()
  assert.equal(await dialog.getByLabel('Password of the operator').count(), 0)
  await inspectView(tab, 'proof-passkey')
  // The new one is no proof for itself.
  assert.deepEqual(names(), ['laptop'])
  await touch(laptop)
  await dialog.getByRole('button', { name: 'Use a passkey' }).click()
  await tab.getByRole('heading', { name: 'blue key' }).waitFor()
  assert.deepEqual(names(), ['laptop', 'blue key'])
  assert.equal(await dialog.count(), 0)
})

test('a passkey that does not verify its user proves nothing, which is said in the dialog, where it can be tried again', async () => {
  await devices.send('WebAuthn.setUserVerified', { authenticatorId: laptop, isUserVerified: false })
  await tab.getByRole('button', { name: 'Rename blue key' }).click()
  await tab.getByRole('dialog', { name: 'Rename a passkey' }).getByLabel('Name').fill('red key')
  await tab.getByRole('dialog', { name: 'Rename a passkey' }).getByRole('button', { name: 'Rename' }).click()
  const dialog = tab.getByRole('dialog', { name: 'Prove that it is you' })
  await dialog.getByRole('button', { name: 'Use a passkey' }).click()
  await dialog.getByRole('alert').getByText('presence_failed').waitFor()
  assert.deepEqual(names(), ['laptop', 'blue key'])
  await devices.send('WebAuthn.setUserVerified', { authenticatorId: laptop, isUserVerified: true })
  await dialog.getByRole('button', { name: 'Use a passkey' }).click()
  await tab.getByRole('heading', { name: 'red key' }).waitFor()
  assert.deepEqual(names(), ['laptop', 'red key'])
})

test('the password is set with a passkey where there is one, and is in no field afterwards', async () => {
  await tab.getByLabel('New password', { exact: true }).fill(PASSWORD)
  await tab.getByLabel('New password again').fill('another one')
  await tab.getByRole('button', { name: 'Set it' }).click()
  await tab.getByText('It is another one than the first.').waitFor()
  await tab.getByLabel('New password again').fill(PASSWORD)
  await tab.getByRole('button', { name: 'Set it' }).click()
  await tab.getByRole('dialog').getByRole('button', { name: 'Use a passkey' }).click()
  await tab.getByRole('button', { name: 'Change it' }).waitFor()
  assert.ok(operator.presence.available.includes('T1'))
  const values = await tab.evaluate<string[]>('[...document.querySelectorAll("input")].map((input) => input.value)')
  assert.ok(values.every((value) => value === ''))
  assert.equal((await tab.content()).includes(PASSWORD), false)
  await tab.evaluate('for (const button of document.querySelectorAll(".notices button")) button.click()')
  await inspectView(tab, 'access')
})

test('a wrong password is said in the dialog, and a right one after its wait does what was meant', async () => {
  await tab.getByRole('button', { name: 'Rename red key' }).click()
  await tab.getByRole('dialog', { name: 'Rename a passkey' }).getByLabel('Name').fill('green key')
  await tab.getByRole('dialog', { name: 'Rename a passkey' }).getByRole('button', { name: 'Rename' }).click()
  const dialog = tab.getByRole('dialog', { name: 'Prove that it is you' })
  const field = dialog.getByLabel('Password of the operator')
  await field.fill('not the password')
  await field.press('Enter')
  await dialog.getByText('the password is wrong').waitFor()
  assert.equal(await field.inputValue(), '')
  await inspectView(tab, 'proof-password')
  // The other way is open while the password waits.
  await dialog.getByRole('button', { name: 'Use a passkey' }).click()
  await tab.getByRole('heading', { name: 'green key' }).waitFor()
})

test('a session with a policy file of its own is started with a proof alone, and not by who leaves the dialog', async () => {
  const started: unknown[] = []
  Object.assign(operator.sessions, {
    up: (wish: unknown) => {
      started.push(wish)
      return Promise.reject(new SallyportError('policy_not_found', 'there is no such file'))
    },
  })
  await tab.evaluate("location.hash = '#/sessions/new'")
  const form = tab.getByRole('form', { name: 'New session' })
  await form.getByLabel('Workspace', { exact: true }).fill('/project')
  await form.getByText('More', { exact: true }).click()
  await form.getByLabel('Policies of this session').fill('/project/wide.yaml')
  await form.getByRole('button', { name: 'Start', exact: true }).click()
  const dialog = tab.getByRole('dialog', { name: 'Prove that it is you' })
  await dialog.getByText('Start a session with policy files of its own').waitFor()
  await tab.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  assert.deepEqual(started, [])
  await form.getByRole('button', { name: 'Start', exact: true }).click()
  await dialog.getByRole('button', { name: 'Use a passkey' }).click()
  await tab.getByText('there is no such file').first().waitFor()
  assert.deepEqual(
    started.map((wish) => (wish as UpRequest).policy),
    [['/project/wide.yaml']],
  )
  await tab.evaluate("location.hash = '#/settings'")
  await tab.getByRole('heading', { name: 'Access', exact: true }).waitFor()
})

/** As the page answers: the challenge for what is meant, the browser's own passkey, and the answer that is sent with it, to the same place or another. */
const ANSWER = `async ({ token, question, meant, to, sent }) => {
  const call = async (path, body) => {
    const response = await fetch(path, { method: 'POST', headers: { authorization: 'Bearer ' + token, 'content-type': 'application/json' }, body: JSON.stringify(body) })
    return { status: response.status, body: await response.json() }
  }
  const made = await call('/v1/questions/' + question.id + '/challenge', { digest: question.digest, decision: 'allow', ...meant })
  const credential = await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(made.body.passkey) })
  const proof = { kind: 'passkey', response: credential.toJSON() }
  const answers = []
  for (const { id, digest, ...more } of [{ ...to, ...sent }].flat()) answers.push((await call('/v1/questions/' + id + '/answer', { digest, decision: 'allow', ...more, proof })).status)
  return answers[0]
}`

async function asked(): Promise<Question> {
  const { question } = await operator.ask({
    ...wishOf({ session: `s-${crypto.randomUUID()}`, tier: 'T3', expiresInMs: 60_000 }),
    remember: { rule: 'ls -la', kind: 'host_command' },
  })
  return question
}

async function answer(question: Question, change: { to?: Question; meant?: object; sent?: object } = {}): Promise<number> {
  const plain = ({ id, digest }: Question) => ({ id, digest })
  const { meant = { scope: 'once' }, sent = meant, to = question } = change
  const input = { token: operator.login(), question: plain(question), meant, to: plain(to), sent }
  return await tab.evaluate<number>(`(${ANSWER})(${JSON.stringify(input)})`)
}

const stateOf = ({ id }: Question): string => operator.approvals.get(id).state

test('what a passkey proved for one question, scope or rule answers no other', async () => {
  const [one, other] = [await asked(), await asked()]
  const remembered = { scope: 'remember', rule: 'ls -la' }
  // An answer is refused so soon after its question is shown that nobody can have read it.
  clock.pass(APPROVAL_LIMITS.debounceMs)
  assert.equal(await answer(one, { to: other }), 403)
  assert.equal(await answer(one, { sent: { scope: 'session' } }), 403)
  assert.equal(await answer(one, { meant: remembered, sent: { ...remembered, rule: 'ls **' } }), 403)
  assert.equal(await answer(one, { meant: remembered, sent: { ...remembered, expiresAt: 4_000_000_000_000 } }), 403)
  assert.deepEqual([stateOf(one), stateOf(other)], ['pending', 'pending'])
  assert.equal(await answer(one), 200)
  assert.deepEqual([stateOf(one), stateOf(other)], ['approved', 'pending'])
  const settled = operator.audited.find((event) => event.event === 'question_settled' && event.question === one.id)
  assert.deepEqual(settled && 'means' in settled && [settled.tier, settled.means], ['T3', 'passkey "laptop"'])
  await touch(key)
  assert.equal(await answer(other), 200)
  await touch(laptop)
})

test('after a reload the tab is out, and is let in by passkey, or by password', async () => {
  await tab.reload()
  await tab.getByRole('button', { name: 'Log in with a passkey' }).waitFor()
  await inspectView(tab, 'login-ways')
  await tab.getByRole('button', { name: 'Log in with a passkey' }).click()
  await tab.getByRole('navigation', { name: 'Views' }).waitFor()
  await tab.reload()
  const field = tab.getByLabel('Password of the operator')
  await field.fill('not the password')
  await tab.getByRole('button', { name: 'Log in', exact: true }).click()
  await tab.getByText('the password is wrong').waitFor()
  assert.equal(await field.inputValue(), '')
  // The wait after a wrong one.
  clock.pass(1_000)
  await field.fill(PASSWORD)
  await field.press('Enter')
  await tab.getByRole('navigation', { name: 'Views' }).waitFor()
  const told = operator.audited.flatMap((event) => (event.event === 'operator' ? [`${event.did} ${event.details ?? ''}`] : []))
  assert.deepEqual(
    told.map((line) => line.replace(/login [0-9a-f]{12}/, 'login').replace(/: Mozilla.*/, '')),
    ['page_login login by passkey "laptop"', 'page_login_refused 1 refused: the password is wrong', 'page_login login by the password'],
  )
})

test('names of browsers and of passkeys show escaped, and run nothing', async () => {
  operator.logins.begin('<img src=x onerror=alert(1)>\u202egnp', 'link')
  const { passkeys } = operator.presence
  const texts = HOSTILE_TEXTS.map((text) => text.trim().slice(0, 64)).filter((text) => text !== '')
  const added: string[] = []
  for (const text of texts.slice(0, LIMITS.passkeysMax - 2)) {
    const hostile = softwarePasskey(operator.web.url)
    added.push((await passkeys.register('x', text, hostile.make(passkeys.creation('x', operator.web.url)))).id)
  }
  await lookAgain()
  await tab.getByText('<img src=x onerror=alert(1)>?gnp').waitFor()
  assert.equal(await tab.getByRole('button', { name: /^Rename/ }).count(), LIMITS.passkeysMax)
  const shown = await tab.evaluate<string>('document.querySelector("main").outerHTML')
  assert.doesNotMatch(shown, /[\u202e\u200b\u2066\u00ad]/)
  assert.doesNotMatch(shown, /[^\P{Cc}\n]/u)
  assert.match(shown, /\\u\{202E\}gnp\.exe/)
  assert.equal(await tab.locator('main img, main script').count(), 0)
  await inspectView(tab, 'access-hostile')
  for (const id of added) await passkeys.remove(id)
})

/** The view, drawn anew. */
async function lookAgain(): Promise<void> {
  await tab.getByRole('link', { name: 'Start', exact: true }).click()
  await tab.getByRole('link', { name: 'Access' }).click()
  await tab.getByRole('heading', { name: 'laptop' }).waitFor()
}

test('another tab is ended from here, and is out at once; the last passkey goes with a warning', async () => {
  const other = await openTab()
  await lookAgain()
  await tab.getByRole('button', { name: 'End all others' }).click()
  await other.getByText('sallyport open').waitFor()
  // One after the other: it was not the last of them.
  await eventually(() => assert.equal(operator.logins.list().length, 1))
  for (const name of ['green key', 'laptop']) {
    await tab.getByRole('button', { name: `Remove ${name}` }).click()
    const sure = tab.getByRole('dialog', { name: 'Remove this passkey?' })
    await sure.waitFor()
    assert.equal(await sure.getByText('It is the last one').count(), name === 'laptop' ? 1 : 0)
    await sure.getByRole('button', { name: 'Remove' }).click()
    await tab.getByRole('dialog', { name: 'Prove that it is you' }).getByRole('button', { name: 'Use a passkey' }).click()
    // What is behind a dialog counts as gone.
    await tab.locator('dialog[open]').last().waitFor({ state: 'detached' })
    await tab.getByRole('heading', { name }).waitFor({ state: 'detached' })
  }
  assert.deepEqual(operator.presence.available, ['T0', 'T1'])
  assert.deepEqual(faults, [])
})
