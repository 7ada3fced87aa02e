import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildCommandOf, HARNESS_NAMES, harnessOf, type Harness, type HarnessSetting } from '../../../src/controller/sessions/harness.ts'
import { loadPolicy } from '../../../src/policy/policy.ts'
import { ROOT } from '../../../scripts/steps.ts'
import { projectFiles, readProject } from '../../support/tree.ts'

const SETTING: HarnessSetting = { workspace: '/workspace', secrets: [], placeholders: {}, mcpServers: [], now: Date.UTC(2026, 0, 2) }
const fileOf = (harness: Harness, path: string): string => harness.homeFiles.find((file) => file.path === path)?.content ?? ''

test('there is a harness for each preset, a target of the Dockerfile for each harness, and no other', () => {
  const presets = projectFiles().flatMap((file) => /^policies\/harness\/([a-z]+)\.yaml$/.exec(file)?.[1] ?? [])
  assert.deepEqual(HARNESS_NAMES.filter((name) => name !== 'plain').toSorted(), presets.filter((name) => name !== 'template').toSorted())
  const targets = new Set([...readProject('docker/agent.Dockerfile').matchAll(/^FROM .* AS ([a-z]+)$/gm)].map((match) => match[1]))
  for (const name of HARNESS_NAMES.filter((one) => harnessOf(one, SETTING).image !== undefined)) {
    assert.ok(targets.has(name), name)
    assert.match(buildCommandOf(name), new RegExp(`--target ${name} `))
  }
})

test('the policy that a harness names is one that can be loaded', () => {
  for (const name of HARNESS_NAMES) {
    const { policy } = harnessOf(name, SETTING)
    if (policy !== undefined) loadPolicy([`${ROOT}/policies/harness/${policy}.yaml`], { policyDirs: [`${ROOT}/policies`] })
  }
})

for (const { harness, secret, variable } of [
  { harness: 'claude', secret: 'ANTHROPIC_API_KEY', variable: 'ANTHROPIC_API_KEY' },
  { harness: 'claude', secret: 'CLAUDE_CODE_OAUTH_TOKEN', variable: 'CLAUDE_CODE_OAUTH_TOKEN' },
  { harness: 'gemini', secret: 'GEMINI_API_KEY', variable: 'GEMINI_API_KEY' },
  { harness: 'opencode', secret: 'OPENAI_API_KEY', variable: 'OPENAI_API_KEY' },
]) {
  test(`${harness} finds a worthless value in ${variable} when the policy has ${secret}, and none otherwise`, () => {
    assert.match(harnessOf(harness, { ...SETTING, secrets: [secret] }).environment[variable] ?? '', /SALLYPORT/)
    assert.equal(harnessOf(harness, SETTING).environment[variable], undefined)
  })
}

test('claude never gets two credentials: both headers in one request are an error', () => {
  const { environment } = harnessOf('claude', { ...SETTING, secrets: ['CLAUDE_CODE_OAUTH_TOKEN', 'ANTHROPIC_API_KEY'] })
  assert.equal(Object.keys(environment).filter((name) => /API_KEY|OAUTH/.test(name)).length, 1)
})

test('claude has approved the key that it will find, also when a placeholder of the policy stands there', () => {
  const approvedOf = (setting: HarnessSetting): unknown =>
    JSON.parse(fileOf(harnessOf('claude', setting), '.claude.json')).customApiKeyResponses?.approved
  const own = harnessOf('claude', { ...SETTING, secrets: ['ANTHROPIC_API_KEY'] }).environment['ANTHROPIC_API_KEY'] ?? ''
  assert.deepEqual(approvedOf({ ...SETTING, secrets: ['ANTHROPIC_API_KEY'] }), [own.slice(-20)])
  const placeholders = { ANTHROPIC_API_KEY: 'sk-ant-api03-0123456789abcdefghijklmnopqrstuv' }
  assert.deepEqual(approvedOf({ ...SETTING, placeholders }), ['cdefghijklmnopqrstuv'])
})

test('a Gemini key has the 39 characters that such keys have', () => {
  assert.equal(harnessOf('gemini', { ...SETTING, secrets: ['GEMINI_API_KEY'] }).environment['GEMINI_API_KEY']?.length, 39)
})

test('a workspace with quotes in its path stays one value in every file', () => {
  const workspace = '/w"]\ntrust = "x'
  for (const name of HARNESS_NAMES) {
    const { homeFiles } = harnessOf(name, { ...SETTING, workspace })
    for (const { path, content } of homeFiles) if (path.endsWith('.json')) JSON.parse(content)
    const config = homeFiles.find(({ path }) => path.endsWith('config.toml'))
    if (config !== undefined) assert.ok(config.content.includes(`[projects.${JSON.stringify(workspace)}]\n`))
  }
})

test('no file leaves HOME, and none is a credential store that could hold a real one', () => {
  for (const name of HARNESS_NAMES) {
    const { homeFiles } = harnessOf(name, { ...SETTING, secrets: ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY'] })
    for (const { path } of homeFiles) assert.match(path, /^\.[a-z]/i)
    for (const { path } of homeFiles) assert.ok(!path.includes('..'))
  }
})

test('a name that is no harness is refused, with the nearest', () => {
  assert.throws(() => harnessOf('cluade', SETTING), { code: 'usage', message: /did you mean "claude"/ })
  assert.throws(() => harnessOf('constructor', SETTING), { code: 'usage' })
})
