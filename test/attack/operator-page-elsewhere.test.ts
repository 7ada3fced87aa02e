/** A page of somebody else at another port of localhost, in a real browser where the operator is logged in. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser, BrowserContext } from 'playwright-core'
import { ROOT } from '../../scripts/steps.ts'
import { readPage } from '../../src/controller/operator/page-files.ts'
import { wishOf } from '../support/approvals.ts'
import { openBrowser } from '../support/browser.ts'
import { openOperator, type Operator } from '../support/operator.ts'
import { PASSWORD, secret } from '../support/presence.ts'

const TRIES = readFileSync(path.join(import.meta.dirname, '..', 'support', 'in-page', 'other-origin.js'), 'utf8')

let operator: Operator
let browser: Browser
let context: BrowserContext
let elsewhere: string
const parts = new AsyncDisposableStack()
/** What came to the page of somebody else besides what it asked for itself. */
const leaked: string[] = []

before(async () => {
  operator = parts.use(await openOperator({ files: readPage(path.join(ROOT, 'dist', 'page')) }))
  await operator.presence.setPassword(undefined, secret(PASSWORD))
  const server = createServer(({ url, headers }, response) => {
    if (url !== '/') leaked.push(`${url ?? ''} ${headers.referer ?? ''}`)
    response.setHeader('content-type', 'text/html')
    response.end('<!doctype html><title>elsewhere</title><body>')
  })
  server.listen(0, '127.0.0.1')
  parts.defer(() => void server.close())
  await once(server, 'listening')
  elsewhere = `http://localhost:${(server.address() as AddressInfo).port}`
  browser = parts.use(await openBrowser({ args: [] })).browser
  context = await browser.newContext()
  const tab = await context.newPage()
  await tab.goto(`${operator.web.url}/#ticket=${operator.logins.ticket()}`)
  await tab.getByRole('navigation', { name: 'Views' }).waitFor()
})
after(() => parts.disposeAsync())

test('I51 a page at another port of localhost gets nothing of the operator’s page, and nothing done', async () => {
  const { question } = await operator.ask(wishOf({ expiresInMs: 60_000 }))
  const loggedIn = operator.logins.list().length
  const hostile = await context.newPage()
  await hostile.goto(elsewhere)
  // A passkey of the operator's, for the name that both pages have.
  const devices = await context.newCDPSession(hostile)
  await devices.send('WebAuthn.enable')
  const { id, digest } = question
  const got = await hostile.evaluate<Record<string, string>>(
    `${TRIES}
tryAll(${JSON.stringify(operator.web.url)}, ${JSON.stringify({ id, digest })})`,
  )
  assert.ok(Object.keys(got).length >= 20)
  for (const [what, result] of Object.entries(got)) assert.equal(result, 'nothing', what)
  assert.equal(operator.approvals.get(id).state, 'pending')
  assert.equal(operator.logins.list().length, loggedIn)
  assert.deepEqual(
    operator.audited.filter(({ event }) => event !== 'question_asked'),
    [],
  )
  assert.deepEqual(await context.cookies(), [])
  assert.deepEqual(
    leaked.filter((line) => !line.startsWith('/favicon.ico')),
    [],
  )
})

test('the page that is opened from elsewhere has no opener, says where it was to nobody, and loads nothing from there', async () => {
  const hostile = await context.newPage()
  await hostile.goto(elsewhere)
  const opening = context.waitForEvent('page')
  await hostile.evaluate(`void open(${JSON.stringify(`${operator.web.url}/`)})`)
  const opened = await opening
  await opened.getByText('sallyport open').waitFor()
  assert.equal(await opened.evaluate('window.opener === null'), true)
  const refused = await opened.evaluate<string[]>(`(async () => {
    const violations = []
    addEventListener('securitypolicyviolation', ({ effectiveDirective }) => violations.push(effectiveDirective))
    await fetch(${JSON.stringify(`${elsewhere}/fetched`)}).catch(() => undefined)
    const image = new Image()
    image.src = ${JSON.stringify(`${elsewhere}/image`)}
    document.body.append(Object.assign(document.createElement('iframe'), { src: ${JSON.stringify(`${elsewhere}/frame`)} }))
    try { document.body.innerHTML = '<p>markup</p>' } catch { violations.push('trusted types') }
    const form = Object.assign(document.createElement('form'), { action: ${JSON.stringify(`${elsewhere}/form`)} })
    document.body.append(form)
    form.submit()
    await new Promise((resolve) => setTimeout(resolve, 300))
    return [...new Set(violations)].sort()
  })()`)
  for (const expected of ['connect-src', 'img-src', 'trusted types', 'form-action'])
    assert.ok(refused.includes(expected), `${expected} of ${refused.join()}`)
  assert.ok(refused.some((directive) => directive === 'frame-src' || directive === 'child-src'))
  assert.deepEqual(
    leaked.filter((line) => !line.startsWith('/favicon.ico')),
    [],
  )
})
