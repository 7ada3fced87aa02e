import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import * as z from 'zod'
import { openOperatorApi } from '../../src/controller/operator/operator.ts'
import { openPresence } from '../../src/controller/presence/presence.ts'
import { system } from '../../src/kernel/system.ts'
import { STREAM_PROTOCOL, TTY_HEADER } from '../../src/wire/stream-frames.ts'
import { ATTACH } from '../support/attached-terminal.ts'
import { temporaryFolder } from '../support/audit.ts'
import { cleanEnvironment, type Ended } from '../support/command.ts'
import { MAIN } from '../support/main-file.ts'
import { keptLog, never, noPrompt, password, purpose, secret } from '../support/presence.ts'
import { openPty, type Pty } from '../support/pty.ts'

const FIRST = 'canary-71be-first'
const SECOND = 'canary-71be-second'
const Body = z.strictObject({ old: z.string().optional(), next: z.string() })

/** A daemon's presence behind its socket, and a session that is attached to and never says a word. */
async function operator() {
  const parts = new AsyncDisposableStack()
  const { path } = parts.use(await temporaryFolder())
  const env = cleanEnvironment(path)
  const home = join(path, '.sallyport')
  await mkdir(home, { mode: 0o700 })
  const log = keptLog()
  const presence = await openPresence({ home, system, log, audit: async () => undefined, systemPrompt: noPrompt })
  const addRoutes: Parameters<typeof openOperatorApi>[1] = (app) => {
    app.get('/v1/approver', () => ({ available: presence.available }))
    app.post('/v1/approver/password', async ({ body }) => {
      const { old, next } = Body.parse(body)
      await presence.setPassword(old === undefined ? undefined : secret(old), secret(next))
      return {}
    })
  }
  const attach: Parameters<typeof openOperatorApi>[2] = (_request, socket) => {
    parts.defer(() => void socket.destroy())
    socket.resume()
    return socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: ${STREAM_PROTOCOL}\r\nconnection: upgrade\r\n${TTY_HEADER}: 0\r\n\r\n`,
    )
  }
  parts.use(await openOperatorApi(join(home, 'daemon.sock'), addRoutes, attach, log))
  return {
    home,
    env,
    log,
    presence,
    terminal: (argv: readonly string[], more: Record<string, string> = {}): Pty => {
      const pty = openPty([process.execPath, MAIN, ...argv], { env: { ...env, ...more } })
      parts.use(pty)
      return pty
    },
    shell: (script: string): Pty => {
      const pty = openPty(['sh', '-c', script, process.execPath, MAIN], { env })
      parts.use(pty)
      return pty
    },
    async run(argv: readonly string[], input: string, more: Record<string, string> = {}): Promise<Ended> {
      const child = spawn(process.execPath, [MAIN, ...argv], { env: { ...env, ...more }, stdio: ['pipe', 'pipe', 'pipe'] })
      let [stdout, stderr] = ['', '']
      child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
      child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
      child.stdin.on('error', () => undefined)
      child.stdin.end(input)
      const [code] = (await once(child, 'close')) as [number | null]
      return { code, stdout, stderr }
    },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  }
}

async function type(pty: Pty, answers: readonly string[]): Promise<number> {
  for (const answer of answers) {
    await pty.sees('(hidden): ')
    pty.write(`${answer}\r`)
  }
  return pty.exited
}

test('I1 a password that is typed is set and changed, and is on no screen, in no log and in no file', async () => {
  await using setting = await operator()
  const setIt = setting.terminal(['approver', 'password'])
  assert.equal(await type(setIt, [FIRST, FIRST]), 0, setIt.printed())
  assert.match(setIt.printed(), /the password is set/)
  const change = setting.terminal(['approver', 'password'])
  assert.equal(await type(change, [FIRST, SECOND, SECOND]), 0, change.printed())
  assert.match(change.printed(), /the password is changed/)
  await setting.presence.prove('T1', password(SECOND), purpose(), never)
  const files = await Promise.all(['approver.json'].map((name) => readFile(join(setting.home, name), 'utf8')))
  assert.doesNotMatch([setIt.printed(), change.printed(), ...setting.log.lines, ...files].join('\n'), /canary/)
})

test('two passwords that are not the same, or a wrong one before, change nothing', async () => {
  await using setting = await operator()
  const unequal = setting.terminal(['approver', 'password'])
  assert.equal(await type(unequal, [FIRST, SECOND]), 1)
  assert.match(unequal.printed(), /input_ended: the two passwords are not the same/)
  assert.deepEqual(setting.presence.available, ['T0'])
  await setting.presence.setPassword(undefined, secret(FIRST))
  const guessed = setting.terminal(['approver', 'password'])
  assert.equal(await type(guessed, ['canary-71be-guess', SECOND, SECOND]), 1)
  assert.match(guessed.printed(), /presence_failed: the password is wrong/)
  assert.doesNotMatch(guessed.printed(), /canary/)
})

test('--stdin takes the password in lines, with the one before above it', async () => {
  await using setting = await operator()
  assert.deepEqual(await setting.run(['approver', 'password', '--stdin'], `${FIRST}\n`), {
    code: 0,
    stdout: 'the password is set\n',
    stderr: '',
  })
  const alone = await setting.run(['approver', 'password', '--stdin'], `${SECOND}\n`)
  assert.equal(alone.code, 2)
  assert.match(alone.stderr, /usage: stdin has 1 lines: 2 is what it takes/)
  const changed = await setting.run(['approver', 'password', '--stdin'], `${FIRST}\r\n${SECOND}\r\n`)
  assert.deepEqual(changed, { code: 0, stdout: 'the password is changed\n', stderr: '' })
  await setting.presence.prove('T1', password(SECOND), purpose(), never)
})

for (const { what, input, code, says } of [
  { what: 'nothing', input: '', code: 2, says: /usage: stdin has 0 lines/ },
  { what: 'a short password', input: 'canary\n', code: 2, says: /config_invalid: the new password has 6 characters/ },
  { what: 'no end', input: 'canary-71be'.repeat(2_000), code: 1, says: /input_ended: stdin has more than passwords/ },
  { what: 'no UTF-8', input: 'canary-71be-\ud800', code: 0, says: /^$/ },
])
  test(`--stdin with ${what} ends with ${code}, and says nothing of it`, async () => {
    await using setting = await operator()
    const ended = await setting.run(['approver', 'password', '--stdin'], input)
    assert.equal(ended.code, code, ended.stderr)
    assert.match(ended.stderr, says)
    assert.doesNotMatch(ended.stdout + ended.stderr, /canary/)
  })

test('a password as an argument is refused, and not repeated', async () => {
  await using setting = await operator()
  const ended = await setting.run(['approver', 'password', FIRST], '')
  assert.equal(ended.code, 2)
  assert.doesNotMatch(ended.stdout + ended.stderr, /canary/)
})

test('I49 without --stdin no password is taken from what is no terminal', async () => {
  await using setting = await operator()
  const ended = await setting.run(['approver', 'password'], `${FIRST}\n${FIRST}\n`)
  assert.equal(ended.code, 1)
  assert.match(ended.stderr, /^terminal_unsafe: nothing is asked or answered here: this is no terminal/)
  assert.deepEqual(setting.presence.available, ['T0'])
})

for (const name of ['SALLYPORT_LEASE', 'SALLYPORT_URL'])
  test(`I49 where ${name} is set, as inside of a session, no password is asked or taken`, async () => {
    await using setting = await operator()
    const typed = setting.terminal(['approver', 'password'], { [name]: 'x' })
    assert.equal(await typed.exited, 1)
    assert.doesNotMatch(typed.printed(), /hidden/)
    const piped = await setting.run(['approver', 'password', '--stdin'], `${FIRST}\n`, { [name]: 'x' })
    assert.equal(piped.code, 1)
    assert.match(piped.stderr, /terminal_unsafe: nothing is asked or answered here/)
    assert.deepEqual(setting.presence.available, ['T0'])
  })

test('I49 on a terminal that an agent is attached to no password is asked, wherever else the command’s output goes', async () => {
  await using setting = await operator()
  for (const tail of ['', ' 2>&1 | cat']) {
    const pty = setting.shell(`${ATTACH} "$0" "$1" approver password${tail}; kill $!; echo over`)
    await pty.sees('an agent is attached to this terminal')
    await pty.sees('over')
    assert.doesNotMatch(pty.printed(), /hidden/)
  }
})

test('I49 another terminal than the agent’s asks, and so does this one when the agent’s client is gone, however it ended', async () => {
  await using setting = await operator()
  const attached = setting.shell(`${ATTACH} echo attached; read wait; kill -9 $!; wait $!; "$0" "$1" approver password`)
  await attached.sees('attached')
  const other = setting.terminal(['approver', 'password'])
  assert.equal(await type(other, [FIRST, FIRST]), 0, other.printed())
  attached.write('\n')
  assert.notDeepEqual(await readdir(join(setting.home, 'terminals')), [])
  assert.equal(await type(attached, [FIRST, SECOND, SECOND]), 0, attached.printed())
})

test('I49 what looks like a mark in the folder of attached terminals harms nobody', async () => {
  await using setting = await operator()
  const folder = join(setting.home, 'terminals')
  await mkdir(folder)
  for (const name of ['x', '0-0', '34816-1', '99999999999999999999-1', '34816--1']) await writeFile(join(folder, name), '1')
  const pty = setting.terminal(['approver', 'password'])
  assert.equal(await type(pty, [FIRST, FIRST]), 0, pty.printed())
})
