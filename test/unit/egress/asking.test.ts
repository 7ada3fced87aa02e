import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { pino } from 'pino'
import { LIMITS } from '../../../src/kernel/limits.ts'
import type { Hostname } from '../../../src/kernel/hostname.ts'
import { createAsking, type Answer, type AskOperator, type Asking, type Question } from '../../../src/sidecar/egress/asking.ts'

const FACTS = { scheme: 'https', host: 'api.example.com' as Hostname, port: 443, method: 'GET', path: '/a' } as const
const ONCE: Answer = { decision: 'allow', scope: 'once' }
const SESSION: Answer = { decision: 'allow', scope: 'session' }
const DENY: Answer = { decision: 'deny' }

/** An agent that waits until it is told to leave. */
function agent(): { isGone: boolean; onGone: (listener: () => void) => () => void; leave: () => void; listeners: Set<() => void> } {
  const listeners = new Set<() => void>()
  const waiting = {
    isGone: false,
    listeners,
    onGone(listener: () => void) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    leave() {
      waiting.isGone = true
      for (const listener of listeners) listener()
    },
  }
  return waiting
}

function question(facts: Partial<Question['facts']> = {}, rule = 'rule'): Question {
  return { requestId: 'request', lane: 'connect', rule, facts: { ...FACTS, ...facts } }
}

type Asked = {
  readonly question: Question
  readonly signal: AbortSignal
  readonly answer: (answer: Answer) => void
  readonly fail: () => void
}

