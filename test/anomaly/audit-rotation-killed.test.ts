import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, rm, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { verifyAuditFolder } from '../../src/audit/audit.ts'
import { NOW } from '../support/audit.ts'
import { gateLines, keepChains, openAuditPlace, record, type AuditPlace } from '../support/controller-audit.ts'
import type { Death } from '../support/killed-at.ts'

const SUPPORT = new URL('../support/', import.meta.url).href

/** Records without end, in segments of some kilobytes, and prints the number of each event that was acknowledged. */
const CHILD = `
import { writeSync } from 'node:fs'
const [support, home, death, story] = process.argv.slice(1)
if (death !== 'none') (await import(support + 'killed-at.ts')).dieAt(death)
const { openControllerAudit } = await import(support + '../../src/audit/audit.ts')
const { recordingLog } = await import(support + 'audit.ts')
const { system } = await import(support + '../../src/kernel/system.ts')
const audit = await openControllerAudit({ folder: home + '/audit', keyFile: home + '/audit.key', rotateBytes: 3000 }, system, recordingLog().log)
if (story === 'retire') await audit.retire({ olderThanMs: Date.now() - 3600_000, isLive: () => false })
for (let n = 0; ; n += 1) {
  const details = 'number ' + process.pid + '.' + n
  await audit.append({ event: 'operator', did: 'tested', details })
  writeSync(1, details + '\\n')
  if (n % 10 === 9) await audit.flush()
}
`

/** What a controller had acknowledged when it died; with a number of events it is killed from outside behind so many. */
async function controllerThatDies(
  place: AuditPlace,
  death: Death | 'none',
  options: { story?: 'retire'; after?: number } = {},
): Promise<string[]> {
  const { story = 'record', after = Number.POSITIVE_INFINITY } = options
  const child = spawn(process.execPath, ['--input-type=module', '-e', CHILD, SUPPORT, place.home, death, story], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
    if (text.split('\n').length > after) child.kill('SIGKILL')
  })
  await once(child, 'close')
  assert.equal(child.signalCode, 'SIGKILL')
  return text.split('\n').slice(0, -1)
}

async function recordedIn(place: AuditPlace): Promise<Set<string>> {
  const names = (await readdir(place.folder)).filter((name) => name.endsWith('.jsonl'))
  const texts = await Promise.all(names.map((name) => readFile(join(place.folder, name), 'latin1')))
  return new Set(texts.join('').match(/number \d+\.\d+/g))
}

const DEATHS = (['linkSync', 'renameSync'] as const).flatMap((name) =>
  [1, 3].flatMap((nth) => [`${name}:${nth}:before`, `${name}:${nth}:after`] as const),
)

for (const death of DEATHS)
  test(`I15 a controller that is killed at ${death} of a rotation has lost nothing, and the next one goes on`, async () => {
    await using place = await openAuditPlace()
    const acknowledged = await controllerThatDies(place, death)
    assert.ok(acknowledged.length > 0)
    {
      await using audit = await place.open({ rotateBytes: 3000 })
      await record(audit, 20)
      await audit.flush()
      await record(audit, 1)
    }
    const recorded = await recordedIn(place)
    assert.deepEqual(
      acknowledged.filter((details) => !recorded.has(details)),
      [],
    )
    const { segments } = await verifyAuditFolder(place.folder)
    assert.ok(segments > 1)
    assert.ok(!(await readdir(place.folder)).includes('controller.next.jsonl'))
  })

test('I15 a controller that is killed again and again while it rotates has lost nothing', async () => {
  await using place = await openAuditPlace()
  const acknowledged: string[] = []
  for (const after of [15, 31, 52, 40]) acknowledged.push(...(await controllerThatDies(place, 'none', { after })))
  const recorded = await recordedIn(place)
  assert.deepEqual(
    acknowledged.filter((details) => !recorded.has(details)),
    [],
  )
  await using audit = await place.open()
  await audit.flush()
  await verifyAuditFolder(place.folder)
})

for (const death of ['rm:1:before', 'rm:1:after', 'rm:2:after', 'rm:3:after'] as const)
  test(`I15 a controller that is killed at ${death} of a deletion leaves an audit that holds, and the next one finishes it`, async () => {
    await using place = await openAuditPlace()
    {
      await using audit = await place.open({ rotateBytes: 3000 })
      await keepChains(place, audit, gateLines(3), gateLines(2, 'again'))
      for (let n = 0; n < 4; n += 1) {
        await record(audit, 20)
        await audit.flush()
      }
    }
    const old = (await readdir(place.folder, { recursive: true })).filter((name) => /controller\.0|sessions\//.test(name))
    for (const name of old) await utimes(join(place.folder, name), new Date(NOW), new Date(NOW))
    await controllerThatDies(place, death, { story: 'retire' })
    await rm(join(place.folder, 'controller.next.jsonl'), { force: true })
    await verifyAuditFolder(place.folder)
    place.ahead = Date.now() - NOW
    await using audit = await place.open()
    await audit.retire({ olderThanMs: Date.now() - 3_600_000, isLive: () => false })
    await audit.flush()
    const left = (await readdir(place.folder, { recursive: true })).filter((name) => /controller\.0|sessions\//.test(name))
    assert.equal(left.length <= 1, true, left.join(' '))
    await verifyAuditFolder(place.folder)
  })
