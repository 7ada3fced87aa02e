import { secretSubject } from '../../support/approvals.ts'
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { noticeOf, type NoticeOptions } from '../../../src/controller/notify/notice.ts'
import { notifySendArguments, osascriptArguments } from '../../../src/controller/notify/programs.ts'
import { readNotifySettings, urlProblem } from '../../../src/controller/notify/settings.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import type { Question, Subject } from '../../../src/wire/question.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { eventually } from '../../support/eventually.ts'
import { notifying, questionOf, receiver } from '../../support/notify.ts'

const KIND: NoticeOptions = { show: 'kind', link: undefined, redact: (_session, text) => text }
const SUBJECT: NoticeOptions = { ...KIND, show: 'subject' }
const REASON = 'the agent says that this was approved already'

async function settingsOf(yaml: string) {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'notify.yaml')
  await writeFile(file, yaml)
  return readNotifySettings(file)
}

test('a notice says who asks for what kind of thing, how risky, by which tier, and no word of what or why', () => {
  const question = questionOf({ argv: ['deploy', '--to', 'acme'] })
  const notice = noticeOf([question], 0, { ...KIND, link: 'http://localhost:7080/' })
  assert.equal(notice.title, 'Sallyport: a host command')
  assert.equal(notice.text, `claude in session web asks for a host command: safe, T0, ${question.digest.slice(0, 16)}`)
  assert.doesNotMatch(JSON.stringify(notice), /acme|deploy|approved already/)
  assert.equal(notice.link, 'http://localhost:7080/')
  assert.equal(notice.isWhole, false)
})

const subjects: readonly { subject?: Subject; argv?: string[]; shown: string }[] = [
  { argv: ['gh', 'pr', 'view', '7'], shown: 'gh pr view 7' },
  { argv: ['echo', 'two words', '', '-n'], shown: 'echo "two words" "" -n' },
  { subject: secretSubject(), shown: 'TOKEN (session)' },
  {
    subject: { kind: 'domain', rule: 'r', lane: 'http', host: 'api.example.com', port: 443, method: 'POST', path: '/x?y' },
    shown: 'POST api.example.com:443/x?y',
  },
  { subject: { kind: 'proposal', of: 'policy', target: '/p.yaml', diff: '+ all', after: 'a'.repeat(64) }, shown: 'policy: /p.yaml' },
]
for (const { shown, ...about } of subjects)
  test(`with show: subject a notice has ${shown}, and never the reason`, () => {
    const notice = noticeOf([questionOf(about)], 0, SUBJECT)
    assert.deepEqual([notice.subject, notice.isWhole], [shown, true])
    assert.ok(!JSON.stringify(notice).includes(REASON))
  })

test('a subject that is too long is cut, says so, and is not whole', () => {
  const notice = noticeOf([questionOf({ argv: ['echo', 'x'.repeat(5_000)] })], 0, SUBJECT)
  assert.match(notice.subject ?? '', /… \(4005 more characters\)$/)
  assert.ok((notice.subject ?? '').length < LIMITS.noticeSubjectCharsMax + 40)
  assert.equal(notice.isWhole, false)
})

test('several questions are one notice with their number and sessions, and nothing to press', () => {
  const questions = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((sessionName, at) =>
    questionOf({ id: `q-${at}`, asker: { session: sessionName, sessionName, workspace: '/w', agent: 'x' } }),
  ) as [Question, ...Question[]]
  const { title, text, question } = noticeOf(questions, 5, SUBJECT)
  assert.deepEqual([title, text, question], ['Sallyport: 12 questions wait', 'Sessions: a, b, c, d, e and 2 more', undefined])
})

for (const { yaml, says } of [
  { yaml: 'version: 1\nchannels: []', says: /:2: channels: / },
  { yaml: 'version: 2\nchannels: [{desktop: true}]', says: /:1: version/ },
  { yaml: 'version: 1\nchannels: [{desktop: true}]\nnotify: x', says: /[Uu]nrecognized key.*notify/ },
  { yaml: 'version: 1\nchannels:\n  - desktop: true\n    command: [x]', says: /:3: channels\.0: must be one of command, webhook/ },
  { yaml: 'version: 1\nchannels:\n  - {}', says: /must be one of/ },
  { yaml: 'version: 1\nchannels:\n  - slak: {url: "https://x"}', says: /slak/ },
  { yaml: 'version: 1\nchannels:\n  - webhook: {url: "http://example.com/x"}', says: /must begin with https/ },
  { yaml: 'version: 1\nchannels:\n  - webhook: {url: "https://u:p@example.com"}', says: /must not have a user/ },
  { yaml: 'version: 1\nchannels:\n  - webhook: {url: "file:///etc/passwd"}', says: /must begin with https/ },
  { yaml: 'version: 1\nchannels:\n  - webhook: {url: "https://x", header: {a: b}}', says: /header/ },
  { yaml: 'version: 1\nchannels:\n  - webhook: {url: "https://x", headers: {"a b": c}}', says: /name of a header|Invalid key/ },
  { yaml: 'version: 1\nchannels:\n  - slack: {url: "${secret:A"}', says: /is not closed/ },
  { yaml: 'version: 1\nchannels:\n  - command: notify-me', says: /command/ },
  { yaml: 'version: 1\nchannels:\n  - ntfy: {topic: t, answers: deny}', says: /needs answer_topic/ },
  { yaml: 'version: 1\nchannels:\n  - ntfy: {topic: t, answers: deny, answer_topic: t}', says: /another topic/ },
  { yaml: 'version: 1\nchannels:\n  - ntfy: {topic: t, answers: T1, answer_topic: u}', says: /answers/ },
  { yaml: 'version: 1\nchannels:\n  - ntfy: {topic: t, answers: T0, answer_topic: u}', says: /needs show: subject/ },
  { yaml: 'version: 1\nchannels:\n  - telegram: {token: t, chat: 1, answers: T0}', says: /needs show: subject/ },
  { yaml: 'version: 1\nchannels:\n  - telegram: {token: t, chat: -1, answers: deny}', says: /name the users/ },
  { yaml: 'version: 1\nlink: "javascript:alert(1)"\nchannels: [{desktop: true}]', says: /link/ },
  { yaml: 'version: 1\nchannels: [', says: /not valid YAML/ },
])
  test(`notify.yaml with ${JSON.stringify(yaml.split('\n').slice(1).join(' '))} is config_invalid`, () =>
    assert.rejects(settingsOf(yaml), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'config_invalid')
      assert.match(error.message, says)
      return true
    }))

