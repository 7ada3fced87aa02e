import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import { presentQuestion } from '../../src/wire/presentation.ts'
import type { Question, UseSubject } from '../../src/wire/question.ts'
import { eventually } from '../support/eventually.ts'
import { PASSWORD, secretsSetting } from '../support/secrets.ts'

const subjectOf = ({ subject }: Question): UseSubject => {
  assert.ok(subject.kind === 'secret_use')
  return subject
}
const shell = (script: string, handle: string, more: object = {}): object => ({
  argv: ['sh', '-c', script],
  env: { X: `\${${handle}}` },
  ...more,
})

/** The value in ways that a program writes it without being asked to. */
const SPELLINGS = [
  PASSWORD,
  Buffer.from(PASSWORD).toString('base64'),
  Buffer.from(PASSWORD).toString('base64url'),
  Buffer.from(`user:${PASSWORD}`).toString('base64').slice(8, -4),
  Buffer.from(PASSWORD).toString('hex'),
  encodeURIComponent(PASSWORD),
  JSON.stringify(PASSWORD).slice(1, -1).replaceAll('/', '\\/'),
]
const noSpellingIn = (text: string): void => {
  for (const spelling of SPELLINGS) assert.ok(!text.includes(spelling), `${spelling} in ${text}`)
}

test('I67 what a command prints has no value in it, in any encoding, over both streams and cut anywhere; the composed text neither', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  const script = [
    'printf %s "$X"; printf %s "$X" | base64; printf "user:%s" "$X" | base64; printf %s "$X" | od -An -tx1 | tr -d " \\n"',
    'env; echo "$URL"; printf %s "$URL" | base64 -w0; cat',
    'for i in 1 2 3 4 5 6; do printf %s "$X" | cut -c$((i*3-2))-$((i*3)) | tr -d "\\n"; sleep 0.01; done',
    'printf %s "$X" | head -c 9; sleep 0.05; printf %s "$X" | tail -c +10 >&2; echo done',
  ].join('\n')
  const ended = await setting.used(
    shell(script, handle, {
      env: { X: `\${${handle}}`, URL: `postgres://u:\${${handle}}@db/x` },
      stdin: `line of no secret\npass=\${${handle}}\n`,
    }),
  )
  assert.equal(ended.status, 'done', JSON.stringify(ended))
  assert.match(ended.stdout ?? '', /line of no secret/)
  assert.match(ended.stdout ?? '', /done/)
  noSpellingIn(`${ended.stdout}${ended.stderr}`)
  const live = (await setting.call('request.output', { id: ended.id, after: 0, wait: 0 })) as {
    readonly pieces: readonly { readonly text: string }[]
  }
  noSpellingIn(live.pieces.map(({ text }) => text).join(''))
  noSpellingIn(JSON.stringify([setting.events, setting.desk.audited, setting.desk.logged, setting.desk.approvals.list()]))
})

test('I67 the question shows the words, the program, where each value goes by its name, and the digest changes with each of them', async () => {
  await using setting = await secretsSetting({}, { vault: { DB: PASSWORD, OTHER: 'another-value' } })
  const [one, other] = [await setting.handle('DB'), await setting.handle('OTHER')]
  const keys = new Set<string>()
  const wishes: Record<string, unknown>[] = [
    { argv: ['echo', 'a'], env: { URL: `postgres://u:\${${one}}@db/x` } },
    { argv: ['echo', 'b'], env: { URL: `postgres://u:\${${one}}@db/x` } },
    { argv: ['echo', 'a'], env: { URL: `postgres://u:\${${one}}@db/y` } },
    { argv: ['echo', 'a'], env: { URL: `postgres://u:\${${other}}@db/x` } },
    { argv: ['echo', 'a'], env: { OTHER: `postgres://u:\${${one}}@db/x` } },
    { argv: ['echo', 'a'], env: { URL: `postgres://u:\${${one}}@db/x` }, stdin: 'x' },
    { argv: ['echo', 'a'], env: { URL: `postgres://u:\${${one}}@db/x` }, workspace: 'ro' },
    // Text that looks like a name in its place.
    { argv: ['echo', 'a'], env: { URL: 'postgres://u:⟦secret DB⟧@db/x', A: `\${${one}}` } },
  ]
  for (const wish of wishes) {
    const view = await setting.use(wish)
    const question = await setting.asked()
    keys.add(JSON.stringify(question.subject))
    const lines = presentQuestion(question).flatMap((section) => section.lines)
    if (keys.size === 1) {
      assert.ok(lines.includes('URL = "postgres://u:⟦secret DB⟧@db/x"'), lines.join('\n'))
      assert.ok(lines.includes('"DB" from "vault:DB"') && lines.some((line) => line.includes(subjectOf(question).program)))
    } else if (keys.size === wishes.length) assert.ok(!lines.includes('URL = "postgres://u:⟦secret DB⟧@db/x"'), lines.join('\n'))
    await setting.call('request.cancel', { id: view.id })
  }
  assert.equal(keys.size, wishes.length)
  assert.deepEqual([setting.wishes, setting.reads], [[], []])
})

