import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { CACHE_FILE, compileMain, MAIN_FILE } from '../../../src/cli/code-cache.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { exec } from '../../support/pki.ts'

const CODE_CACHE = new URL('../../../src/cli/code-cache.ts', import.meta.url).href
const TEXT = 'require.seen = answer(); function answer() { return 42 }'

test('a bundle without a cache is compiled', async () => {
  await using folder = await bundle(TEXT)
  assert.equal(answerOf(folder.path), 42)
  assert.equal(compileMain(folder.path).isCached, false)
})

test('a bundle with the cache that was made of it is not compiled again', async () => {
  await using folder = await cached(TEXT)
  assert.equal(compileMain(folder.path).isCached, true)
  assert.equal(answerOf(folder.path), 42)
})

test('the cache of another text is not used, not even of one that is as long', async () => {
  await using folder = await cached(TEXT)
  await writeFile(join(folder.path, MAIN_FILE), TEXT.replace('42', '43'))
  assert.equal(compileMain(folder.path).isCached, false)
  assert.equal(answerOf(folder.path), 43)
})

test('a cache of which a byte is another is not used, wherever the byte stands', async () => {
  await using folder = await cached(TEXT)
  const sealed = compileMain(folder.path).seal()
  for (let at = 0; at < sealed.length; at += 1) {
    const damaged = Buffer.from(sealed)
    damaged[at] = (damaged[at] ?? 0) ^ 1
    await writeFile(join(folder.path, CACHE_FILE), damaged)
    assert.equal(compileMain(folder.path).isCached, false, `byte ${at}`)
  }
})

for (const { what, cut } of [
  { what: 'an empty cache', cut: (): Buffer => Buffer.alloc(0) },
  { what: 'a digest alone', cut: (sealed: Buffer): Buffer => sealed.subarray(0, 32) },
  { what: 'a cache that was cut off', cut: (sealed: Buffer): Buffer => sealed.subarray(0, -1) },
]) {
  test(`${what} is not used`, async () => {
    await using folder = await cached(TEXT)
    await writeFile(join(folder.path, CACHE_FILE), cut(compileMain(folder.path).seal()))
    assert.equal(compileMain(folder.path).isCached, false)
    assert.equal(answerOf(folder.path), 42)
  })
}

test('a cache that V8 made with other flags is not used', async () => {
  await using folder = await cached(TEXT)
  const code = `import(${JSON.stringify(CODE_CACHE)}).then((made) => console.log(made.compileMain(${JSON.stringify(folder.path)}).isCached))`
  const seen = async (flags: readonly string[]): Promise<string> => (await exec(process.execPath, [...flags, '-e', code])).stdout.trim()
  assert.equal(await seen([]), 'true')
  assert.equal(await seen(['--stack-size=500']), 'false')
})

async function bundle(text: string) {
  const folder = await temporaryFolder()
  await writeFile(join(folder.path, MAIN_FILE), text)
  return folder
}

async function cached(text: string) {
  const folder = await bundle(text)
  const compiled = compileMain(folder.path)
  compiled.script.runInThisContext()
  await writeFile(join(folder.path, CACHE_FILE), compiled.seal())
  return folder
}

function answerOf(folder: string): unknown {
  const require: { seen?: unknown } = {}
  ;(compileMain(folder).script.runInThisContext() as (seen: object, filename: string) => void)(require, '')
  return require.seen
}
