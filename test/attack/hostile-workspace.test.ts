import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { temporaryFolder } from '../support/audit.ts'
import { runCommand } from '../support/command.ts'

/** What `init` makes of a workspace that an agent has prepared. */
async function policyOf(
  prepare: (workspace: string) => void,
): Promise<{ policy: Record<string, unknown>; text: string; outside: string[] }> {
  await using folder = await temporaryFolder()
  const [workspace, home] = [join(folder.path, 'work'), join(folder.path, 'home')]
  mkdirSync(join(workspace, '.git'), { recursive: true })
  prepare(workspace)
  const { code, stderr, stdout } = await runCommand(['init', '--workspace', workspace], { SALLYPORT_HOME: home })
  assert.equal(code, 0, stderr)
  const folders = readdirSync(join(home, 'policies/workspaces'))
  const text = readFileSync(join(home, 'policies/workspaces', folders[0] ?? '', 'policy.yaml'), 'utf8')
  return { policy: parse(text) as Record<string, unknown>, text: text + stdout, outside: readdirSync(folder.path) }
}

const EMPTY = { version: 1, network: { mode: 'restricted', rules: [] } }

for (const { what, config } of [
  { what: 'a line break', config: '[remote "origin"]\n\turl = "https://x.example.com\\nextends: [service/docker]"\n' },
  { what: 'a carriage return', config: '[remote "origin"]\n\turl = https://x.example.com/\rnetwork:\r  mode: open\n' },
  { what: 'a line separator', config: '[remote "origin"]\n\turl = https://x.example.com\u2028network: {mode: open}\n' },
  { what: 'a comment sign and quotes', config: '[remote "origin"]\n\turl = https://"#{}[]:@\n' },
  { what: 'bidirectional text', config: '[remote "origin"]\n\turl = git@\u202egithub.com:x\n' },
]) {
  test(`I39 a remote whose URL has ${what} brings nothing into the policy`, async () => {
    const { policy, text } = await policyOf((workspace) => writeFileSync(join(workspace, '.git/config'), config))
    assert.deepEqual(policy, EMPTY)
    assert.doesNotMatch(text, /\u202e|\u2028|mode: open\s*$/m)
  })
}

test('a token in the URL of a remote is in no output', async () => {
  const { text, policy } = await policyOf((workspace) =>
    writeFileSync(join(workspace, '.git/config'), '[remote "origin"]\n\turl = https://user:canary-4711@github.com/acme/x.git\n'),
  )
  assert.deepEqual(policy['extends'], ['service/github'])
  assert.ok(!text.includes('canary-4711'))
})

test('a file name with line breaks stays in its comment', async () => {
  const { policy } = await policyOf((workspace) => writeFileSync(join(workspace, 'a\nnetwork: {mode: open}\n.csproj'), ''))
  assert.deepEqual(policy, { ...EMPTY, extends: ['service/nuget'] })
})

test('no program of the workspace runs: git is not asked', async () => {
  const { outside } = await policyOf((workspace) => {
    const command = `touch ${join(workspace, '../ran')}`
    writeFileSync(
      join(workspace, '.git/config'),
      `[core]\n\tfsmonitor = ${command}\n\tsshCommand = ${command}\n[alias]\n\tx = !${command}\n`,
    )
    writeFileSync(join(workspace, 'package.json'), JSON.stringify({ scripts: { prepare: command } }))
  })
  assert.deepEqual(outside.toSorted(), ['home', 'work'])
})

test('links, a FIFO and a huge file in the place of what is read are not followed, waited for or read whole', async () => {
  for (const prepare of [
    (workspace: string) => symlinkSync('/etc/passwd', join(workspace, '.git/config')),
    (workspace: string) => void execFileSync('mkfifo', [join(workspace, '.git/config')]),
    (workspace: string) => writeFileSync(join(workspace, '.git/config'), Buffer.alloc(8 * 1024 * 1024, '#')),
    (workspace: string) => symlinkSync('/', join(workspace, 'up')),
  ]) {
    assert.deepEqual((await policyOf(prepare)).policy, EMPTY)
  }
})

test('a folder with more names than are looked at ends the look, and says so', async () => {
  const { text } = await policyOf((workspace) => {
    for (let n = 0; n < 5_050; n += 1) writeFileSync(join(workspace, `f${n}`), '')
  })
  assert.match(text, /too large to see all of it/)
})