/** An operator whose every answer the test gives, at a time that it sets. */
function openAsking(t: TestContext, ask?: AskOperator): { asking: Asking; asked: Asked[]; pass: (ms: number) => Promise<void> } {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let now = 0
  const asked: Asked[] = []
  const recording: AskOperator = (put, signal) =>
    new Promise((answer, reject) => asked.push({ question: put, signal, answer, fail: () => reject(new Error('nobody')) }))
  const asking = createAsking(ask ?? recording, pino({ level: 'silent' }), { elapsed: () => now })
  return {
    asking,
    asked,
    async pass(ms) {
      now += ms
      t.mock.timers.tick(ms)
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

const codeOf = async (consulted: Promise<{ code: string } | undefined>): Promise<string> => (await consulted)?.code ?? 'passes'

test('I21 an approval for once lets one of twenty identical requests pass, whichever way the others come', async (t) => {
  const { asking, asked } = openAsking(t)
  const held = Array.from({ length: 20 }, () => codeOf(asking.consult(question(), agent())))
  assert.equal(asked.length, 1, 'they are one question')
  asked[0]?.answer(ONCE)
  const codes = await Promise.all(held)
  assert.equal(codes.filter((code) => code === 'passes').length, 1)
  assert.equal(codes.filter((code) => code === 'approval_pending').length, 19)
  void asking.consult(question(), agent())
  assert.equal(asked.length, 2, 'the next one is asked about anew')
})

test('I21 an approval for the session lets identical requests pass without a question, and no other', async (t) => {
  const { asking, asked } = openAsking(t)
  const first = codeOf(asking.consult(question(), agent()))
  asked[0]?.answer(SESSION)
  assert.equal(await first, 'passes')
  for (let i = 0; i < 5; i++) assert.equal(await codeOf(asking.consult(question(), agent())), 'passes')
  assert.equal(asked.length, 1)
  void asking.consult(question({ path: '/b' }), agent())
  assert.equal(asked.length, 2)
})

for (const [what, other] of [
  ['path', question({ path: '/a/' })],
  ['query', question({ path: '/a?x=1' })],
  ['method', question({ method: 'POST' })],
  ['host', question({ host: 'b.example.com' as Hostname })],
  ['port', question({ port: 8443 })],
  ['scheme', question({ scheme: 'http' })],
  ['rule', question({}, 'other')],
] as const) {
  test(`I21 an approval is for no other ${what}`, async (t) => {
    const { asking, asked } = openAsking(t)
    const first = codeOf(asking.consult(question(), agent()))
    asked[0]?.answer(SESSION)
    assert.equal(await first, 'passes')
    const consulted = codeOf(asking.consult(other, agent()))
    assert.equal(asked.length, 2)
    asked[1]?.answer(DENY)
    assert.equal(await consulted, 'approval_denied')
  })
}

test('I21 a request is held for so long and then refused as pending, and the answer that comes later is for the next one', async (t) => {
  const { asking, asked, pass } = openAsking(t)
  const held = codeOf(asking.consult(question(), agent()))
  await pass(LIMITS.askHoldMs)
  assert.equal(await held, 'approval_pending')
  asked[0]?.answer(ONCE)
  await pass(0)
  assert.equal(await codeOf(asking.consult(question(), agent())), 'passes')
  void asking.consult(question(), agent())
  assert.equal(asked.length, 2)
})

test('a denial that comes when nobody waits is told to the next identical request, once', async (t) => {
  const { asking, asked, pass } = openAsking(t)
  const held = codeOf(asking.consult(question(), agent()))
  await pass(LIMITS.askHoldMs)
  assert.equal(await held, 'approval_pending')
  asked[0]?.answer(DENY)
  await pass(0)
  assert.equal(await codeOf(asking.consult(question(), agent())), 'approval_denied')
  void asking.consult(question(), agent())
  assert.equal(asked.length, 2)
})

test('a denial that was heard is not kept: the next request is asked about', async (t) => {
  const { asking, asked } = openAsking(t)
  const held = codeOf(asking.consult(question(), agent()))
  asked[0]?.answer(DENY)
  assert.equal(await held, 'approval_denied')
  void asking.consult(question(), agent())
  assert.equal(asked.length, 2)
})

test('an approval for once that nobody uses is void after its time', async (t) => {
  const { asking, asked, pass } = openAsking(t)
  void asking.consult(question(), agent())
  await pass(LIMITS.askHoldMs)
  asked[0]?.answer(ONCE)
  await pass(LIMITS.approvalOnceMs + 1)
  void asking.consult(question(), agent())
  assert.equal(asked.length, 2)
})

test('a question that nobody answers is withdrawn, and what comes of it later counts for nothing', async (t) => {
  const { asking, asked, pass } = openAsking(t)
  const held = codeOf(asking.consult(question(), agent()))
  await pass(LIMITS.askHoldMs)
  assert.equal(await held, 'approval_pending')
  assert.equal(asked[0]?.signal.aborted, false)
  await pass(LIMITS.askExpiryMs - LIMITS.askHoldMs)
  assert.equal(asked[0]?.signal.aborted, true)
  asked[0]?.answer(SESSION)
  await pass(0)
  void asking.consult(question(), agent())
  assert.equal(asked.length, 2, 'the late yes opened nothing')
})

test('an agent that leaves uses up no approval: the one that came again has it', async (t) => {
  const { asking, asked } = openAsking(t)
  const gone = agent()
  const first = codeOf(asking.consult(question(), gone))
  const second = codeOf(asking.consult(question(), agent()))
  gone.leave()
  assert.equal(await first, 'approval_pending')
  asked[0]?.answer(ONCE)
  assert.equal(await second, 'passes')
  assert.equal(asked.length, 1)
})

test('an agent that leaves as the answer comes uses up no approval', async (t) => {
  const { asking, asked } = openAsking(t)
  const gone = agent()
  const first = codeOf(asking.consult(question(), gone))
  asked[0]?.answer(ONCE)
  gone.isGone = true
  assert.equal(await first, 'approval_pending')
  assert.equal(await codeOf(asking.consult(question(), agent())), 'passes')
})

test('who was held is let go of: no listener stays on the agent', async (t) => {
  const { asking, asked, pass } = openAsking(t)
  const [answered, late] = [agent(), agent()]
  const first = asking.consult(question(), answered)
  asked[0]?.answer(ONCE)
  await first
  const second = asking.consult(question(), late)
  await pass(LIMITS.askHoldMs)
  await second
  assert.equal(answered.listeners.size + late.listeners.size, 0)
})

for (const [how, ask] of [
  ['rejects', () => Promise.reject(new Error('gone: hunter2'))],
  [
    'throws',
    () => {
      throw new Error('broken: hunter2')
    },
  ],
] as const) {
  test(`an operator who cannot be asked (it ${how}) is a refusal as controller_unavailable that does not say what it threw`, async (t) => {
    const { asking } = openAsking(t, ask)
    const refusal = await asking.consult(question(), agent())
    assert.equal(refusal?.code, 'controller_unavailable')
    assert.doesNotMatch(JSON.stringify(refusal), /hunter2/)
    assert.equal((await asking.consult(question(), agent()))?.code, 'controller_unavailable', 'and it is asked anew')
  })
}

test('with nobody to ask every question is refused at once', async () => {
  const asking = createAsking(undefined, pino({ level: 'silent' }), { elapsed: () => 0 })
  assert.equal(asking.isPossible, false)
  assert.equal(await codeOf(asking.consult(question(), agent())), 'controller_unavailable')
  assert.equal(asking.consultAtOnce(question())?.code, 'controller_unavailable')
})

test('a connection is never held: it is refused until the answer is there, then one passes', async (t) => {
  const { asking, asked, pass } = openAsking(t)
  assert.equal(asking.consultAtOnce(question())?.code, 'approval_pending')
  assert.equal(asking.consultAtOnce(question())?.code, 'approval_pending')
  assert.equal(asked.length, 1)
  asked[0]?.answer(ONCE)
  await pass(0)
  assert.equal(asking.consultAtOnce(question()), undefined)
  assert.equal(asking.consultAtOnce(question())?.code, 'approval_pending')
  asked[1]?.answer(DENY)
  await pass(0)
  assert.equal(asking.consultAtOnce(question())?.code, 'approval_denied')
})

test('questions are bounded: one more is refused as overloaded, one of those that wait is still joined', async (t) => {
  const { asking, asked } = openAsking(t)
  for (let i = 0; i < LIMITS.questionsMax; i++) void asking.consult(question({ path: `/${i}` }), agent())
  assert.equal(await codeOf(asking.consult(question({ path: '/more' }), agent())), 'overloaded')
  assert.equal(asked.length, LIMITS.questionsMax)
  const joined = codeOf(asking.consult(question({ path: '/0' }), agent()))
  asked[0]?.answer(SESSION)
  assert.equal(await joined, 'passes')
  void asking.consult(question({ path: '/more' }), agent())
  assert.equal(asked.length, LIMITS.questionsMax + 1, 'where one was answered there is room')
})

test('approvals are bounded: the oldest gives way and is asked about anew', async (t) => {
  let count = 0
  const { asking } = openAsking(t, () => {
    count += 1
    return Promise.resolve(SESSION)
  })
  for (let i = 0; i <= LIMITS.approvalsMax; i++) assert.equal(await codeOf(asking.consult(question({ path: `/${i}` }), agent())), 'passes')
  assert.equal(count, LIMITS.approvalsMax + 1)
  await asking.consult(question({ path: `/${LIMITS.approvalsMax}` }), agent())
  assert.equal(count, LIMITS.approvalsMax + 1)
  await asking.consult(question({ path: '/0' }), agent())
  assert.equal(count, LIMITS.approvalsMax + 2)
})

test('at the end all questions are withdrawn, who is held is refused, and nothing is asked any more', async (t) => {
  const { asking, asked } = openAsking(t)
  const held = codeOf(asking.consult(question(), agent()))
  asking[Symbol.dispose]()
  assert.equal(await held, 'approval_pending')
  assert.equal(asked[0]?.signal.aborted, true)
  assert.equal(await codeOf(asking.consult(question({ path: '/b' }), agent())), 'controller_unavailable')
  assert.equal(asked.length, 1)
})
