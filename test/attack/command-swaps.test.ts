import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { commandSetting, performed, type Wish } from '../support/executor.ts'

type Setting = Awaited<ReturnType<typeof commandSetting>>

const GOOD = '#!/bin/sh\necho good\n'
/** As long as the good one. */
const EVIL = '#!/bin/sh\n>HARM; :;\n'
const HARM = '#!/bin/sh\ntouch "$0.harm" /tmp/none/../HARM 2>/dev/null; touch HARM\n'

/** Puts another file in the place, with the times of the one before. */
async function exchange(path: string, content: string): Promise<void> {
  await writeFile(`${path}.new`, content, { mode: 0o755 })
  await rename(`${path}.new`, path)
}

const SWAPS: readonly {
  readonly what: string
  readonly wish: Wish
  readonly before: (setting: Setting) => Promise<unknown>
  readonly swap: (setting: Setting) => Promise<unknown>
}[] = [
  {
    what: 'a script that another file took the place of',
    wish: { argv: ['./tool'] },
    before: ({ write }) => write('workspace/tool', GOOD),
    swap: ({ workspace }) => exchange(join(workspace, 'tool'), HARM),
  },
  {
    what: 'a script that was written in place, with the same size and time of modification',
    wish: { argv: ['./tool'] },
    before: async ({ write }) => {
      const tool = await write('workspace/tool', GOOD)
      await utimes(tool, 1_000_000_000, 1_000_000_000)
    },
    swap: async ({ workspace }) => {
      assert.equal(EVIL.length, GOOD.length)
      await writeFile(join(workspace, 'tool'), EVIL)
      await utimes(join(workspace, 'tool'), 1_000_000_000, 1_000_000_000)
    },
  },
  {
    what: 'a program of the machine’s own format',
    wish: { argv: ['./tool', 'HARM'] },
    before: ({ workspace }) => copyFile('/bin/true', join(workspace, 'tool')),
    swap: async ({ workspace }) => {
      await copyFile('/bin/touch', join(workspace, 'new'))
      await rename(join(workspace, 'new'), join(workspace, 'tool'))
    },
  },
  {
    what: 'a program on the path',
    wish: { argv: ['tool', 'HARM'] },
    before: async ({ write, elsewhere }) => write(`elsewhere/tool`, GOOD).then(() => elsewhere),
    swap: ({ elsewhere }) => exchange(join(elsewhere, 'tool'), HARM),
  },
  {
    what: 'a program of another name that comes first on the path',
    wish: { argv: ['tool'] },
    before: ({ write, elsewhere }) => write('elsewhere/real', GOOD).then(() => symlink(join(elsewhere, 'real'), join(elsewhere, 'tool'))),
    swap: async ({ elsewhere, write }) => {
      await write('elsewhere/evil', HARM)
      await rm(join(elsewhere, 'tool'))
      await symlink(join(elsewhere, 'evil'), join(elsewhere, 'tool'))
    },
  },
  {
    what: 'the script of an interpreter',
    wish: { argv: ['sh', 'script.sh'] },
    before: ({ write }) => write('workspace/script.sh', GOOD, 0o644),
    swap: ({ workspace }) => writeFile(join(workspace, 'script.sh'), HARM),
  },
  {
    what: 'the script of an interpreter behind options',
    wish: { argv: ['bash', '-e', '-o', 'pipefail', './script'] },
    before: ({ write }) => write('workspace/script', GOOD, 0o644),
    swap: ({ workspace }) => writeFile(join(workspace, 'script'), HARM),
  },
  {
    what: 'a script that an option names',
    wish: { argv: ['awk', '--file=prog', 'data'] },
    before: async ({ write }) => {
      await write('workspace/prog', '{ print }', 0o644)
      await write('workspace/data', 'x', 0o644)
    },
    swap: ({ workspace }) => writeFile(join(workspace, 'prog'), 'BEGIN { system("touch HARM") }'),
  },
  {
    what: 'a script within a script’s command',
    wish: { argv: ['env', 'A=1', 'timeout', '-k', '1', '5', 'sh', 'inner/script.sh'] },
    before: ({ write }) => write('workspace/inner/script.sh', GOOD, 0o644),
    swap: ({ workspace }) => writeFile(join(workspace, 'inner/script.sh'), HARM),
  },
  {
    what: 'a program that is an operand of another',
    wish: { argv: ['find', '.', '-name', 'script', '-exec', './tool', ';'] },
    before: async ({ write }) => {
      await write('workspace/tool', GOOD)
      await write('workspace/script', '')
    },
    swap: ({ workspace }) => writeFile(join(workspace, 'tool'), HARM),
  },
  {
    what: 'a program that is the value of an option',
    wish: { argv: ['sort', '--compress-program=./tool', 'data'] },
    before: async ({ write }) => {
      await write('workspace/tool', GOOD)
      await write('workspace/data', 'x')
    },
    swap: ({ workspace }) => writeFile(join(workspace, 'tool'), HARM),
  },
  {
    what: 'the interpreter of a script',
    wish: { argv: ['./tool'] },
    before: async ({ write, elsewhere }) => {
      await copyFile('/bin/sh', join(elsewhere, 'shell'))
      await write('workspace/tool', `#!${join(elsewhere, 'shell')}\necho good\n`)
    },
    swap: ({ elsewhere }) => exchange(join(elsewhere, 'shell'), HARM),
  },
  {
    what: 'the interpreter that env would find for a script',
    wish: { argv: ['./tool'] },
    before: async ({ write, elsewhere }) => {
      await copyFile('/bin/sh', join(elsewhere, 'shell'))
      await write('workspace/tool', '#!/usr/bin/env shell\necho good\n')
    },
    swap: ({ elsewhere }) => exchange(join(elsewhere, 'shell'), HARM),
  },
  {
    what: 'the target of a link',
    wish: { argv: ['./tool'] },
    before: async ({ write, workspace }) => {
      await write('workspace/good', GOOD)
      await write('workspace/evil', HARM)
      await symlink('good', join(workspace, 'tool'))
    },
    swap: async ({ workspace }) => {
      await rm(join(workspace, 'tool'))
      await symlink('evil', join(workspace, 'tool'))
    },
  },
  {
    what: 'a link that leads to the same bytes in another file',
    wish: { argv: ['./tool'] },
    before: async ({ write, workspace }) => {
      await write('workspace/good', GOOD)
      await write('workspace/same', GOOD)
      await symlink('good', join(workspace, 'tool'))
    },
    swap: async ({ workspace }) => {
      await rm(join(workspace, 'tool'))
      await symlink('same', join(workspace, 'tool'))
    },
  },
  {
    what: 'a folder above the program',
    wish: { argv: ['a/b/tool'] },
    before: async ({ write }) => {
      await write('workspace/a/b/tool', GOOD)
      await write('workspace/x/b/tool', HARM)
    },
    swap: async ({ workspace }) => {
      await rename(join(workspace, 'a'), join(workspace, 'old'))
      await rename(join(workspace, 'x'), join(workspace, 'a'))
    },
  },
  {
    what: 'the folder that it runs in',
    wish: { argv: ['touch', 'HARM'], cwd: '/workspace/a' },
    before: ({ workspace }) => mkdir(join(workspace, 'a')),
    swap: async ({ workspace }) => {
      await rename(join(workspace, 'a'), join(workspace, 'old'))
      await mkdir(join(workspace, 'a'))
    },
  },
  {
    what: 'the folder that it runs in, by a link out of the workspace',
    wish: { argv: ['touch', 'HARM'], cwd: '/workspace/a' },
    before: ({ workspace }) => mkdir(join(workspace, 'a')),
    swap: async ({ workspace, elsewhere }) => {
      await rename(join(workspace, 'a'), join(workspace, 'old'))
      await symlink(elsewhere, join(workspace, 'a'))
    },
  },
  {
    what: 'a folder above the one that it runs in',
    wish: { argv: ['touch', 'HARM'], cwd: '/workspace/a/b' },
    before: ({ workspace }) => mkdir(join(workspace, 'a/b'), { recursive: true }),
    swap: async ({ workspace, elsewhere }) => {
      await rename(join(workspace, 'a'), join(workspace, 'old'))
      await mkdir(join(elsewhere, 'b'))
      await symlink(elsewhere, join(workspace, 'a'))
    },
  },
  {
    what: 'a script that is gone',
    wish: { argv: ['sh', 'script.sh'] },
    before: ({ write }) => write('workspace/script.sh', GOOD, 0o644),
    swap: ({ workspace }) => rm(join(workspace, 'script.sh')),
  },
]

