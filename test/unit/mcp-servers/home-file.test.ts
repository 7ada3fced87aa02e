/** mcp.json of the home: what it may say, and that what it should not is never shown. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { readHomeServers } from '../../../src/controller/mcp-servers/home-file.ts'

function read(text: string | undefined): unknown {
  const home = mkdtempSync(join(tmpdir(), 'sallyport-home-'))
  try {
    if (text !== undefined) writeFileSync(join(home, 'mcp.json'), text)
    return readHomeServers(home).entries
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}

test('servers are read as clients of MCP write them, and without a file there are none', () => {
  assert.deepEqual(read(undefined), [])
  assert.deepEqual(
    read(
      '{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"], "env": {"K": "${secret:KEY}"}, "tools": ["get_*"]}, "b": {"type": "http", "url": "https://b.example.com/mcp"},}}',
    ),
    [
      { name: 'a', command: ['npx', '-y', 'x'], env: { K: '${secret:KEY}' }, tools: ['get_*'] },
      { name: 'b', url: 'https://b.example.com/mcp', headers: {} },
    ],
  )
})

for (const { what, text, message } of [
  { what: 'no JSON', text: '{"mcpServers": ', message: /not JSON, at line 1/ },
  { what: 'something beside its servers', text: '{"mcpServers": {}, "x": 1}', message: /and nothing else/ },
  {
    what: 'a secret in clear text',
    text: '{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "clear-canary"}}}}',
    message: /API_KEY looks like a secret/,
  },
  {
    what: 'a header with one',
    text: '{"mcpServers": {"a": {"url": "https://a.example.com", "headers": {"Authorization": "Bearer clear-canary"}}}}',
    message: /Authorization looks like a secret/,
  },
  {
    what: 'a field that nothing reads',
    text: '{"mcpServers": {"a": {"command": "x", "cwd": "/"}}}',
    message: /"cwd", which nothing here reads/,
  },
  {
    what: 'a reference without a key',
    text: '{"mcpServers": {"a": {"command": "x", "env": {"K": "${secret:}"}}}}',
    message: /no key in it/,
  },
  { what: 'a name in capitals', text: '{"mcpServers": {"GitHub": {"command": "x"}}}', message: /lower-case/ },
])
  test(`with ${what} it is refused, with the hint where secrets go, and without the value`, () => {
    assert.throws(
      () => read(text),
      (error: Error & { code?: string; hint?: string }) => {
        assert.equal(error.code, 'mcp_config_invalid')
        assert.match(error.message, message)
        assert.match(error.hint ?? '', /sallyport secret set/)
        assert.doesNotMatch(error.message, /clear-canary/)
        return true
      },
    )
  })