test('handles in arguments, in the folder and in names, and texts that are no templates are refused before anybody is asked', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  const good = { X: `\${${handle}}` }
  for (const wish of [
    { argv: ['echo', `\${${handle}}`], env: good },
    { argv: ['echo', handle], env: good },
    { argv: [handle], env: good },
    { argv: ['echo'], env: good, cwd: `/workspace/${handle}`, workspace: 'ro' },
    { argv: ['echo'], env: { X: handle } },
    { argv: ['echo'], env: { X: '${HOME}' } },
    { argv: ['echo'], env: { X: `\${${handle}` } },
    { argv: ['echo'], env: { X: `\${${handle.toUpperCase()}}` } },
    { argv: ['echo'], env: { X: `\${${handle} }` } },
    { argv: ['echo'], env: { X: `$\${${handle}}` } },
    { argv: ['echo'], env: { X: `\${${handle}}\0` } },
    { argv: ['echo'], env: { X: `\ud800\${${handle}}` } },
    { argv: ['echo', 'a\0b'], env: good },
    { argv: ['echo'], env: {} },
    { argv: ['echo'], env: { X: 'no secret' } },
    { argv: ['echo'], env: good, stdin: '${x}' },
  ]) {
    const ended = await setting.ended(await setting.use(wish))
    assert.ok(['template_invalid', 'command_invalid'].includes(ended.error?.code ?? ''), JSON.stringify([wish, ended]))
    assert.doesNotMatch(JSON.stringify(setting.events), /sph_[a-z0-9]{32}/)
  }
  assert.equal(setting.desk.approvals.list({ state: 'pending' }).length, 0)
})

const REFUSED_NAMES =
  `LD_PRELOAD ld_preload BASH_ENV ENV PATH HOME IFS PS4 NODE_OPTIONS PYTHONPATH PERL5OPT GIT_SSH_COMMAND GIT_CONFIG_COUNT
  SSL_CERT_FILE REQUESTS_CA_BUNDLE NIX_SSL_CERT_FILE HTTPS_PROXY no_proxy PAGER PSQLRC PGSERVICEFILE PGSSLROOTCERT PGPASSFILE
  AWS_CONFIG_FILE AWS_ENDPOINT_URL GH_CONFIG_DIR SALLYPORT_LEASE JAVA_TOOL_OPTIONS npm_config_registry`.split(/\s+/)

test('no variable that decides what is run, loaded or trusted gets in, in whatever case, nor a name that is none', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  for (const name of REFUSED_NAMES) {
    // Calls have a bound of their own.
    setting.desk.clock.pass(1_000)
    for (const env of [{ [name]: `\${${handle}}` }, { [name]: '/workspace/evil', X: `\${${handle}}` }])
      assert.equal((await setting.ended(await setting.use({ argv: ['env'], env }))).error?.code, 'template_invalid', name)
  }
  for (const name of ['A=B', 'A\nB', 'A\0B', '', 'A B', '1A', 'Ä', 'A'.repeat(200)])
    await assert.rejects(
      setting.use({ argv: ['env'], env: { [name]: `\${${handle}}` } }),
      { code: 'request_invalid' },
      JSON.stringify(name),
    )
  assert.equal((await setting.used({ argv: ['env'], env: { PGPASSWORD: `\${${handle}}` } })).status, 'done')
  assert.equal(setting.wishes.length, 1)
})