for (const { url, ok } of [
  { url: 'https://hooks.example.com/x', ok: true },
  { url: 'http://127.0.0.1:8080/', ok: true },
  { url: 'http://localhost/', ok: true },
  { url: 'http://[::1]:1/', ok: true },
  { url: 'http://127.0.0.1.example.com/', ok: false },
  { url: 'http://localhost.example.com/', ok: false },
  { url: 'http://[::ffff:1.2.3.4]/', ok: false },
  { url: 'ftp://127.0.0.1/', ok: false },
  { url: 'nowhere', ok: false },
])
  test(`a notice ${ok ? 'goes' : 'never goes'} to ${url}`, () => assert.equal(urlProblem(url) === undefined, ok))

test('the desktop’s programs get their words behind what ends options, and a script that is always the same', () => {
  const notice = { ...noticeOf([questionOf({ argv: ['-u', '<b>\\074&'] })], 0, SUBJECT), text: 't' }
  const argv = notifySendArguments(notice)
  assert.deepEqual(argv.slice(0, 5), ['notify-send', '--app-name=Sallyport', '--urgency=normal', '--', 'Sallyport: a host command'])
  // As JSON writes the argument, escaped for markup and then for notify-send.
  assert.equal(argv[5], 't\\n-u "&lt;b&gt;\\\\\\\\074&amp;"')
  assert.deepEqual(osascriptArguments(notice).slice(1, -2), [
    '-e',
    'on run argv',
    '-e',
    'display notification (item 2 of argv) with title (item 1 of argv)',
    '-e',
    'end run',
  ])
})

test('a thousand questions make a handful of notices, and what was answered before its notice is in none', async () => {
  await using server = await receiver()
  await using setting = await notifying(`{version: 1, channels: [{webhook: {url: "${server.url}"}}]}`)
  const { desk, pauses } = setting
  desk.ask(questionOf({ id: 'q-first' }))
  await eventually(() => assert.equal(pauses.asked.length, 1))
  assert.equal(server.json(0)['questions'], 1)
  desk.ask(...Array.from({ length: 998 }, (_, at) => questionOf({ id: `q-${at}` })))
  desk.ask(questionOf({ id: 'q-gone' }))
  desk.settle('q-gone')
  await eventually(() => assert.equal(pauses.asked.length, 1))
  // What was asked has been read when an event behind it has been.
  await new Promise((resolve) => setImmediate(resolve))
  pauses.end()
  await eventually(() => assert.equal(pauses.asked.length, 2))
  assert.equal(server.received.length, 2)
  assert.deepEqual([server.json(1)['questions'], server.json(1)['title']], [998, 'Sallyport: 998 questions wait'])
})

test('pauses double while questions come, up to their bound, and are short again afterwards', async () => {
  await using server = await receiver()
  await using setting = await notifying(`{version: 1, channels: [{webhook: {url: "${server.url}"}}]}`)
  const { desk, pauses } = setting
  for (let round = 1; round <= 7; round++) {
    desk.ask(questionOf({ id: `q-${round}` }))
    await eventually(() => assert.equal(pauses.asked.length, round))
    desk.ask(questionOf({ id: `q-${round}-more` }))
    await new Promise((resolve) => setImmediate(resolve))
    pauses.end()
  }
  await eventually(() => assert.equal(pauses.asked.length, 8))
  const min: number = LIMITS.notifyPauseMinMs
  const wanted = [1, 2, 4, 8, 16, 32, 64].map((times) => Math.min(min * times, LIMITS.notifyPauseMaxMs))
  assert.deepEqual(pauses.asked.slice(0, 7), wanted)
})

test('without notify.yaml nobody watches, and a way that fails holds up no other', async () => {
  await using server = await receiver()
  await using broken = await receiver(() => ({ status: 500, body: 'canary-of-the-server' }))
  await using setting = await notifying(
    `{version: 1, channels: [{webhook: {url: "${broken.url}"}}, {webhook: {url: "${server.url}"}}, {command: [/nonexistent/program]}]}`,
  )
  assert.deepEqual(setting.channels, ['webhook 1', 'webhook 2', 'command 3'])
  setting.desk.ask(questionOf())
  await eventually(() => assert.equal(setting.pauses.asked.length, 3))
  assert.equal(server.received.length, 1)
  const told = setting.log.lines.join('\n')
  assert.match(told, /webhook 1.*status 500/)
  assert.match(told, /command 3.*ENOENT/)
  assert.doesNotMatch(told, /canary/)
})