for (const { what, wish, before, swap } of SWAPS)
  for (const sandbox of [false, true])
    test(`I44 ${what}, exchanged after it was looked at, does not run${sandbox ? ' in a sandbox' : ''}`, async () => {
      await using setting = await commandSetting()
      const place = { ...setting.place, environment: { ...setting.place.environment, PATH: `${setting.elsewhere}:/usr/bin:/bin` } }
      await before(setting)
      await using prepared = await setting.prepare({ ...wish, sandbox }, place)
      await swap(setting)
      const { code, stdout, stderr } = await performed(prepared)
      assert.deepEqual({ code, stdout, stderr }, { code: 'executable_changed', stdout: '', stderr: '' })
      assert.deepEqual(
        (await readdir(setting.root, { recursive: true })).filter((name) => /harm/i.test(name)),
        [],
      )
    })

for (const sandbox of [false, true])
  test(`I44 a script that is written while it runs goes on as it was${sandbox ? ' in a sandbox' : ''}`, async () => {
    await using setting = await commandSetting()
    // It waits for the one who writes: shells read a script as they go.
    const script = await setting.write('workspace/slow.sh', '#!/bin/sh\necho begun\nuntil [ -e go ]; do sleep 0.02; done\n')
    const { stdout, exitCode } = await setting.run(
      { argv: ['./slow.sh'], sandbox },
      {
        async onOutput() {
          await writeFile(script, `${await readFile(script, 'utf8')}touch HARM\n`)
          await writeFile(join(setting.workspace, 'go'), '')
        },
      },
    )
    assert.deepEqual({ stdout, exitCode }, { stdout: 'begun\n', exitCode: 0 })
    assert.deepEqual((await readdir(setting.workspace)).toSorted(), ['go', 'slow.sh'])
  })

