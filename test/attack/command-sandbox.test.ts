import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { sandboxOf } from '../../src/controller/executor/executor.ts'
import { bubblewrapArguments } from '../../src/controller/executor/bubblewrap.ts'
import { seatbeltProfile } from '../../src/controller/executor/seatbelt.ts'
import { toolsOf } from '../../src/controller/executor/tools.ts'
import { commandSetting, performed } from '../support/executor.ts'
import { running } from '../support/running-commands.ts'

const CANARY = 'canary-5f1d0c7be2'

/** Tries everything that it should not be able to, and prints what it got. */
const HOSTILE = `
import { readFileSync, readdirSync, writeFileSync, existsSync } from 'node:fs'
import { connect } from 'node:net'
import { execFileSync } from 'node:child_process'
const attempt = (name, work) => { try { console.log('GOT', name, String(work()).slice(0, 2000)) } catch (error) { console.log('no', name, error.code ?? error.message) } }
const { files, folders, sockets, ports, pid, writes, mounts } = JSON.parse(readFileSync('wanted.json', 'utf8'))
for (const file of files) attempt(file, () => readFileSync(file, 'utf8'))
for (const folder of folders) attempt(folder, () => readdirSync(folder).join(' ') || (() => { throw new Error('empty') })())
for (const file of writes) attempt('write ' + file, () => writeFileSync(file, 'HARM'))
for (const name of readdirSync('/proc').filter((one) => /^\\d+$/.test(one))) attempt('environ', () => { const text = readFileSync('/proc/' + name + '/environ', 'utf8'); if (!text.includes('${CANARY}')) throw new Error('plain'); return text })
attempt('kill', () => process.kill(pid, 0))
if (mounts) attempt('mounts', () => { execFileSync('mount', ['-t', 'tmpfs', 'x', '/mnt'], { stdio: 'pipe' }) })
const dial = (options) => new Promise((resolve) => { const socket = connect(options); socket.once('connect', () => { console.log('GOT', JSON.stringify(options)); socket.write('yes'); socket.end(); resolve() }); socket.once('error', (error) => { console.log('no', JSON.stringify(options), error.code); resolve() }) })
for (const path of sockets) await dial({ path })
for (const port of ports) for (const host of ['127.0.0.1', '::1', '0.0.0.0', 'localhost']) await dial({ host, port })
writeFileSync('done', 'done')
`

