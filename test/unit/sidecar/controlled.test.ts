/** What becomes of requests under way when a controller's secrets are taken back. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { connect } from 'node:net'
import { createTestSession, openTestController } from '../../support/control.ts'
import { eventually } from '../../support/eventually.ts'
import { API, CANARY, openSetting, OTHER } from '../../support/setting.ts'

test('I34 when secrets are taken back what carries one is cut, what carries none goes on', async () => {
  await using session = await createTestSession({ API_TOKEN: CANARY }, { id: 'test-session' })
  await using controller = await openTestController(session, { graceMs: 100, version: 'test' })
  const answers: ServerResponse[] = []
  await using setting = await openSetting({
    rule: 'plaintext: accept',
    answer: (_request, response) => {
      answers.push(response)
      response.write('begun')
    },
    gate: {
      config: { control: { agent: 'agent', transport: { kind: 'unix', path: join(session.socketDir, 'control.sock') } }, audit: '' },
    },
  })
  const open = (host: string) => {
    const authority = `${host}:${setting.plain.port}`
    const socket = connect(setting.gate.port, '127.0.0.1')
    let text = ''
    let isClosed = false
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    socket.on('error', () => undefined)
    socket.on('close', () => (isClosed = true))
    socket.write(`GET http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
    return { text: () => text, isClosed: () => isClosed, socket }
  }
  const [bound, free] = [open(API), open(OTHER)]
  await eventually(() => assert.ok(bound.text().includes('200 OK') && free.text().includes('begun')))
  assert.ok(setting.plain.requests.some(({ rawHeaders }) => rawHeaders.includes(`Bearer ${CANARY}`)))
  await controller[Symbol.asyncDispose]()
  await eventually(() => assert.ok(bound.isClosed()))
  for (const answer of answers) answer.write('and more')
  await eventually(() => assert.match(free.text(), /and more/))
  assert.equal(free.isClosed(), false)
  free.socket.destroy()
  for (const answer of answers) answer.end()
  assert.equal(setting.gate.log().includes(CANARY), false)
})
