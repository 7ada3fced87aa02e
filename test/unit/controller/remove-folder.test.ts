import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, realpathSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { removeFolder } from '../../../src/controller/remove-folder.ts'

const root = realpathSync(mkdtempSync(join(tmpdir(), 'sallyport-remove-')))
chmodSync(root, 0o777)
after(() => removeFolder(root))

/** More than a path may have, made from the inside out. */
function deepFolder(name: string, mode: number): string {
  const whole = join(root, name)
  for (let index = 0; index < 60; index += 1) {
    const outer = join(root, `${name}-outer`)
    mkdirSync(outer, { mode: 0o755 })
    if (index > 0) renameSync(whole, join(outer, 'd'.repeat(200)))
    else {
      mkdirSync(join(outer, 'inner'))
      writeFileSync(join(outer, 'inner', 'file'), 'value')
      chmodSync(join(outer, 'inner'), mode)
    }
    renameSync(outer, whole)
  }
  return whole
}

/** As somebody who is not root: nothing else is told by the mode of a folder. */
function asNobody(work: () => void): void {
  if (process.geteuid?.() !== 0) return work()
  process.seteuid?.(65_534)
  try {
    work()
  } finally {
    process.seteuid?.(0)
  }
}

test('I72 what a program left is gone whatever it is: too deep for a path, names that are no text, links, and what is not there', () => {
  const beside = join(root, 'beside')
  mkdirSync(beside)
  writeFileSync(join(beside, 'kept'), '')
  const deep = deepFolder('deep', 0o755)
  symlinkSync(beside, join(deep, 'link'))
  const odd = Buffer.concat([Buffer.from(`${deep}/`), Buffer.from([0xff, 0xfe])])
  mkdirSync(odd)
  writeFileSync(Buffer.concat([odd, Buffer.from([0x2f, 0xfd])]), 'value')
  removeFolder(deep)
  removeFolder(deep)
  assert.equal(existsSync(deep), false)
  assert.equal(existsSync(join(beside, 'kept')), true)
})

test('folders that keep their owner out go too, at any depth and by any name, and links in them lead nowhere', () => {
  asNobody(() => {
    const beside = join(root, 'other')
    mkdirSync(beside, { mode: 0o500 })
    const deep = deepFolder('shut', 0o000)
    mkdirSync(join(deep, 'moved-1', 'within'), { recursive: true })
    writeFileSync(join(deep, 'moved-1', 'within', 'file'), 'value')
    symlinkSync(beside, join(deep, 'moved-1', 'link'))
    chmodSync(join(deep, 'moved-1', 'within'), 0o000)
    chmodSync(join(deep, 'moved-1'), 0o100)
    removeFolder(deep)
    assert.equal(existsSync(deep), false)
    assert.equal(existsSync(beside), true)
  })
})
