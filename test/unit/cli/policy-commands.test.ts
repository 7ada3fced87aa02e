import assert from 'node:assert/strict'
import { test } from 'node:test'
import { policyCommand } from '../../../src/cli/policy.ts'
import { runCommand } from '../../support/command.ts'
import { writeFiles } from '../../support/policy.ts'

const TEXT = `version: 1
extends: [commands/git-read, commands/gh-read]
host_commands:
  mode: allowlist
  allow: [make all, "sort -o f a", {pattern: npm test, workspace_code: accept}]
  deny: ["rm -rf **"]
`

test('policy explain --command gives decision, rule and near miss, and policy check says what can never be allowed', async () => {
  using files = writeFiles({ 'p.yaml': TEXT })
  const explain = async (line: string): Promise<Record<string, unknown>> => {
    const { exit, out } = await runCommand(policyCommand, ['explain', '--command', line, '--policy', files.at('p.yaml'), '--json'])
    assert.equal(exit, 0)
    return JSON.parse(out) as Record<string, unknown>
  }
  assert.deepEqual((await explain('gh pr view 12'))['action'], 'allow')
  const missed = await explain('gh pr view main')
  assert.equal(missed['action'], 'ask')
  assert.match(String(missed['nearMiss']), /wants <int> where the command has "main"/)
  assert.match(String((await explain('rm -fr x'))['rule']), /p\.yaml:6 rm -rf \*\*$/)
  assert.equal((await explain('git log; id'))['isShell'], true)
  const { out } = await runCommand(policyCommand, ['check', files.at('p.yaml')])
  assert.match(out, /p\.yaml:5: pattern "make all": it is always asked about: it runs code of the workspace/)
  assert.match(out, /p\.yaml:5: pattern "sort -o f a": it is always asked about: sort: writes a file/)
  assert.doesNotMatch(out, /npm test|gh pr|git /)
})

test('what could not be seen in a command is written out for the terminal', async () => {
  using files = writeFiles({ 'p.yaml': TEXT })
  const { out } = await runCommand(policyCommand, ['explain', '--command', 'git log \u202ex\u001b[2K', '--policy', files.at('p.yaml')])
  assert.doesNotMatch(out, /[\u202e\u001b]/)
  assert.match(out, /\\u\{202E\}/)
})

test('policy explain is about a URL or a command, not both', async () => {
  for (const argv of [
    ['https://a.example.com/', '--command', 'x'],
    ['https://a.example.com/', '--cwd', 'x'],
    ['--command', 'x', '--method', 'GET'],
  ])
    await assert.rejects(runCommand(policyCommand, ['explain', ...argv]), { code: 'usage' })
})
