/** How `sallyport compose` gives placeholders to an agent: what compose makes of what it writes. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { composePlace, POLICY, type ComposePlace } from '../support/compose.ts'

function policyWith(...injects: readonly string[]): string {
  const credentials = injects.map(
    (inject, index) => `  - {id: c${index}, secret: TOKEN, inject: {domains: [api.example.com], ${inject}}}\n`,
  )
  return `version: 1
network:
  rules:
    - {id: api, host: api.example.com, action: allow}
credentials:
${credentials.join('')}secrets:
  - {name: TOKEN, source: "file:/run/secrets/TOKEN", resources: [inject]}
`
}

const NPM = 'placeholder: NPM_TOKEN, shape: "npm_<alnum:36>", file: {npmrc: {server: registry.example.com}}'

type Agent = {
  readonly environment: Readonly<Record<string, string>>
  readonly tmpfs: readonly string[]
  readonly volumes: readonly { readonly source: string; readonly target: string; readonly read_only?: boolean }[]
}

/** The agent and the sidecar's seed as compose understands what was written. */
async function resolved(here: ComposePlace): Promise<{ agent: Agent; seed: string | undefined }> {
  const { stdout, stderr } = await here.config()
  assert.notEqual(stdout, '', stderr)
  const { services } = JSON.parse(stdout) as { services: { agent: Agent; sidecar: { environment: Record<string, string> } } }
  return { agent: services.agent, seed: services.sidecar.environment['SALLYPORT_PLACEHOLDER_SEED'] }
}

function homeMounts({ volumes }: Agent): string[] {
  return volumes.filter(({ target }) => target.startsWith('/home/')).map(({ target, read_only }) => `${target} ${read_only ? 'ro' : 'rw'}`)
}

test('without placeholders nothing is added for the agent', async () => {
  await using here = await composePlace()
  const out = await here.run('--workspace', here.workspace, '--policy', here.policy)
  const { agent } = await resolved(here)
  assert.deepEqual(homeMounts(agent), [])
  assert.doesNotMatch(JSON.stringify(agent.environment), /SALLYPORT[A-Za-z0-9]{8}/)
  assert.doesNotMatch(out, /placeholders/)
  assert.equal(here.env().get('COMPOSE_FILE')?.split(':').length, 2)
})

test('a placeholder is in the agent’s environment and its file, made from the seed that the sidecar gets, which the .env keeps', async () => {
  await using here = await composePlace('work', policyWith(NPM))
  const out = await here.run('--workspace', here.workspace, '--policy', here.policy)
  const { agent, seed } = await resolved(here)
  const value = agent.environment['NPM_TOKEN'] ?? ''
  assert.match(value, /^npm_[A-Za-z0-9]{36}$/)
  assert.deepEqual(homeMounts(agent), ['/home/agent/.npmrc ro'])
  const source = agent.volumes.find(({ target }) => target === '/home/agent/.npmrc')?.source ?? ''
  assert.equal(readFileSync(source, 'utf8'), `//registry.example.com/:_authToken=${value}\n`)
  assert.equal(`${statSync(source).uid}`, here.env().get('SALLYPORT_UID'))
  assert.match(seed ?? '', /^[\w-]{32}$/)
  assert.equal(here.env().get('SALLYPORT_PLACEHOLDER_SEED'), seed)
  assert.equal(statSync(here.envFile).mode & 0o777, 0o600)
  assert.match(out, /^agent has {2}NPM_TOKEN, ~\/\.npmrc /m)
  assert.ok(!out.includes(value))
})

test('run again the placeholders stay what they are; what the policy says by then is what the agent gets', async () => {
  await using here = await composePlace('work', policyWith(NPM))
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const before = await resolved(here)
  writeFileSync(
    here.policy,
    policyWith(NPM, 'placeholder: OTHER_TOKEN, paths: ["/a"], file: {docker: {server: registry.example.com, login: me}}'),
  )
  await here.run()
  const { agent, seed } = await resolved(here)
  assert.equal(seed, before.seed)
  assert.equal(agent.environment['NPM_TOKEN'], before.agent.environment['NPM_TOKEN'])
  assert.ok(agent.environment['OTHER_TOKEN'])
  assert.deepEqual(homeMounts(agent), ['/home/agent/.npmrc ro', '/home/agent/.docker/config.json ro'])
  assert.equal(agent.tmpfs.filter((entry) => entry.startsWith('/home/agent/.docker:')).length, 1)
  assert.equal(agent.tmpfs.length, before.agent.tmpfs.length + 1)
  writeFileSync(here.policy, POLICY)
  await here.run()
  const last = await resolved(here)
  assert.deepEqual(homeMounts(last.agent), [])
  assert.equal(last.agent.environment['NPM_TOKEN'], undefined)
  assert.equal(here.env().get('COMPOSE_FILE')?.includes('compose.agent.yaml'), false)
})

test('two workspaces have placeholders of their own', async () => {
  await using one = await composePlace('work', policyWith(NPM))
  await using two = await composePlace('work', policyWith(NPM))
  const values = []
  for (const here of [one, two]) {
    await here.run('--workspace', here.workspace, '--policy', here.policy)
    values.push((await resolved(here)).agent.environment['NPM_TOKEN'])
  }
  assert.notEqual(values[0], values[1])
})

test('a seed of the environment is the one that is used and kept: compose gives the sidecar that one', async () => {
  await using here = await composePlace('work', policyWith(NPM))
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  here.environment['SALLYPORT_PLACEHOLDER_SEED'] = 'mine and only mine'
  await here.run()
  assert.equal((await resolved(here)).seed, 'mine and only mine')
})

for (const { what, inject } of [
  { what: 'a placeholder in a variable that compose.yaml sets', inject: 'placeholder: JAVA_TOOL_OPTIONS' },
  {
    what: 'a file with a login that would be more than one',
    inject: 'placeholder: T, file: {netrc: {server: api.example.com, login: "a b"}}',
  },
]) {
  test(`${what} is policy_invalid, and nothing is written`, async () => {
    await using here = await composePlace('work', policyWith(inject))
    await assert.rejects(here.run('--workspace', here.workspace, '--policy', here.policy), { code: 'policy_invalid' })
    assert.equal(existsSync(here.envFile), false)
    assert.equal(existsSync(join(here.folder, 'home')), false)
  })
}

test('what it writes for the agent lies beside its state, never in the workspace', async () => {
  await using here = await composePlace('work', policyWith(NPM))
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const files = (here.env().get('COMPOSE_FILE') ?? '').split(':')
  assert.deepEqual(
    files.map((file) => basename(file)),
    ['compose.yaml', 'workspace.yaml', 'compose.agent.yaml'],
  )
  for (const file of files) assert.ok(!file.startsWith(here.workspace))
})