/** @param isConfined otherwise nothing is tried that would stay */
async function hostile(isConfined = true) {
  const setting = await commandSetting()
  const stack = new AsyncDisposableStack()
  stack.use(setting)
  const reached: string[] = []
  const listen = async (where: string | { port: number; host: string }): Promise<Server> => {
    const server = createServer((socket) => {
      reached.push(JSON.stringify(where))
      socket.on('error', () => undefined).destroy()
    })
    await new Promise<void>((resolve) => void (typeof where === 'string' ? server.listen(where, resolve) : server.listen(where, resolve)))
    stack.defer(() => new Promise((resolve) => void server.close(() => resolve(undefined))))
    return server
  }
  const operator = join(setting.root, 'operator')
  const secrets = ['.ssh/id_ed25519', '.aws/credentials', '.netrc', '.config/gh/hosts.yml', '.cargo/credentials.toml', '.gnupg/private']
  for (const name of secrets) {
    await mkdir(join(operator, name, '..'), { recursive: true })
    await writeFile(join(operator, name), CANARY)
  }
  await mkdir(join(operator, '.cargo/bin'))
  for (const name of ['vault.db', 'vault.key', 'lease.key', 'policies.yaml']) await writeFile(join(setting.home, name), CANARY)
  await writeFile(join(setting.elsewhere, 'other'), CANARY)
  await listen(join(setting.home, 'daemon.sock'))
  const abstract = `\0sallyport-executor-${process.pid}`
  await listen(abstract)
  const tcp = await listen({ port: 0, host: '127.0.0.1' })
  const { port } = tcp.address() as { port: number }
  await writeFile(
    join(setting.workspace, 'wanted.json'),
    JSON.stringify({
      files: [
        ...secrets.map((name) => join(operator, name)),
        ...['vault.db', 'vault.key', 'lease.key', 'policies.yaml'].map((name) => join(setting.home, name)),
        join(setting.elsewhere, 'other'),
        '/etc/shadow',
        '/proc/1/root/etc/shadow',
        `/proc/${process.pid}/environ`,
      ],
      folders: [setting.home, setting.elsewhere, operator + '/.ssh', '/var/lib', '/var/run/docker.sock/..', '/sys/kernel'],
      sockets: [join(setting.home, 'daemon.sock'), abstract, '/var/run/docker.sock', '/run/docker.sock', '/run/dbus/system_bus_socket'],
      ports: [port],
      pid: process.pid,
      mounts: isConfined,
      writes: !isConfined
        ? []
        : [
            join(setting.home, 'policies.yaml'),
            join(setting.elsewhere, 'new'),
            '/usr/bin/new',
            join(setting.workspace, '.git/config'),
            join(setting.workspace, '.git/hooks/post-commit'),
          ],
    }),
  )
  await writeFile(join(setting.workspace, 'hostile.mjs'), HOSTILE)
  await writeFile(
    join(setting.workspace, 'package.json'),
    JSON.stringify({ name: 'x', version: '1.0.0', scripts: { test: 'node hostile.mjs' } }),
  )
  await writeFile(join(setting.workspace, 'Makefile'), 'all:\n\t@node hostile.mjs\n')
  await mkdir(join(setting.workspace, '.git/hooks'), { recursive: true })
  await writeFile(join(setting.workspace, '.git/config'), '[core]\n')
  const place = {
    ...setting.place,
    environment: { ...setting.place.environment, HOME: operator, PATH: `${join(operator, '.cargo/bin')}:${process.env['PATH']}` },
  }
  return { setting, place, reached, operator, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

for (const argv of [['npm', 'test'], ['make'], ['node', 'hostile.mjs'], ['sh', '-c', 'node hostile.mjs']])
  test(
    `I48 ${argv.join(' ')} in a hostile workspace reads no secret, reaches no socket and writes nowhere else`,
    { skip: sandboxOf() === 'none' },
    async () => {
      await using scene = await hostile()
      const { setting, place, reached } = scene
      process.env['SALLYPORT_TEST_CANARY'] = CANARY
      await using prepared = await setting.prepare({ argv, sandbox: true }, place)
      assert.equal(prepared.subject.sandbox, sandboxOf())
      const { stdout, stderr, exitCode } = await performed(prepared)
      assert.equal(exitCode, 0, stderr)
      assert.equal(await readFile(join(setting.workspace, 'done'), 'utf8'), 'done')
      assert.deepEqual(
        stdout.split('\n').filter((line) => line.startsWith('GOT')),
        [],
      )
      assert.match(stdout, /^no /m)
      assert.ok(!`${stdout}${stderr}`.includes(CANARY))
      assert.deepEqual(reached, [])
      assert.equal(await readFile(join(setting.home, 'policies.yaml'), 'utf8'), CANARY)
      assert.equal(await readFile(join(setting.workspace, '.git/config'), 'utf8'), '[core]\n')
      assert.deepEqual(
        [await readdir(setting.elsewhere), await readdir(join(setting.workspace, '.git/hooks')), existsSync('/usr/bin/new')],
        [['other'], [], false],
      )
    },
  )

test('the same without a sandbox does reach them: what the test above tries would be seen', async () => {
  await using scene = await hostile(false)
  await using prepared = await scene.setting.prepare({ argv: ['node', 'hostile.mjs'] }, scene.place)
  const { stdout } = await performed(prepared)
  assert.ok(stdout.includes(CANARY))
  assert.ok(scene.reached.length >= 3)
})

test('I48 a sandboxed command ends with all that it started, also what left its group', { skip: sandboxOf() === 'none' }, async () => {
  await using setting = await commandSetting()
  const mark = `executor-${process.pid}-sandboxed`
  const { exitCode } = await setting.run({
    argv: ['sh', '-c', `setsid sh -c 'exec -a x true; : ${mark}; while :; do sleep 1; done' & sleep 0.2; exit 3`],
    sandbox: true,
  })
  assert.equal(exitCode, 3)
  assert.deepEqual(running(mark), [])
})

test('the .git of the workspace is not to be moved or written in a sandbox', { skip: sandboxOf() === 'none' }, async () => {
  await using setting = await commandSetting()
  await mkdir(join(setting.workspace, '.git'))
  await writeFile(join(setting.workspace, '.git/config'), '[core]\n')
  const { stdout } = await setting.run({
    argv: ['sh', '-c', 'mv .git x || echo no; rm -rf .git; echo y > .git/config || echo no; cat .git/config; touch free'],
    sandbox: true,
  })
  assert.equal(stdout, 'no\nno\n[core]\n')
  assert.deepEqual((await readdir(setting.workspace)).toSorted(), ['.git', 'free'])
})

test('a home of ours that lies in the workspace is empty in a sandbox', { skip: sandboxOf() === 'none' }, async () => {
  await using setting = await commandSetting()
  const home = join(setting.workspace, '.state')
  await mkdir(home, { mode: 0o700 })
  await writeFile(join(home, 'vault.db'), CANARY)
  await using prepared = await setting.prepare(
    { argv: ['sh', '-c', 'ls -A .state; cat .state/vault.db'], sandbox: true },
    { ...setting.place, home },
  )
  assert.equal((await performed(prepared)).stdout, '')
})

test('tools are never a folder that has the home, or our state, in it', async () => {
  await using setting = await commandSetting()
  const operator = join(setting.root, 'operator')
  for (const name of [
    'operator/bin',
    'operator/.cargo/bin',
    'operator/.ssh',
    'operator/.nvm/versions/node/v24/bin',
    'opt/tool/bin',
    'opt/tool/lib',
    'other/.tool/bin',
    'other/.tool/lib',
  ])
    await mkdir(join(setting.root, name), { recursive: true })
  await mkdir(join(setting.home, 'bin'))
  const path = ['bin', '.cargo/bin', '.nvm/versions/node/v24/bin'].map((name) => join(operator, name))
  const tools = toolsOf(
    [
      ...path,
      join(setting.root, 'opt/tool/bin'),
      join(setting.root, 'other/.tool/bin'),
      join(setting.home, 'bin'),
      setting.root,
      '/usr/bin',
    ],
    operator,
    [setting.home],
  )
  assert.deepEqual(
    tools.toSorted(),
    ['operator/.cargo/bin', 'operator/.nvm/versions', 'operator/bin', 'opt/tool', 'opt/tool/bin', 'other/.tool/bin'].map((name) =>
      join(setting.root, name),
    ),
  )
})

const VIEW = {
  workspace: '/w "x"',
  hidden: ['/h/.sallyport'],
  homeFolder: '/h',
  temporary: '/t',
  tools: ['/opt/x'],
  fixed: ['/w "x"/.git'],
  pinned: [],
  cwd: '/w "x"',
}

test('bubblewrap is told to share no namespace, and to end with us', () => {
  const args = bubblewrapArguments(VIEW)
  for (const one of ['--unshare-all', '--die-with-parent']) assert.ok(args.includes(one))
  assert.ok(!args.some((one) => one.startsWith('--share')))
})

test('the profile for macOS denies what it does not list, ends with no network, and a path cannot end a string in it', () => {
  const profile = seatbeltProfile(VIEW)
  const lines = profile.trim().split('\n')
  assert.deepEqual([lines[1], lines.at(-1)], ['(deny default)', '(deny network*)'])
  assert.ok(profile.includes('(subpath "/w \\"x\\"")'))
  assert.ok(
    lines.indexOf('(deny file-read* file-write* process-exec (subpath "/h/.sallyport"))') >
      lines.findIndex((line) => line.includes('"/opt/x"')),
  )
  assert.equal(
    profile.replaceAll(/"(?:\\.|[^"\\])*"/g, '').split('(').length,
    profile.replaceAll(/"(?:\\.|[^"\\])*"/g, '').split(')').length,
  )
})
