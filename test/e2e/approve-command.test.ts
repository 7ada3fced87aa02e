import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { Question } from '../../src/wire/question.ts'
import { commandSubject, wishOf } from '../support/approvals.ts'
import { ATTACH } from '../support/attached-terminal.ts'
import { runProgram, type Ended } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { MAIN } from '../support/main-file.ts'
import { openOperator, type Operator } from '../support/operator.ts'
import { never, PASSWORD, secret, standingClock } from '../support/presence.ts'
import { openPty } from '../support/pty.ts'
import { HOSTILE_TEXTS } from '../support/questions.ts'

function run(operator: Operator, ...argv: string[]): Promise<Ended> {
  return runProgram([process.execPath, MAIN, ...argv], operator.env)
}

/** The same with a text on its input. */
async function runWith(operator: Operator, input: string, ...argv: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [MAIN, ...argv], { env: operator.env, stdio: ['pipe', 'pipe', 'pipe'] })
  const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []]
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }
}

const stateOf = (operator: Operator, { id }: Question): string => operator.approvals.get(id).state

test('pending --json gives every question with its digest, and approve allows exactly the one that is named', async () => {
  await using operator = await openOperator()
  const { question, outcome } = await operator.ask(wishOf({ session: 'a' }))
  const { question: other } = await operator.ask(wishOf({ session: 'b' }))
  const listed = JSON.parse((await run(operator, 'pending', '--json')).stdout) as Question[]
  assert.deepEqual(
    listed.map(({ id, digest }) => [id, digest]),
    [question, other].map(({ id, digest }) => [id, digest]),
  )
  const ended = await run(operator, 'approve', question.id, '--digest', question.digest)
  assert.deepEqual([ended.code, ended.stderr], [0, ''])
  assert.match(ended.stdout, /allowed: gh pr view 12/)
  assert.equal((await outcome).decision, 'allow')
  assert.equal(stateOf(operator, other), 'pending')
})

test('an answer with another digest, to no question, or to one that is settled changes nothing', async () => {
  await using operator = await openOperator()
  const { question } = await operator.ask()
  const wrong = await run(operator, 'approve', question.id, '--digest', 'f'.repeat(64))
  assert.equal(wrong.code, 1)
  assert.match(wrong.stderr, /digest_mismatch/)
  assert.equal(stateOf(operator, question), 'pending')
  const none = await run(operator, 'approve', 'q-none')
  assert.equal(none.code, 1)
  assert.match(none.stderr, /question_not_found/)
  assert.equal((await run(operator, 'deny', question.id, '--message', 'not today')).code, 0)
  const late = await run(operator, 'approve', question.id)
  assert.equal(late.code, 1)
  assert.match(late.stderr, /question_settled/)
  const { answer } = operator.approvals.get(question.id)
  assert.deepEqual([answer?.decision, answer?.message], ['deny', 'not today'])
})

test('a question of T1 is allowed by the password on stdin, by no key and no other password', async () => {
  await using operator = await openOperator()
  await operator.presence.setPassword(undefined, secret(PASSWORD))
  const { question, outcome } = await operator.ask(wishOf({ tier: 'T1' }))
  const direct = await fetchAnswer(operator, question, { kind: 'key' })
  assert.match(direct, /presence_failed/)
  const wrong = await runWith(operator, 'wrong horse\n', 'approve', question.id, '--password-stdin')
  assert.equal(wrong.code, 1)
  assert.match(wrong.stderr, /presence_failed/)
  assert.equal(stateOf(operator, question), 'pending')
  const right = await eventually(async () => {
    const ended = await runWith(operator, `${PASSWORD}\n`, 'approve', question.id, '--password-stdin')
    assert.equal(ended.code, 0, ended.stderr)
    return ended
  })
  assert.doesNotMatch(right.stdout + right.stderr + wrong.stderr, /horse/)
  assert.equal((await outcome).question.answer?.tier, 'T1')
})

/** What the socket answers to a body that no command of ours sends. */
async function fetchAnswer(operator: Operator, question: Question, proof: unknown): Promise<string> {
  const program = `
    const { request } = require('node:http')
    const [socketPath, path, body] = process.argv.slice(1)
    const sent = request({ socketPath, path, method: 'POST', headers: { 'content-type': 'application/json', 'sallyport-operator': 'x; y' } }, (answer) => answer.pipe(process.stdout))
    sent.end(body)`
  const body = JSON.stringify({ digest: question.digest, decision: 'allow', proof })
  const { stdout } = await runProgram(
    [process.execPath, '-e', program, operator.socket, `/v1/questions/${question.id}/answer`, body],
    operator.env,
  )
  return stdout
}

