import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import fc from 'fast-check'
import { readMounts, readStatus } from '../../src/controller/selftest/proc-files.ts'
import { parseFindings, parseTask } from '../../src/controller/selftest/task.ts'
import { WAYS } from '../../src/controller/selftest/ways.ts'

/** As the kernel writes a path (fs/proc_namespace.c: mangle). */
const mangled = (path: string): string => path.replace(/[ \t\n\\]/g, (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, '0')}`)
const path = fc
  .string({ unit: fc.constantFrom('a', 'b', '/', ' ', '\t', '\n', '\\', '-'), minLength: 1, maxLength: 20 })
  .map((text) => `/${text}`)
const mount = fc.record({
  root: path,
  point: path,
  type: fc.constantFrom('ext4', 'tmpfs', 'proc'),
  isOwn: fc.boolean(),
  isSuper: fc.boolean(),
})

test('a mount is read as the kernel wrote it, whatever its paths are, with or without optional fields', () => {
  fc.assert(
    fc.property(fc.array(mount), fc.boolean(), (mounts, isShared) => {
      const text = mounts
        .map(({ root, point, type, isOwn, isSuper }) => {
          const options = `${isOwn ? 'rw' : 'ro'},nosuid`
          return `1 2 0:3 ${mangled(root)} ${mangled(point)} ${options} ${isShared ? 'shared:1 master:2 ' : ''}- ${type} none ${isSuper ? 'rw' : 'ro'},size=1k`
        })
        .join('\n')
      assert.deepEqual(
        readMounts(`${text}\n`),
        mounts.map(({ root, point, type, isOwn, isSuper }) => ({ root, point, type, isWritable: isOwn && isSuper })),
      )
    }),
  )
})

test('the files of this machine are read', () => {
  assert.ok(readMounts(readFileSync('/proc/self/mountinfo', 'utf8')).some(({ point }) => point === '/'))
  assert.match(readStatus(readFileSync('/proc/self/status', 'utf8'))['CapEff'] ?? '', /^[0-9a-f]{16}$/)
})

test('no text makes a reader fail, and a process cannot name itself into another line of its status', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => void [readMounts(text), readStatus(text), parseFindings(text)]))
  const status = readStatus('Name:\tx\\nCapEff:\t0\nCapEff:\tffff\nCapEff:\t0000\n')
  assert.equal(status['CapEff'], 'ffff')
})

test('findings are taken from a probe only when each is one of the ways', () => {
  const good = WAYS.map(({ id }) => ({ id, ok: true, detail: '' }))
  assert.deepEqual(parseFindings(JSON.stringify(good)), good)
  for (const bad of [
    [...good, good[0]],
    [{ ...good[0], id: 'constructor' }],
    [{ ...good[0], ok: 'true' }],
    [{ ...good[0], detail: 'x'.repeat(1_001) }],
    [{ ...good[0], more: 1 }],
    {},
  ])
    assert.equal(parseFindings(JSON.stringify(bad)), undefined)
})

test('a task that is none is refused with what is wrong', () => {
  for (const text of ['', '{}', '[]', '{"port": 1}', 'null']) assert.throws(() => parseTask(text), { code: 'usage' }, text)
})
