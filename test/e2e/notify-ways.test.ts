import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { findProgram } from '../../src/credential/credential.ts'
import { temporaryFolder } from '../support/audit.ts'
import { runProgram } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { notifying, questionOf, receiver } from '../support/notify.ts'

type Action = { readonly label: string; readonly url: string; readonly method: string; readonly body: string }

/** Topics as ntfy has them: what is sent to one is read from it, since a message or a time. */
async function ntfyServer() {
  const topics = new Map<string, { id: string; event: string; message: string }[]>()
  let ids = 0
  const server = await receiver(({ method, url, body }) => {
    const [, topic = '', rest = ''] = /^\/([^/?]*)\/?(.*)$/.exec(url) ?? []
    const { searchParams } = new URL(rest, 'http://x')
    if (method === 'POST' && topic !== '') {
      topics.set(topic, [...(topics.get(topic) ?? []), { id: `m${++ids}`, event: 'message', message: body }])
      return {}
    }
    const messages = topics.get(topic) ?? []
    const after = messages.findIndex(({ id }) => id === searchParams.get('since'))
    return { body: [{ id: 'o', event: 'open' }, ...messages.slice(after + 1)].map((one) => `${JSON.stringify(one)}\n`).join('') }
  })
  const notices = (): { topic: string; actions: Action[] }[] =>
    server.received
      .filter(({ method, url }) => method === 'POST' && url === '/')
      .map(({ body }) => JSON.parse(body) as { topic: string; actions: Action[] })
  return { ...server, notices, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

/** What an app does when a button of a notice is pressed. */
async function press(action: Action | undefined): Promise<void> {
  const { status } = await fetch(action?.url ?? '', { method: action?.method ?? '', body: action?.body ?? '' })
  assert.equal(status, 200)
}

test('a button of an ntfy notice answers its question, by way of the topic for answers', async () => {
  await using server = await ntfyServer()
  const yaml = `
version: 1
show: subject
channels:
  - ntfy: {url: "${server.url}", topic: notices, answers: T0, answer_topic: "\${secret:ANSWERS}", token: "\${secret:TOKEN}"}
`
  await using setting = await notifying(yaml, { secrets: { ANSWERS: 'answers-4711', TOKEN: 'tk_1' } })
  const polled = <T>(check: () => T): Promise<T> => eventually(() => (setting.pauses.end(), check()))
  setting.desk.ask(questionOf())
  await eventually(() => assert.equal(server.notices().length, 1))
  const [deny, allow] = server.notices()[0]?.actions ?? []
  assert.deepEqual([deny?.label, allow?.label], ['Deny', 'Allow once'])
  await fetch(`${server.url}/answers-4711`, { method: 'POST', body: 'allow q-0011223344556677' })
  await press(allow)
  await polled(() => assert.equal(setting.desk.answered.length, 1))
  assert.deepEqual(setting.desk.answered[0]?.answer.decision, 'allow')

  setting.desk.ask(questionOf({ id: 'q-8899aabbccddeeff', tier: 'T1' }))
  await polled(() => assert.equal(server.notices().length, 2))
  const later = server.notices()[1]?.actions ?? []
  assert.deepEqual(
    later.map(({ label }) => label),
    ['Deny'],
  )
  // The one of before is answered: pressed again it does nothing.
  await press(allow)
  await press(later[0])
  await polled(() => assert.equal(setting.desk.answered.length, 2))
  assert.deepEqual(
    setting.desk.answered.map(({ id, answer }) => [id, answer.decision]),
    [
      ['q-0011223344556677', 'allow'],
      ['q-8899aabbccddeeff', 'deny'],
    ],
  )
})

test('a program that never ends, or prints without end, is ended, and the next notice goes out', async () => {
  await using folder = await temporaryFolder()
  const program = join(folder.path, 'program')
  await writeFile(program, '#!/bin/sh\nexec cat /dev/zero\n', { mode: 0o755 })
  await using setting = await notifying(`{version: 1, channels: [{command: ["${program}"]}]}`)
  for (const round of [1, 2]) {
    setting.desk.ask(questionOf({ id: `q-${round}` }))
    await eventually(() => assert.equal(setting.log.lines.filter((line) => line.includes('printed too much')).length, round))
    setting.pauses.end()
  }
})

const SERVER = join(import.meta.dirname, '../support/notification-server.py')

test('I50 the desktop shows what an agent wrote as it is: no markup, no escape, no option', async (t) => {
  const program = findProgram('notify-send', process.env)
  if (program === undefined) return t.skip('there is no notify-send here')
  const { code } = await runProgram(['/usr/bin/python3', '-c', 'import dbus, gi'], {})
  if (code !== 0) return t.skip('there is no Python that can serve a bus')
  await using parts = new AsyncDisposableStack()
  const bus = spawn('dbus-daemon', ['--session', '--print-address', '--nofork'], { stdio: ['ignore', 'pipe', 'ignore'] })
  parts.defer(() => void bus.kill('SIGKILL'))
  const [address] = (await once(createInterface({ input: bus.stdout }), 'line')) as [string]
  const server = spawn('/usr/bin/python3', [SERVER], { env: { DBUS_SESSION_BUS_ADDRESS: address }, stdio: ['ignore', 'pipe', 'inherit'] })
  parts.defer(() => void server.kill('SIGKILL'))
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]()
  assert.equal((await lines.next()).value, 'ready')
  const environment = { PATH: process.env['PATH'], HOME: '/nonexistent', DBUS_SESSION_BUS_ADDRESS: address }
  await using setting = await notifying('{version: 1, show: subject, channels: [{desktop: true}]}', { parts: { environment } })
  const hostile = ['--urgency=low', '<b>bold</b>', '\\074b\\076', '\\342\\200\\256', '\\n\\x41', '\u202e', '&amp;', '-h']
  setting.desk.ask(questionOf({ argv: ['echo', ...hostile], risk: { level: 'dangerous', reasons: [] } }))
  await eventually(() => assert.equal(setting.pauses.asked.length, 1))
  assert.deepEqual(setting.log.lines, [])
  const shown = JSON.parse(String((await lines.next()).value)) as { program: string; summary: string; body: string; urgency: number }
  assert.deepEqual([shown.program, shown.summary, shown.urgency], ['Sallyport', 'Sallyport: a host command', 2])
  const words = shown.body.split('\n')
  assert.equal(words.length, 2)
  assert.doesNotMatch(shown.body, /[<>\u202e]/)
  const seen = words[1]?.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
  assert.equal(seen, String.raw`echo --urgency=low "<b>bold</b>" "\\074b\\076" "\\342\\200\\256" "\\n\\x41" "\u{202E}" "&amp;" -h`)
})
