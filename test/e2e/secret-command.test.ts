import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, realpathSync } from 'node:fs'
import { chmod, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { sealSecrets } from '../../src/vault/sealed.ts'
import { openVault, scopeOfWorkspace } from '../../src/vault/vault.ts'
import { system } from '../../src/kernel/system.ts'
import { runProgram, type Ended } from '../support/command.ts'
import { MAIN } from '../support/main-file.ts'
import { operator, type Operator } from '../support/secret-command.ts'
import { unlockWith } from '../support/vault.ts'

const CANARY = 'canary-51ae-value'
const PASSPHRASE = 'canary-51ae-passphrase'

function assertRefused({ code, stdout, stderr }: Ended, error: string, exit: 1 | 2): void {
  assert.equal(code, exit, stderr)
  assert.match(stderr, new RegExp(`^${error}: .+\n`, 'm'))
  assert.match(stderr, /^hint: .+$/m)
  assert.doesNotMatch(stdout + stderr, /canary/)
  assert.doesNotMatch(stderr, /^\s+at .*\(?(?:file|node):/m)
}

/** What the vault holds, read past the command. */
async function stored(home: Operator, key: string): Promise<string> {
  await using vault = await openVault(join(home.home, 'vault.db'), unlockWith(join(home.home, 'vault.key')), system)
  return vault.get(key).reveal()
}

async function secretFile(home: Operator, name: string, content: string, mode = 0o600): Promise<string> {
  await mkdir(home.home, { recursive: true, mode: 0o700 })
  const path = join(home.home, name)
  await writeFile(path, content, { mode })
  await chmod(path, mode)
  return path
}

test('I1 a value from stdin is stored to the byte but for one newline, and is in no output and no file in clear', async () => {
  await using home = await operator()
  const outputs: string[] = []
  for (const [name, input, value] of [
    ['ONE', `${CANARY}\n`, CANARY],
    ['TWO', `${CANARY}\n\n`, `${CANARY}\n`],
    ['DOS', `${CANARY}\r\n`, CANARY],
    ['NONE', CANARY, CANARY],
    ['PEM', `-----BEGIN ${CANARY}\nb\u00e4se\n-----END\n`, `-----BEGIN ${CANARY}\nb\u00e4se\n-----END`],
  ] as const) {
    const { code, stdout, stderr } = await home.run(['set', name, '--tag', 'test'], input)
    assert.equal(code, 0, stderr)
    outputs.push(stdout, stderr)
    assert.equal(await stored(home, name), value)
  }
  for (const argv of [['ls'], ['ls', '--json'], ['tag', 'ONE', '+x'], ['rotate-key'], ['rm', 'TWO'], ['apply']]) {
    const { stdout, stderr } = await home.run(argv)
    outputs.push(stdout, stderr)
  }
  assert.doesNotMatch(outputs.join(''), /canary/)
  assert.deepEqual(await home.filesWith('canary'), [])
})

test('the first set makes the vault in a folder of 0700, with files of 0600, and says where and how it is locked', async () => {
  await using home = await operator()
  const first = await home.run(['set', 'A'], 'value-of-a')
  assert.match(first.stderr, /A vault was made: .*vault\.db, locked with the key file .*vault\.key \(no keyring/)
  assert.equal((await stat(home.home)).mode & 0o777, 0o700)
  for (const name of ['vault.db', 'vault.key']) assert.equal((await stat(join(home.home, name))).mode & 0o777, 0o600)
  assert.equal((await home.run(['set', 'B'], 'value-of-b')).stderr, '')
})

for (const argv of [
  ['set', 'TOKEN', CANARY],
  ['set', `TOKEN=${CANARY}`],
  ['set', `${CANARY} with a space`],
  ['set', 'TOKEN', `--value=${CANARY}`],
  ['set', 'TOKEN', `--${CANARY}`],
  ['set', 'TOKEN', `-${CANARY}`],
]) {
  test(`I1 a value among the arguments is refused and not repeated: ${argv.join(' ').replaceAll(CANARY, 'VALUE')}`, async () => {
    await using home = await operator()
    const ended = await home.run(argv, 'other')
    assertRefused(ended, 'usage', 2)
    assert.match(ended.stderr, /by stdin or at the prompt/)
    assert.deepEqual(await home.filesWith(''), [])
  })
}

for (const { why, argv, input = '', code, exit } of [
  { why: 'an empty value', argv: ['set', 'A'], input: '\n', code: 'secret_invalid', exit: 2 },
  { why: 'bytes that are no text', argv: ['set', 'A'], input: Buffer.from([0x61, 0xff, 0xfe]), code: 'secret_invalid', exit: 2 },
  { why: 'a value that is too long', argv: ['set', 'A'], input: 'x'.repeat(LIMITS.secretBytesMax + 10), code: 'secret_invalid', exit: 2 },
  { why: 'a scope that is none', argv: ['set', 'A', '--scope', 'A B'], input: 'value', code: 'config_invalid', exit: 2 },
  {
    why: 'the scope of a folder that is not there',
    argv: ['set', 'A', '--scope', 'workspace:/nonexistent'],
    input: 'value',
    code: 'config_invalid',
    exit: 2,
  },
  { why: 'a way to unlock that is none', argv: ['set', 'A', '--unlock', 'hope'], input: 'value', code: 'usage', exit: 2 },
  { why: 'no name', argv: ['set'], input: 'value', code: 'usage', exit: 2 },
  { why: 'an unknown command', argv: ['sett'], code: 'usage', exit: 2 },
  { why: 'rm without a vault', argv: ['rm', 'A'], code: 'vault_missing', exit: 1 },
  { why: 'a file to import that is not there', argv: ['import', '/nonexistent'], code: 'config_invalid', exit: 2 },
  { why: 'a passphrase file for no passphrase', argv: ['rotate-key', '--passphrase-file', 'x'], code: 'usage', exit: 2 },
  { why: 'apply without a daemon', argv: ['apply'], code: 'daemon_unavailable', exit: 1 },
] as const) {
  test(`${why}: ${code}, a hint, and no vault is made`, async () => {
    await using home = await operator()
    const ended = await home.run(argv, input)
    assert.match(ended.stderr, new RegExp(`^${code}: `))
    assert.equal(ended.code, exit)
    assert.equal(existsSync(join(home.home, 'vault.db')), false)
    assert.match(ended.stderr, /^hint: /m)
  })
}

test('ls prints names, versions, scopes, dates and tags; --json the same as an array; both nothing before there is a vault', async () => {
  await using home = await operator()
  assert.match((await home.run(['ls'])).stdout, /^no secrets yet/)
  assert.equal((await home.run(['ls', '--json'])).stdout, '[]\n')
  await home.run(['set', 'NPM_TOKEN', '--tag', 'npm', '--tag', 'ci', '--scope', 'role:build'], CANARY)
  await home.run(['set', 'A_TOKEN'], CANARY)
  await home.run(['set', 'W_TOKEN', '--scope', `workspace:${home.home}/.`], CANARY)
  await home.run(['set', 'A_TOKEN'], CANARY)
  const [head, ...rows] = (await home.run(['ls'])).stdout.trimEnd().split('\n')
  assert.match(head ?? '', /^NAME +VERSION +SCOPE +CHANGED +TAGS$/)
  assert.match(rows[0] ?? '', /^A_TOKEN +2 +global +\d{4}-\d\d-\d\dT\d\d:\d\dZ$/)
  assert.match(rows[1] ?? '', /^NPM_TOKEN +1 +role:build +\S+ +ci npm$/)
  assert.match(rows[2] ?? '', new RegExp(`^W_TOKEN +1 +${scopeOfWorkspace(realpathSync(home.home))} `))
  const listed = JSON.parse((await home.run(['ls', '--json'])).stdout) as Record<string, unknown>[]
  assert.deepEqual(
    listed.map((row) => Object.keys(row)),
    Array.from({ length: 3 }, () => ['id', 'name', 'key', 'scope', 'tags', 'version', 'created_at', 'updated_at']),
  )
})

test('tag adds and removes, prints what there is, and refuses to remove what is not there', async () => {
  await using home = await operator()
  await home.run(['set', 'A', '--tag', 'old'], 'value')
  assert.equal((await home.run(['tag', 'A', '+new', '+b', '-old'])).stdout, 'A: b new\n')
  assert.equal((await home.run(['tag', 'A'])).stdout, 'A: b new\n')
  assertRefused(await home.run(['tag', 'A', '-other']), 'usage', 2)
  assertRefused(await home.run(['tag', 'B', '+x']), 'secret_missing', 2)
})

test('a passphrase from SALLYPORT_VAULT_PASSPHRASE_FILE locks and opens; as a value of the environment it is nothing', async () => {
  await using home = await operator()
  const file = await secretFile(home, 'passphrase', `${PASSPHRASE}\n`)
  home.env['SALLYPORT_VAULT_PASSPHRASE_FILE'] = file
  assert.equal((await home.run(['set', 'A', '--unlock', 'passphrase'], CANARY)).code, 0)
  assert.match((await home.run(['ls'])).stdout, /^A +1/m)
  assertRefused(await home.run(['ls', '--unlock', 'key-file']), 'vault_locked', 1)
  for (const mode of [0o644, 0o640]) {
    await chmod(file, mode)
    assertRefused(await home.run(['ls']), 'vault_unsafe', 1)
  }
  await chmod(file, 0o600)
  await symlink(file, `${file}-link`)
  home.env['SALLYPORT_VAULT_PASSPHRASE_FILE'] = `${file}-link`
  assertRefused(await home.run(['ls']), 'vault_unsafe', 1)
  delete home.env['SALLYPORT_VAULT_PASSPHRASE_FILE']
  home.env['SALLYPORT_VAULT_PASSPHRASE'] = PASSPHRASE
  // In a session of its own: there is no terminal to ask at.
  const ended = await runProgram(['setsid', process.execPath, MAIN, 'secret', 'ls'], home.env)
  assertRefused(ended, 'input_ended', 1)
})

test('rotate-key --to passphrase changes the lock, and says that the key file is of no more use', async () => {
  await using home = await operator()
  await home.run(['set', 'A'], CANARY)
  const file = await secretFile(home, 'new', `${PASSPHRASE}\n`)
  const rotated = await home.run(['rotate-key', '--to', 'passphrase', '--passphrase-file', file])
  assert.equal(rotated.code, 0, rotated.stderr)
  assert.match(rotated.stdout, /1 secret encrypted anew, locked with a passphrase/)
  assert.match(rotated.stderr, /vault\.key opens nothing but older copies/)
  home.env['SALLYPORT_VAULT_PASSPHRASE_FILE'] = file
  assert.match((await home.run(['ls'])).stdout, /^A +1/m)
})

test('SALLYPORT_VAULT_KEY_FILE names the key file, and without it the vault is locked', async () => {
  await using home = await operator()
  await mkdir(home.home, { mode: 0o700 })
  const elsewhere = join(home.home, '..', 'elsewhere.key')
  home.env['SALLYPORT_VAULT_KEY_FILE'] = elsewhere
  assert.match((await home.run(['set', 'A'], CANARY)).stderr, /elsewhere\.key/)
  assert.match(await readFile(elsewhere, 'utf8'), /^[0-9a-f]{64}\n$/)
  delete home.env['SALLYPORT_VAULT_KEY_FILE']
  assertRefused(await home.run(['ls']), 'vault_locked', 1)
})

test('export and import carry all secrets to another home; a wrong passphrase, an altered file and newer values are refused', async () => {
  await using home = await operator()
  await home.run(['set', 'A', '--tag', 'x'], CANARY)
  await home.run(['set', 'B'], 'value-of-b')
  const passphrase = await secretFile(home, 'p', PASSPHRASE)
  const output = join(home.home, 'sealed.txt')
  const exported = await home.run(['export', '--output', output, '--passphrase-file', passphrase])
  assert.equal(exported.code, 0, exported.stderr)
  assert.equal((await stat(output)).mode & 0o777, 0o600)
  assertRefused(await home.run(['export', '--output', output, '--passphrase-file', passphrase]), 'config_invalid', 2)
  const printed = await home.run(['export', '--passphrase-file', passphrase])
  assert.match(printed.stdout, /^[\w-]+(?:\.[\w-]+){4}\n$/)
  assert.doesNotMatch(exported.stdout + exported.stderr + printed.stdout + printed.stderr + (await readFile(output, 'utf8')), /canary/)

  await using other = await operator()
  const wrong = await secretFile(other, 'wrong', 'canary of another passphrase')
  const right = await secretFile(other, 'right', PASSPHRASE)
  assertRefused(await other.run(['import', output, '--passphrase-file', wrong]), 'sealed_invalid', 1)
  const imported = await other.run(['import', output, '--passphrase-file', right])
  assert.match(imported.stdout, /2 secrets stored/)
  assert.equal(await stored(other, 'A'), CANARY)
  assert.match((await other.run(['import', output, '--passphrase-file', right])).stdout, /has all of it already/)
  await other.run(['set', 'A'], 'newer-value')
  assertRefused(await other.run(['import', output, '--passphrase-file', right]), 'import_conflict', 1)
  assert.equal(await stored(other, 'A'), 'newer-value')
  assert.equal((await other.run(['import', output, '--replace', '--passphrase-file', right])).code, 0)
  assert.equal(await stored(other, 'A'), CANARY)
})

for (const { what, passphrase, payload } of [
  { what: 'a wrong passphrase', passphrase: 'canary of another passphrase', payload: {} },
  { what: 'a name in the file that is none', passphrase: PASSPHRASE, payload: { key: 'A B' } },
  { what: 'a value in the file that is empty', passphrase: PASSPHRASE, payload: { value: '' } },
])
  test(`an import with ${what} leaves nothing in a home that had no vault`, async () => {
    await using home = await operator()
    const folder = join(home.home, '..', 'elsewhere')
    await mkdir(folder)
    const secret = { key: 'A', name: 'A', value: CANARY, scope: 'global', tags: [], version: 1, createdAt: 1, updatedAt: 1, ...payload }
    const [sealed, typed] = [join(folder, 'sealed.txt'), join(folder, 'passphrase')]
    await writeFile(sealed, await sealSecrets([secret], new Secret('passphrase', PASSPHRASE), system))
    await writeFile(typed, passphrase, { mode: 0o600 })
    const { code, stderr } = await home.run(['import', sealed, '--passphrase-file', typed])
    assert.notEqual(code, 0)
    assert.doesNotMatch(stderr, /canary|A vault was made/)
    assert.equal(existsSync(home.home), false)
  })

test('a secret that was altered past the vault: ls lists the others, names it, and ends with 1', async () => {
  await using home = await operator()
  await home.run(['set', 'A'], CANARY)
  await home.run(['set', 'B'], CANARY)
  const { DatabaseSync } = await import('node:sqlite')
  const db = new DatabaseSync(join(home.home, 'vault.db'))
  db.exec(`UPDATE secrets SET scope = 'wider' WHERE key = 'B'`)
  db.close()
  const { code, stdout, stderr } = await home.run(['ls'])
  assert.equal(code, 1)
  assert.match(stdout, /^A +1/m)
  assert.match(stderr, /^vault_corrupt: secret B: /m)
})

type Answer = { readonly status: number; readonly body: string }

/** A daemon's socket in this home that answers as it is told, and what it was asked. */
async function listen(home: Operator, answer: Answer | 'hang up') {
  await mkdir(home.home, { recursive: true, mode: 0o700 })
  const asked: string[] = []
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    asked.push(`${request.method} ${request.url}`)
    if (answer === 'hang up') request.socket.destroy()
    else response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body)
  }).listen(join(home.home, 'daemon.sock'))
  await once(server, 'listening')
  return { asked, [Symbol.asyncDispose]: async () => void (await new Promise((resolve) => server.close(resolve))) }
}

