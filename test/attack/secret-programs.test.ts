import assert from 'node:assert/strict'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { runCommand } from '../../src/credential/credential.ts'
import { openProviders } from '../../src/controller/providers/providers.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { Secret } from '../../src/kernel/secret.ts'
import type { CommandSource } from '../../src/wire/secret-source.ts'
import { eventually } from '../support/eventually.ts'
import { isRunning } from '../support/processes.ts'
import { writePrograms, type Programs } from '../support/programs.ts'

const CANARY = 'canary-7f3a9c21'
const NEVER = new AbortController().signal

async function get(programs: Programs, source: CommandSource, signal = NEVER): Promise<Secret> {
  await using providers = openProviders({ env: programs.env })
  return await providers.get('TOKEN', source, signal)
}

async function failure(promise: Promise<unknown>): Promise<SallyportError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof SallyportError, String(error))
  return error
}

function assertSilent(error: SallyportError): void {
  assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }) + (error.stack ?? '') + JSON.stringify(error), new RegExp(CANARY))
}

for (const { why, body, says } of [
  { why: 'prints nothing', body: 'exit 0', says: /is empty/ },
  { why: 'prints a line end alone', body: 'echo', says: /is empty/ },
  { why: 'prints 100 MB', body: `yes ${CANARY} | head -c 100000000`, says: /printed too much/ },
  { why: 'prints the value to its errors and fails', body: `echo ${CANARY} >&2; exit 7`, says: /exit 7/ },
  { why: 'prints the value, then fails', body: `echo ${CANARY}; exit 1`, says: /exit 1/ },
  { why: 'prints the value and kills itself', body: `echo ${CANARY}; kill -9 $$`, says: /SIGKILL/ },
  { why: 'prints CR LF within the value', body: `printf '${CANARY}\\r\\nX-Evil: 1\\r\\n'`, says: /line break/ },
  { why: 'prints letters outside ASCII', body: `printf '${CANARY}\\303\\251'`, says: /non-ASCII/ },
  { why: 'prints bytes that are no text', body: `printf '${CANARY}\\377\\376'`, says: /non-ASCII/ },
  { why: 'prints a NUL', body: `printf '${CANARY}\\000'`, says: /control character/ },
  { why: 'prints an escape sequence for terminals', body: `printf '\\033]52;c;${CANARY}\\007'`, says: /control character/ },
]) {
  test(`I31 a program that ${why} gives no value, and nothing of what it printed is in the error`, async () => {
    using programs = writePrograms({ print: body })
    const error = await failure(get(programs, { kind: 'exec', argv: ['print'] }))
    assert.equal(error.code, 'secret_unavailable')
    assert.match(error.message, says)
    assertSilent(error)
  })
}

test('100 MB of errors with a value beside them cost nothing: they are not read', async () => {
  using programs = writePrograms({ print: `yes ${CANARY}-in-errors | head -c 100000000 >&2; echo the-value` })
  assert.equal((await get(programs, { kind: 'exec', argv: ['print'] })).reveal(), 'the-value')
})

test('a child that a program leaves behind with its output is killed, and the value is there at once', async () => {
  using programs = writePrograms({ print: 'sleep 600 & echo $! >"$DIR/child"; echo the-value' })
  assert.equal((await get(programs, { kind: 'exec', argv: ['print'] })).reveal(), 'the-value')
  await eventually(() => assert.ok(!isRunning(Number(programs.read('child')))))
})

test('a program that never ends is killed with its children when the caller goes, and so is one that ignores being asked', async () => {
  using programs = writePrograms({
    print: `trap '' TERM INT HUP; sleep 600 & echo $! >"$DIR/child"; echo $$ >"$DIR/pid"; echo ${CANARY}; wait`,
  })
  const caller = new AbortController()
  const pending = failure(get(programs, { kind: 'exec', argv: ['print'] }, caller.signal))
  await eventually(() => assert.match(programs.read('pid'), /\d\n/))
  caller.abort()
  const error = await pending
  assert.equal(error.code, 'secret_unavailable')
  assertSilent(error)
  for (const name of ['pid', 'child']) await eventually(() => assert.ok(!isRunning(Number(programs.read(name))), name))
})

