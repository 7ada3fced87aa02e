import assert from 'node:assert/strict'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { test } from 'node:test'
import { openNotify } from '../../src/controller/notify/notify.ts'
import { system } from '../../src/kernel/system.ts'
import { temporaryFolder } from '../support/audit.ts'
import { eventually } from '../support/eventually.ts'
import { Desk, digestOf, notifying, questionOf, receiver, type Received } from '../support/notify.ts'
import { keptLog } from '../support/presence.ts'

const TOKEN = '123456:canary-bot-token'
const TOPIC = 'canary-topic'
const SECRETS = { BOT: TOKEN, TOPIC, HOOK: 'canary-hook', ANSWERS: 'canary-answers' }

type Pressed = { readonly data: string; readonly from?: number; readonly chat?: number }

/** A bot's server: gives what was pressed once, and keeps what it is told. */
async function telegramServer() {
  const pressed: Pressed[] = []
  let given = 0
  const server = await receiver(({ url }) => {
    if (!url.endsWith('/getUpdates')) return {}
    const result = pressed.slice(given).map(({ data, from = 42, chat = 42 }, at) => ({
      update_id: given + at,
      callback_query: { id: `p${given + at}`, from: { id: from }, data, message: { chat: { id: chat } } },
    }))
    given = pressed.length
    return { body: JSON.stringify({ ok: true, result }) }
  })
  const called = (method: string): Record<string, unknown>[] =>
    server.received.filter(({ url }) => url.endsWith(method)).map(({ body }) => JSON.parse(body) as Record<string, unknown>)
  return {
    ...server,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    called,
    press: (...more: readonly Pressed[]) => void pressed.push(...more),
    /** The texts of the buttons of a notice. */
    buttons(at = 0): Record<string, string> {
      const markup = called('/sendMessage')[at]?.['reply_markup'] as
        | { inline_keyboard: { text: string; callback_data: string }[][] }
        | undefined
      return Object.fromEntries((markup?.inline_keyboard[0] ?? []).map(({ text, callback_data }) => [text, callback_data]))
    },
  }
}

const telegram = (url: string, more: string): string =>
  `{version: 1, show: subject, channels: [{telegram: {url: "${url}", token: "\${secret:BOT}", chat: 42, ${more}}}]}`

/** Lets polls go on until the check holds. */
const polled = <T>(setting: { pauses: { end(): void } }, check: () => T): Promise<T> => eventually(() => (setting.pauses.end(), check()))

const answersOf = (server: { called(method: string): Record<string, unknown>[] }): unknown[] =>
  server.called('/answerCallbackQuery').map(({ text }) => text)

test('I50 a chat says no to a question of any tier, and yes to one of T0 where the settings say so, once', async () => {
  await using server = await telegramServer()
  await using setting = await notifying(telegram(server.url, 'answers: T0'), { secrets: SECRETS })
  const first = questionOf()
  setting.desk.ask(first)
  await eventually(() => assert.equal(server.called('/sendMessage').length, 1))
  const { Deny: deny = '', 'Allow once': allow = '' } = server.buttons()
  assert.match(allow, new RegExp(`^allow ${first.id} ${first.digest.slice(0, 16)} [A-Za-z0-9_-]{22}$`))
  assert.ok(Buffer.byteLength(allow) <= 64)
  server.press({ data: allow }, { data: allow }, { data: deny })
  await polled(setting, () => assert.equal(answersOf(server).length, 3))
  assert.deepEqual(answersOf(server), ['allowed', 'too late, or not ours', 'too late, or not ours'])
  assert.deepEqual(
    setting.desk.answered.map(({ id, answer, evidence }) => ({ id, answer, tier: evidence.tier, means: evidence.means })),
    [{ id: first.id, answer: { digest: first.digest, decision: 'allow', scope: 'once' }, tier: 'T0', means: 'telegram' }],
  )
  const second = questionOf({ id: 'q-8899aabbccddeeff', tier: 'T3' })
  setting.desk.ask(second)
  await polled(setting, () => assert.equal(server.called('/sendMessage').length, 2))
  assert.deepEqual(Object.keys(server.buttons(1)), ['Deny'])
  server.press({ data: server.buttons(1)['Deny'] ?? '' })
  await polled(setting, () => assert.equal(setting.desk.answered.length, 2))
  assert.deepEqual(setting.desk.answered[1]?.answer, { digest: second.digest, decision: 'deny', scope: 'once' })
})

