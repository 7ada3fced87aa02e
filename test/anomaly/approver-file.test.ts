import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { chmod, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { smallDisk } from '../support/full-disk.ts'
import { never, PASSWORD, password, presenceHome, purpose, secret, type Home } from '../support/presence.ts'

async function withPassword(setting: Home): Promise<string> {
  await (await setting.open()).setPassword(undefined, secret(PASSWORD))
  return readFile(setting.file, 'utf8')
}

const record = (text: string): Record<string, unknown> => JSON.parse(text) as Record<string, unknown>

for (const { what, spoil } of [
  { what: 'is empty', spoil: () => '' },
  { what: 'is cut off', spoil: (text: string) => text.slice(0, 120) },
  { what: 'is no JSON', spoil: () => 'password: none' },
  { what: 'has no key', spoil: (text: string) => JSON.stringify({ ...record(text), key: '' }) },
  { what: 'wants little of scrypt', spoil: (text: string) => JSON.stringify({ ...record(text), n: 2 }) },
  { what: 'wants too much of scrypt', spoil: (text: string) => JSON.stringify({ ...record(text), n: 2 ** 30 }) },
  { what: 'is of a newer version', spoil: (text: string) => JSON.stringify({ ...record(text), version: 2 }) },
  { what: 'has less than no failures', spoil: (text: string) => JSON.stringify({ ...record(text), failures: -9 }) },
  { what: 'has a field too many', spoil: (text: string) => JSON.stringify({ ...record(text), tier: 'T3' }) },
  { what: 'is larger than it can be', spoil: (text: string) => text + ' '.repeat(5_000) },
])
  test(`I49 a file of the password that ${what} proves nothing, sets no other one, and is left as it is`, async () => {
    await using setting = await presenceHome()
    const spoiled = spoil(await withPassword(setting))
    await writeFile(setting.file, spoiled)
    const presence = await setting.open()
    assert.deepEqual(presence.available, ['T0'])
    await assert.rejects(presence.prove('T1', password(), purpose(), never), {
      code: 'presence_failed',
      message: /approver\.json cannot be used/,
    })
    await assert.rejects(presence.setPassword(undefined, secret('taken over')), { code: 'presence_failed' })
    await assert.rejects(presence.setPassword(secret(PASSWORD), secret('taken over')), { code: 'presence_failed' })
    await presence.prove('T0', { kind: 'key' }, purpose(), never)
    assert.equal(await readFile(setting.file, 'utf8'), spoiled)
    assert.match(setting.log.lines.join('\n'), /cannot be used/)
  })

for (const { what, spoil } of [
  { what: 'others can read', spoil: (file: string) => chmod(file, 0o644) },
  { what: 'is a link', spoil: async (file: string) => (await rm(file), symlink('/dev/null', file)) },
])
  test(`I49 a file of the password that ${what} is not read`, async () => {
    await using setting = await presenceHome()
    await withPassword(setting)
    await spoil(setting.file)
    const presence = await setting.open()
    await assert.rejects(presence.prove('T1', password(), purpose(), never), { code: 'presence_failed', message: /cannot be used/ })
  })

for (const { what, spoil } of [
  { what: 'is removed', spoil: (file: string) => rm(file) },
  { what: 'is cut off', spoil: (file: string) => truncate(file, 10) },
  {
    what: 'is replaced by one of another password',
    spoil: async (file: string) => {
      await using other = await presenceHome()
      await (await other.open()).setPassword(undefined, secret('of somebody else'))
      await writeFile(file, await readFile(other.file))
    },
  },
])
  test(`I49 a file that ${what} while the daemon runs changes nothing, and is whole again after the next proof`, async () => {
    await using setting = await presenceHome()
    const presence = await setting.open()
    await presence.setPassword(undefined, secret(PASSWORD))
    await spoil(setting.file)
    await assert.rejects(presence.setPassword(undefined, secret('taken over')), { code: 'presence_failed' })
    await assert.rejects(presence.prove('T1', password('of somebody else'), purpose(), never), { code: 'presence_failed' })
    setting.clock.pass(60_000)
    await presence.prove('T1', password(), purpose(), never)
    await (await setting.open()).prove('T1', password(), purpose(), never)
  })

test('I49 a file that came after the daemon began is not overwritten by a first password', async () => {
  await using setting = await presenceHome()
  const presence = await setting.open()
  const put = await withPassword(setting)
  await assert.rejects(presence.setPassword(undefined, secret('taken over')), { code: 'presence_failed', message: /is there now/ })
  assert.equal(await readFile(setting.file, 'utf8'), put)
})

test('I49 on a full disk no password is looked at, none is changed, and with space again the same works', async (t) => {
  const disk = await smallDisk('approver.json')
  if ('missing' in disk) return t.skip(disk.missing)
  await using held = disk
  const setting = await presenceHome(dirname(held.file))
  const before = await withPassword(setting)
  const presence = await setting.open()
  await held.fill(0)
  await assert.rejects(presence.prove('T1', password(), purpose(), never), {
    code: 'presence_failed',
    message: /cannot be written \(ENOSPC\)/,
  })
  await assert.rejects(presence.prove('T1', password('a guess for free'), purpose(), never), { message: /cannot be written/ })
  await assert.rejects(presence.setPassword(secret(PASSWORD), secret('another one')), { code: 'presence_failed' })
  assert.equal(await readFile(setting.file, 'utf8'), before)
  await held.free()
  await presence.prove('T1', password(), purpose(), never)
})

test('I49 a first password that cannot be written is none', async (t) => {
  const disk = await smallDisk('approver.json')
  if ('missing' in disk) return t.skip(disk.missing)
  await using held = disk
  const setting = await presenceHome(dirname(held.file))
  const presence = await setting.open()
  await held.fill(0)
  await assert.rejects(presence.setPassword(undefined, secret(PASSWORD)), { code: 'presence_failed' })
  assert.deepEqual(presence.available, ['T0'])
  await held.free()
  await presence.setPassword(undefined, secret(PASSWORD))
  assert.deepEqual((await setting.open()).available, ['T0', 'T1'])
})

test('I49 an attempt is on disk before it is looked at, so that ending the daemon in the middle gives no guess for free', async () => {
  await using setting = await presenceHome()
  await withPassword(setting)
  const failuresOnDisk = (): unknown => record(readFileSync(setting.file, 'utf8'))['failures']
  const presence = await setting.open()
  const seen: unknown[] = []
  const elapsed = setting.clock.elapsed.bind(setting.clock)
  setting.clock.elapsed = () => (seen.push(failuresOnDisk()), elapsed())
  await presence.prove('T1', password(), purpose(), never)
  // Its clock is read when the wait is looked at, when the next wait begins, when the password was right, and for the evidence.
  assert.deepEqual(seen, [0, 1, 1, 0])
})
