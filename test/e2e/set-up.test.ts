import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { ROOT, capture } from '../../scripts/steps.ts'
import { temporaryFolder } from '../support/audit.ts'

const BOOTSTRAP = join(ROOT, 'scripts', 'bootstrap.mjs')
const FORBIDDEN = { ...process.env, SALLYPORT_NO_INSTALL: '1' }

function copyInto(folder: string, files: readonly string[]): void {
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    copyFileSync(join(ROOT, file), join(folder, file))
  }
}

test('bin/sallyport.mjs runs the command from any folder, and hands its exit code through', async () => {
  await using folder = await temporaryFolder()
  const launcher = join(ROOT, 'bin', 'sallyport.mjs')
  assert.match((await capture(process.execPath, [launcher, '--version'], { cwd: folder.path })).stdout, /^\d+\.\d+\.\d+\n$/)
  assert.equal((await capture(process.execPath, [launcher, 'nonsense'], { cwd: folder.path })).code, 2)
})

test('bin/sallyport.mjs in a clone without dependencies says what brings them, without a stack', async () => {
  await using folder = await temporaryFolder()
  copyInto(folder.path, ['bin/sallyport.mjs', 'bin/find-node.mjs', 'src/main.ts', 'package.json'])
  const { code, stderr } = await capture(process.execPath, [join(folder.path, 'bin/sallyport.mjs'), '--version'])
  assert.equal(code, 2)
  assert.match(stderr, /^config_invalid: .*\nhint: "npm start"/)
  assert.doesNotMatch(stderr, / at /)
})

test('bootstrap hands arguments and exit code through', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'a.ts')
  writeFileSync(file, 'const args: string[] = process.argv.slice(2)\nconsole.log(JSON.stringify(args))\nprocess.exitCode = 7\n')
  const { code, stdout } = await capture(process.execPath, [BOOTSTRAP, file, 'a b', '--c'], { env: FORBIDDEN })
  assert.equal(code, 7)
  assert.deepEqual(JSON.parse(stdout), ['a b', '--c'])
})

test('bootstrap hands a signal on and waits for the script’s own end', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'a.ts')
  writeFileSync(file, "process.on('SIGTERM', () => process.exit(5)); setInterval(() => undefined, 1000); console.log('ready')\n")
  const child = spawn(process.execPath, [BOOTSTRAP, file], { env: FORBIDDEN })
  await once(child.stdout, 'data')
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'exit'), [5, null])
})

test('where installing is forbidden, missing dependencies are named with the command that brings them', async () => {
  await using folder = await temporaryFolder()
  copyInto(folder.path, ['scripts/bootstrap.mjs', 'bin/find-node.mjs'])
  copyFileSync(join(ROOT, 'package-lock.json'), join(folder.path, 'package-lock.json'))
  const args = [join(folder.path, 'scripts', 'bootstrap.mjs'), 'scripts/none.ts']
  const { code, stderr } = await capture(process.execPath, args, { env: FORBIDDEN })
  assert.equal(code, 1)
  assert.match(stderr, /nothing is installed/)
  assert.match(stderr, /npm ci/)
})

test('an installation that lacks one locked package counts as missing', async () => {
  await using folder = await temporaryFolder()
  copyInto(folder.path, ['scripts/bootstrap.mjs', 'bin/find-node.mjs'])
  mkdirSync(join(folder.path, 'node_modules'))
  writeFileSync(join(folder.path, 'package-lock.json'), lock('2.0.0'))
  writeFileSync(join(folder.path, 'node_modules', '.package-lock.json'), lock('1.0.0'))
  const { stderr } = await capture(process.execPath, [join(folder.path, 'scripts', 'bootstrap.mjs'), 'a.ts'], { env: FORBIDDEN })
  assert.match(stderr, /x 2\.0\.0 is missing/)
})

test('an engine that was named and does not answer is an error: no other is installed or started', async () => {
  const env = { ...process.env, DOCKER_HOST: 'tcp://127.0.0.1:1' }
  const { code, stderr } = await capture(process.execPath, [join(ROOT, 'scripts', 'engine.ts')], { env })
  assert.equal(code, 1)
  assert.match(stderr, /DOCKER_HOST/)
  assert.doesNotMatch(stderr, /installing|starting/)
})

test('where installing is forbidden, missing clients are named with the packages that have them, and the browser with them', async () => {
  await using folder = await temporaryFolder()
  const env = { ...FORBIDDEN, PATH: folder.path }
  const { code, stderr } = await capture(process.execPath, [join(ROOT, 'scripts', 'clients.ts')], { env })
  assert.equal(code, 1)
  assert.match(stderr, /curl, wget, git, openssl, python3, squid, certutil, pass, .*tmux, .*chromium-headless-shell: needed by the tests/)
  assert.match(stderr, /install.* curl.* libnss3-tools.* chromium-headless-shell/)
  assert.doesNotMatch(stderr, /installing curl/)
})

function lock(version: string): string {
  return JSON.stringify({
    packages: { 'node_modules/x': { version }, 'node_modules/other-platform': { version: '1.0.0', optional: true } },
  })
}
