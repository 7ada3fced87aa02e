import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/audit.ts'
import { cleanEnvironment, runProgram } from '../support/command.ts'
import { SOURCES } from '../support/main-file.ts'

for (const { name, says, hint } of [
  { name: 'tracker', says: 'a session has no MCP server "tracker"', hint: 'there are: tickets' },
  { name: 'files', says: 'the MCP server "files" runs in the agent', hint: 'there are: tickets' },
])
  test(`mcp test ${name}, which no gate stands before, is refused before a daemon is asked for a session`, async () => {
    await using home = await temporaryFolder()
    await using workspace = await temporaryFolder()
    const mcpServers = { tickets: { url: 'https://mcp.example.com/', headers: { 'X-Key': '${secret:KEY}' } }, files: { command: 'files' } }
    await writeFile(join(home.path, 'mcp.json'), JSON.stringify({ mcpServers }))
    const environment = { ...cleanEnvironment(home.path), SALLYPORT_HOME: home.path }
    const argv = [process.execPath, SOURCES, 'mcp', 'test', name, '--workspace', workspace.path]
    const { code, stderr } = await runProgram(argv, environment)
    assert.equal(code, 1)
    assert.ok(stderr.startsWith(`mcp_server_unknown: ${says}`), stderr)
    assert.ok(stderr.includes(`hint: ${hint}\n`), stderr)
  })
