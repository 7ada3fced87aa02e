import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { after, before, test } from 'node:test'
import { ROUTES } from '../../src/controller/operator/route-table.ts'
import { openWeb } from '../../src/controller/operator/web.ts'
import { Logins } from '../../src/controller/operator/logins.ts'
import { createLog } from '../../src/kernel/log.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { Question } from '../../src/wire/question.ts'
import { wishOf } from '../support/approvals.ts'
import { openOperator, rawAnswer, statusOf, type Operator } from '../support/operator.ts'
import { standingClock, type Clock } from '../support/presence.ts'

let operator: Operator
let clock: Clock
let port: number
before(async () => {
  clock = standingClock()
  operator = await openOperator({ system: clock })
  port = operator.web.port
})
after(() => operator[Symbol.asyncDispose]())

/** Another text takes the place of a header, `undefined` leaves it out. */
type Change = Readonly<Record<string, string | readonly string[] | undefined>>

/** The request by which the operator's own page allows a question, but for what is changed. */
function answerRequest(question: Question, change: Change = {}, extra: { path?: string; method?: string; body?: string } = {}) {
  const body = extra.body ?? JSON.stringify({ digest: question.digest, decision: 'allow' })
  const headers: Change = {
    host: `localhost:${port}`,
    connection: 'close',
    authorization: `Bearer ${operator.login()}`,
    origin: `http://localhost:${port}`,
    'sec-fetch-site': 'same-origin',
    'sec-fetch-mode': 'cors',
    'sec-fetch-dest': 'empty',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    ...change,
  }
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one) => `${name}: ${one}`),
  )
  const path = extra.path ?? `/v1/questions/${question.id}/answer`
  return rawAnswer(port, [`${extra.method ?? 'POST'} ${path} HTTP/1.1`, ...lines], body)
}

async function asked(): Promise<Question> {
  const { question } = await operator.ask(wishOf({ session: `s-${clock.random(4).toString('hex')}` }))
  clock.pass(1_000)
  return question
}

const stateOf = (question: Question): string => operator.approvals.get(question.id).state

test('the operator’s own page answers a question: what the attacks below change is all that they are refused for', async () => {
  const question = await asked()
  const answer = await answerRequest(question)
  assert.equal(statusOf(answer), 200, answer)
  assert.equal(stateOf(question), 'approved')
})

test('a program with the token, which sends no Origin and no Fetch Metadata, answers too', async () => {
  const question = await asked()
  const none = { origin: undefined, 'sec-fetch-site': undefined, 'sec-fetch-mode': undefined, 'sec-fetch-dest': undefined }
  assert.equal(statusOf(await answerRequest(question, none)), 200)
  assert.equal(stateOf(question), 'approved')
})