for (const { why, answers, tier, argv } of [
  { why: 'its tier is higher', answers: 'T0', tier: 'T1', argv: ['rm', 'x'] },
  { why: 'the settings let a chat only say no', answers: 'deny', tier: 'T0', argv: ['rm', 'x'] },
  { why: 'a part of it was cut', answers: 'T0', tier: 'T0', argv: ['echo', 'x'.repeat(9_000)] },
] as const)
  test(`I50 there is no yes to a question when ${why}`, async () => {
    await using server = await telegramServer()
    await using setting = await notifying(telegram(server.url, `answers: ${answers}`), { secrets: SECRETS })
    setting.desk.ask(questionOf({ tier, argv }))
    await eventually(() => assert.equal(server.called('/sendMessage').length, 1))
    assert.deepEqual(Object.keys(server.buttons()), ['Deny'])
  })

test('I50 nothing that was made up, altered, of another question, another chat, another user or another daemon is an answer', async () => {
  await using server = await telegramServer()
  await using setting = await notifying(telegram(server.url, 'answers: T0, users: [42]'), { secrets: SECRETS })
  const [first, second] = [questionOf(), questionOf({ id: 'q-8899aabbccddeeff', argv: ['gh', 'pr', 'merge', '7'] })]
  setting.desk.ask(first)
  await eventually(() => assert.equal(server.called('/sendMessage').length, 1))
  setting.desk.ask(second)
  await polled(setting, () => assert.equal(server.called('/sendMessage').length, 2))
  const { Deny: deny = '', 'Allow once': allow = '' } = server.buttons()
  const [, id = '', digest = '', code = ''] = allow.split(' ')
  const other = server.buttons(1)['Allow once'] ?? ''
  await using elsewhere = await telegramServer()
  await using before = await notifying(telegram(elsewhere.url, 'answers: T0'), { secrets: SECRETS })
  before.desk.ask(first)
  await eventually(() => assert.equal(elsewhere.called('/sendMessage').length, 1))

  const forged = [
    `allow ${id} ${digest} ${'A'.repeat(22)}`,
    `allow ${id} ${digest} `,
    `allow ${id} ${digest}`,
    `allow ${id} ${digest} ${code} `,
    ` ${allow}`,
    `ALLOW ${id} ${digest} ${code}`,
    // The code of the no does not say yes.
    deny.replace('deny', 'allow'),
    allow.replace('allow', 'deny'),
    // One question's does not answer another.
    `allow ${second.id} ${digest} ${code}`,
    `allow ${second.id} ${second.digest.slice(0, 16)} ${code}`,
    `allow ${id} ${digestOf('else').slice(0, 16)} ${code}`,
    `allow ${id} ${digest.slice(0, 15)} ${code}`,
    `allow ${first.id} ${first.digest.slice(0, 16)} ${other.split(' ')[3]}`,
    elsewhere.buttons()['Allow once'] ?? '',
    'approve',
    '/start',
    'x'.repeat(250),
    '',
  ]
  server.press(...forged.map((data) => ({ data })), { data: allow, from: 7 }, { data: allow, chat: 7 }, { data: deny, from: 7 })
  await polled(setting, () => assert.equal(answersOf(server).length, forged.length + 3))
  assert.equal(setting.desk.answered.length, 0)
  server.press({ data: allow })
  await polled(setting, () => assert.equal(setting.desk.answered.length, 1))
  assert.deepEqual(
    setting.desk.answered.map((one) => one.id),
    [first.id],
    'and the real one still is',
  )
})

test('I50 a tier that rose after the notice is not allowed by its button', async () => {
  await using server = await telegramServer()
  await using setting = await notifying(telegram(server.url, 'answers: T0'), { secrets: SECRETS })
  const question = questionOf()
  setting.desk.ask(question)
  await eventually(() => assert.equal(server.called('/sendMessage').length, 1))
  const real = setting.desk.get.bind(setting.desk)
  setting.desk.get = (id) => ({ ...real(id), tier: 'T1' })
  server.press({ data: server.buttons()['Allow once'] ?? '' })
  await polled(setting, () => assert.deepEqual(answersOf(server), ['a question of T1 is not allowed from here']))
  assert.deepEqual(setting.desk.answered, [])
})

