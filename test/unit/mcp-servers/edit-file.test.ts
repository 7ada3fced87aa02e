/** One server of mcp.json is changed, and nothing else of it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { editServers } from '../../../src/controller/mcp-servers/edit-file.ts'
import { HIDDEN, withoutValues } from '../../../src/controller/mcp-servers/hidden-values.ts'
import { parseHomeServers } from '../../../src/controller/mcp-servers/home-file.ts'
import type { ServerEdit } from '../../../src/wire/servers.ts'

const CLEAR = 'ghp_clearcanary0123456789abcdefghij'
const TEXT = `// head
{
    "mcpServers": {
        /* first */
        "a": {"type": "stdio", "command": "node", "args": ["x"], "env": {"B": "1", "A": "2"}}, // behind
        "b": {"url": "https://b.example.com/mcp"},
    },
}
`

test('a field is changed where it stands: comments, order, the type and the other server stay', () => {
  const server = { command: ['node', 'x'], env: { B: '1', A: '3' } }
  assert.equal(editServers(TEXT, { kind: 'put', name: 'a', was: 'a', server }), TEXT.replace('"A": "2"', '"A": "3"'))
})

test('a name is changed where it stands', () => {
  const server = { command: ['node', 'x'], env: { B: '1', A: '2' } }
  assert.equal(editServers(TEXT, { kind: 'put', name: 'c', was: 'a', server }), TEXT.replace('"a":', '"c":'))
})

test('a server is added, taken out and given tools beside comments that stay', () => {
  const added = editServers(TEXT, { kind: 'put', name: 'c', server: { url: 'https://c.example.com', headers: { 'X-A': '1' } } })
  const { entries, problems } = parseHomeServers('mcp.json', added)
  assert.deepEqual([entries.map(({ name }) => name), problems], [['a', 'b', 'c'], []])
  const removed = editServers(added, { kind: 'remove', name: 'b' })
  assert.deepEqual(
    parseHomeServers('mcp.json', removed).entries.map(({ name }) => name),
    ['a', 'c'],
  )
  const narrowed = editServers(removed, { kind: 'tools', name: 'a', tools: ['get_*'] })
  assert.deepEqual(parseHomeServers('mcp.json', narrowed).entries[0]?.tools, ['get_*'])
  const widened = editServers(narrowed, { kind: 'tools', name: 'a', tools: null })
  assert.deepEqual(parseHomeServers('mcp.json', widened).entries, parseHomeServers('mcp.json', removed).entries)
  for (const text of [added, removed, narrowed]) assert.match(text, /\/\/ head[^]*\/\* first \*\/[^]*\/\/ behind/)
})

for (const { what, text, edit } of [
  { what: 'that there is not', text: TEXT, edit: { kind: 'remove', name: 'z' } },
  { what: 'of a name that is taken', text: TEXT, edit: { kind: 'put', name: 'b', was: 'a', server: { command: ['x'], env: {} } } },
  {
    what: 'that is new and has the name of another',
    text: TEXT,
    edit: { kind: 'put', name: 'b', server: { command: ['x'], env: {} } } as const,
  },
  { what: 'of a file that is no JSON', text: '{"mcpServers": {"a": ', edit: { kind: 'remove', name: 'a' } },
] satisfies { what: string; text: string; edit: ServerEdit }[])
  test(`a server ${what} is not changed`, () => {
    assert.throws(() => editServers(text, edit), { code: 'mcp_config_invalid' })
  })

test('a value that comes back hidden stays what it is', () => {
  const text = `{"mcpServers": {"a": {"command": "node", "args": ["--x", "${CLEAR}"], "env": {"K": "${CLEAR}", "J": "1"}}}}`
  const edited = editServers(text, {
    kind: 'put',
    name: 'a',
    was: 'a',
    server: { command: ['node', '--x', HIDDEN], env: { K: HIDDEN, J: '2' } },
  })
  assert.equal(edited, text.replace('"J": "1"', '"J": "2"'))
})

for (const { where, text } of [
  { where: 'a value', text: `{"mcpServers": {"a": {"command": "x", "env": {"K": "${CLEAR}"}}}}` },
  { where: 'a value with a telling name', text: '{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "clearcanary"}}}}' },
  { where: 'an argument', text: '{"mcpServers": {"a": {"command": "x", "args": ["--api-key", "clearcanary-1"]}}}' },
  { where: 'the password of a URL', text: '{"mcpServers": {"a": {"url": "https://me:clearcanary@a.example.com"}}}' },
  { where: 'the path of a URL', text: '{"mcpServers": {"a": {"url": "https://a.example.com/clearcanary0123456789ABCDEF"}}}' },
  { where: 'a comment', text: `{"mcpServers": {}} // was ${CLEAR}` },
  { where: 'a name', text: `{"mcpServers": {"${CLEAR}": {"command": "x"}}}` },
  { where: 'what is no JSON', text: `{"mcpServers": {"a": ${CLEAR}\n}` },
  { where: 'a value with a name without quotes', text: '{"mcpServers": {"a": {"env": {API_TOKEN: "clearcanary-1"}}}}' },
  { where: 'other quotes', text: "{'mcpServers': {'a': {'env': {'API_TOKEN': 'clearcanary-1'}}}}" },
  { where: 'a value without quotes', text: '{"mcpServers": {"a": {"env": {"API_TOKEN": clearcanary-1}}}}' },
  { where: 'a map in the place of a value', text: '{"mcpServers": {"a": {"env": {"API_TOKEN": {"is": "clearcanary-1"}}}}}' },
  { where: 'another format', text: 'mcpServers:\n  a:\n    env:\n      API_TOKEN: clearcanary-1\n' },
  { where: 'the fragment of an address', text: '{"mcpServers": {"a": {"url": "https://a.example.com/#token=clearcanary-1"}}}' },
])
  test(`a secret in ${where} is hidden, and what is written of it is no longer one`, () => {
    const { text: shown, hidden } = withoutValues(text)
    assert.doesNotMatch(shown, /clearcanary/)
    assert.ok(hidden > 0)
  })

test('a number that is named as a secret is hidden, and of a long line that is none the end is found at once', () => {
  assert.doesNotMatch(withoutValues('{"mcpServers": {"a": {"env": {"API_TOKEN": 123456789012}}}}').text, /1234/)
  const long = 'a'.repeat(200_000)
  assert.equal(withoutValues(long).text, long)
})

test('what is wrong is told with its place, and a key that stands there twice is', () => {
  const text = '{"mcpServers": {\n  "a": {"command": "x",\n    "env": {"LD_PRELOAD": "y"}},\n  "a": {"command": "z"}\n}}'
  const places = parseHomeServers('mcp.json', text).problems.map(({ message, offset }) => [
    message,
    text.slice(0, offset).split('\n').length,
  ])
  assert.deepEqual(places, [['"a" stands there twice', 4]])
  const [problem] = parseHomeServers('mcp.json', text.replace('"a": {"command": "z"}', '"b": {"command": "z"}')).problems
  assert.match(problem?.message ?? '', /LD_PRELOAD is the gate's to set/)
  assert.ok(text.slice(problem?.offset).startsWith('"LD_PRELOAD"'))
  assert.equal(problem?.server, 'a')
})