test('apply asks the daemon over its socket, and says how many sessions have the secrets, and which kept what they had', async () => {
  await using home = await operator()
  const body = '{"sessions": 2, "failed": [{"name": "acme", "code": "secret_missing", "detail": "TOKEN is not there"}]}'
  await using daemon = await listen(home, { status: 200, body })
  const { code, stdout, stderr } = await home.run(['apply'])
  assert.deepEqual([code, stdout, daemon.asked], [1, '2 sessions have the secrets as they are now\n', ['POST /v1/secrets/apply']])
  assert.equal(stderr, 'acme: secret_missing: TOKEN is not there; it keeps what it had\n')
})

for (const { why, answer, code, says } of [
  {
    why: 'a refusal of the daemon',
    answer: { status: 409, body: '{"code": "vault_locked", "detail": "it is locked", "hint": "unlock it"}' },
    code: 'vault_locked',
    says: /it is locked\nhint: unlock it/,
  },
  { why: 'an answer that is no JSON', answer: { status: 200, body: 'ok' }, code: 'daemon_unavailable', says: /not JSON/ },
  { why: 'an answer of another form', answer: { status: 200, body: '{}' }, code: 'internal', says: /a form/ },
  {
    why: 'an answer without end',
    answer: { status: 200, body: ' '.repeat(LIMITS.daemonAnswerBytesMax + 1) },
    code: 'daemon_unavailable',
    says: /larger than/,
  },
  { why: 'a daemon that hangs up', answer: 'hang up', code: 'daemon_unavailable', says: /socket hang up|ECONNRESET/ },
] as const) {
  test(`apply: ${why} is ${code}`, async () => {
    await using home = await operator()
    await using daemon = await listen(home, answer)
    const { code: exit, stderr } = await home.run(['apply'])
    assert.equal(daemon.asked.length, 1)
    assert.equal(exit, 1)
    assert.match(stderr, new RegExp(`^${code}: `))
    assert.match(stderr, says)
  })
}
