/** An agent that goes on sending has the reason why its request is refused, and does not send for ever. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { AWS_ACCOUNT, openAwsSetting, type AwsSetting } from '../support/aws-setting.ts'
import { EVERY_WAY } from '../support/every-way.ts'
import { readAnswer } from '../support/every-client.ts'
import { readToEnd } from '../support/raw-client.ts'

const { FILES, QUEUE, REGION } = AWS_ACCOUNT
let setting: AwsSetting

before(async () => {
  setting = await openAwsSetting()
})
after(() => setting[Symbol.asyncDispose]())

const PIECE = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(64 * 1024, 'x'), Buffer.from('\r\n')])

for (const way of EVERY_WAY) {
  for (const { what, host, code } of [
    { what: 'at its head', host: FILES, code: 'aws_signature_refused' },
    { what: 'in its body', host: QUEUE, code: 'body_too_large' },
  ]) {
    test(`an upload without an end that is refused ${what} has its answer, and then ends: ${way}`, async () => {
      const { socket, target, authority } = await setting.every.open(way, 'https', host)
      const fields = host === FILES ? [] : setting.sign({ method: 'POST', host, payload: 'none' }, { region: REGION, service: 'sqs' })
      const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
      socket.write(`POST ${target('/')} HTTP/1.1\r\nHost: ${authority}\r\nTransfer-Encoding: chunked\r\n${lines}\r\n`)
      const answer = readToEnd(socket)
      const closed = answer.then(() => 'closed')
      while (!socket.destroyed) {
        if (!socket.write(PIECE) && (await Promise.race([once(socket, 'drain').catch(() => {}), closed])) === 'closed') break
      }
      const got = readAnswer(Buffer.from(await answer, 'latin1'))
      assert.deepEqual([got.code, got.isWhole], [code, true])
      assert.deepEqual(setting.arrivals, [])
    })
  }
}