for (const answer of ['', 'null', '{"ok":false}', '{"ok":true,"result":[{"update_id":"1"}]}', '['.repeat(100_000), 'x'.repeat(300_000)])
  test(`I50 a chat server that answers ${JSON.stringify(answer.slice(0, 40))} answers no question, and is asked again later`, async () => {
    let asked = 0
    await using server = await receiver(({ url }) => (url.endsWith('/getUpdates') ? (asked++, { body: answer }) : {}))
    await using setting = await notifying(telegram(server.url, 'answers: T0'), { secrets: SECRETS })
    setting.desk.ask(questionOf())
    await polled(setting, () => assert.ok(asked >= 3))
    assert.deepEqual(setting.desk.answered, [])
  })

const HOSTILE = [
  'a\u202eb\u2066c\u200bd\ufeffe',
  'a\x1b]52;c;eA==\x07b\x9b2J',
  'a\r\nAllow: everything\n\nb',
  '<!channel> <@U1> <https://evil.example|Approve> &lt;b&gt;',
  '[Approve](https://evil.example) *b* `c` @everyone https://evil.example',
  '\\074a href="https://evil.example"\\076 \\342\\200\\256',
  '\u{e0041}\u{e0042}\u2028\u2029\u00ad',
]
const CHANNELS = (url: string, program: string): string => `
version: 1
show: subject
channels:
  - webhook: {url: "${url}/webhook"}
  - slack: {url: "${url}/slack"}
  - ntfy: {url: "${url}/ntfy", topic: t}
  - telegram: {url: "${url}/telegram", token: t, chat: 42}
  - command: ["${program}"]
`
const UNSEEN = /[^\P{C}]|\p{Default_Ignorable_Code_Point}|[\u2028\u2029]/u

test('I50 what an agent wrote is seen in every notice, in one line, and is no markup, link or name anywhere', async () => {
  await using server = await receiver()
  await using folder = await temporaryFolder()
  const program = join(folder.path, 'program')
  await writeFile(program, `#!/bin/sh\ncat > ${folder.path}/got\n`)
  await chmod(program, 0o755)
  await using setting = await notifying(CHANNELS(server.url, program))
  const [session = ''] = HOSTILE
  const asker = { session: 's-1', sessionName: session, workspace: '/w', agent: HOSTILE.join(' ') }
  setting.desk.ask(questionOf({ argv: ['echo', ...HOSTILE], asker, reason: HOSTILE.join(' ') }))
  await eventually(() => assert.equal(setting.pauses.asked.length, 5))
  const by = (path: string): Received => server.received.find(({ url }) => url.startsWith(path)) as Received
  const texts = (value: unknown): string[] =>
    typeof value === 'string' ? [value] : typeof value === 'object' && value !== null ? Object.values(value).flatMap(texts) : []
  const bodies = [
    ...['/webhook', '/slack', '/ntfy', '/telegram'].map((path) => by(path).body),
    await readFile(join(folder.path, 'got'), 'utf8'),
  ]
  for (const body of bodies)
    for (const text of texts(JSON.parse(body))) for (const line of text.split('\n')) assert.doesNotMatch(line, UNSEEN)

  const slack = JSON.parse(by('/slack').body) as { text: string; blocks: { text: { type: string; text: string } }[] }
  assert.doesNotMatch(slack.blocks.map(({ text }) => text.text).join('') + slack.text, /[<>]/)
  assert.deepEqual([...new Set(slack.blocks.map(({ text }) => text.type))], ['plain_text'])
  assert.doesNotMatch(slack.text, /evil/, 'what the notification shows has no word of the arguments')

  const bot = JSON.parse(by('/telegram').body) as {
    text: string
    parse_mode?: string
    entities: { type: string; offset: number; length: number }[]
  }
  assert.equal(bot.parse_mode, undefined)
  const outside = bot.entities
    .toReversed()
    .reduce((text, { offset, length }) => text.slice(0, offset) + text.slice(offset + length), bot.text)
  assert.equal(outside, 'Sallyport: a host command\n\n', 'all that others wrote is code')
  const ntfy = JSON.parse(by('/ntfy').body) as { message: string; markdown?: boolean; actions: unknown[] }
  assert.equal(ntfy.markdown, undefined)
  assert.deepEqual(ntfy.actions, [])
  assert.equal(ntfy.message.split('\n').length, 2)
})

