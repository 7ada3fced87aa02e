import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { openSecrets, type Secrets } from '../../../src/credential/credential.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { eventually } from '../../support/eventually.ts'
import { writeFiles } from '../../support/policy.ts'
import { isRunning } from '../../support/processes.ts'

const CANARY = 'canary-2b6d1f'
const PATH = process.env['PATH'] ?? ''

type Source = Parameters<typeof openSecrets>[0][number]['source']

function open(source: Source, env: Record<string, string | undefined> = { PATH }, now = (): number => 0): Secrets {
  return openSecrets([{ name: 'TOKEN', source }], env, { now })
}

/** A program in a folder of its own that prints a secret, and what else the test puts there. */
function program(body: string): Disposable & { dir: string; argv: string[]; at(name: string): string } {
  const files = writeFiles({ print: `#!/bin/sh\n${body}\n` })
  chmodSync(files.at('print'), 0o700)
  return { dir: files.dir, argv: [files.at('print')], at: (name) => files.at(name), [Symbol.dispose]: () => files[Symbol.dispose]() }
}

async function failure(promise: Promise<unknown>): Promise<SallyportError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof SallyportError, String(error))
  return error
}

function thrown(run: () => unknown): SallyportError {
  try {
    run()
  } catch (error) {
    assert.ok(error instanceof SallyportError)
    return error
  }
  return assert.fail('nothing was thrown')
}

test('a value comes from the environment, as it was at the start', async () => {
  const env: Record<string, string> = { API_TOKEN: CANARY }
  const secrets = open({ kind: 'env', variable: 'API_TOKEN' }, env)
  env['API_TOKEN'] = 'another'
  assert.equal((await secrets.get('TOKEN')).reveal(), CANARY)
})

for (const { end, why } of [
  { end: '', why: 'no line end' },
  { end: '\n', why: 'a line end' },
  { end: '\r\n', why: 'a line end of Windows' },
]) {
  test(`a value comes from a file with ${why}`, async () => {
    using files = writeFiles({ token: `${CANARY}${end}` })
    assert.equal((await open({ kind: 'file', path: files.at('token') }).get('TOKEN')).reveal(), CANARY)
  })
}

test('a missing variable is refused with its name and the name of the secret', () => {
  const error = thrown(() => open({ kind: 'env', variable: 'API_TOKEN' }, {}))
  assert.equal(error.code, 'secret_missing')
  assert.match(error.message, /TOKEN.*API_TOKEN/)
})

for (const { why, path } of [
  { why: 'does not exist', path: '/nonexistent/token' },
  { why: 'is a folder', path: '/' },
  { why: 'is a device that never ends', path: '/dev/zero' },
]) {
  test(`a file that ${why} is refused with its path, and nothing is read without bound`, () => {
    const error = thrown(() => open({ kind: 'file', path }))
    assert.equal(error.code, 'secret_missing')
    assert.ok(error.message.includes(path))
  })
}

test('a FIFO that nobody writes to does not hold up the start', () => {
  using files = writeFiles({})
  execFileSync('mkfifo', [files.at('pipe')])
  assert.equal(thrown(() => open({ kind: 'file', path: files.at('pipe') })).code, 'secret_missing')
})

test('a file that is longer than a secret may be is refused', () => {
  using files = writeFiles({ token: 'x'.repeat(LIMITS.secretBytesMax + 1) })
  assert.equal(thrown(() => open({ kind: 'file', path: files.at('token') })).code, 'secret_missing')
})

for (const { value, why } of [
  { value: '', why: 'is empty' },
  { value: `${CANARY}\nX-Evil: 1`, why: 'has a line break' },
  { value: `${CANARY}\r`, why: 'has a carriage return' },
  { value: `${CANARY}\0`, why: 'has a NUL' },
  { value: `${CANARY}\t`, why: 'has a tab' },
  { value: `${CANARY}\u00e9`, why: 'has a letter outside ASCII' },
  { value: ` ${CANARY}`, why: 'begins with a space' },
  { value: `${CANARY} `, why: 'ends with a space' },
  { value: `${CANARY}\n\n`, why: 'has two line ends' },
  { value: CANARY.slice(-5), why: 'is too short to be told from other text' },
]) {
  test(`I1 a value that ${why} is refused by name and not shown, from environment, file and command`, async () => {
    using files = writeFiles({ token: value })
    const errors = [
      thrown(() => open({ kind: 'env', variable: 'API_TOKEN' }, { API_TOKEN: value })),
      thrown(() => open({ kind: 'file', path: files.at('token') })),
    ]
    for (const error of errors) assert.equal(error.code, 'secret_invalid')
    const command = await failure(open({ kind: 'exec', argv: ['cat', files.at('token')] }).get('TOKEN'))
    assert.equal(command.code, 'secret_unavailable')
    for (const error of [...errors, command]) {
      assert.match(error.message, /TOKEN/)
      assert.doesNotMatch(inspect(error, { depth: 9 }) + (error.stack ?? ''), new RegExp(CANARY.slice(-5)))
    }
  })
}

