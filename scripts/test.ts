import { spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { ensureBaseImage } from './base-image.ts'
import { check } from './check.ts'
import { ensureClients } from './clients.ts'
import { ensureEngine } from './engine.ts'
import { ensureImages } from './images.ts'
import { ROOT, SetupError, main } from './steps.ts'

const asked = process.argv.slice(2)
const files = asked.length === 0 ? globSync('test/**/*.test.ts', { cwd: ROOT }).toSorted() : filesOf(asked)

await main(async () => {
  if (files.length === 0)
    throw new SetupError(`no test file is meant by ${asked.join(' ') || 'test/'}`, ['name files or folders below test/'])
  const isMeant = (room: string): boolean => files.some((file) => file.startsWith(path.join('test', room)))
  if (isMeant('e2e') || isMeant('browser')) await ensureClients({ chromium: isMeant('browser') })
  if (isMeant('docker')) {
    await ensureEngine()
    await ensureImages(await ensureBaseImage())
  }
  const checked = asked.length > 0 || (await check())
  // The tests come last: what stands at the end of the output is their count.
  const tested = await test(files)
  return checked && tested === 0 ? 0 : 1
})

function filesOf(paths: readonly string[]): string[] {
  return paths.flatMap((name) => (name.endsWith('.ts') ? [name] : globSync(path.join(name, '**/*.test.ts'), { cwd: ROOT }).toSorted()))
}

function test(paths: readonly string[]): Promise<number> {
  const env = {
    ...process.env,
    NODE_ENV: 'test',
    // Containers are removed by the tests that made them; a reaper would be one more image to have.
    TESTCONTAINERS_RYUK_DISABLED: 'true',
  }
  const options = [
    '--test',
    '--test-reporter=spec',
    '--test-timeout=300000',
    `--test-concurrency=${Math.max(2, availableParallelism() - 1)}`,
  ]
  const child = spawn(process.execPath, [...options, ...paths], { cwd: ROOT, env, stdio: 'inherit' })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (code) => resolve(code ?? 1))
  })
}
