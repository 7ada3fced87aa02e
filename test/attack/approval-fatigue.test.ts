/** I41: an operator who is tired, or typing, allows nothing that they did not look at. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { allow, commandSubject, deny, evidenceFor, nextEvent, openDesk, wishOf, type Desk } from '../support/approvals.ts'

const ODD = wishOf({ subject: commandSubject(undefined, { environment: { PATH: '/usr/bin:/bin', HOME: '/home/op', PAGER: 'sh' } }) })

async function answered(desk: Desk, decision: 'allow' | 'deny', wish = wishOf()): Promise<'allow' | 'deny' | undefined> {
  const { question } = await desk.ask(wish)
  await desk.approvals.answer(question.id, decision === 'allow' ? allow(question) : deny(question), evidenceFor(question.digest))
  return question.offer
}

test('I41 of ten alike and one that differs in a variable the ten are a bundle, and their answers leave the one alone', async () => {
  await using desk = await openDesk()
  for (let n = 0; n < 10; n++) await desk.ask(wishOf({ reason: `look ${n}` }))
  const odd = await desk.ask(ODD)
  const all = desk.approvals.list({ state: 'pending' })
  const bundles = new Map<string | undefined, number>()
  for (const { bundle } of all) bundles.set(bundle, (bundles.get(bundle) ?? 0) + 1)
  assert.deepEqual([...bundles.values()], [10, 1])
  assert.equal(desk.approvals.get(odd.question.id).bundle, undefined)
  assert.equal(new Set(all.map(({ digest }) => digest)).size, 11)
  for (const question of all)
    if (question.bundle !== undefined) await desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest))
  assert.deepEqual(
    desk.approvals.list({ state: 'pending' }).map(({ id }) => id),
    [odd.question.id],
  )
  assert.equal(await desk.approvals.consume(odd.question.id, odd.question.digest), false)
})

test('I41 one answer to one of a bundle leaves the others waiting, also an answer for the session', async () => {
  await using desk = await openDesk()
  const asked = [await desk.ask(), await desk.ask(), await desk.ask()] as const
  const [first, second] = asked
  await desk.approvals.answer(first.question.id, allow(first.question, { scope: 'session' }), evidenceFor(first.question.digest))
  assert.equal(desk.approvals.list({ state: 'pending' }).length, 2)
  assert.equal(await desk.approvals.consume(second.question.id, second.question.digest), false)
})

test('the first of two equal ones is told anew when it becomes one of a bundle, and when it is none any more', async () => {
  await using desk = await openDesk()
  const first = await desk.ask()
  const grown = nextEvent(desk.approvals, 'changed')
  const second = await desk.ask()
  assert.deepEqual([(await grown).id, typeof (await grown).bundle], [first.question.id, 'string'])
  const shrunk = nextEvent(desk.approvals, 'changed')
  await desk.approvals.answer(second.question.id, deny(second.question), evidenceFor(second.question.digest))
  assert.deepEqual([(await shrunk).id, (await shrunk).bundle], [first.question.id, undefined])
})

test('it is offered to allow after five equal approvals in a row, to deny after three denials, and never anything for what differs', async () => {
  await using desk = await openDesk()
  const offers = []
  for (let n = 0; n < 6; n++) offers.push(await answered(desk, 'allow'))
  assert.deepEqual(offers, [undefined, undefined, undefined, undefined, undefined, 'allow'])
  assert.equal(await answered(desk, 'deny', ODD), undefined)
  assert.equal(await answered(desk, 'deny', wishOf({ session: 's-2' })), undefined)
  assert.equal(await answered(desk, 'deny'), 'allow')
  assert.equal(await answered(desk, 'deny'), undefined)
  assert.equal(await answered(desk, 'deny'), undefined)
  assert.equal(await answered(desk, 'allow'), 'deny')
  assert.equal(await answered(desk, 'allow'), undefined)
})

test('what is dangerous is never offered to be allowed', async () => {
  await using desk = await openDesk()
  const wish = wishOf({ risk: { level: 'dangerous', reasons: [] } })
  for (let n = 0; n < 7; n++) assert.equal(await answered(desk, 'allow', wish), undefined)
})

for (const decision of ['allow', 'deny'] as const) {
  test(`I41 a key that was on its way down when the question came up does not ${decision} it`, async () => {
    await using desk = await openDesk()
    const asked = nextEvent(desk.approvals, 'asked')
    void desk.approvals.ask(wishOf(), new AbortController().signal)
    const question = await asked
    const answer = decision === 'allow' ? allow(question) : deny(question)
    for (const ms of [0, LIMITS.debounceMs - 1]) {
      desk.clock.pass(ms)
      await assert.rejects(desk.approvals.answer(question.id, answer, evidenceFor(question.digest)), { code: 'answered_too_soon' })
      assert.equal(desk.approvals.get(question.id).state, 'pending')
    }
    desk.clock.pass(1)
    assert.equal((await desk.approvals.answer(question.id, answer, evidenceFor(question.digest))).answer?.decision, decision)
  })
}

test('one session cannot fill the queue of the others, nor ask on without an end', async () => {
  await using desk = await openDesk()
  for (let n = 0; n < LIMITS.questionsOfSessionMax; n++) await desk.ask(wishOf({ subject: commandSubject(['gh', String(n)]) }))
  await assert.rejects(desk.approvals.ask(wishOf(), new AbortController().signal), { code: 'too_many_questions' })
  const other = await desk.ask(wishOf({ session: 's-2' }))
  assert.equal(desk.approvals.get(other.question.id).state, 'pending')
  desk.approvals.endSession('s-1')
  assert.equal(desk.approvals.list({ state: 'pending' }).length, 1)
  await desk.ask()
})

for (const { what, wish } of [
  { what: 'a reason of half a megabyte', wish: wishOf({ reason: 'x'.repeat(512 * 1024) }) },
  { what: 'a lone surrogate among the arguments', wish: wishOf({ subject: commandSubject(['gh', '\uD800']) }) },
  { what: 'a time of a day', wish: wishOf({ expiresInMs: 86_400_000 }) },
  { what: 'no time', wish: wishOf({ expiresInMs: 0 }) },
]) {
  test(`a question with ${what} is refused before anybody sees it`, async () => {
    await using desk = await openDesk()
    await assert.rejects(desk.approvals.ask(wish, new AbortController().signal), { code: 'question_invalid' })
    assert.deepEqual([desk.approvals.list(), desk.audited], [[], []])
  })
}

test('of what is settled the latest are listed, as many as are kept, and no more is kept', async () => {
  await using desk = await openDesk()
  for (let n = 0; n < 12; n++) await answered(desk, n % 2 ? 'allow' : 'deny', wishOf({ session: `s-${n % 3}`, reason: `${n}` }))
  const reasons = (filter: Parameters<Desk['approvals']['list']>[0]): string[] => desk.approvals.list(filter).map(({ reason }) => reason)
  assert.deepEqual(reasons({ state: 'recent', limit: 3 }), ['11', '10', '9'])
  assert.deepEqual(reasons({ state: 'recent', session: 's-1' }), ['10', '7', '4', '1'])
})