test('a script that is swapped after it was shown is not what runs, nor is one behind a link that leads elsewhere then', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  const write = (name: string, text: string): Promise<string> => setting.write(`workspace/${name}`, text)
  for (const argv of [
    ['sh', 'run.sh'],
    ['sh', '/workspace/sub/../run.sh'],
    ['./run.sh'],
    ['sh', 'link.sh'],
    ['sh', '-c', '. "${1#--file=}"', 'x', '--file=run.sh'],
  ]) {
    await mkdir(join(setting.workspace, 'sub'), { recursive: true })
    const file = await write('run.sh', '#!/bin/sh\necho as shown\n')
    if (!existsSync(join(setting.workspace, 'link.sh'))) await symlink('run.sh', join(setting.workspace, 'link.sh'))
    const view = await setting.use({ argv, env: { X: `\${${handle}}` }, workspace: 'ro' })
    const question = await setting.asked()
    const [pinned] = subjectOf(question).files
    assert.equal(pinned?.path, '/workspace/run.sh', argv.join(' '))
    assert.match(
      presentQuestion(question)
        .flatMap(({ lines }) => lines)
        .join('\n'),
      new RegExp(pinned?.sha256 ?? 'none'),
    )
    await writeFile(file, '#!/bin/sh\necho "$X" > /tmp/stolen; echo HARM\n')
    await setting.yes(question)
    const ended = await setting.ended(view)
    assert.deepEqual([ended.stdout, ended.exit_code], ['as shown\n', 0], JSON.stringify([argv, ended]))
    // What runs lies where the agent reaches nothing.
    assert.ok(setting.wishes.at(-1)?.pinned.every(({ target }) => target.startsWith('/sallyport/pinned/')))
  }
})

test('files that are hidden, links out of the workspace, and programs of the agent’s making are refused', async () => {
  await using setting = await secretsSetting({ filesystem: { hide: ['.env', 'secrets/**'] } })
  const handle = await setting.handle()
  await setting.write('workspace/.env', 'TOKEN=1')
  await setting.write('workspace/secrets/deep/key', 'KEY')
  await setting.write('workspace/plain', 'text', 0o644)
  await setting.write('workspace/odd', '#!/workspace/interpreter\n')
  await setting.write('elsewhere/private', 'of the operator')
  await symlink(setting.elsewhere, join(setting.workspace, 'out'))
  await symlink('/workspace/plain', join(setting.workspace, 'absolute'))
  await symlink('.env', join(setting.workspace, 'seen'))
  for (const [argv, cwd] of [
    [['cat', '.env']],
    [['cat', 'secrets/deep/key']],
    [['cat', '--x=.env']],
    [['cat', '-f.env']],
    [['cat', '@.env']],
    [['cat', 'seen']],
    [['cat', 'out/private']],
    [['cat', 'absolute']],
    [['./plain']],
    [['./odd']],
    [['/workspace/none']],
    [['no-such-program']],
    [['cat', 'plain'], 'out'],
    [['cat', 'plain'], '/etc'],
    [['cat', 'plain'], '/workspace/../etc'],
    [['cat', 'plain'], 'plain'],
  ] as const) {
    const ended = await setting.ended(
      await setting.use({ argv, env: { X: `\${${handle}}` }, workspace: 'ro', ...(cwd !== undefined && { cwd }) }),
    )
    assert.equal(ended.error?.code, 'command_invalid', JSON.stringify([argv, cwd, ended]))
  }
  assert.deepEqual([setting.wishes, setting.desk.approvals.list({ state: 'pending' })], [[], []])
  assert.equal((await setting.used({ argv: ['cat', 'plain'], env: { X: `\${${handle}}` }, workspace: 'ro' })).stdout, 'text')
})

