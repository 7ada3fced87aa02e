/** I24: what is wrong with an answer is told to the agent and the log without words of the answer, which may have the secret in them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openTestGate } from '../support/gate.ts'
import { leakIn } from '../support/leaks.ts'
import { exchangeRaw, statusOf } from '../support/raw-client.ts'
import { API, CANARY, policyFor } from '../support/setting.ts'
import { openRawUpstream } from '../support/upstream.ts'

const HANDSHAKE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n'
const LAST = 'Connection: close\r\n'

/** Answers as bytes, with what came in the Authorization in them; long ones would be cut within the secret. */
const ANSWERS: readonly { why: string; request: string; answer: (secret: string) => string }[] = [
  {
    why: 'another protocol than the one that was asked for',
    request: HANDSHAKE,
    answer: (secret) => `101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${secret}\r\n\r\n`,
  },
  {
    why: 'protocols, the secret at the end of a long list',
    request: HANDSHAKE,
    answer: (secret) => `101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${'x'.repeat(112)}${secret}\r\n\r\n`,
  },
  { why: 'a transfer coding', request: LAST, answer: (secret) => `200 OK\r\nTransfer-Encoding: ${secret}\r\n\r\nok` },
  {
    why: 'a transfer coding, cut in a message',
    request: LAST,
    answer: (secret) => `200 OK\r\nTransfer-Encoding: ${'x'.repeat(112)}${secret}\r\n\r\nok`,
  },
  {
    why: 'a content coding',
    request: LAST,
    answer: (secret) => `200 OK\r\nContent-Encoding: ${secret}\r\nContent-Length: 2\r\n\r\nok`,
  },
  {
    why: 'a content coding, cut in a message',
    request: LAST,
    answer: (secret) => `200 OK\r\nContent-Encoding: ${'x'.repeat(112)}${secret}\r\nContent-Length: 2\r\n\r\nok`,
  },
  { why: 'a line that is no header', request: LAST, answer: (secret) => `200 OK\r\n${secret}\r\n\r\nok` },
  { why: 'a length', request: LAST, answer: (secret) => `200 OK\r\nContent-Length: ${secret}\r\n\r\nok` },
  { why: 'a version', request: LAST, answer: (secret) => `200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/${secret}\r\n\r\n` },
]

for (const { why, request, answer } of ANSWERS) {
  test(`I24 an upstream that gives the secret back as ${why} tells it neither the agent, nor audit and log`, async () => {
    let came = ''
    await using upstream = await openRawUpstream((socket) => {
      let head = ''
      socket.on('data', (chunk: Buffer) => {
        head += chunk.toString('latin1')
        came = /^authorization: Bearer (\S+)\r$/im.exec(head)?.[1] ?? ''
        if (head.includes('\r\n\r\n')) socket.end(`HTTP/1.1 ${answer(came)}`, 'latin1')
      })
    })
    await using gate = await openTestGate({
      policy: policyFor([upstream.port], { rule: 'plaintext: accept' }),
      env: { API_TOKEN: CANARY },
      hosts: { [API]: ['127.0.0.1'] },
    })
    const authority = `${API}:${upstream.port}`
    const got = await exchangeRaw(gate.port, `GET http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\n${request}\r\n`)
    assert.equal(came, CANARY, 'it went out')
    assert.notEqual(statusOf(got), 101)
    for (const text of [got, await gate.auditText(), gate.log()]) {
      assert.equal(leakIn(Buffer.from(text), CANARY), undefined)
      assert.ok(!text.includes(CANARY.slice(0, 6)), 'not a part of it either')
    }
  })
}
