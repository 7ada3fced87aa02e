import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { siblingCommand, siblingInput } from '../../src/controller/sessions/sibling-shim.ts'
import { Secret } from '../../src/kernel/secret.ts'

/** Every shell of this machine that could be the /bin/sh of an image; busybox by its applet's name. */
const SHELLS = ['dash', 'bash', 'busybox'].filter((name) =>
  (process.env['PATH'] ?? '').split(delimiter).some((folder) => existsSync(join(folder, name))),
)
const PRINT = 'process.stdout.write(JSON.stringify([process.env, require("fs").readFileSync(0).toString("base64")]))'

type Got = { readonly environment: Readonly<Record<string, string>>; readonly rest: Buffer }
type Ended = { readonly code: number; readonly stdout: string; readonly stderr: string }

let folder: string
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sallyport-shim-'))
  for (const shell of SHELLS) {
    const file = realpathSync(execFileSync('sh', ['-c', `command -v ${shell}`], { encoding: 'utf8' }).trim())
    await symlink(file, join(folder, shell === 'busybox' ? 'ash' : shell))
  }
})
after(() => rm(folder, { recursive: true }))

test('there is more than one shell here to try', () => assert.ok(SHELLS.length >= 2, SHELLS.join()))

/** What the shim runs, as a process of this machine with this shell. */
function run(
  shell: string,
  argv: readonly [string, ...string[]],
  stdin: 'open' | 'closed',
  input: Buffer,
  environment = {},
): Promise<Ended> {
  const [, ...args] = siblingCommand({ argv, stdin })
  const file = join(folder, shell === 'busybox' ? 'ash' : shell)
  const env = { PATH: process.env['PATH'], ...environment }
  return new Promise((resolve) => {
    const child = execFile(file, args, { env, maxBuffer: 64 * 1024 * 1024, timeout: 20_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    )
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
  })
}

async function handedOver(
  shell: string,
  values: Readonly<Record<string, string>>,
  rest = '',
  stdin: 'open' | 'closed' = 'open',
): Promise<Got> {
  const secrets = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, new Secret(name, value)]))
  const input = Buffer.concat([siblingInput({ values: secrets }), Buffer.from(rest)])
  const { code, stdout, stderr } = await run(shell, [process.execPath, '-e', PRINT], stdin, input)
  assert.equal(code, 0, stderr)
  const [environment, read] = JSON.parse(stdout) as [Record<string, string>, string]
  return { environment, rest: Buffer.from(read, 'base64') }
}

const value = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 200 }),
  fc.string({ unit: 'binary', maxLength: 50 }),
  fc
    .array(
      fc.constantFrom(
        '\n',
        '\\',
        '\\c',
        "'",
        '"',
        '`',
        '$',
        '$(id)',
        '${HOME}',
        '%s',
        '-n',
        ' ',
        '\t',
        '\r',
        '\\0101',
        'x',
        'é',
        '😀',
        '*',
        '.',
      ),
    )
    .map((parts) => parts.join('')),
)
const text = value.map((one) => one.replaceAll('\0', '').toWellFormed())
const name = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,20}$/).map((one) => `T_${one}`)

for (const shell of SHELLS) {
  test(`${shell} hands over whatever values there are, byte by byte, and leaves the rest of the input to the command`, () =>
    fc.assert(
      fc.asyncProperty(fc.dictionary(name, text, { maxKeys: 5, noNullPrototype: true }), text, async (values, rest) => {
        const got = await handedOver(shell, values, rest)
        for (const [key, expected] of Object.entries(values)) assert.equal(got.environment[key], expected)
        assert.equal(got.rest.toString(), rest)
        assert.deepEqual(
          Object.keys(got.environment).filter((key) => /sallyport/i.test(key)),
          [],
        )
      }),
      { numRuns: 15 },
    ))

  test(`${shell} hands over 64 KiB that end in newlines, and an empty value; a command with its input closed reads nothing`, async () => {
    const long = `${'é\\ \n'.repeat(13_000)}\n\n`
    const got = await handedOver(shell, { LONG: long, EMPTY: '' }, 'nobody reads this', 'closed')
    assert.equal(got.environment['LONG'], long)
    assert.equal(got.environment['EMPTY'], '')
    assert.equal(got.rest.length, 0)
  })

  test(`${shell} runs no command whose variables did not come whole`, async () => {
    const whole = siblingInput({ values: { KEY: new Secret('k', 'a secret value'), OTHER: new Secret('o', 'b') } })
    for (const bytes of [0, 3, 4, 12, whole.length - 3, whole.length - 1]) {
      const { code, stdout } = await run(shell, ['echo', 'it ran'], 'open', whole.subarray(0, bytes))
      assert.equal(stdout, '', `${bytes} bytes`)
      assert.equal(code, 125)
    }
  })

  test(`I63 ${shell} starts no program while a value is in its hands, and no value is in an argument`, async () => {
    // Where printf were no part of the shell this one would be run, with the value for everybody to see.
    const spy = join(folder, `spy-${shell}`)
    await writeFile(join(folder, 'printf'), `#!/bin/sh\necho "$@" >> ${spy}\n`, { mode: 0o755 })
    const values = { KEY: new Secret('k', 'canary-5f1e') }
    const path = `${folder}:${process.env['PATH']}`
    const { stdout } = await run(shell, ['cat', '/proc/self/cmdline'], 'open', siblingInput({ values }), { PATH: path })
    assert.ok(stdout.startsWith('cat\0'))
    assert.ok(!stdout.includes('canary'))
    assert.equal(existsSync(spy), false)
    assert.ok(
      !siblingCommand({ argv: ['cat'], stdin: 'open' })
        .join()
        .includes('canary'),
    )
  })
}

test('a shell without a printf of its own is told from one that has it, and gets nothing to print', async () => {
  const values = { KEY: new Secret('k', 'canary-5f1e') }
  const [, , script = '', ...rest] = siblingCommand({ argv: ['echo', 'it ran'], stdin: 'open' })
  // What a shell without it answers.
  const other = script.replace('$(command -v printf)', '/usr/bin/printf')
  const ended = await new Promise<Ended>((resolve) => {
    const child = execFile('sh', ['-c', other, ...rest], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    )
    child.stdin?.on('error', () => {})
    child.stdin?.end(siblingInput({ values }))
  })
  assert.deepEqual([ended.code, ended.stdout], [126, ''])
  assert.match(ended.stderr, /no printf of its own/)
})
