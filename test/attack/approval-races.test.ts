/** I41: whatever comes at once, a question ends once, and what was approved is used once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { codeOf, SallyportError } from '../../src/kernel/errors.ts'
import type { Outcome } from '../../src/wire/question.ts'
import { allow, commandSubject, deny, evidenceFor, openDesk, wishOf, type Desk } from '../support/approvals.ts'

/** Refusals that whoever comes second may get. */
const REFUSED = new Set(['question_settled', 'question_claimed', 'request_not_found', 'audit_unavailable', 'controller_unavailable'])

async function refusalOr<T>(work: Promise<T>): Promise<T | string> {
  try {
    return await work
  } catch (error) {
    assert.ok(REFUSED.has(codeOf(error)), String(error))
    return codeOf(error)
  }
}

type Act = 'allow' | 'allow for the session' | 'deny' | 'cancel' | 'abort' | 'end of the session' | 'late' | 'consume' | 'end'

const anyActs: fc.Arbitrary<readonly Act[]> = fc.shuffledSubarray<Act>(
  [
    'allow',
    'allow',
    'allow for the session',
    'deny',
    'cancel',
    'abort',
    'end of the session',
    'late',
    'consume',
    'consume',
    'consume',
    'end',
  ],
  { minLength: 2 },
)

test('I41 in every order of answers, withdrawals, ends, uses and faults of the audit: one end, and at most one use', async () => {
  let used = 0
  let refused = 0
  const inEveryOrder = (someActs: typeof anyActs, numRuns: number): Promise<void> =>
    fc.assert(
      fc.asyncProperty(fc.scheduler(), someActs, fc.constantFrom(0, 0, 0, 2, 3), async (scheduler, acts, failing) => {
        let lines = 0
        await using desk = await openDesk({
          async audit() {
            const line = ++lines
            await scheduler.schedule(Promise.resolve(), `line ${line}`)
            if (line === failing) throw new SallyportError('audit_unavailable', 'it cannot be written')
          },
        })
        const { approvals } = desk
        const asker = new AbortController()
        const asked = desk.ask(wishOf(), asker.signal)
        await scheduler.waitFor(asked)
        const { question, outcome } = await asked
        const { id, digest } = question
        const ends: Outcome[] = []
        void outcome.then((end) => ends.push(end))
        const runs: (boolean | string)[] = []
        const act = async (what: Act): Promise<unknown> => {
          switch (what) {
            case 'allow':
              return refusalOr(approvals.answer(id, allow(question), evidenceFor(digest)))
            case 'allow for the session':
              return refusalOr(approvals.answer(id, allow(question, { scope: 'session' }), evidenceFor(digest)))
            case 'deny':
              return refusalOr(approvals.answer(id, deny(question), evidenceFor(digest)))
            case 'cancel':
              return refusalOr(Promise.try(() => approvals.cancel(id, 's-1')))
            case 'abort':
              return Promise.try(() => asker.abort())
            case 'end of the session':
              return Promise.try(() => approvals.endSession('s-1'))
            case 'late':
              return Promise.try(() => desk.clock.pass(60_000))
            case 'consume':
              return refusalOr(approvals.consume(id, digest)).then((result) => runs.push(result))
            case 'end':
              return await approvals[Symbol.asyncDispose]()
          }
        }
        const acting = acts.map((what) => scheduler.schedule(Promise.resolve(), what).then(() => act(what)))
        await scheduler.waitFor(Promise.all(acting))
        if (!acts.includes('end')) asker.abort()
        await scheduler.waitFor(Promise.resolve(approvals[Symbol.asyncDispose]()))
        await scheduler.waitFor(outcome)

        const ran = runs.filter((run) => run === true).length
        assert.ok(ran <= 1)
        assert.equal(ends.length, 1)
        const allowed = desk.audited.filter((event) => event.event === 'question_settled' && event.state === 'approved').length
        assert.ok(allowed <= 1)
        const consumed = desk.audited.filter((event) => event.event === 'question_consumed').length
        assert.equal(consumed, ran)
        if (ran === 1) assert.deepEqual([ends[0]?.decision, allowed], ['allow', 1])
        if (ends[0]?.decision === 'deny') assert.equal(ran, 0)
        used += ran
        refused += runs.filter((run) => run === false).length
      }),
      { numRuns },
    )
  await inEveryOrder(anyActs, 60)
  // Few orders of so much get as far as a use: of these many do.
  await inEveryOrder(fc.shuffledSubarray<Act>(['allow', 'consume', 'consume', 'consume'], { minLength: 4 }), 60)
  assert.ok(used > 0 && refused > 0, 'some orders let it be used, and some did not')
})