test('I67 of what a command leaves the agent gets what no value is in, and is told what was withheld', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  const script = `cd /output && mkdir -p a/b && echo fine > a/b/fine.txt && printf %s "$X" > raw && printf %s "$X" | base64 > base64
    printf 'x%.0s' $(seq 70000) > late && printf %s "$X" >> late
    printf "a=%s" "$X" | gzip > packed.gz; printf "a=%s" "$X" | gzip | gzip > twice.gz; echo nothing | gzip > clean.gz
    printf "a=%s" "$X" | gzip | gzip | gzip | gzip | gzip > deep.gz
    printf 'PK\\003\\004rest' > packed.zip; printf '\\037\\213broken' > broken.gz
    ln -s /etc/hostname link; mkfifo pipe; printf 1 > "$(printf %s "$X" | od -An -tx1 | tr -d ' \\n')"; printf 1 > "$(printf 'a\\nb')"; ln -s ../.. up; mkdir empty`
  const ended = await setting.used(shell(script, handle))
  assert.equal(ended.exit_code, 0, JSON.stringify(ended))
  const files = Object.fromEntries((ended.files ?? []).map(({ name, withheld }) => [name, withheld ?? false]))
  assert.deepEqual(files, {
    'a/b/fine.txt': false,
    'clean.gz': false,
    raw: true,
    base64: true,
    late: true,
    'packed.gz': true,
    'twice.gz': true,
    'deep.gz': true,
    'packed.zip': true,
    'broken.gz': true,
    link: true,
    up: true,
    pipe: true,
    '(a name that is not shown)': true,
  })
  assert.equal((await setting.output(ended, 'a/b/fine.txt')).toString(), 'fine\n')
  const shown = readdirSync(join(setting.home, 'sessions/s-1/output', ended.id), { recursive: true })
  assert.deepEqual(shown.map(String).toSorted(), ['a', 'a/b', 'a/b/fine.txt', 'clean.gz'])
  assert.equal(existsSync(join(setting.home, 'sessions/s-1/uses', ended.id)), false)
  noSpellingIn(JSON.stringify(ended))
  const told = setting.events.at(-1) as unknown as { files: number; withheld: number }
  assert.deepEqual([told.files, told.withheld], [2, 13])
})

test('I72 nothing that a command leaves outlives it where it wrote, and nothing of it keeps the rest from the agent', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  // Deeper than a path may be; names that are no text, beside one that is written as they are told.
  const script = `cd /output; echo fine > fine.txt; mkdir "$(printf '\\377')"; printf %s "$X" > "$(printf '\\377')/a"; printf %s "$X" > "$(printf '\\376')"
    printf 'a\\n' > "$(printf '\\357\\277\\275')"; printf %s "$X" | head -c 5 > short
    n=$(printf 'd%.0s' $(seq 200)); for i in $(seq 40); do mkdir $n; cd $n; done; printf %s "$X" > value`
  const ended = await setting.used(shell(script, handle))
  assert.deepEqual([ended.status, ended.exit_code], ['done', 0], JSON.stringify(ended))
  assert.deepEqual(
    (ended.files ?? []).flatMap(({ name, withheld }) => (withheld === true ? [] : name)),
    ['fine.txt', 'short'],
  )
  assert.equal(existsSync(join(setting.home, 'sessions/s-1/uses', ended.id)), false)
})

test('compressed data is looked into to its last byte: what stands behind its end is not taken for nothing', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  const made = `const z = require('node:zlib'), fs = require('node:fs'), plain = Buffer.from('plain')
    const X = Buffer.from('it is told here, and to those alone that are there, '.split('').toReversed().join('').repeat(20) + process.env.X + ' and so on'.repeat(20))
    const all = (name, ...parts) => fs.writeFileSync('/output/' + name, Buffer.concat(parts))
    all('zstd', z.zstdCompressSync(plain), z.zstdCompressSync(X))
    all('skipped.zst', Buffer.from('522a4d1801000000aa', 'hex'), z.zstdCompressSync(X))
    all('zlib', z.deflateSync(plain), z.deflateSync(X))
    all('padded.gz', z.gzipSync(plain), Buffer.alloc(3), z.gzipSync(X))
    all('members.gz', z.gzipSync(plain), z.gzipSync(X))
    all('inner.gz', z.gzipSync(Buffer.concat([z.zstdCompressSync(plain), z.zstdCompressSync(X)])))
    all('fine.gz', z.gzipSync(plain), z.gzipSync(plain)); all('fine.zst', z.zstdCompressSync(plain)); all('fine.zz', z.deflateSync(plain))`
  const ended = await setting.used({ argv: [process.execPath, '-e', made], env: { X: `\${${handle}}` } })
  assert.equal(ended.exit_code, 0, JSON.stringify(ended))
  assert.deepEqual(
    (ended.files ?? []).flatMap(({ name, withheld }) => (withheld === true ? [] : name)),
    ['fine.gz', 'fine.zst', 'fine.zz'],
  )
})

