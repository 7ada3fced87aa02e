// Escape sequences are what this is about.
/* oxlint-disable no-control-regex */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system } from '../../src/kernel/system.ts'
import type { Question } from '../../src/wire/question.ts'
import { commandSubject, wishOf } from '../support/approvals.ts'
import { ATTACH } from '../support/attached-terminal.ts'
import { eventually } from '../support/eventually.ts'
import { MAIN } from '../support/main-file.ts'
import { openOperator, type Operator } from '../support/operator.ts'
import { PASSWORD, secret } from '../support/presence.ts'
import { openPty, type Pty } from '../support/pty.ts'
import { HOSTILE_TEXTS } from '../support/questions.ts'
import { startTmux } from '../support/tmux.ts'

/** The keys that answer, as the last row has them when all was seen. No text of an agent is reversed. */
const ANSWERS = /\x1b\[7m(?:a allow once|a s r d q)/

function openInbox(operator: Operator, size: { columns: number; rows: number } = { columns: 80, rows: 24 }): Pty {
  const pty = openPty([process.execPath, MAIN, 'approve'], { ...size, env: operator.env })
  // It stops when nobody reads it: here all that it printed is looked at.
  pty.output.resume()
  return pty
}

/** Opens what is selected and scrolls, until the keys that answer it are shown. */
async function lookAtAll(pty: Pty): Promise<void> {
  const from = pty.printed().length
  pty.write('\r')
  await eventually(() => {
    if (ANSWERS.test(pty.printed().slice(from))) return
    pty.write(' ')
    throw new Error(`not at its end: ${JSON.stringify(pty.printed().slice(-400))}`)
  })
}

/** A no that comes in the first moment is taken for a key that was meant for something else. */
const isOld = ({ createdAt }: Question): Promise<void> => eventually(() => assert.ok(system.now() - createdAt > LIMITS.debounceMs + 50))

const stateOf = (operator: Operator, { id }: Question): string => operator.approvals.get(id).state

/** The terminal is as it was before: the other screen, the cursor, wrapping, marks of pastes, and the line discipline. */
function assertGivenBack(pty: Pty): void {
  const text = pty.printed()
  for (const [on, off] of [
    ['\x1b[?1049h', '\x1b[?1049l'],
    ['\x1b[?25l', '\x1b[?25h'],
    ['\x1b[?7l', '\x1b[?7h'],
    ['\x1b[?2004h', '\x1b[?2004l'],
  ] as const)
    assert.ok(text.lastIndexOf(off) > text.lastIndexOf(on), JSON.stringify(off))
}

for (const size of [
  { columns: 20, rows: 5 },
  { columns: 80, rows: 24 },
  { columns: 200, rows: 60 },
])
  test(`at ${size.columns} by ${size.rows} a question is allowed by keys when all of it was looked at, and the terminal is given back`, async () => {
    await using operator = await openOperator()
    const { question, outcome } = await operator.ask()
    await using pty = openInbox(operator, size)
    await pty.sees('1 waiting')
    await lookAtAll(pty)
    pty.write('a')
    const { decision, question: settled } = await outcome
    assert.equal(decision, 'allow')
    assert.equal(settled.id, question.id)
    assert.match(settled.answer?.by ?? '', /^terminal \d+$/)
    await pty.sees('0 waiting')
    pty.write('q')
    assert.equal(await pty.exited, 0)
    assertGivenBack(pty)
  })

test('I52 a yes before the end of the question was on the screen, or together with other keys, answers nothing', async () => {
  await using operator = await openOperator()
  const { question } = await operator.ask(wishOf({ subject: commandSubject(['gh', 'x'.repeat(900)]) }))
  await using pty = openInbox(operator)
  await pty.sees('1 waiting')
  pty.write('a')
  await pty.sees('more lines')
  pty.write('a')
  await pty.sees('scroll to its end first')
  await lookAtAll(pty)
  pty.write('aaaa')
  await pty.sees('several keys at once')
  // Pasted keys are none.
  pty.write('\x1b[200~a\x1b[201~')
  assert.equal(stateOf(operator, question), 'pending')
})

test('a password is asked for inside the view, is on no screen, and a wrong one answers nothing', async (t) => {
  const { approverWaitMinMs } = LIMITS
  t.after(() => Object.assign(LIMITS, { approverWaitMinMs }))
  Object.assign(LIMITS, { approverWaitMinMs: 0 })
  await using operator = await openOperator()
  await operator.presence.setPassword(undefined, secret(PASSWORD))
  const { question, outcome } = await operator.ask(wishOf({ tier: 'T1', risk: { level: 'dangerous', reasons: ['it removes'] } }))
  await using pty = openInbox(operator)
  await pty.sees('1 waiting')
  await lookAtAll(pty)
  pty.write('a')
  await pty.sees('password: ')
  assert.deepEqual(await pty.discipline(), { canonical: false, echo: false })
  await eventually(() => assert.equal(stateOf(operator, question), 'claimed'))
  pty.write('wrong horse battery\r')
  await pty.sees('the password is wrong')
  await eventually(() => assert.equal(stateOf(operator, question), 'pending'))
  pty.write('a')
  await pty.sees('password: ')
  pty.write(`${PASSWORD}\r`)
  assert.equal((await outcome).question.answer?.tier, 'T1')
  assert.doesNotMatch(pty.printed(), /horse/)
})

test('escape leaves the password prompt, gives the question back to others and answers nothing', async () => {
  await using operator = await openOperator()
  await operator.presence.setPassword(undefined, secret(PASSWORD))
  const { question } = await operator.ask(wishOf({ tier: 'T1' }))
  await using pty = openInbox(operator)
  await pty.sees('1 waiting')
  await lookAtAll(pty)
  pty.write('a')
  await pty.sees('password: ')
  await eventually(() => assert.equal(stateOf(operator, question), 'claimed'))
  pty.write('horse\x1b')
  await eventually(() => assert.equal(stateOf(operator, question), 'pending'))
  assert.doesNotMatch(pty.printed(), /horse/)
})

test('what needs a password is not allowed by a key where none is set', async () => {
  await using operator = await openOperator()
  const { question } = await operator.ask(wishOf({ tier: 'T1' }))
  await using pty = openInbox(operator)
  await pty.sees('1 waiting')
  await lookAtAll(pty)
  pty.write('a')
  await pty.sees('it needs T1')
  assert.equal(stateOf(operator, question), 'pending')
})

test('a denial takes its reason to the agent', async () => {
  await using operator = await openOperator()
  const { question, outcome } = await operator.ask()
  await using pty = openInbox(operator)
  await pty.sees('1 waiting')
  pty.write('\r')
  await pty.sees('d deny')
  await isOld(question)
  pty.write('d')
  await pty.sees('enter sends')
  for (const char of 'not on the main branch: ünïcödé') pty.write(char)
  await pty.sees('ünïcödé')
  pty.write('\r')
  const ended = await outcome
  assert.equal(ended.decision, 'deny')
  assert.equal(ended.decision === 'deny' && ended.message, 'not on the main branch: ünïcödé')
})

test('a rule is remembered when it was shown by itself', async () => {
  await using operator = await openOperator()
  const { outcome } = await operator.ask()
  await using pty = openInbox(operator)
  await pty.sees('1 waiting')
  await lookAtAll(pty)
  pty.write('r')
  await pty.sees('the rule that it becomes')
  await pty.sees('gh pr view 12')
  await pty.sees('y remember')
  pty.write('y')
  assert.equal((await outcome).question.answer?.scope, 'remember')
  assert.deepEqual(
    operator.approvals.remembered().map(({ rule }) => rule),
    ['gh pr view 12'],
  )
})

test('of two operators who say yes in the same moment one has answered, and the other is told so', async () => {
  await using operator = await openOperator()
  const { question, outcome } = await operator.ask()
  await using one = openInbox(operator)
  await using other = openInbox(operator)
  for (const pty of [one, other]) {
    await pty.sees('1 waiting')
    await lookAtAll(pty)
  }
  for (const pty of [one, other]) pty.write('a')
  await outcome
  for (const pty of [one, other]) await eventually(() => assert.match(pty.printed(), /0 waiting|settled|APPROVED/))
  const settled = operator.audited.filter(({ event }) => event === 'question_settled')
  assert.equal(settled.length, 1)
  assert.equal(stateOf(operator, question), 'approved')
})

test('who has a question in hand is shown to the others, who cannot allow it meanwhile', async () => {
  await using operator = await openOperator()
  const { question } = await operator.ask()
  await using one = openInbox(operator)
  await using other = openInbox(operator)
  for (const pty of [one, other]) {
    await pty.sees('1 waiting')
    await lookAtAll(pty)
  }
  one.write('r')
  await other.sees('[terminal ')
  other.write('a')
  await other.sees('claimed by')
  assert.equal(stateOf(operator, question), 'claimed')
  one.write('q')
  await eventually(() => assert.equal(stateOf(operator, question), 'pending'))
})

test('questions that come move neither the selection nor what is opened', async () => {
  await using operator = await openOperator()
  const { question: first } = await operator.ask(wishOf({ session: 'a' }))
  await using pty = openInbox(operator)
  await pty.sees('1 waiting')
  for (const session of ['b', 'c', 'd', 'e']) await operator.ask(wishOf({ session }))
  await pty.sees('5 waiting')
  pty.write('\r')
  await pty.sees(first.id)
  const { question: last } = await operator.ask(wishOf({ session: 'f' }))
  await lookAtAll(pty)
  pty.write('a')
  await eventually(() => assert.equal(stateOf(operator, first), 'approved'))
  assert.equal(stateOf(operator, last), 'pending')
})

test('hostile text reaches the terminal escaped: no sequence, no control and no hidden character of the agent', async () => {
  await using operator = await openOperator()
  const hostile = HOSTILE_TEXTS.filter((text) => !text.includes('\0'))
  for (const [index, text] of hostile.entries()) {
    const wish = wishOf({
      session: `s${index}`,
      reason: text,
      subject: commandSubject(['gh', text]),
      rule: text.slice(0, 200),
      expiresInMs: 600_000,
    })
    await operator.ask({ ...wish, asker: { ...wish.asker, sessionName: text.slice(0, 60), agent: text.slice(0, 60) } })
  }
  await using pty = openInbox(operator, { columns: 100, rows: 50 })
  await pty.sees(`${hostile.length} waiting`)
  for (let i = 0; i < hostile.length; i += 1) {
    await lookAtAll(pty)
    const from = pty.printed().length
    pty.write('q')
    await eventually(() => assert.match(pty.printed().slice(from), /\d+ waiting, /))
    pty.write('j')
  }
  pty.write('q')
  assert.equal(await pty.exited, 0)
  const text = Buffer.from(pty.printed(), 'latin1').toString()
  assert.match(text, /\\u\{202E\}/)
  assert.match(text, /\\u\{1B\}/)
  // Ours are: modes, home, erase, attributes.
  const rest = text.replace(/\x1b\[(?:\?\d+[hl]|H|2?J|[\d;]*m|K|!p|\d* q)|\x1b[()]B|\x1b[78>]|\r+\n|[\x0f\x18]/g, '')
  const left = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.exec(rest)
  assert.equal(left, null, JSON.stringify(rest.slice((left?.index ?? 0) - 20, (left?.index ?? 0) + 20)))
})

for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT'] as const)
  test(`${signal} in the middle of a password gives the terminal back`, async () => {
    await using operator = await openOperator()
    await operator.presence.setPassword(undefined, secret(PASSWORD))
    await operator.ask(wishOf({ tier: 'T1' }))
    const script = `${process.execPath} ${MAIN} approve; echo ended`
    await using pty = openPty(['/bin/sh', '-c', script], { env: operator.env })
    await pty.sees('1 waiting')
    await lookAtAll(pty)
    pty.write('a')
    await pty.sees('password: ')
    const pid = await eventually(() => {
      const found = /^terminal (\d+)$/.exec(operator.approvals.list({ state: 'pending' })[0]?.claimedBy ?? '')?.[1]
      if (found === undefined) throw new Error('nobody has it')
      return Number(found)
    })
    process.kill(pid, signal)
    await pty.sees('\x1b[?1049l')
    await pty.sees('ended').catch(() => undefined)
    assertGivenBack(pty)
  })

test('Ctrl-C leaves the view, and nothing is answered', async () => {
  await using operator = await openOperator()
  const { question } = await operator.ask()
  await using pty = openInbox(operator)
  await pty.sees('1 waiting')
  await lookAtAll(pty)
  pty.write('\x03')
  assert.equal(await pty.exited, 0)
  assertGivenBack(pty)
  assert.equal(stateOf(operator, question), 'pending')
})

test('another size lays the question out anew, and it has to be looked at again', async () => {
  await using operator = await openOperator()
  const { question } = await operator.ask()
  await using pty = openInbox(operator, { columns: 100, rows: 70 })
  await pty.sees('1 waiting')
  await lookAtAll(pty)
  pty.resize(20, 5)
  await pty.sees('more: space')
  pty.write('a')
  await pty.sees('there is more')
  assert.equal(stateOf(operator, question), 'pending')
})

test('the view is not shown where an agent is attached to the terminal, nor inside of a session', async () => {
  await using operator = await openOperator()
  const attached = `${ATTACH} ${process.execPath} ${MAIN} approve; echo code=$?; kill $!`
  await using beside = openPty(['/bin/sh', '-c', attached], { env: operator.env })
  await beside.sees('terminal_unsafe')
  await beside.sees('code=1')
  assert.doesNotMatch(beside.printed(), /1049h/)
  await using inside = openPty([process.execPath, MAIN, 'approve'], { env: { ...operator.env, SALLYPORT_LEASE: 'x' } })
  await inside.sees('terminal_unsafe')
  assert.equal(await inside.exited, 1)
})

test('a daemon that ends is waited for, and nothing is answered meanwhile', async () => {
  const operator = await openOperator()
  await operator.ask()
  await using pty = openInbox(operator)
  await pty.sees('1 waiting')
  await lookAtAll(pty)
  await operator[Symbol.asyncDispose]()
  await pty.sees('waiting for the daemon')
  pty.write('a')
  await eventually(() => assert.match(pty.printed(), /the daemon does not answer|settled/))
})

for (const size of [
  { columns: 20, rows: 5 },
  { columns: 80, rows: 24 },
  { columns: 200, rows: 60 },
])
  test(`a real terminal of ${size.columns} by ${size.rows} shows the title on top, the keys at the bottom and nothing scrambled between`, async () => {
    await using operator = await openOperator()
    const { question } = await operator.ask(wishOf({ reason: 'ünïcödé 日本語 😀 '.repeat(30) }))
    await using tmux = await startTmux(size)
    const variables = Object.entries(operator.env).map(([name, value]) => `${name}=${value}`)
    const pane = await tmux.open(['env', ...variables, process.execPath, MAIN, 'approve'])
    const shown = async (): Promise<string[]> => (await tmux.command('capture-pane', '-p', '-t', pane)).split('\n').slice(0, size.rows)
    await eventually(async () => assert.match((await shown())[0] ?? '', /^1 waiting/))
    await tmux.command('send-keys', '-t', pane, 'Enter')
    const rows = await eventually(async () => {
      const found = await shown()
      assert.match(found[0] ?? '', / T0 caut/)
      return found
    })
    assert.match(rows.at(-1) ?? '', /more|look|a allow/)
    for (const row of rows.slice(1, -1)) assert.match(row, /^(?:[|\\] |[a-z]|SHA|$)/, JSON.stringify(rows))
    assert.equal(stateOf(operator, question), 'pending')
  })
