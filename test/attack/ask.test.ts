/** I21: a request that a rule asks about leaves only after the operator's yes to exactly it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { Answer, Question } from '../../src/sidecar/sidecar.ts'
import { eventually } from '../support/eventually.ts'
import { CARRYING, dialPort, openEveryWay, routeTo, type EveryWay, type Way } from '../support/every-way.ts'
import { bodyOf, readToEnd, statusOf } from '../support/raw-client.ts'
import { openRawUpstream, openUpstream, type Upstream } from '../support/upstream.ts'

const API = 'api.example.com'
const MAIL = 'mail.example.com'
const POLICY = `version: 1
network:
  rules:
    - {id: question, host: ${API}, action: ask, addresses: ["127.0.0.0/8"]}
    - {id: mail, host: ${MAIL}, ports: [25], protocol: tcp, action: ask, addresses: ["127.0.0.0/8"]}
    - {id: closed, host: ${API}, paths: ["/closed"], action: deny}
routes:
  - {name: ${routeTo('http', API)}, upstream: "http://${API}", addresses: ["127.0.0.0/8"]}
`

type Asked = { readonly question: Question; readonly signal: AbortSignal; readonly answer: (answer: Answer) => void }
type Setting = AsyncDisposable & {
  readonly ways: EveryWay
  readonly upstream: Upstream
  readonly mail: Upstream
  readonly asked: Asked[]
  /** Waits for that many questions. */
  questions(count: number): Promise<Asked>
  /** Sends one request and gives the whole answer. */
  send(way: Way, path: string, head?: string, body?: string): Promise<string>
}

