import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { Secret } from '../../src/kernel/secret.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { spellingsOf } from '../support/canary.ts'
import { eventually } from '../support/eventually.ts'
import { commandSetting, type Ran } from '../support/executor.ts'

const VALUE = 's3cr3t/Value+with=odd&letters'
const SECRETS = [new Secret('TOKEN', VALUE)]

function everything({ stdout, stderr, live }: Ran): Buffer {
  return Buffer.concat([Buffer.from(stdout), live.stdout, Buffer.from(stderr), live.stderr])
}

function assertAbsent(ran: Ran, needles: readonly (Buffer | string)[]): void {
  const bytes = everything(ran)
  for (const needle of needles) assert.ok(!bytes.includes(needle), `${needle.toString()} is in the output`)
}

/** Programs of Node that print the value in many ways. It comes as an argument, so that no file of code has it. */
const SPELLINGS = [
  'text',
  "Buffer.from(text).toString('base64')",
  "Buffer.from('x' + text).toString('base64')",
  "Buffer.from('xy' + text).toString('base64')",
  "Buffer.from(text).toString('base64url')",
  "Buffer.from(text).toString('hex')",
  "Buffer.from(text).toString('hex').toUpperCase()",
  'encodeURIComponent(text)',
  'JSON.stringify({ text })',
  "Buffer.from(text).toString('base64').replace(/.{8}/g, '$&\\n')",
  "'Authorization: Basic ' + Buffer.from('user:' + text).toString('base64')",
]

for (const spelling of SPELLINGS)
  test(`I47 a secret printed as ${spelling} is in no output`, async () => {
    await using setting = await commandSetting()
    const ran = await setting.run(
      { argv: ['node', '-e', `const text = process.argv[1]; process.stdout.write('before ' + ${spelling} + ' after')`, VALUE] },
      { secrets: SECRETS },
    )
    assert.equal(ran.exitCode, 0, ran.stderr)
    assertAbsent(ran, [...spellingsOf(VALUE), encodeURIComponent(VALUE)])
    assert.match(ran.stdout, /^(?:before|Auth)/)
    assert.match(ran.stdout, /[*A0]{6}/)
  })

test('I47 a secret written letter by letter is in no output', async () => {
  await using setting = await commandSetting()
  const script = 'i=1; while [ $i -le ${#1} ]; do printf %s "$1" | cut -c$i | tr -d "\\n"; i=$((i+1)); done; echo " end"'
  const ran = await setting.run({ argv: ['sh', '-c', script, 'sh', VALUE] }, { secrets: SECRETS })
  assert.equal(ran.stdout, `${'*'.repeat(VALUE.length)} end\n`)
  assertAbsent(ran, [VALUE])
})

for (const [first, second] of [
  ['out', 'err'],
  ['err', 'out'],
])
  test(`I47 of a secret whose parts are on std${first} and then on std${second} neither part is in the output`, async () => {
    await using setting = await commandSetting()
    // It waits until the first part was read, so that there is an order.
    const script = `const [, a, b] = process.argv; process.std${first}.write(a, () => setTimeout(() => process.std${second}.write(b), 100))`
    const ran = await setting.run({ argv: ['node', '-e', script, VALUE.slice(0, 15), VALUE.slice(15)] }, { secrets: SECRETS })
    assertAbsent(ran, [VALUE.slice(0, 15), VALUE.slice(15)])
    assert.equal(ran.stdout.length + ran.stderr.length, VALUE.length)
  })

test('I47 a secret in the one stream is found whatever comes in the other between its parts', async () => {
  await using setting = await commandSetting()
  const script =
    'const [, a, b] = process.argv; process.stdout.write(a, () => process.stderr.write("noise", () => setTimeout(() => process.stdout.write(b), 50)))'
  const ran = await setting.run({ argv: ['node', '-e', script, VALUE.slice(0, 15), VALUE.slice(15)] }, { secrets: SECRETS })
  assert.deepEqual([ran.stdout, ran.stderr], ['*'.repeat(VALUE.length), 'noise'])
})

test('I47 a secret over each bound of what is kept is in no output and no file', async () => {
  await using setting = await commandSetting()
  const lineEnd = LIMITS.commandLineBytesMax
  for (const before of [lineEnd - 10, lineEnd - 1, 64 * 1024 - 5, 250, 1_000]) {
    const script =
      'const [, text, n] = process.argv; process.stdout.write("x".repeat(+n) + text + "y".repeat(3000) + "\\n" + (text + "\\n" + Math.random() + "\\n").repeat(400))'
    const ran = await setting.run(
      { argv: ['node', '-e', script, VALUE, String(before)] },
      { secrets: SECRETS, limits: { outputBytesMax: 1_000 } },
    )
    assert.equal(ran.truncated, true)
    const pieces = Array.from({ length: VALUE.length - 5 }, (_, i) => VALUE.slice(i, i + 6))
    assertAbsent(ran, pieces)
    const spilled = await readFile(ran.spill ?? '')
    for (const piece of pieces) assert.ok(!spilled.includes(piece))
    assert.equal(spilled.length, ran.bytes.stdout)
  }
})

test('I47 a key in PEM is in no output, whole, indented, numbered, or with other ends of lines', async () => {
  await using setting = await commandSetting()
  const pem = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  const lines = pem.trim().split('\n').slice(1, -1)
  assert.ok(lines.length > 20)
  const file = await setting.write('elsewhere/key.pem', pem, 0o600)
  for (const argv of [
    ['cat', file],
    ['cat', '-n', file],
    ['sed', 's/^/      /', file],
    ['sed', 's/$/\r/', file],
    ['node', '-p', `JSON.stringify(require("fs").readFileSync(${JSON.stringify(file)}, "utf8"))`],
    ['base64', file],
    ['fold', '-w', '64', file],
  ]) {
    const ran = await setting.run({ argv }, { secrets: [new Secret('KEY', pem)] })
    assert.equal(ran.exitCode, 0, ran.stderr)
    assertAbsent(ran, [...lines, ...lines.map((line) => Buffer.from(line).toString('base64').slice(4, -6))])
  }
})