const own = (): string => `localhost:${port}`
const ATTACKS: readonly { readonly why: string; readonly change: () => Change }[] = [
  { why: 'DNS rebinding: the name of a page of somebody else', change: () => ({ host: `evil.test:${port}` }) },
  { why: 'DNS rebinding, with the Origin of that page', change: () => ({ host: `evil.test:${port}`, origin: `http://evil.test:${port}` }) },
  { why: 'a name that only begins with ours', change: () => ({ host: `localhost.evil.test:${port}` }) },
  { why: 'our name with a dot behind', change: () => ({ host: `localhost.:${port}` }) },
  { why: 'our address instead of the name', change: () => ({ host: `127.0.0.1:${port}` }) },
  { why: 'the other address', change: () => ({ host: `[::1]:${port}` }) },
  { why: 'our name with another port', change: () => ({ host: 'localhost:1' }) },
  { why: 'our name without a port', change: () => ({ host: 'localhost' }) },
  { why: 'our name in other letters', change: () => ({ host: `LOCALHOST:${port}` }) },
  { why: 'our name with a user before it', change: () => ({ host: `a@localhost:${port}` }) },
  { why: 'no Host', change: () => ({ host: undefined }) },
  { why: 'an empty Host', change: () => ({ host: '' }) },
  { why: 'two Hosts', change: () => ({ host: [own(), `evil.test:${port}`] }) },
  { why: 'the Origin of another site', change: () => ({ origin: 'https://evil.test' }) },
  { why: 'the Origin of another port of localhost', change: () => ({ origin: 'http://localhost:3000' }) },
  { why: 'the Origin of our address', change: () => ({ origin: `http://127.0.0.1:${port}` }) },
  { why: 'our Origin by https', change: () => ({ origin: `https://${own()}` }) },
  { why: 'the Origin of a frame without one', change: () => ({ origin: 'null' }) },
  { why: 'an empty Origin', change: () => ({ origin: '' }) },
  { why: 'two Origins', change: () => ({ origin: [`http://${own()}`, 'https://evil.test'] }) },
  { why: 'a request from another site', change: () => ({ origin: undefined, 'sec-fetch-site': 'cross-site' }) },
  { why: 'a request from another port of localhost', change: () => ({ origin: undefined, 'sec-fetch-site': 'same-site' }) },
  { why: 'a request that the operator typed or a bookmark made', change: () => ({ origin: undefined, 'sec-fetch-site': 'none' }) },
  { why: 'a form', change: () => ({ 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }) },
  { why: 'a frame', change: () => ({ 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' }) },
  { why: 'a request whose answer nobody reads', change: () => ({ 'sec-fetch-mode': 'no-cors' }) },
  { why: 'a WebSocket', change: () => ({ connection: 'Upgrade', upgrade: 'websocket', 'sec-fetch-mode': 'websocket' }) },
  { why: 'another protocol', change: () => ({ connection: 'close, Upgrade', upgrade: 'sallyport-stream' }) },
  { why: 'JSON as text/plain', change: () => ({ 'content-type': 'text/plain' }) },
  { why: 'JSON as a form', change: () => ({ 'content-type': 'application/x-www-form-urlencoded' }) },
  { why: 'JSON as parts of a form', change: () => ({ 'content-type': 'multipart/form-data; boundary=x' }) },
  { why: 'JSON without a type', change: () => ({ 'content-type': undefined }) },
  { why: 'a type that only has ours in it', change: () => ({ 'content-type': 'text/plain; application/json' }) },
  { why: 'two types', change: () => ({ 'content-type': ['application/json', 'text/plain'] }) },
]
for (const { why, change } of ATTACKS)
  test(`I51 with a token that is good, ${why} answers nothing`, async () => {
    const question = await asked()
    const answer = await answerRequest(question, change())
    assert.ok([400, 403, 415].includes(statusOf(answer)), answer)
    assert.doesNotMatch(answer, /access-control-allow/i)
    assert.equal(stateOf(question), 'pending')
  })

const TOKENS: readonly { readonly why: string; readonly change: () => Change; readonly path?: (id: string, token: string) => string }[] = [
  { why: 'no token', change: () => ({ authorization: undefined }) },
  { why: 'an empty token', change: () => ({ authorization: 'Bearer ' }) },
  { why: 'a token that was made up', change: () => ({ authorization: `Bearer ${'A'.repeat(43)}` }) },
  {
    why: 'a token as a cookie',
    change: () => ({ authorization: undefined, cookie: `token=${operator.login()}; Authorization=${operator.login()}` }),
  },
  {
    why: 'a token as a password',
    change: () => ({ authorization: `Basic ${Buffer.from(`operator:${operator.login()}`).toString('base64')}` }),
  },
  { why: 'two tokens, the first of them good', change: () => ({ authorization: [`Bearer ${operator.login()}`, 'Bearer x'] }) },
  { why: 'a token with a line of another behind it', change: () => ({ authorization: `Bearer ${operator.login()} Bearer x` }) },
  { why: 'the ticket of a link in the place of the token', change: () => ({ authorization: `Bearer ${operator.logins.ticket()}` }) },
  {
    why: 'a token in the query',
    change: () => ({ authorization: undefined }),
    path: (id, token) => `/v1/questions/${id}/answer?token=${token}&access_token=${token}&authorization=Bearer%20${token}`,
  },
]
for (const { why, change, path } of TOKENS)
  test(`from our own page, ${why} answers nothing`, async () => {
    const question = await asked()
    const answer = await answerRequest(question, change(), path && { path: path(question.id, operator.login()) })
    assert.ok([400, 401, 403].includes(statusOf(answer)), answer)
    assert.equal(stateOf(question), 'pending')
  })

test('no route of the table but the login answers without a token, and none by a method that it does not have', async () => {
  for (const [key, { on, isOpen }] of Object.entries(ROUTES)) {
    clock.pass(61_000)
    const [method = '', path = ''] = key.split(' ')
    const body = method === 'GET' ? '' : '{}'
    const head = [`host: ${own()}`, 'connection: close', 'content-type: application/json', `content-length: ${body.length}`]
    const target = path.replace(':id', 'x')
    const answer = await rawAnswer(port, [`${method} ${target} HTTP/1.1`, ...head], body)
    if (isOpen !== true) assert.equal(statusOf(answer), 401, `${key}: ${answer}`)
    // Nobody is told which paths there are.
    const options = await rawAnswer(port, [
      `OPTIONS ${target} HTTP/1.1`,
      `host: ${own()}`,
      'connection: close',
      'origin: https://evil.test',
    ])
    assert.equal(statusOf(options), 403)
    assert.doesNotMatch(options, /access-control/i)
    if (!on.includes('web')) {
      const allowed = await rawAnswer(port, [`${method} ${target} HTTP/1.1`, ...head, `authorization: Bearer ${operator.login()}`], body)
      assert.equal(statusOf(allowed), 400, `${key} is not on the page's listener: ${allowed}`)
    }
  }
})

for (const [why, headers, isServed] of [
  ['without an Origin, as a program does', {}, true],
  ['of the page', { origin: 'own' }, true],
  ['of another site', { origin: 'https://evil.test' }, false],
  ['of another port', { origin: 'http://localhost:3000' }, false],
  ['of another site that sends no Origin', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' }, false],
  ['of an EventSource, which has no header for a token', { accept: 'text/event-stream', authorization: undefined }, false],
] as const)
  test(`the events ${isServed ? 'are told to a reader' : 'are not told to a reader'} ${why}`, async () => {
    const question = await asked()
    const all: Change = { host: own(), authorization: `Bearer ${operator.login()}`, ...headers }
    const lines = Object.entries(all).flatMap(([name, value]) =>
      value === undefined ? [] : `${name}: ${value === 'own' ? `http://${own()}` : String(value)}`,
    )
    const socket = connect(port, '127.0.0.1')
    socket.write(['GET /v1/questions/events HTTP/1.1', ...lines, '', ''].join('\r\n'))
    let answer = ''
    for await (const chunk of socket) {
      answer += String(chunk)
      if (answer.includes(question.id) || answer.includes('problem+json')) break
    }
    assert.equal(answer.includes(question.id), isServed, answer)
    assert.equal(statusOf(answer) === 200, isServed)
    if (isServed) assert.match(answer, /content-type: text\/event-stream/i)
  })

test('every answer says that nobody frames it, keeps it or reads it from elsewhere, and none lets another origin in', async () => {
  clock.pass(61_000)
  const token = operator.login()
  const bearer = `authorization: Bearer ${token}`
  for (const [target, ...headers] of [
    ['/', 'sec-fetch-mode: navigate', 'sec-fetch-dest: document', 'sec-fetch-site: cross-site'],
    ['/v1/sessions', bearer],
    ['/v1/sessions'],
    ['/nothing', bearer],
    ['/v1/sessions', bearer, 'origin: https://evil.test'],
  ] as const) {
    const answer = await rawAnswer(port, [`GET ${target} HTTP/1.1`, `host: ${own()}`, 'connection: close', ...headers])
    const [head = ''] = answer.split('\r\n\r\n')
    // The page loads its own parts and nothing else; an answer loads nothing.
    assert.match(head, /content-security-policy: default-src 'none';.* frame-ancestors 'none'/i)
    assert.doesNotMatch(head, /unsafe|https?:|\*/i)
    assert.match(head, /x-frame-options: DENY/i)
    assert.match(head, /x-content-type-options: nosniff/i)
    assert.match(head, /cross-origin-resource-policy: same-origin/i)
    // What is in the page is everybody's; it is only asked for anew.
    assert.match(head, target === '/' ? /cache-control: no-cache/i : /cache-control: no-store/i)
    assert.doesNotMatch(head, /access-control|set-cookie/i)
  }
})

for (const dest of ['iframe', 'frame', 'embed', 'object', 'fencedframe'])
  test(`the page is not given to the element ${dest}`, async () => {
    const answer = await rawAnswer(port, [
      'GET / HTTP/1.1',
      `host: ${own()}`,
      'connection: close',
      'sec-fetch-mode: navigate',
      `sec-fetch-dest: ${dest}`,
    ])
    assert.equal(statusOf(answer), 403)
    assert.doesNotMatch(answer, /the page$/)
  })

function login(ticket: string): Promise<string> {
  const body = JSON.stringify({ ticket })
  const head = [`host: ${own()}`, 'connection: close', 'content-type: application/json', `content-length: ${body.length}`]
  return rawAnswer(port, ['POST /v1/login HTTP/1.1', ...head], body)
}

function sessions(token: string): Promise<string> {
  return rawAnswer(port, ['GET /v1/sessions HTTP/1.1', `host: ${own()}`, 'connection: close', `authorization: Bearer ${token}`])
}

const tokenOf = (answer: string): string => /"token":"([^"]+)"/.exec(answer)?.[1] ?? ''

test('a link that is used a second time opens nothing, and closes what it opened', async () => {
  const ticket = operator.logins.ticket()
  const first = await login(ticket)
  assert.equal(statusOf(first), 200)
  const token = tokenOf(first)
  assert.equal(statusOf(await sessions(token)), 200)
  assert.equal(statusOf(await login(ticket)), 401)
  assert.equal(statusOf(await sessions(token)), 401)
})

test('a link is good for a minute', async () => {
  const ticket = operator.logins.ticket()
  clock.pass(LIMITS.openTicketMs + 1)
  assert.equal(statusOf(await login(ticket)), 401)
})

test('a login that nobody uses ends, one that is used lives no longer than its life', async () => {
  const idle = operator.login()
  clock.pass(LIMITS.loginIdleMs + 1)
  assert.equal(statusOf(await sessions(idle)), 401)
  const used = operator.login()
  const step = LIMITS.loginIdleMs / 2
  for (let ms = step; ms <= LIMITS.loginLifeMs; ms += step) {
    clock.pass(step)
    assert.equal(statusOf(await sessions(used)), 200)
  }
  clock.pass(step)
  assert.equal(statusOf(await sessions(used)), 401)
})

test('a login that is ended is cut off in the middle of its events, and others go on', async () => {
  const [ended, other] = [operator.login(), operator.login()]
  const reader = (token: string) => {
    const socket = connect(port, '127.0.0.1')
    socket.write(`GET /v1/questions/events HTTP/1.1\r\nhost: ${own()}\r\nauthorization: Bearer ${token}\r\n\r\n`)
    return socket
  }
  const [cut, kept] = [reader(ended), reader(other)]
  for (const socket of [cut, kept]) await once(socket, 'data')
  const [id = ''] = operator.logins
    .list()
    .map((one) => one.id)
    .slice(-2)
  const closed = once(cut.resume(), 'close')
  const gone = await rawAnswer(port, [
    `DELETE /v1/logins/${id} HTTP/1.1`,
    `host: ${own()}`,
    'connection: close',
    `authorization: Bearer ${other}`,
  ])
  assert.equal(statusOf(gone), 200)
  await closed
  const told = once(kept, 'data')
  const question = await asked()
  assert.match(String(await told), new RegExp(question.id))
  assert.equal(statusOf(await sessions(ended)), 401)
  kept.destroy()
})

test('ten thousand guesses open nothing, are not all answered, and lock nobody out', async () => {
  const token = operator.login()
  let answered = 0
  for (let round = 0; round < 10; round += 1) {
    const guesses = Array.from({ length: 100 }, () =>
      round % 2 === 0 ? sessions(clock.random(32).toString('base64url')) : login(clock.random(32).toString('base64url')),
    )
    for (const answer of await Promise.all(guesses)) {
      assert.ok(answer === '' || statusOf(answer) === 401, answer)
      if (answer !== '') answered += 1
    }
  }
  for (let i = 0; i < 9_000; i += 1) assert.throws(() => operator.logins.check(clock.random(32).toString('base64url')))
  assert.ok(answered <= LIMITS.loginFailuresPerMinuteMax, `${answered} were answered`)
  assert.equal(statusOf(await sessions(token)), 200)
})

test('the listener is on loopback alone: no other address of this machine takes a connection', async () => {
  const others = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).filter(({ internal, scopeid }) => !internal && !scopeid))
  for (const { address } of others) {
    const socket = connect({ host: address, port })
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
    assert.equal(error.code, 'ECONNREFUSED', address)
  }
  assert.equal(statusOf(await rawAnswer(port, ['GET / HTTP/1.1', `host: ${own()}`, 'connection: close'], '', '::1')), 200)
})