test('a secret that is not declared is unavailable', async () => {
  assert.equal((await failure(open({ kind: 'env', variable: 'A' }, { A: CANARY }).get('OTHER'))).code, 'secret_unavailable')
})

test('a command is run with its arguments as they are, not by a shell', async () => {
  using folder = program('')
  const marker = folder.at('marker')
  const argv = ['printf', '%s', `$(touch ${marker})\`touch ${marker}\`;touch ${marker}`]
  assert.equal((await open({ kind: 'exec', argv }).get('TOKEN')).reveal(), argv[2])
  assert.equal(existsSync(marker), false)
})

test('I1 a command sees no variable of ours but those that programs need', async () => {
  using folder = program('env >"$(dirname "$0")/env"; echo the-value')
  const env = { PATH, HOME: '/home/x', LANG: 'C', API_TOKEN: CANARY, NODE_OPTIONS: '--inspect', LD_PRELOAD: '/x.so', BASH_ENV: '/x' }
  await open({ kind: 'exec', argv: folder.argv }, env).get('TOKEN')
  const seen = readFileSync(folder.at('env'), 'utf8')
  assert.match(seen, /^HOME=\/home\/x$/m)
  assert.doesNotMatch(seen, new RegExp(`${CANARY}|NODE_OPTIONS|LD_PRELOAD|BASH_ENV`))
})

test('a command that waits for input gets none', async () => {
  assert.equal((await open({ kind: 'exec', argv: ['sh', '-c', 'read x || echo the-value'] }).get('TOKEN')).reveal(), 'the-value')
})

test('the value of a command is kept for its time, then the command runs anew', async () => {
  using folder = program('echo run >>"$(dirname "$0")/runs"; echo the-value')
  let now = 5_000
  const runs = (): number => readFileSync(folder.at('runs'), 'utf8').split('\n').length - 1
  const secrets = open({ kind: 'exec', argv: folder.argv }, { PATH }, () => now)
  assert.equal(existsSync(folder.at('runs')), false, 'it is not run before it is needed')
  await secrets.get('TOKEN')
  now += LIMITS.secretExecTtlMs - 1
  await secrets.get('TOKEN')
  assert.equal(runs(), 1)
  now += 1
  await Promise.all([secrets.get('TOKEN'), secrets.get('TOKEN')])
  assert.equal(runs(), 2, 'one run at a time')
})

test('every value that a command printed is known, the newest first and as the same object, up to LIMITS.formerSecretsMax', async () => {
  using folder = program('cat "$(dirname "$0")/value"')
  let now = 0
  const secrets = open({ kind: 'exec', argv: folder.argv }, { PATH }, () => now)
  const next = async (value: string): Promise<Secret> => {
    writeFileSync(folder.at('value'), value)
    now += LIMITS.secretExecTtlMs
    return secrets.get('TOKEN')
  }
  assert.deepEqual(secrets.known('TOKEN'), [])
  const first = await next('first-value')
  await next('second-value')
  assert.equal(await next('first-value'), first)
  assert.deepEqual(
    secrets.known('TOKEN').map((secret) => secret.reveal()),
    ['first-value', 'second-value'],
  )
  for (let i = 0; i < LIMITS.formerSecretsMax; i += 1) await next(`value-${i}`)
  assert.equal(secrets.known('TOKEN').length, LIMITS.formerSecretsMax)
  assert.equal(secrets.known('TOKEN')[0]?.reveal(), `value-${LIMITS.formerSecretsMax - 1}`)
  assert.deepEqual(secrets.known('OTHER'), [])
})

test('a value of the environment is known from the start', () => {
  const secrets = open({ kind: 'env', variable: 'API_TOKEN' }, { API_TOKEN: CANARY })
  assert.deepEqual(
    secrets.known('TOKEN').map((secret) => secret.reveal()),
    [CANARY],
  )
})