test('without stdin the password is asked for at the terminal, hidden, and nowhere that an agent is attached to', async () => {
  await using operator = await openOperator()
  await operator.presence.setPassword(undefined, secret(PASSWORD))
  const { question, outcome } = await operator.ask(wishOf({ tier: 'T1' }))
  const attached = `${ATTACH} ${process.execPath} ${MAIN} approve ${question.id}; echo code=$?; kill $!`
  await using beside = openPty(['/bin/sh', '-c', attached], { env: operator.env })
  await beside.sees('terminal_unsafe')
  await beside.sees('code=1')
  assert.doesNotMatch(beside.printed(), /hidden/)
  assert.equal(stateOf(operator, question), 'pending')
  await using pty = openPty([process.execPath, MAIN, 'approve', question.id], { env: operator.env })
  await pty.sees('(hidden)')
  pty.write(`${PASSWORD}\r`)
  assert.equal(await pty.exited, 0)
  assert.doesNotMatch(pty.printed(), /horse/)
  assert.equal((await outcome).question.answer?.tier, 'T1')
})

test('for T2 the operating system is asked about the very process that answers', async () => {
  const asked: { pid: number; startTime: string }[] = []
  const systemPrompt = {
    problem: () => undefined,
    confirm: async (asking: { pid: number; startTime: string }) => {
      asked.push(asking)
      return 'polkit'
    },
  }
  await using operator = await openOperator({ systemPrompt })
  const { question, outcome } = await operator.ask(wishOf({ tier: 'T2' }))
  const child = spawn(process.execPath, [MAIN, 'approve', question.id], { env: operator.env, stdio: 'ignore' })
  const [code] = (await once(child, 'close')) as [number | null]
  assert.equal(code, 0)
  const { answer } = (await outcome).question
  assert.deepEqual([answer?.tier, answer?.by], ['T2', `terminal ${child.pid}`])
  assert.deepEqual(
    asked.map(({ pid }) => pid),
    [child.pid],
  )
  assert.match(asked[0]?.startTime ?? '', /^\d+$/)
})

test('a rule is remembered only when it is named, and ends when it is told to', async () => {
  await using operator = await openOperator()
  const { question, outcome } = await operator.ask()
  const unnamed = await run(operator, 'approve', question.id, '--scope', 'remember')
  assert.equal(unnamed.code, 2)
  assert.match(unnamed.stderr, /it becomes: gh pr view 12/)
  const wider = await run(operator, 'approve', question.id, '--scope', 'remember', '--rule', 'gh **')
  assert.equal(wider.code, 2)
  assert.match(wider.stderr, /answer_invalid/)
  const past = await run(operator, 'approve', question.id, '--scope', 'remember', '--rule', 'gh pr view 12', '--expires', '2001-01-01')
  assert.equal(past.code, 2)
  assert.equal(stateOf(operator, question), 'pending')
  const before = Date.now()
  assert.equal((await run(operator, 'approve', question.id, '--scope', 'remember', '--rule', 'gh pr view 12', '--expires', '12h')).code, 0)
  assert.equal((await outcome).question.answer?.scope, 'remember')
  const [rule] = operator.approvals.remembered()
  assert.equal(rule?.rule, 'gh pr view 12')
  assert.ok((rule?.expiresAt ?? 0) >= before + 12 * 3_600_000 && (rule?.expiresAt ?? 0) <= Date.now() + 12 * 3_600_000)
})

test('a denial for the session answers the next equal question too', async () => {
  await using operator = await openOperator()
  const { question } = await operator.ask()
  assert.equal((await run(operator, 'deny', question.id, '--scope', 'session')).code, 0)
  const next = await operator.approvals.ask(wishOf(), never)
  assert.equal(next.decision, 'deny')
})

test('what is hostile in a question is escaped in the list and in JSON, which gives the same text when it is read', async () => {
  await using operator = await openOperator()
  const hostile = HOSTILE_TEXTS.filter((text) => !text.includes('\0') && text.isWellFormed())
  for (const [index, text] of hostile.entries()) {
    const wish = wishOf({ session: `s${index}`, reason: text, subject: commandSubject(['gh', text]) })
    await operator.ask({ ...wish, asker: { ...wish.asker, sessionName: text.slice(0, 60) } })
  }
  const unseen = /[^\P{C}\n]|\p{Zl}|\p{Zp}|\p{Default_Ignorable_Code_Point}/u
  const list = await run(operator, 'pending')
  assert.doesNotMatch(list.stdout, unseen)
  assert.equal(list.stdout.trimEnd().split('\n').length, hostile.length)
  const json = await run(operator, 'pending', '--json')
  assert.doesNotMatch(json.stdout, unseen)
  assert.deepEqual(
    (JSON.parse(json.stdout) as Question[]).map(({ reason }) => reason),
    hostile,
  )
})