for (const host of ['127.0.0.1', '::1'])
  test(`somebody who sits on the port of ${host} keeps the page from starting: half of localhost would be theirs`, async () => {
    const squatter = createServer()
    squatter.listen(0, host)
    await once(squatter, 'listening')
    const address = squatter.address() as { port: number }
    using logins = new Logins(clock)
    const opened = openWeb({ port: address.port, logins, addRoutes: () => undefined, log: createLog('silent') })
    await assert.rejects(opened, { code: 'listen_failed' })
    // What was taken for a moment is given back.
    const other = createServer()
    other.listen(address.port, host === '::1' ? '127.0.0.1' : '::1')
    await once(other, 'listening')
    for (const server of [other, squatter]) server.close()
  })

test('a body that is too large, a head that never ends and more connections than there may be are ended, and the page goes on', async () => {
  const question = await asked()
  const large = await answerRequest(question, {}, { body: JSON.stringify({ digest: 'a'.repeat(LIMITS.operatorBodyBytesMax) }) })
  assert.ok([413, 0].includes(statusOf(large)), large.slice(0, 200))
  const head = await rawAnswer(port, ['GET / HTTP/1.1', `host: ${own()}`, `x: ${'a'.repeat(LIMITS.webHeadBytesMax)}`])
  assert.equal(statusOf(head), 431)
  const idle = Array.from({ length: LIMITS.webConnectionsMax + 20 }, () => connect(port, '127.0.0.1').on('error', () => undefined))
  const closed = idle.map((socket) => once(socket, 'close'))
  // Without a word each is closed: those that are too many at once, the others when their head is late.
  for (const socket of idle) socket.resume()
  await Promise.all(closed)
  assert.equal(statusOf(await answerRequest(question)), 200)
})