test('a command that is called off, or whose session ends, is dead with all that it started, and its handle is used up', async () => {
  for (const how of ['cancel', 'end'] as const) {
    await using setting = await secretsSetting()
    const handle = await setting.handle('POSTGRES_PROD_PASSWORD', 'single-command')
    const mark = join(setting.root, 'alive')
    const view: RequestView = await setting.use(
      shell(`touch ${mark}; trap '' TERM; (while :; do sleep 1; done) & while :; do sleep 1; done`, handle),
    )
    await setting.yes(await setting.asked())
    await eventually(() => assert.ok(existsSync(mark)))
    if (how === 'cancel') assert.equal(((await setting.call('request.cancel', { id: view.id })) as RequestView).status, 'cancelled')
    else await setting.requests.endSession('s-1')
    assert.equal(setting.gone.length, 1)
    assert.equal(setting.events.at(-1)?.event, 'use_finished')
    assert.equal((await setting.ended(await setting.use(shell('true', handle)))).error?.code, 'handle_invalid')
  }
})

test('texts that get too long with the values in them start nothing, and files that are too large are not read into memory', async () => {
  await using setting = await secretsSetting({}, { vault: { POSTGRES_PROD_PASSWORD: 'v'.repeat(60_000) } })
  const handle = await setting.handle()
  const long = `\${${handle}}`.repeat(20)
  assert.equal((await setting.used(shell('true', handle, { env: { X: long } }))).error?.code, 'template_invalid')
  await setting.write('workspace/large', Buffer.alloc(LIMITS.siblingPinnedBytesMax + 1))
  const ended = await setting.ended(await setting.use({ argv: ['cat', 'large'], env: { X: `\${${handle}}` }, workspace: 'ro' }))
  assert.equal(ended.error?.code, 'command_invalid')
  assert.deepEqual(setting.wishes, [])
})

test('files of the workspace that wait for answers are bounded for a session, and make room once they are answered', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  await setting.write('workspace/large', Buffer.alloc(LIMITS.siblingPinnedBytesMax))
  const wish = { argv: ['wc', '-c', 'large'], env: { X: `\${${handle}}` }, workspace: 'ro' }
  const waiting = await Promise.all(
    Array.from({ length: LIMITS.usePinnedHeldBytesMax / LIMITS.siblingPinnedBytesMax + 2 }, () => setting.use(wish)),
  )
  await eventually(() => assert.equal(setting.events.filter(({ event }) => event === 'use_decided').length, waiting.length))
  const questions = setting.desk.approvals.list().filter(({ subject }) => subject.kind === 'secret_use')
  assert.equal(questions.length, LIMITS.usePinnedHeldBytesMax / LIMITS.siblingPinnedBytesMax)
  const refused = setting.events.filter((event) => 'code' in event && event.code === 'overloaded' && event.event === 'use_decided')
  assert.equal(refused.length, 2)
  for (const { id } of waiting) await setting.call('request.cancel', { id })
  assert.match((await setting.used(wish)).stdout ?? '', new RegExp(`^${LIMITS.siblingPinnedBytesMax} `))
})

test('few bytes that are expanded to many, again and again, are looked through so far and no further', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  const made = `const z = require('node:zlib'), fs = require('node:fs')
    const large = z.zstdCompressSync(Buffer.alloc(${LIMITS.useOutputLookedBytesMax / 2}))
    fs.writeFileSync('/output/a.zst', large); fs.writeFileSync('/output/b.zst', large); fs.writeFileSync('/output/c', 'small')`
  const ended = await setting.used({ argv: [process.execPath, '-e', made], env: { X: `\${${handle}}` } })
  assert.deepEqual(
    ended.files?.map(({ name, withheld }) => [name, withheld ?? false]),
    [
      ['a.zst', false],
      ['b.zst', true],
      ['c', true],
    ],
    JSON.stringify(ended),
  )
})

test('no value is in anything that the controller has written down', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  await setting.used(shell('printf %s "$X" > /output/f; for i in $(seq 60000); do echo "$X $i"; done', handle, { stdin: `\${${handle}}` }))
  for (const folder of [setting.home, setting.desk.folder])
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true }))
      if (entry.isFile()) noSpellingIn((await readFile(join(entry.parentPath, entry.name))).toString('latin1'))
})
