/** I3: an agent cannot fill the operator's disk by making the gate write its audit. */
import assert from 'node:assert/strict'
import { stat } from 'node:fs/promises'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { bodyOf, exchangeRaw, statusOf } from '../support/raw-client.ts'
import { openSetting } from '../support/setting.ts'

test('I3 an audit file at its limit grows no further, and requests are refused', async () => {
  await using setting = await openSetting()
  const { gate } = setting
  // The limit is 4 GiB: here it is lowered for this process to what a few events fill.
  Object.assign(LIMITS, { auditFileBytesMax: 4_000 })
  const ask = (): Promise<string> => exchangeRaw(gate.port, 'GET http://unknown.example.net/ HTTP/1.1\r\nHost: unknown.example.net\r\n\r\n')
  const answers: string[] = []
  for (let i = 0; i < 20; i++) answers.push(await ask())
  assert.equal(statusOf(answers[0] ?? ''), 403)
  const last = answers.at(-1) ?? ''
  assert.equal(statusOf(last), 503)
  assert.equal((JSON.parse(bodyOf(last)) as { code: string }).code, 'audit_unavailable')
  const { size } = await stat(gate.sidecar.auditFile)
  await ask()
  assert.equal((await stat(gate.sidecar.auditFile)).size, size)
  assert.ok(size < 6_000)
})