async function openSetting(options: { isPossible?: boolean } = {}): Promise<Setting> {
  await using parts = new AsyncDisposableStack()
  const asked: Asked[] = []
  let onQuestion: () => void = () => {}
  const ask = (question: Question, signal: AbortSignal): Promise<Answer> =>
    new Promise((answer) => {
      asked.push({ question, signal, answer })
      onQuestion()
    })
  const config = options.isPossible === false ? {} : { ask }
  const ways = parts.use(await openEveryWay(POLICY, [API, MAIL], { env: {}, config }))
  const upstream = parts.use(await openUpstream(undefined, undefined, ways.at(API, 80)))
  const mail = parts.use(await openRawUpstream((socket) => void socket.pipe(socket), ways.at(MAIL, 25)))
  const all = parts.move()
  return {
    ways,
    upstream,
    mail,
    asked,
    async questions(count) {
      while (asked.length < count) await new Promise<void>((resolve) => (onQuestion = resolve))
      const found = asked[count - 1]
      assert.ok(found)
      return found
    },
    async send(way, path, head = '', body = '') {
      const { socket, target, authority } = await ways.open(way, 'http', API)
      const method = head === '' && body === '' ? 'GET' : 'POST'
      socket.write(`${method} ${target(path)} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n${head}\r\n${body}`)
      return readToEnd(socket)
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

const codeOf = (answer: string): string => (JSON.parse(bodyOf(answer)) as { code: string }).code
const WAYS = ['absolute form', ...CARRYING, 'route'] as const

test('I21 I16 by every way the upstream hears nothing before the yes, and the question says what was asked', async () => {
  await using setting = await openSetting()
  for (const [at, way] of WAYS.entries()) {
    const answer = setting.send(way, `/${at}?q=1`)
    const { question, answer: decide } = await setting.questions(at + 1)
    assert.deepEqual(
      { rule: question.rule, ...question.facts },
      { rule: 'question', scheme: 'http', host: API, port: 80, method: 'GET', path: `/${at}?q=1` },
      way,
    )
    assert.equal(setting.upstream.requests.length, at, way)
    decide({ decision: 'allow', scope: 'once' })
    assert.equal(statusOf(await answer), 200, way)
    assert.equal(setting.upstream.requests.at(-1)?.url, `/${at}?q=1`)
  }
})

test('I21 a no is approval_denied, with the rule, and nothing reaches the upstream', async () => {
  await using setting = await openSetting()
  const answer = setting.send('CONNECT', '/a')
  ;(await setting.questions(1)).answer({ decision: 'deny' })
  assert.equal(statusOf(await answer), 403)
  assert.equal(codeOf(await answer), 'approval_denied')
  assert.match(await answer, /"rule":"question"/)
  assert.equal(setting.upstream.connections, 0)
})

test('I21 I16 without a controller every way refuses, before the upstream or its name is touched', async () => {
  await using setting = await openSetting({ isPossible: false })
  for (const way of ['absolute form', 'route', 'transparent'] as const) {
    assert.equal(codeOf(await setting.send(way, '/a')), 'controller_unavailable', way)
  }
  await assert.rejects(setting.ways.dial('CONNECT', API, 80), /HTTP 403/)
  await assert.rejects(setting.ways.dial('SOCKS5', API, 80), /SOCKS 2/)
  await assert.rejects(setting.ways.dialTls('transparent', API), /alert 49/)
  assert.equal(setting.upstream.connections, 0)
  const codes = (await setting.ways.gate.audit()).filter(({ event }) => event === 'decided').map(({ code }) => code)
  assert.deepEqual([...new Set(codes)], ['controller_unavailable'])
})

test('I21 a request that a rule denies is refused without a question', async () => {
  await using setting = await openSetting()
  assert.equal(codeOf(await setting.send('CONNECT', '/closed')), 'denied_by_rule')
  assert.deepEqual(setting.asked, [])
})

test('I21 of twenty identical requests at once, by different ways, one yes for once lets exactly one through', async () => {
  await using setting = await openSetting()
  const answers = Array.from({ length: 20 }, (_, n) => setting.send(CARRYING[n % CARRYING.length] ?? 'CONNECT', '/same'))
  ;(await setting.questions(1)).answer({ decision: 'allow', scope: 'once' })
  // Who came after the yes is asked about anew.
  const denyTheRest = async (): Promise<void> => {
    for (let n = 2; ; n++) (await setting.questions(n)).answer({ decision: 'deny' })
  }
  void denyTheRest()
  const statuses = (await Promise.all(answers)).map(statusOf)
  assert.equal(statuses.filter((status) => status === 200).length, 1)
  assert.equal(statuses.filter((status) => status === 403).length, 19)
  assert.equal(setting.upstream.requests.length, 1)
})

test('I21 CONNECT is never held: it is answered before anybody was asked', async () => {
  await using setting = await openSetting()
  const socket = await setting.ways.dial('CONNECT', API, 80)
  assert.deepEqual(setting.asked, [])
  socket.destroy()
})

test('I21 a tcp connection that a rule asks about is refused at once, and passes after the yes, one for once', async () => {
  await using setting = await openSetting()
  await assert.rejects(setting.ways.dial('SOCKS5', MAIL, 25), /SOCKS 2/)
  await assert.rejects(setting.ways.dial('CONNECT', MAIL, 25), /HTTP 403/)
  assert.equal(setting.mail.connections, 0)
  const { question, answer } = await setting.questions(1)
  assert.deepEqual(question.facts, { method: 'CONNECT', host: MAIL, port: 25 })
  answer({ decision: 'allow', scope: 'once' })
  const socket = await eventually(() => setting.ways.dial('SOCKS5', MAIL, 25))
  await assert.rejects(setting.ways.dial('CONNECT', MAIL, 25), /HTTP 403/)
  assert.equal(setting.mail.connections, 1)
  socket.destroy()
})

test('an agent that leaves while it is held: its request never leaves, and the yes is for the one that comes again', async () => {
  await using setting = await openSetting()
  const socket = await dialPort(setting.ways.gate.port)
  socket.write(`GET http://${API}/again HTTP/1.1\r\nHost: ${API}\r\n\r\n`)
  const { answer } = await setting.questions(1)
  socket.destroy()
  await eventually(async () => assert.ok((await setting.ways.gate.audit()).some(({ event }) => event === 'finished')))
  answer({ decision: 'allow', scope: 'once' })
  assert.equal(setting.upstream.requests.length, 0)
  assert.equal(statusOf(await setting.send('absolute form', '/again')), 200)
  assert.equal(setting.asked.length, 1)
})

test('the body of a request that is held is not taken in: the agent is held back', async () => {
  await using setting = await openSetting()
  const total = 64 * 1024 * 1024
  const socket = await dialPort(setting.ways.gate.port)
  socket.write(`POST http://${API}/big HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\nContent-Length: ${total}\r\n\r\n`)
  const { answer } = await setting.questions(1)
  let sent = 0
  const chunk = Buffer.alloc(256 * 1024)
  while (socket.write(chunk)) sent += chunk.length
  // Other requests are the clock: meanwhile a gate that read would have read much of it.
  for (let i = 0; i < 50; i++) assert.equal(codeOf(await setting.send('absolute form', '/closed')), 'denied_by_rule')
  assert.ok(socket.writableLength > 0, 'it is not read away')
  assert.equal(setting.upstream.connections, 0)
  answer({ decision: 'deny' })
  assert.equal(statusOf(await readToEnd(socket)), 403)
})

test('I18 I21 a rule that denies by the time of the yes wins: nothing leaves', async () => {
  await using setting = await openSetting()
  const answer = setting.send('CONNECT', '/a')
  const question = await setting.questions(1)
  assert.ok(await setting.ways.gate.setPolicy(POLICY.replace('/closed', '/a')))
  question.answer({ decision: 'allow', scope: 'session' })
  assert.equal(codeOf(await answer), 'policy_changed')
  assert.equal(setting.upstream.connections, 0)
})

test('I18 I21 addresses that are no longer allowed by the time of the yes are not dialled', async () => {
  await using setting = await openSetting()
  const answer = setting.send('absolute form', '/a')
  const question = await setting.questions(1)
  assert.ok(await setting.ways.gate.setPolicy(POLICY.replaceAll('127.0.0.0/8', '10.0.0.0/8')))
  question.answer({ decision: 'allow', scope: 'session' })
  assert.equal(statusOf(await answer), 403)
  assert.equal(setting.upstream.connections, 0)
})

test('at the end what is held is refused, the question withdrawn, and the audit complete', async () => {
  await using setting = await openSetting()
  const answer = setting.send('absolute form', '/a')
  const { signal } = await setting.questions(1)
  await setting.ways.gate.sidecar[Symbol.asyncDispose]()
  await answer
  assert.equal(signal.aborted, true)
  const events = await setting.ways.gate.audit()
  const count = (event: string): number => events.filter((entry) => entry['event'] === event).length
  assert.deepEqual([count('decided'), count('finished'), count('stopped')], [1, 1, 1])
})

test('a request that is held for as long as it may be is refused with Retry-After', async (t) => {
  await using setting = await openSetting()
  const socket = await dialPort(setting.ways.gate.port)
  // Only the hold is on this clock: the sockets have theirs already.
  t.mock.timers.enable({ apis: ['setTimeout'] })
  socket.write(`GET http://${API}/slow HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`)
  await setting.questions(1)
  t.mock.timers.tick(LIMITS.askHoldMs)
  const answer = await readToEnd(socket)
  t.mock.timers.reset()
  assert.equal(statusOf(answer), 403)
  assert.equal(codeOf(answer), 'approval_pending')
  assert.match(answer, /^retry-after: \d+\r$/im)
  assert.equal(setting.upstream.connections, 0)
})
