import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { readEnvFile, writeEnvFile } from '../../../src/controller/sessions/env-file.ts'
import { temporaryFolder } from '../../support/audit.ts'

test('lines that are not ours stay as they were, in their order', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, '.env')
  writeFileSync(file, '# mine\nFOO="a b" # why\n\nSALLYPORT_SUBNET=old\nBAR=1\n')
  writeEnvFile(
    file,
    new Map([
      ['SALLYPORT_SUBNET', '10.213.1.0/24'],
      ['NEW', 'x'],
    ]),
  )
  assert.equal(readFileSync(file, 'utf8'), '# mine\nFOO="a b" # why\n\nSALLYPORT_SUBNET=10.213.1.0/24\nBAR=1\nNEW=x\n')
})

test('a name that stands twice is left once, so that an old value cannot win', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, '.env')
  writeFileSync(file, 'A=1\nexport A=2\n')
  writeEnvFile(file, new Map([['A', '3']]))
  assert.equal(readFileSync(file, 'utf8'), 'A=3\n')
})

test('the file is for its owner only and leaves nothing beside it', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, '.env')
  writeFileSync(file, '', { mode: 0o644 })
  writeEnvFile(file, new Map([['A', '1']]))
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(folder.path), ['.env'])
})

test('a file that cannot be replaced stays whole', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, '.env')
  writeFileSync(file, 'A=1\n')
  mkdirSync(`${file}.${process.pid}.new`)
  assert.throws(() => writeEnvFile(file, new Map([['A', '2']])))
  assert.equal(readFileSync(file, 'utf8'), 'A=1\n')
})

for (const value of ['a\nB=2', 'a\rb', 'a\0b']) {
  test(`${JSON.stringify(value)} is refused: it would become a line of its own`, async () => {
    await using folder = await temporaryFolder()
    const file = join(folder.path, '.env')
    assert.throws(() => writeEnvFile(file, new Map([['A', value]])), { code: 'config_invalid' })
  })
}

for (const value of ['a\u2028b', "a'\u2029b", '\u2028', 'a #\u2028b']) {
  test(`${JSON.stringify(value)} is one value: compose ends no line there`, async () => {
    await using folder = await temporaryFolder()
    const file = join(folder.path, '.env')
    writeEnvFile(file, new Map([['A', value]]))
    writeEnvFile(file, readEnvFile(file))
    assert.deepEqual(readEnvFile(file), new Map([['A', value]]))
    assert.equal(readFileSync(file, 'utf8').split('A=').length, 2)
  })
}

test('every value that can be written is read back as it was', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, '.env')
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }).filter((text) => !/[\r\n\0\p{Cs}]/u.test(text)),
      (value) => {
        writeEnvFile(file, new Map([['A', value]]))
        assert.equal(readEnvFile(file).get('A'), value)
      },
    ),
  )
})
