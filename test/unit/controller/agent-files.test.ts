import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { agentFileOf, refuseTakenVariables, writeAgentFiles, type Worthless } from '../../../src/controller/sessions/agent-files.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { ROOT } from '../../../scripts/steps.ts'

const OWNER = { uid: process.getuid?.() === 0 ? 10_001 : (process.getuid?.() ?? 0), gid: process.getgid?.() ?? 0 }
const NOTHING: Worthless = { values: {}, files: [] }
const SOME: Worthless = {
  values: { NPM_TOKEN: 'npm_SALLYPORTaaaaaaaaaaaaaaaaaaaaaaaaaaaa' },
  files: [
    { name: 'npmrc', path: '.npmrc', content: '//registry.example.com/:_authToken=npm_SALLYPORTaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n' },
    { name: 'docker', path: '.docker/config.json', content: '{"auths": {}}\n' },
  ],
}

type Override = {
  services: { agent: { environment: unknown; tmpfs: string[]; volumes: { source: string; target: string; read_only: boolean }[] } }
}

function agentOf(stateDir: string) {
  return (JSON.parse(readFileSync(agentFileOf(stateDir, SOME) ?? '', 'utf8')) as Override).services.agent
}

test('without placeholders there is no compose file for them, and one of before is gone', async () => {
  await using folder = await temporaryFolder()
  writeAgentFiles(folder.path, OWNER, SOME)
  const before = agentFileOf(folder.path, SOME) ?? ''
  assert.ok(existsSync(before))
  writeAgentFiles(folder.path, OWNER, NOTHING)
  assert.equal(agentFileOf(folder.path, NOTHING), undefined)
  assert.equal(existsSync(before), false)
})

test('each file is mounted read-only where its program looks for it, and is the agent’s own and nobody else’s to read', async () => {
  await using folder = await temporaryFolder()
  writeAgentFiles(folder.path, OWNER, SOME)
  const { environment, volumes } = agentOf(folder.path)
  assert.deepEqual(environment, SOME.values)
  assert.deepEqual(
    volumes.map(({ target, read_only }) => [target, read_only]),
    [
      ['/home/agent/.npmrc', true],
      ['/home/agent/.docker/config.json', true],
    ],
  )
  for (const [index, { source }] of volumes.entries()) {
    assert.equal(readFileSync(source, 'utf8'), SOME.files[index]?.content)
    const { mode, uid, gid } = statSync(source)
    assert.deepEqual([mode & 0o777, uid, gid], [0o600, OWNER.uid, OWNER.gid])
  }
})

test('a folder of HOME that a file is mounted in is the agent’s to write, in memory', async () => {
  await using folder = await temporaryFolder()
  writeAgentFiles(folder.path, OWNER, SOME)
  const { tmpfs } = agentOf(folder.path)
  assert.equal(tmpfs.length, 1)
  assert.match(tmpfs[0] ?? '', new RegExp(`^/home/agent/\\.docker:.*nosuid,nodev,size=1g,mode=0700,uid=${OWNER.uid},gid=${OWNER.gid}$`))
})

test('written again a file is the same file with what is new, so that a container that has it mounted sees it', async () => {
  await using folder = await temporaryFolder()
  writeAgentFiles(folder.path, OWNER, SOME)
  const { source } = agentOf(folder.path).volumes[0] ?? assert.fail()
  const { ino } = statSync(source)
  writeAgentFiles(folder.path, OWNER, { ...SOME, files: [{ name: 'npmrc', path: '.npmrc', content: 'short\n' }] })
  assert.equal(readFileSync(source, 'utf8'), 'short\n')
  assert.equal(statSync(source).ino, ino)
  assert.equal(statSync(source).mode & 0o777, 0o600)
})

for (const name of ['HOME', 'SALLYPORT_LEASE', 'npm_config_cafile', 'JAVA_TOOL_OPTIONS', 'GIT_CONFIG_COUNT']) {
  test(`a placeholder in ${name}, which the agent has already, is refused by name`, () => {
    assert.throws(() => refuseTakenVariables(ROOT, ['GH_TOKEN', name]), {
      code: 'policy_invalid',
      message: new RegExp(`the agent has ${name} in its environment already`),
    })
  })
}

test('placeholders in variables of their own are not refused', () => {
  refuseTakenVariables(ROOT, ['GH_TOKEN', 'AWS_ACCESS_KEY_ID', 'constructor'])
})

test('a dollar sign in a value reaches compose as one', async () => {
  await using folder = await temporaryFolder()
  writeAgentFiles(folder.path, OWNER, { values: { A: 'a$b' }, files: [] })
  assert.match(readFileSync(agentFileOf(folder.path, SOME) ?? '', 'utf8'), /"a\$\$b"/)
})
