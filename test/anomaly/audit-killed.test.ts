import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { verifyAudit } from '../../src/audit/audit.ts'
import { decided, openTestAudit, readEvents, temporaryFolder } from '../support/audit.ts'

/** Appends without end and prints the request of each event that was acknowledged. */
const APPENDER = `
import { writeSync } from 'node:fs'
const { openTestAudit, decided } = await import(process.argv[1])
const audit = await openTestAudit(process.argv[2])
let n = 0
const one = async () => { for (;;) { const request = 'r' + (n += 1); await audit.append(decided(request)); writeSync(1, request + '\\n') } }
await Promise.all(Array.from({ length: 16 }, one))
`

test('every event that a killed process had acknowledged is in the file, and the next start goes on', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.jsonl')
  const support = new URL('../support/audit.ts', import.meta.url).href
  const child = spawn(process.execPath, ['--input-type=module', '-e', APPENDER, support, file], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exit = once(child, 'exit')
  const acknowledged: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    // The last line of a killed process may be cut: it counts only when it is whole, and readline can't tell.
    acknowledged.push(line)
    if (acknowledged.length === 500) child.kill('SIGKILL')
  }
  await exit
  assert.equal(child.signalCode, 'SIGKILL')
  const recorded = new Set<unknown>()
  {
    await using audit = await openTestAudit(file)
    await audit.append(decided('after'))
    for (const { request } of await readEvents(file)) recorded.add(request)
  }
  assert.ok(acknowledged.length >= 500)
  assert.deepEqual(
    acknowledged.filter((request) => !recorded.has(request)),
    [],
  )
  assert.ok((await verifyAudit(file)).events > 500)
})
