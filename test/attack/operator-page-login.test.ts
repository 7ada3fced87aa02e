/** The page's listener for who is not logged in: its files, and the ways to log in without a link. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import { ROUTES } from '../../src/controller/operator/route-table.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { openOperator, rawAnswer, statusOf, type Operator } from '../support/operator.ts'
import { PASSWORD, secret, standingClock, type Clock } from '../support/presence.ts'

let operator: Operator
let clock: Clock
let port: number
before(async () => {
  clock = standingClock()
  operator = await openOperator({ system: clock })
  port = operator.web.port
})
after(() => operator[Symbol.asyncDispose]())

const own = (): string => `localhost:${port}`
function sessions(token: string): Promise<string> {
  return rawAnswer(port, ['GET /v1/sessions HTTP/1.1', `host: ${own()}`, 'connection: close', `authorization: Bearer ${token}`])
}

const getRaw = (target: string, method = 'GET', ...headers: readonly string[]) =>
  rawAnswer(port, [`${method} ${target} HTTP/1.1`, `host: ${own()}`, 'connection: close', ...headers])

for (const target of [
  '/index.html',
  '/assets',
  '/assets/',
  '/assets/../index.html',
  '/assets/../../package.json',
  '/../package.json',
  '/../../../../etc/passwd',
  '/%2e%2e/package.json',
  '/assets/%2e%2e%2f%2e%2e%2fpackage.json',
  '/assets/..%5c..%5cpackage.json',
  '/assets\\..\\package.json',
  '/%00',
  '/assets/%00.js',
  '//etc/passwd',
  '/./',
  '/;/',
  '/%2F',
  '/.well-known/webauthn',
  '/favicon.ico',
])
  test(`${JSON.stringify(target)} is no file of the page, and no list of any`, async () => {
    clock.pass(61_000)
    for (const headers of [[], [`authorization: Bearer ${operator.login()}`]]) {
      const answer = await getRaw(target, 'GET', ...headers)
      assert.ok(statusOf(answer) >= 400, answer)
      assert.doesNotMatch(answer, /<!doctype|root:|"name"/)
    }
  })

for (const method of ['HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'])
  test(`${method} of the page is no way to it`, async () => {
    const answer = await getRaw('/', method)
    assert.ok(statusOf(answer) >= 400 || statusOf(answer) === 0, answer)
    assert.doesNotMatch(answer, /<!doctype|access-control-allow/)
  })

test('I76 what is open without a login says which ways there are, and no more', async () => {
  const open = Object.entries(ROUTES).filter(([, row]) => row.isOpen)
  assert.deepEqual(
    open.map(([route]) => route),
    ['POST /v1/login', 'GET /v1/login/ways', 'POST /v1/login/password', 'POST /v1/login/passkey/challenge', 'POST /v1/login/passkey'],
  )
  const answer = await getRaw('/v1/login/ways')
  assert.deepEqual(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))), { password: false, passkey: false })
  for (const [route] of open.slice(1)) {
    const [method = '', path = ''] = route.split(' ')
    // A page of somebody else asks in vain, and so does a name that was pointed here.
    for (const foreign of [`origin: http://localhost:3000`, 'sec-fetch-site: same-site', 'sec-fetch-site: none'])
      assert.equal(statusOf(await getRaw(path, method, foreign)), 403)
    const rebound = await rawAnswer(port, [`${method} ${path} HTTP/1.1`, `host: evil.test:${port}`, 'connection: close'])
    assert.equal(statusOf(rebound), 403)
  }
})

const guess = (way: string, body: object) => {
  const text = JSON.stringify(body)
  const type = ['content-type: application/json', `content-length: ${Buffer.byteLength(text)}`]
  return rawAnswer(port, [`POST /v1/login/${way} HTTP/1.1`, `host: ${own()}`, 'connection: close', ...type], text)
}

test('I76 guesses at the password are looked at one by one with growing waits, are few in the audit, and hold up nobody who is let in', async () => {
  clock.pass(61_000)
  await operator.presence.setPassword(undefined, secret(PASSWORD))
  const token = operator.login()
  const refusals = (): number => operator.audited.filter((event) => event.event === 'operator' && event.did === 'page_login_refused').length
  const [logins, told] = [operator.logins.list().length, refusals()]
  const guesses = (length: number) => Promise.all(Array.from({ length }, (_, at) => guess('password', { password: `guess number ${at}` })))
  const answers = await guesses(40)
  assert.equal(answers.filter((answer) => answer.includes('the password is wrong')).length, 1)
  const answered = [...answers, ...(await guesses(160))].filter((answer) => answer !== '')
  assert.ok(answered.length <= LIMITS.loginFailuresPerMinuteMax)
  assert.ok(answered.every((answer) => statusOf(answer) === 401))
  // Nor is the right one looked at before the wait is over: it tells nobody that it is the right one.
  assert.doesNotMatch(await guess('password', { password: PASSWORD }), /token/)
  const junk = await Promise.all(Array.from({ length: 50 }, () => guess('passkey', { response: { id: 'x' } })))
  assert.ok(junk.every((answer) => answer === '' || statusOf(answer) === 401))
  assert.equal(operator.logins.list().length, logins)
  assert.ok(refusals() - told <= 1, 'strangers fill no audit')
  assert.ok(!JSON.stringify(operator.audited).includes('guess number'))
  // The operator's own proof does not wait for strangers.
  const purpose = { digest: 'a'.repeat(64), decision: 'allow', scope: 'once' } as const
  await operator.presence.prove('T1', { kind: 'password', password: PASSWORD }, purpose, new AbortController().signal)
  assert.equal(statusOf(await sessions(token)), 200)
  clock.pass(61_000)
  const right = await guess('password', { password: PASSWORD })
  assert.equal(statusOf(right), 200, right)
  assert.ok(operator.audited.some((event) => event.event === 'operator' && event.did === 'page_login'))
})

test('a page that is kept open with its feed is not idle, and ends with its life all the same', async () => {
  const token = operator.login()
  const socket = connect(port, '127.0.0.1')
  socket.write(`GET /v1/feed HTTP/1.1\r\nhost: ${own()}\r\nauthorization: Bearer ${token}\r\n\r\n`)
  await once(socket, 'data')
  clock.pass(LIMITS.loginIdleMs * 3)
  assert.equal(statusOf(await sessions(token)), 200)
  clock.pass(LIMITS.loginIdleMs * 3)
  assert.equal(operator.logins.list().length >= 1, true)
  const closed = once(socket.resume(), 'close')
  clock.pass(LIMITS.loginLifeMs)
  assert.equal(statusOf(await sessions(token)), 401)
  await closed
})

test('once its feed has ended a page is idle from then on', async () => {
  const token = operator.login()
  const { id } = operator.logins.check(token)
  const call = operator.logins.hold(id)
  clock.pass(LIMITS.loginIdleMs * 2)
  call[Symbol.dispose]()
  call[Symbol.dispose]()
  clock.pass(LIMITS.loginIdleMs)
  operator.logins.check(token)
  clock.pass(LIMITS.loginIdleMs + 1)
  assert.throws(() => operator.logins.check(token), { code: 'login_required' })
})

for (const target of ['/%zz', '/v1/questions/%ff', '/%c0%af..', `/v1/questions/${'a'.repeat(LIMITS.operatorPathPartCharsMax + 1)}`])
  test(`${JSON.stringify(target.slice(0, 24))}, which no route is found for, is answered as everything else is`, async () => {
    clock.pass(61_000)
    const bearer = `authorization: Bearer ${operator.login()}`
    const asked = (host: string, ...more: readonly string[]) =>
      rawAnswer(port, [`GET ${target} HTTP/1.1`, `host: ${host}`, 'connection: close', ...more])
    for (const [answer, status, code] of [
      [await asked(`evil.test:${port}`, bearer), 403, 'origin_refused'],
      [await asked(own(), bearer, 'origin: https://evil.test'), 403, 'origin_refused'],
      [await asked(own()), 401, 'login_required'],
      [await asked(own(), bearer), 400, 'usage'],
    ] as const) {
      assert.equal(statusOf(answer), status, answer)
      assert.match(answer, new RegExp(`"code":"${code}"`))
      assert.match(answer, /content-security-policy: default-src 'none'/i)
      assert.match(answer, /x-content-type-options: nosniff/i)
      assert.ok(!answer.includes(target), 'nothing of it is repeated')
    }
  })

test('what nobody expects of a listener is refused without a word that could be read elsewhere', async () => {
  const answer = await getRaw('/v1/sessions', 'GET', `authorization: Bearer ${operator.login()}`, 'expect: something')
  assert.equal(statusOf(answer), 417)
  assert.match(answer, /cross-origin-resource-policy: same-origin/i)
})

test('who takes a file of the page and does not read it keeps no connection', async (t) => {
  const size = 32 * 1024 * 1024
  const file = { type: 'text/javascript', bodies: { identity: Buffer.alloc(size, 'a') }, isImmutable: true, etag: '"1"' } as const
  await using other = await openOperator({ system: clock, files: new Map([['/large.js', file]]) })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const socket = connect(other.web.port, '127.0.0.1').on('error', () => undefined)
  socket.write(`GET /large.js HTTP/1.1\r\nhost: localhost:${other.web.port}\r\n\r\n`)
  await once(socket, 'readable')
  t.mock.timers.tick(LIMITS.webStrangerMs)
  let bytes = 0
  socket.on('data', (data: Buffer) => (bytes += data.length))
  await once(socket, 'close')
  assert.ok(bytes < size, `${bytes} were sent`)
})