test('I41 of two hundred answers at once one settles it, and of two hundred uses one is true', async () => {
  await using desk = await openDesk()
  const { question, outcome } = await desk.ask()
  const { id, digest } = question
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, n) =>
      refusalOr(desk.approvals.answer(id, n % 2 ? deny(question) : allow(question), evidenceFor(digest), `pts/${n}`)),
    ),
  )
  assert.equal(answers.filter((answer) => typeof answer !== 'string').length, 1)
  assert.equal((await outcome).decision, 'allow')
  const uses = await Promise.all(Array.from({ length: 200 }, () => desk.approvals.consume(id, digest)))
  assert.equal(uses.filter(Boolean).length, 1)
  assert.equal(desk.audited.filter(({ event }) => event === 'question_consumed').length, 1)
})

test('a thousand questions of twenty sessions wait at once, and each gets its own answer', async () => {
  await using desk = await openDesk()
  const asked = new Map<string, string>()
  const watching = new AbortController()
  const events = desk.approvals.watch('page', watching.signal)
  const all = Array.from({ length: 1_000 }, (_, n) => {
    const wish = wishOf({ session: `s-${n % 20}`, subject: commandSubject(['gh', 'pr', 'view', String(n)]) })
    return desk.approvals.ask(wish, new AbortController().signal)
  })
  for await (const { kind, question } of events) {
    if (kind === 'asked') asked.set(question.id, question.digest)
    if (asked.size === all.length) watching.abort()
  }
  assert.equal(desk.approvals.list({ state: 'pending' }).length, 1_000)
  await assert.rejects(desk.approvals.ask(wishOf({ session: 's-21' }), new AbortController().signal), { code: 'too_many_questions' })
  desk.clock.pass(1_000)
  const isOdd = ({ subject }: { subject: { kind: string; argv?: string[] } }): boolean => Number(subject.argv?.[3]) % 2 === 1
  await Promise.all(
    desk.approvals.list({ state: 'pending' }).map((question) => {
      const answer = isOdd(question) ? allow(question) : deny(question)
      return desk.approvals.answer(question.id, answer, evidenceFor(question.digest))
    }),
  )
  for (const [n, { decision, question }] of (await Promise.all(all)).entries()) {
    assert.equal(decision, n % 2 === 1 ? 'allow' : 'deny')
    assert.equal(question.subject.kind === 'command' && question.subject.argv[3], String(n))
  }
})

for (const { what, withdraw } of [
  { what: 'who asked withdraws it', withdraw: (desk: Desk, id: string) => desk.approvals.cancel(id, 's-1') },
  { what: 'its session ends', withdraw: (desk: Desk) => desk.approvals.endSession('s-1') },
]) {
  test(`I41 where ${what} while the approval is being written down, it is withdrawn, and gives nothing for the session either`, async () => {
    const writing = Promise.withResolvers<void>()
    const written = Promise.withResolvers<void>()
    await using desk = await openDesk({
      async audit(event) {
        if (event.event !== 'question_settled' || event.state !== 'approved') return
        writing.resolve()
        await written.promise
      },
    })
    const { question, outcome } = await desk.ask()
    const answered = desk.approvals.answer(question.id, allow(question, { scope: 'session' }), evidenceFor(question.digest))
    await writing.promise
    withdraw(desk, question.id)
    written.resolve()
    assert.equal((await answered).state, 'cancelled')
    const end = await outcome
    assert.ok(end.decision === 'deny' && end.code === 'approval_cancelled')
    assert.equal(await desk.approvals.consume(question.id, question.digest), false)
    assert.deepEqual(
      desk.audited.map((event) => ('state' in event ? event.state : event.event)),
      ['question_asked', 'approved', 'cancelled'],
    )
    assert.equal((await desk.ask()).question.state, 'pending', 'its equal is asked')
  })
}