test('I44 a program of the same name elsewhere is not taken for that on the path', async () => {
  await using setting = await commandSetting()
  const fake = await setting.write('elsewhere/git', HARM)
  await using real = await setting.prepare({ argv: ['git', '--version'] })
  await using other = await setting.prepare({ argv: [fake, '--version'] })
  assert.equal(real.subject.executable.path, realpathSync('/usr/bin/git'))
  assert.equal(other.subject.executable.path, fake)
  assert.notEqual(other.subject.executable.sha256, real.subject.executable.sha256)
})

for (const part of ['', '.', './bin', 'bin', 'WORKSPACE', 'WORKSPACE/bin', 'LINK', 'OPEN', 'OTHER/bin'])
  test(`I44 nothing is found by the part ${JSON.stringify(part)} of PATH`, async () => {
    await using setting = await commandSetting()
    for (const folder of ['workspace', 'workspace/bin', 'open', 'other/bin', 'bin']) await setting.write(`${folder}/tool`, HARM)
    await symlink(join(setting.workspace, 'bin'), join(setting.root, 'link'))
    spawnSync('chmod', ['777', join(setting.root, 'open')])
    const spelled = part
      .replace('WORKSPACE', setting.workspace)
      .replace('LINK', join(setting.root, 'link'))
      .replace('OPEN', join(setting.root, 'open'))
      .replace('OTHER', join(setting.root, 'other'))
    for (const value of [`${spelled}:/usr/bin:/bin`, `/usr/bin:/bin:${spelled}`, `/usr/bin:${spelled}:/bin`]) {
      const place = { ...setting.place, others: [join(setting.root, 'other')], environment: { ...setting.place.environment, PATH: value } }
      await assert.rejects(setting.prepare({ argv: ['tool'] }, place), { code: 'command_invalid' })
      await using prepared = await setting.prepare({ argv: ['env'], cwd: '/workspace' }, place)
      const path = prepared.subject.environment['PATH']
      assert.equal(path, '/usr/bin:/bin')
      assert.match((await performed(prepared)).stdout, new RegExp(`^PATH=${path}$`, 'm'))
    }
    assert.equal(dirname(setting.workspace), setting.root)
  })

test('I44 what only the operator can write runs in place, and is looked at anew when the kernel says that it was written', async (t) => {
  const folder = await mkdtemp(join(homedir(), '.sallyport-test-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  await using setting = await commandSetting()
  const tool = join(folder, 'tool')
  await writeFile(tool, '#!/bin/sh\necho "$0"\n', { mode: 0o755 })
  assert.equal((await setting.run({ argv: [tool] })).stdout, `${tool}\n`)
  for (const sandbox of [false, true]) {
    await writeFile(tool, GOOD)
    await utimes(tool, 1_000_000_000, 1_000_000_000)
    await using prepared = await setting.prepare({ argv: [tool], sandbox })
    await writeFile(tool, EVIL)
    await utimes(tool, 1_000_000_000, 1_000_000_000)
    assert.equal((await performed(prepared)).code, 'executable_changed')
  }
  assert.deepEqual(await readdir(setting.workspace), [])
})