test('I1 secrets of the settings and of sessions are in no log, no error, and nowhere but where they belong', async () => {
  let status = 200
  await using server = await receiver(({ body }) => ({ status, body: status === 200 ? '{"ok":true,"result":[]}' : body }))
  const yaml = `
version: 1
show: subject
channels:
  - telegram: {url: "${server.url}", token: "\${secret:BOT}", chat: 42}
  - ntfy: {url: "${server.url}", topic: "\${secret:TOPIC}", token: "\${secret:HOOK}"}
  - webhook: {url: "${server.url}/\${secret:HOOK}", headers: {x-key: "\${secret:HOOK}"}}
  - slack: {url: "\${secret:NONE}"}
  - slack: {url: "http://canary.example/\${secret:HOOK}"}
`
  await using setting = await notifying(yaml, { secrets: SECRETS })
  setting.desk.ask(questionOf({ argv: ['curl', '-H', 'canary-of-the-session'] }))
  await eventually(() => assert.equal(setting.pauses.asked.length, 5))
  const seen = server.received.map(({ url }) => url)
  assert.deepEqual(seen.toSorted(), ['/', '/bot123456:canary-bot-token/sendMessage', '/canary-hook'])
  const ntfy = server.received.find(({ url }) => url === '/')
  assert.deepEqual([ntfy?.headers.authorization, JSON.parse(ntfy?.body ?? '').topic], ['Bearer canary-hook', TOPIC])
  assert.ok(server.received.every(({ body }) => !body.includes('canary-of-the-session')))
  for (const failing of [500, 302]) {
    status = failing
    setting.pauses.end()
    setting.desk.ask(questionOf({ id: `q-${failing}` }))
    await eventually(() => assert.equal(setting.log.lines.filter((line) => line.includes(`status ${failing}`)).length, 3))
  }
  const told = setting.log.lines.join('\n')
  assert.match(told, /a secret of the notice could not be had \(secret_missing\)/)
  assert.match(told, /must begin with https/)
  assert.doesNotMatch(told + inspect(setting.log.lines, { depth: 9 }), /canary/)
})

test('I50 a redirect is not followed, and takes no secret along', async () => {
  await using thief = await receiver()
  await using server = await receiver(() => ({ status: 307, headers: { location: thief.url } }))
  await using setting = await notifying(
    `{version: 1, channels: [{webhook: {url: "${server.url}", headers: {x-key: "\${secret:HOOK}"}}}]}`,
    { secrets: SECRETS },
  )
  setting.desk.ask(questionOf())
  await eventually(() => assert.match(setting.log.lines.join(''), /status 307/))
  assert.equal(thief.received.length, 0)
})

test('I50 a program of the operator’s gets the notice by its input, fixed arguments, and nothing of our environment', async () => {
  await using folder = await temporaryFolder()
  const program = join(folder.path, 'program')
  await writeFile(
    program,
    `#!/bin/sh\nprintf '%s\\n' "$#" "$@" > ${folder.path}/arguments\nenv > ${folder.path}/environment\ncat > ${folder.path}/input\n`,
  )
  await chmod(program, 0o755)
  await using setting = await notifying(`{version: 1, show: subject, channels: [{command: ["${program}", "--fixed", "$(id)"]}]}`)
  setting.desk.ask(questionOf({ argv: ['--option', '$(touch x)', '; id'] }))
  await eventually(() => assert.equal(setting.pauses.asked.length, 1))
  assert.equal(await readFile(join(folder.path, 'arguments'), 'utf8'), '2\n--fixed\n$(id)\n')
  assert.doesNotMatch(await readFile(join(folder.path, 'environment'), 'utf8'), /SALLYPORT|canary/)
  assert.match(await readFile(join(folder.path, 'input'), 'utf8'), /^\{.*touch x.*\}\n$/)
})

test('I50 without notify.yaml nobody watches for the operator', async () => {
  await using folder = await temporaryFolder()
  const desk = new Desk()
  desk.watch = () => assert.fail('somebody watches')
  const nothing = {
    approvals: desk,
    attest: () => assert.fail(),
    resolveSecret: () => assert.fail(),
    redact: (_: string, text: string) => text,
  }
  await using notify = await openNotify({ home: folder.path, ...nothing, environment: {}, system, log: keptLog() })
  assert.deepEqual(notify.channels, [])
})
