import assert from 'node:assert/strict'
import { test } from 'node:test'
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
    const { code, stdout: out } = await runCommand(['policy', 'explain', '--command', line, '--policy', files.at('p.yaml'), '--json'])
    assert.equal(code, 0)
    return JSON.parse(out) as Record<string, unknown>
  }
  assert.deepEqual((await explain('gh pr view 12'))['action'], 'allow')
  const missed = await explain('gh pr view main')
  assert.equal(missed['action'], 'ask')
  assert.match(String(missed['nearMiss']), /wants <int> where the command has "main"/)
  assert.match(String((await explain('rm -fr x'))['rule']), /p\.yaml:6 rm -rf \*\*$/)
  assert.equal((await explain('git log; id'))['isShell'], true)
  const { stdout: out } = await runCommand(['policy', 'check', files.at('p.yaml')])
  assert.match(out, /p\.yaml:5: pattern "make all": it is always asked about: it runs code of the workspace/)
  assert.match(out, /p\.yaml:5: pattern "sort -o f a": it is always asked about: sort: writes a file/)
  assert.doesNotMatch(out, /npm test|gh pr|git /)
})

test('what could not be seen in a command is written out for the terminal', async () => {
  using files = writeFiles({ 'p.yaml': TEXT })
  const { stdout: out } = await runCommand(['policy', 'explain', '--command', 'git log \u202ex\u001b[2K', '--policy', files.at('p.yaml')])
  for (const hidden of ['\u202e', '\u001b']) assert.equal(out.includes(hidden), false)
  assert.match(out, /\\u\{202E\}/)
})

test('policy explain is about a URL or a command, not both', async () => {
  for (const argv of [
    ['https://a.example.com/', '--command', 'x'],
    ['https://a.example.com/', '--cwd', 'x'],
    ['--command', 'x', '--method', 'GET'],
  ]) {
    const { code, stderr } = await runCommand(['policy', 'explain', ...argv])
    assert.equal(code, 2)
    assert.match(stderr, /^usage: a URL has/)
  }
})

test('policy show has the MCP servers of a policy, with their secrets by name and where they are from', async () => {
  const text = `version: 1
mcp_servers:
  - {name: tickets, url: "https://mcp.example.com/", headers: {X-Key: "\${secret:TICKETS_KEY}"}, tools: ["get_*", "list_*"]}
  - {name: files, command: [files, --read-only]}
`
  using files = writeFiles({ 'p.yaml': text, 'none.yaml': 'version: 1\n' })
  const { stdout } = await runCommand(['policy', 'show', '--policy', files.at('p.yaml')])
  const [, first = '', second = ''] = stdout.slice(stdout.indexOf('\nmcp_servers') + 1).split('\n')
  assert.match(first, /^ {2}tickets {2}https:\/\/mcp\.example\.com\/ {2}secrets TICKETS_KEY {2}tools get_\* list_\* {2}\(.*p\.yaml:3\)$/)
  assert.match(second, /^ {2}files {2}files --read-only {2}\(.*p\.yaml:4\)$/)
  assert.match((await runCommand(['policy', 'show', '--policy', files.at('none.yaml')])).stdout, /^mcp_servers none$/m)
})