test('a child that left the group and holds the output cannot hold up the caller past its going', async () => {
  using programs = writePrograms({
    print: `setsid sh -c 'echo $$ >"'$DIR'/child"; exec sleep 600' & while [ ! -s "$DIR/child" ]; do :; done; echo ${CANARY}`,
  })
  const caller = new AbortController()
  const pending = failure(get(programs, { kind: 'exec', argv: ['print'] }, caller.signal))
  await eventually(() => assert.match(programs.read('child'), /\d\n/))
  caller.abort()
  assertSilent(await pending)
  process.kill(Number(programs.read('child')), 'SIGKILL')
})

test('a program has no terminal to ask on, and an empty input', async () => {
  using programs = writePrograms({
    print: '(: </dev/tty) 2>/dev/null && echo has-a-terminal && exit; read x && echo has-an-input && exit; echo the-value',
  })
  assert.equal((await get(programs, { kind: 'exec', argv: ['print'] })).reveal(), 'the-value')
})

test('a program is not looked for in parts of PATH that are empty or relative: what the agent puts into a workspace is not run', async () => {
  using programs = writePrograms({})
  mkdirSync(programs.at('workspace'))
  writeFileSync(programs.at('workspace/planted'), `#!/bin/sh\ntouch ${programs.at('ran')}\necho planted-value\n`, { mode: 0o755 })
  const before = process.cwd()
  process.chdir(programs.at('workspace'))
  try {
    for (const PATH of ['', ':', '.', `.:${programs.at('bin')}`, `${programs.at('bin')}:`]) {
      const outcome = await runCommand({ argv: ['planted'], env: { ...programs.env, PATH } })
      assert.deepEqual(outcome, { failed: 'its command failed: ENOENT' }, PATH)
    }
    assert.deepEqual(await runCommand({ argv: ['./planted'], env: programs.env }), { failed: 'its command failed: ENOENT' })
  } finally {
    process.chdir(before)
  }
  assert.equal(existsSync(programs.at('ran')), false)
})

for (const { name, source } of [
  { name: 'op', source: { kind: 'op', path: 'a/$(touch x)/c' } },
  { name: 'security', source: { kind: 'keychain', service: '`touch x`', account: ';touch x' } },
  { name: 'secret-tool', source: { kind: 'libsecret', attributes: [['a', '| touch x']] } },
  { name: 'pass', source: { kind: 'pass', path: '& touch x' } },
] as const) {
  test(`what a reference says reaches a fake "${name}" as arguments, and no shell reads it`, async () => {
    using programs = writePrograms({ [name]: 'printf "%s\\n" "$@" >"$DIR/arguments"; echo the-value' })
    await get(programs, source)
    assert.match(programs.read('arguments'), /touch x/)
    assert.equal(existsSync(programs.at('x')), false)
    assert.equal(existsSync('x'), false)
  })
}

test('a program that ends before it has read what it was given is no fault of the process', async () => {
  using programs = writePrograms({ take: 'exec 0<&-; exit 3' })
  const input = new Secret('TOKEN', CANARY.repeat(4_000))
  assert.deepEqual(await runCommand({ argv: ['take'], env: programs.env, input }), { failed: 'its command failed: exit 3', exitCode: 3 })
})

test('a file that is no program, and one that may not be run, give a code and no crash', async () => {
  using programs = writePrograms({})
  writeFileSync(programs.at('bin/garbage'), '\x7fELF garbage', { mode: 0o700 })
  writeFileSync(programs.at('bin/text'), 'echo the-value', { mode: 0o600 })
  for (const name of ['garbage', 'text', 'bin'])
    assert.match((await failure(get(programs, { kind: 'exec', argv: [name] }))).message, /its command failed: /, name)
})