test('a value that is too short to be looked for is not to be told from what is replaced', async () => {
  await using setting = await commandSetting()
  const { stdout } = await setting.run({ argv: ['seq', '-w', '0', '9999'] }, { secrets: [new Secret('PIN', '4711')] })
  assert.equal(stdout.split('\n').length, 10_001)
  assert.doesNotMatch(stdout, /\*/)
})

test('I47 nothing of a secret is given before it is known that it is none', async () => {
  await using setting = await commandSetting()
  const seen: string[] = []
  const script =
    'const [, a] = process.argv; process.stdout.write("line\\n" + a, () => setTimeout(() => process.stdout.write("no\\n"), 100))'
  const { stdout } = await setting.run(
    { argv: ['node', '-e', script, VALUE.slice(0, 12)] },
    { secrets: SECRETS, onOutput: async (_, chunk) => void seen.push(chunk.toString()) },
  )
  assert.equal(stdout, `line\n${VALUE.slice(0, 12)}no\n`)
  assert.ok(
    seen.every((chunk) => !chunk.endsWith(VALUE.slice(0, 12)) && !/s3c?r?$/.test(chunk)),
    JSON.stringify(seen),
  )
})

test('I47 a command finds no secret of the daemon in its own environment or command line', async () => {
  await using setting = await commandSetting({ TOKEN: VALUE })
  const ran = await setting.run({
    argv: ['sh', '-c', 'tr "\\0" "\\n" < /proc/self/environ; tr "\\0" "\\n" < /proc/$$/environ; ps -ww -o args -p $$'],
  })
  assertAbsent(ran, [VALUE])
})

test('I47 what /proc/PID/environ of the daemon has is redacted where a command may read it', async () => {
  await using setting = await commandSetting()
  const script = join(import.meta.dirname, '../support/command-of-secret.ts')
  const { stdout, status } = spawnSync(process.execPath, [script], { encoding: 'utf8', env: { ...process.env, TOKEN: VALUE } })
  assert.equal(status, 0)
  assert.ok(!stdout.includes(VALUE))
  assert.match(stdout, /TOKEN=\*{29}/)
  assert.ok(setting)
})

for (const [what, script] of [
  ['floods', 'exec seq 1 1000000000000'],
  ['repeats one line', 'exec yes'],
  ['prints zeros without an end of line', 'exec cat /dev/zero'],
  ['prints random bytes', 'exec cat /dev/urandom'],
  ['floods both streams', 'yes out & exec yes err >&2'],
] as const)
  test(`I47 a command that ${what} costs a bounded amount of memory`, () => {
    const { stdout, stderr, status } = spawnSync(process.execPath, [join(import.meta.dirname, '../support/flooded.ts'), script], {
      encoding: 'utf8',
    })
    assert.equal(status, 0, stderr)
    const { rssBytes, printed, kept, code, spilled } = JSON.parse(stdout) as Record<'rssBytes' | 'printed' | 'kept' | 'spilled', number> & {
      code: string
    }
    assert.equal(code, 'command_cancelled')
    assert.ok(printed >= 100e6, `${printed}`)
    assert.ok(kept <= 2 * 3 * LIMITS.commandOutputBytesMax, `${kept}`)
    assert.ok(spilled <= LIMITS.commandSpillBytesMax, `${spilled}`)
    // Node itself, and what it allocates before it looks for garbage.
    assert.ok(rssBytes < 120e6, `${rssBytes}`)
  })

test('I47 while a reader takes nothing, the command waits', async () => {
  await using setting = await commandSetting()
  const taken = Promise.withResolvers<void>()
  const script =
    'require("fs").writeFileSync("pid", String(process.pid)); for (let i = 0; i < 4000; i++) require("fs").writeSync(1, "x".repeat(1023) + "\\n")'
  let given = 0
  const running = setting.run(
    { argv: ['node', '-e', script] },
    {
      onOutput: async (_, chunk) => {
        given += chunk.length
        await taken.promise
      },
    },
  )
  // In write(2) to its standard output, by number for x86-64 and arm64, and not on its way through it.
  await eventually(async () => {
    const pid = await readFile(join(setting.workspace, 'pid'), 'utf8')
    assert.match(await readFile(`/proc/${pid}/syscall`, 'utf8'), /^(?:1|64) 0x1 /)
  })
  assert.ok(given < 1024 * 1024, `${given} bytes were given`)
  taken.resolve()
  const { bytes, exitCode } = await running
  assert.deepEqual([bytes.stdout, exitCode, given], [4_000 * 1_024, 0, 4_000 * 1_024])
})

test('the file of what was left out is the operator’s alone, and has all of it', async () => {
  await using setting = await commandSetting()
  const { spill, stdout, truncated } = await setting.run({ argv: ['seq', '300000'] })
  assert.equal(truncated, true)
  assert.equal((await stat(spill ?? '')).mode & 0o777, 0o600)
  assert.equal((await stat(join(setting.home, 'output'))).mode & 0o777, 0o700)
  assert.equal(await readFile(spill ?? '', 'utf8'), spawnSync('seq', ['300000'], { encoding: 'utf8', maxBuffer: 1e8 }).stdout)
  assert.match(stdout, /^1\n2\n3\n/)
  assert.match(stdout, /\n300000\n$/)
  assert.match(stdout, /\n\[\d+ bytes left out\]\n/)
})
