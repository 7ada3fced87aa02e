import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { runProgram } from '../support/command.ts'
import { MAIN } from '../support/main-file.ts'
import { operator } from '../support/secret-command.ts'

const CANARY = 'canary-77b0-value'

async function isThere(program: string): Promise<boolean> {
  return (await runProgram(['sh', '-c', `command -v ${program}`], { PATH: process.env['PATH'] ?? '' })).code === 0
}

test('with a keyring (gnome-keyring on a bus of its own) a vault is locked with it, and neither a key nor a value is in a file', async (t: TestContext) => {
  for (const program of ['dbus-run-session', 'gnome-keyring-daemon']) {
    if (!(await isThere(program))) return t.skip(`${program} is not here`)
  }
  await using home = await operator()
  const runtime = join(home.home, '..', 'run')
  await mkdir(runtime, { mode: 0o700 })
  const env: Record<string, string> = { ...home.env, XDG_RUNTIME_DIR: runtime }
  delete env['DBUS_SESSION_BUS_ADDRESS']
  // It is in the background when it is ready, and ends with its bus, which ends with the shell.
  const script = `
printf 'pw\\n' | gnome-keyring-daemon --unlock --components=secrets > /dev/null
secret() { "$NODE" "$MAIN" secret "$@" || exit 1; }
printf %s "$VALUE" | secret set A && secret ls && secret rotate-key --to keyring && secret ls
secret rotate-key --to key-file && secret ls && secret rotate-key --to keyring && secret ls`
  const ended = await runProgram(['dbus-run-session', '--', 'sh', '-c', script], { ...env, NODE: process.execPath, MAIN, VALUE: CANARY })
  assert.equal(ended.code, 0, ended.stderr)
  assert.match(ended.stderr, /A vault was made: .*, locked with the keyring\./)
  assert.equal(ended.stdout.match(/^A +1 /gm)?.length, 4)
  assert.doesNotMatch(ended.stdout + ended.stderr, /canary/)
  assert.deepEqual(await home.filesWith(CANARY), [])
  const without = await home.run(['ls'])
  assert.match(without.stderr, /^keyring_unavailable: /)
  assert.equal(without.code, 1)
})
