import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, symlinkSync, watch, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createDocker, examine, type DoctorRow } from '../../../src/controller/doctor/doctor.ts'
import { checkHome, checkKeyring, checkNode } from '../../../src/controller/doctor/host-checks.ts'
import { system } from '../../../src/kernel/system.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { runCommand } from '../../support/command.ts'
import { ROOT } from '../../support/tree.ts'

/** The rows with a program in the place of `docker`. */
async function examineWith(script: string, signal?: (folder: string) => AbortSignal): Promise<Map<string, DoctorRow>> {
  await using folder = await temporaryFolder()
  const program = join(folder.path, 'docker')
  writeFileSync(program, `#!/bin/sh\ncd ${folder.path}\n${script}\n`)
  chmodSync(program, 0o755)
  const rows = await examine(
    {
      docker: createDocker(program, { PATH: process.env['PATH'] }),
      image: 'none:none',
      home: join(folder.path, 'home'),
      packageRoot: ROOT,
      environment: { PATH: process.env['PATH'], HOME: folder.path },
      system,
      nodeVersion: process.version,
    },
    signal?.(folder.path) ?? new AbortController().signal,
  )
  return new Map(rows.map((row) => [row.id, row]))
}

const ENGINE_ROWS = [
  'engine',
  'version',
  'storage',
  'users',
  'seccomp',
  'cgroups',
  'clock',
  'subnets',
  'image',
  'jail',
  'dns',
  'hardening',
  'sockets',
]

test('without an engine every row about it is a failure that says so, and the others stand', async () => {
  const rows = await examineWith('echo "Cannot connect to the Docker daemon" >&2; exit 1')
  for (const id of ENGINE_ROWS) {
    assert.equal(rows.get(id)?.state, 'failure', id)
    assert.match(rows.get(id)?.found ?? '', /Cannot connect/, id)
  }
  assert.equal(rows.get('node')?.state, 'ok')
  assert.equal(rows.get('home')?.state, 'ok')
})

test('an engine that never answers does not keep the other rows from being there', async () => {
  const rows = await examineWith('case "$1" in compose) echo 2.30.0;; *) : > started; exec sleep 600;; esac', (folder) => {
    const stop = new AbortController()
    const watcher = watch(folder, () => {
      if (!existsSync(join(folder, 'started'))) return
      watcher.close()
      stop.abort()
    })
    return stop.signal
  })
  for (const id of ENGINE_ROWS) assert.equal(rows.get(id)?.state, 'failure', id)
  assert.equal(rows.get('node')?.state, 'ok')
})

test('an engine that answers with something else is a failure, not a crash', async () => {
  const rows = await examineWith('echo "<html>"')
  assert.equal(rows.get('version')?.state, 'failure')
  assert.equal(rows.get('jail')?.state, 'failure')
})

test('no docker at all is said', async () => {
  const rows = await examine(
    {
      docker: createDocker('docker-that-is-not-there', {}),
      image: 'none:none',
      home: '/nowhere',
      packageRoot: ROOT,
      environment: { PATH: process.env['PATH'] },
      system,
      nodeVersion: 'v20.0.0',
    },
    new AbortController().signal,
  )
  assert.match(rows.find(({ id }) => id === 'engine')?.found ?? '', /is not there/)
  assert.equal(rows.find(({ id }) => id === 'node')?.state, 'failure')
})

test('the command ends with 1 when there is a failure, and its JSON has a row for each check', async () => {
  const { code, stdout } = await runCommand(['doctor', '--json'], { DOCKER_HOST: 'unix:///nowhere/docker.sock' })
  assert.equal(code, 1)
  const rows = JSON.parse(stdout) as DoctorRow[]
  for (const id of ENGINE_ROWS)
    assert.ok(
      rows.some((row) => row.id === id && row.state === 'failure'),
      id,
    )
})

test('a home that others can write is a failure, one that others can read a warning', async () => {
  await using folder = await temporaryFolder()
  const home = join(folder.path, 'home')
  assert.equal(checkHome(home).state, 'ok')
  mkdirSync(home)
  for (const { mode, state } of [
    { mode: 0o700, state: 'ok' },
    { mode: 0o750, state: 'warning' },
    { mode: 0o755, state: 'warning' },
    { mode: 0o770, state: 'failure' },
    { mode: 0o777, state: 'failure' },
  ]) {
    chmodSync(home, mode)
    assert.equal(checkHome(home).state, state, mode.toString(8))
  }
  symlinkSync(home, join(folder.path, 'link'))
  assert.match(checkHome(join(folder.path, 'link')).found, /→/)
})

test('a home whose sockets would have too long a path is a failure', () => {
  assert.equal(checkHome(`/tmp/${'x'.repeat(80)}`).state, 'failure')
})

test('a file in the place of the home is a failure', async () => {
  await using folder = await temporaryFolder()
  writeFileSync(join(folder.path, 'home'), '')
  assert.equal(checkHome(join(folder.path, 'home')).state, 'failure')
})

for (const { version, state } of [
  { version: 'v24.12.0', state: 'ok' },
  { version: 'v25.0.0', state: 'ok' },
  { version: 'v24.11.9', state: 'failure' },
  { version: 'v22.20.0', state: 'failure' },
])
  test(`Node ${version} is ${state}`, () => assert.equal(checkNode(version).state, state))

test('a keyring that is not installed is a warning that says what is used instead', async () => {
  await using folder = await temporaryFolder()
  const outcome = await checkKeyring(folder.path, { PATH: process.env['PATH'] })
  assert.equal(outcome.state, 'warning')
  assert.match(outcome.todo ?? '', /passphrase/)
})