test('pending --watch counts as somebody who watches, and tells line by line what is asked and how it ended', async () => {
  await using operator = await openOperator({ isWatched: false })
  await assert.rejects(operator.approvals.ask(wishOf(), never), { code: 'approver_absent' })
  const child = spawn(process.execPath, [MAIN, 'pending', '--watch', '--json'], { env: operator.env, stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const outcome = await eventually(async () => {
    const asked = operator.approvals.ask(wishOf({ reason: 'one\u2028two' }), never)
    await Promise.race([asked, new Promise((resolve) => setImmediate(resolve))])
    return { asked }
  })
  const told = JSON.parse(String((await lines.next()).value)) as Question
  assert.equal(told.reason, 'one\u2028two')
  assert.equal((await run(operator, 'deny', told.id)).code, 0)
  assert.equal((await outcome.asked).decision, 'deny')
  assert.equal((JSON.parse(String((await lines.next()).value)) as Question).state, 'denied')
  child.kill()
  await once(child, 'close')
  await eventually(() => assert.rejects(operator.approvals.ask(wishOf(), AbortSignal.timeout(50)), { code: 'approver_absent' }))
})

test('the password is set and changed at a terminal, hidden, and only by who knows the one before', async () => {
  await using operator = await openOperator()
  const typing = async (...answers: readonly (readonly [string, string])[]): Promise<{ code: number; screen: string }> => {
    await using pty = openPty([process.execPath, MAIN, 'approver', 'password'], { env: operator.env })
    for (const [question, answer] of answers) {
      await pty.sees(question)
      pty.write(`${answer}\r`)
    }
    return { code: await pty.exited, screen: pty.printed() }
  }
  const made = await typing(['New password', PASSWORD], ['The same again', PASSWORD])
  assert.equal(made.code, 0, made.screen)
  const changes = () => operator.audited.flatMap((event) => (event.event === 'config_changed' ? [[event.of, event.did]] : []))
  assert.deepEqual(changes(), [['operator', 'set']])
  const wrong = await typing(
    ['Password of the approver', 'wrong horse'],
    ['New password', 'another horse'],
    ['The same again', 'another horse'],
  )
  assert.equal(wrong.code, 1)
  assert.match(wrong.screen, /presence_failed/)
  assert.equal(changes().length, 1)
  const { question } = await operator.ask(wishOf({ tier: 'T1', expiresInMs: LIMITS.proposalExpiryMs }))
  await eventually(async () => {
    assert.equal((await runWith(operator, PASSWORD, 'approve', question.id, '--password-stdin')).code, 0)
  })
  assert.doesNotMatch(made.screen + wrong.screen, /horse/)
})

test('open gives a link that is good once; who is logged in is listed and ended', async () => {
  await using operator = await openOperator({ system: standingClock() })
  const { code, stdout } = await run(operator, 'open', '--print')
  assert.equal(code, 0)
  const [, origin = '', ticket = ''] = /^(http:\/\/localhost:\d+)\/#ticket=([\w-]{43})\n$/.exec(stdout) ?? []
  const login = () =>
    fetch(`${origin}/v1/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'test \u00e9' },
      body: JSON.stringify({ ticket }),
    })
  const { token } = (await (await login()).json()) as { token: string }
  const questions = () => fetch(`${origin}/v1/questions`, { headers: { authorization: `Bearer ${token}`, 'sec-fetch-mode': 'cors' } })
  assert.equal((await questions()).status, 200)
  const [listed] = JSON.parse((await run(operator, 'open', '--list', '--json')).stdout) as { id: string; browser: string }[]
  assert.match(listed?.browser ?? '', /^test/)
  assert.equal((await run(operator, 'open', '--close', listed?.id ?? '')).code, 0)
  assert.equal((await questions()).status, 401)
  assert.equal((await run(operator, 'open', '--close', listed?.id ?? '')).code, 1)
})

for (const [why, argv] of [
  ['flags of an answer without an ID', ['approve', '--scope', 'once']],
  ['a scope that there is not', ['approve', 'q-1', '--scope', 'always']],
  ['a denial that is remembered', ['deny', 'q-1', '--scope', 'remember']],
  ['no ID', ['deny']],
  ['an approver’s command that there is not', ['approver', 'name']],
] as const)
  test(`${why} is a fault of usage`, async () => {
    await using operator = await openOperator()
    const { code, stderr } = await run(operator, ...argv)
    assert.equal(code, 2)
    assert.match(stderr, /^usage: /)
  })