test('a failed run is not kept: the next request runs the command again, and an old value is not used', async () => {
  using folder = program('cat "$(dirname "$0")/value"')
  let now = 0
  const secrets = open({ kind: 'exec', argv: folder.argv }, { PATH }, () => now)
  await failure(secrets.get('TOKEN'))
  writeFileSync(folder.at('value'), 'the-first\n')
  assert.equal((await secrets.get('TOKEN')).reveal(), 'the-first')
  execFileSync('rm', [folder.at('value')])
  now += LIMITS.secretExecTtlMs
  await failure(secrets.get('TOKEN'))
})

for (const { why, body } of [
  { why: 'fails', body: `echo ${CANARY}; echo ${CANARY} >&2; exit 3` },
  { why: 'prints two lines', body: `printf '${CANARY}\\nx\\n'` },
  { why: 'prints more than a secret may have', body: `while :; do echo ${CANARY}; done` },
  { why: 'is killed', body: `echo ${CANARY}; kill -9 $$` },
  { why: 'prints what is not UTF-8', body: `printf '${CANARY}\\377'` },
]) {
  test(`I1 a command that ${why}: secret_unavailable, and neither its output nor its arguments are in the error or its causes`, async () => {
    using folder = program(body)
    const error = await failure(open({ kind: 'exec', argv: [...folder.argv, `--key=${CANARY}`] }).get('TOKEN'))
    assert.equal(error.code, 'secret_unavailable')
    assert.match(error.message, /^the secret TOKEN could not be obtained \(/)
    assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }) + (error.stack ?? ''), new RegExp(CANARY))
  })
}

test('a program that does not exist is unavailable, with the reason', async () => {
  const error = await failure(open({ kind: 'exec', argv: ['/nonexistent/program'] }).get('TOKEN'))
  assert.equal(error.code, 'secret_unavailable')
  assert.match(error.message, /ENOENT/)
})

test('a command that does not end is killed after LIMITS.secretExecMs, with its children', async () => {
  using folder = program('echo $$ >"$(dirname "$0")/pid"; sleep 600 & echo $! >"$(dirname "$0")/child"; wait')
  const error = await failure(open({ kind: 'exec', argv: folder.argv }).get('TOKEN'))
  assert.match(error.message, /its command took too long/)
  for (const name of ['pid', 'child']) await eventually(() => assert.ok(!isRunning(Number(readFileSync(folder.at(name), 'utf8'))), name))
})

for (const { kind, source } of [
  { kind: 'vault', source: { kind: 'vault', key: 'K' } },
  { kind: 'vault-http', source: { kind: 'vault-http', mount: 'secret', path: 'a', field: 'b' } },
  { kind: 'mcp-config', source: { kind: 'mcp-config', harness: 'claude', server: 'a', of: 'env', field: 'B' } },
] as const) {
  test(`${kind}: is refused at the start by a gate without a controller, with what to do`, () => {
    const error = thrown(() => open(source))
    assert.equal(error.code, 'secret_missing')
    assert.match(error.message, new RegExp(`secret TOKEN: .*"${kind}:"`))
    assert.match(error.hint ?? '', /sallyport daemon/)
  })
}

test('the value of a command with a ttl is kept for that', async () => {
  using folder = program('echo run >>"$(dirname "$0")/runs"; echo the-value')
  let now = 0
  const source = { kind: 'exec', argv: folder.argv } as const
  const secrets = openSecrets([{ name: 'TOKEN', source, ttlMs: 5_000 }], { PATH }, { now: () => now })
  for (const at of [0, 4_999, 5_000]) {
    now = at
    await secrets.get('TOKEN')
  }
  assert.equal(readFileSync(folder.at('runs'), 'utf8'), 'run\nrun\n')
})

test('I1 a secret prints as its name, whichever way it is printed', () => {
  const secret = new Secret('TOKEN', CANARY)
  const error = new SallyportError('secret_unavailable', `with ${secret.toString()}`, { cause: { secret } })
  const printed = [
    String(secret),
    // oxlint-disable-next-line typescript/restrict-template-expressions
    `${secret}`,
    JSON.stringify({ secret, list: [secret] }),
    inspect(secret),
    inspect({ deep: { secret } }, { depth: 9, showHidden: true, getters: true }),
    inspect(new Map([[secret, secret]])),
    inspect(error, { depth: 9, showHidden: true }),
    inspect(new Error('x', { cause: secret }), { depth: 9 }),
    Object.entries(secret).join(),
    JSON.stringify(structuredClone(secret)),
    [secret].join(),
    secret.toLocaleString(),
  ]
  for (const text of printed) assert.doesNotMatch(text, new RegExp(CANARY))
  assert.match(printed[0] ?? '', /TOKEN/)
  assert.equal(secret.reveal(), CANARY)
})
