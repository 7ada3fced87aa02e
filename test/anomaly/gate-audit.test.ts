/** I3: what cannot be audited is not forwarded. */
import assert from 'node:assert/strict'
import { truncate, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { API, openSetting } from '../support/setting.ts'
import { bodyOf, exchangeRaw, statusOf } from '../support/raw-client.ts'

test('I3 an audit file that somebody else wrote to: requests are refused with 503 and nothing is sent', async () => {
  await using setting = await openSetting()
  const { gate, plain } = setting
  const ask = (): Promise<string> =>
    exchangeRaw(gate.port, `GET http://${API}:${plain.port}/ HTTP/1.1\r\nHost: ${API}:${plain.port}\r\nConnection: close\r\n\r\n`)
  assert.equal(statusOf(await ask()), 200)
  const size = (await gate.auditText()).length
  await writeFile(gate.sidecar.auditFile, '{"forged":true}\n', { flag: 'a' })
  const refused = await ask()
  assert.equal(statusOf(refused), 503)
  assert.equal((JSON.parse(bodyOf(refused)) as { code: string }).code, 'audit_unavailable')
  assert.equal(plain.requests.length, 1)
  await truncate(gate.sidecar.auditFile, size)
  assert.equal(statusOf(await ask()), 200, 'it goes on when the file is as it was')
  assert.equal(plain.requests.length, 2)
})

test('I3 a denied request that cannot be audited is refused too', async () => {
  await using setting = await openSetting()
  await writeFile(setting.gate.sidecar.auditFile, 'x', { flag: 'a' })
  const answer = await exchangeRaw(setting.gate.port, 'GET http://unknown.example.net/ HTTP/1.1\r\nHost: unknown.example.net\r\n\r\n')
  assert.equal(statusOf(answer), 503)
})
