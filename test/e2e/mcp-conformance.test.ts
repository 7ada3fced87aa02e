/** Programs that others wrote to try servers of MCP: the official conformance suite, and the command line of the inspector. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { AGENT_METHOD_NAMES, AGENT_METHODS } from '../../src/wire/agent-requests.ts'
import { temporaryFolder } from '../support/audit.ts'
import { GATEWAY_LEASE } from '../support/gateway.ts'
import { openLeaseForwarder } from '../support/lease-forwarder.ts'
import { openMcp } from '../support/mcp.ts'

const PACKAGES = join(import.meta.dirname, '../../node_modules/@modelcontextprotocol')
const CONFORMANCE = join(PACKAGES, 'conformance/dist/index.js')
const INSPECTOR = join(PACKAGES, 'inspector/clients/launcher/build/index.js')

const A_TOOL = 'it calls a tool of the suite’s own, by a name that is fixed'
const NO_RESOURCES = 'the gate has no resources'
const NO_PROMPTS = 'the gate has no prompts'

/** Scenarios of the suite for servers, and why one does not apply. docs/GATEWAY.md has the same. */
const SCENARIOS: Readonly<Record<string, string | true>> = {
  'server-initialize': true,
  ping: true,
  'tools-list': true,
  'server-sse-multiple-streams': true,
  'dns-rebinding-protection': true,
  'server-sse-polling': A_TOOL,
  'logging-set-level': 'the gate sends no log messages: what goes on is told as progress',
  'completion-complete': 'it completes arguments of a prompt, and the gate has none',
  'tools-call-simple-text': A_TOOL,
  'tools-call-image': A_TOOL,
  'tools-call-audio': A_TOOL,
  'tools-call-embedded-resource': A_TOOL,
  'tools-call-mixed-content': A_TOOL,
  'tools-call-with-logging': A_TOOL,
  'tools-call-error': A_TOOL,
  'tools-call-with-progress': A_TOOL,
  'tools-call-sampling': A_TOOL,
  'tools-call-elicitation': A_TOOL,
  'json-schema-2020-12': A_TOOL,
  'elicitation-sep1034-defaults': A_TOOL,
  'elicitation-sep1330-enums': A_TOOL,
  'resources-list': NO_RESOURCES,
  'resources-read-text': NO_RESOURCES,
  'resources-read-binary': NO_RESOURCES,
  'resources-templates-read': NO_RESOURCES,
  'resources-subscribe': NO_RESOURCES,
  'resources-unsubscribe': NO_RESOURCES,
  'prompts-list': NO_PROMPTS,
  'prompts-get-simple': NO_PROMPTS,
  'prompts-get-with-args': NO_PROMPTS,
  'prompts-get-embedded-resource': NO_PROMPTS,
  'prompts-get-with-image': NO_PROMPTS,
}

/** What a program printed, and its exit code. */
async function run(program: string, args: readonly string[], cwd: string): Promise<{ output: string; code: number }> {
  const env = { PATH: process.env['PATH'], HOME: cwd }
  const { stdout, stderr, code } = await promisify(execFile)(process.execPath, [program, ...args], { cwd, env }).then(
    (ended) => ({ ...ended, code: 0 }),
    (error: { stdout: string; stderr: string; code: number }) => error,
  )
  return { output: `${stdout}${stderr}`, code }
}

test('every scenario of the official suite that applies passes, and no other is left out', async () => {
  await using folder = await temporaryFolder()
  await using mcp = await openMcp()
  await using door = await openLeaseForwarder(mcp.url, GATEWAY_LEASE)
  const listed = await run(CONFORMANCE, ['list', '--server'], folder.path)
  const names = [...listed.output.matchAll(/^ {2}- ([a-z0-9-]+)/gm)].map(([, name]) => name)
  assert.deepEqual(new Set(names), new Set(Object.keys(SCENARIOS)))
  const failing = Object.keys(SCENARIOS).filter((name) => SCENARIOS[name] !== true)
  const baseline = join(folder.path, 'baseline.yml')
  await writeFile(baseline, `server:\n${failing.map((name) => `  - ${name}\n`).join('')}`)
  const { output, code } = await run(
    CONFORMANCE,
    ['server', '--url', door.url, '--suite', 'all', '--expected-failures', baseline],
    folder.path,
  )
  // One that is expected to fail and passes is a failure of the run too.
  assert.equal(code, 0, output)
  const passed = [...output.matchAll(/^✓ ([a-z0-9-]+): [1-9]\d* passed, 0 failed$/gm)].map(([, name]) => name)
  assert.deepEqual(new Set(passed), new Set(Object.keys(SCENARIOS).filter((name) => SCENARIOS[name] === true)))
})

test('the inspector lists the tools and calls one, with the lease that it is given', async () => {
  await using folder = await temporaryFolder()
  const answer = { action: 'ask', why: 'no rule allows it' }
  await using mcp = await openMcp({
    callController: ({ method, params }) => {
      assert.deepEqual([method, params], ['host.run_capability', { command: 'git log' }])
      return Promise.resolve(answer)
    },
  })
  const inspect = (lease: string, ...args: readonly string[]) =>
    run(INSPECTOR, ['--cli', mcp.url.href, '--transport', 'http', '--header', `Authorization: Bearer ${lease}`, ...args], folder.path)
  const [listed, called, refused] = await Promise.all([
    inspect(GATEWAY_LEASE, '--method', 'tools/list'),
    inspect(GATEWAY_LEASE, '--method', 'tools/call', '--tool-name', 'host_run_capability', '--tool-arg', 'command=git log'),
    inspect('another', '--method', 'tools/list'),
  ])
  const { tools } = JSON.parse(listed.output) as { tools: { name: string }[] }
  assert.deepEqual(
    tools.map(({ name }) => name),
    AGENT_METHOD_NAMES.map((method) => AGENT_METHODS[method].tool),
  )
  const { structuredContent } = JSON.parse(called.output) as { structuredContent: unknown }
  assert.deepEqual([called.code, structuredContent], [0, answer])
  assert.notEqual(refused.code, 0)
  assert.doesNotMatch(refused.output, /host_run/)
})
