import assert from 'node:assert/strict'
import { lstatSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { rememberedFile } from '../../../src/controller/approvals/approvals.ts'
import { freezeLayers, type FrozenLayers } from '../../../src/controller/sessions/frozen-layers.ts'
import { inputsOf } from '../../../src/controller/sessions/session-layers.ts'
import { contentDigest } from '../../../src/controller/sessions/workspace-trust.ts'
import { formatPlace, loadPolicy, showPolicy, type Policy } from '../../../src/policy/policy.ts'
import { countingSystem } from '../../support/leases.ts'
import { layerSetting, ruleText, type LayerSetting } from '../../support/layers.ts'
import { factsOf, verdict } from '../../support/policy.ts'

/** As the sidecar reads it: from the folder alone. */
function loadFrozen(into: string, frozen: FrozenLayers): Policy {
  const at = (names: readonly string[]): string[] => names.map((name) => join(into, name))
  return loadPolicy(at(frozen.files), { policyDirs: at(frozen.policyDirs), restricted: at(frozen.restricted) })
}

async function freeze(setting: LayerSetting, more: Parameters<LayerSetting['layers']>[0] = {}): Promise<FrozenLayers> {
  const into = join(setting.dir, 'frozen')
  return freezeLayers(
    await setting.layers(more),
    { policyDirs: [join(setting.home, 'policies')], into },
    countingSystem(String(readCount++)),
  )
}
let readCount = 0

test('layers come in the order global, role, the operator’s for the workspace, what was remembered for it, session; each part says where it is written', async () => {
  using setting = layerSetting({
    'home/policies/global.yaml': ruleText('global', 'a.example.com', 'allow', '  mode: open\n'),
    'home/policies/roles/reviewer.yaml': ruleText('role', 'b.example.com', 'deny', '  mode: restricted\n'),
    'one.yaml': ruleText('one', 'd.example.com', 'allow'),
    'two.yaml': ruleText('two', 'e.example.com', 'allow'),
  })
  setting.write(relative(setting.dir, join(setting.folder, 'policy.yaml')), ruleText('workspace', 'c.example.com', 'ask'))
  setting.write(relative(setting.dir, join(setting.folder, 'workspace')), `${setting.workspace}\n`)
  const remembered = rememberedFile(join(setting.home, 'policies', 'remembered'), setting.workspace)
  setting.write(relative(setting.dir, remembered), ruleText('remembered', 'f.example.com', 'allow'))
  const layers = await setting.layers({ role: 'reviewer', sessionFiles: ['one.yaml', 'two.yaml'].map((name) => join(setting.dir, name)) })
  assert.deepEqual(layers.problems, [])
  const policy = loadPolicy(inputsOf(layers).files, { policyDirs: [] })
  const { rules, mode } = showPolicy(policy)
  assert.deepEqual(
    rules.map(({ id, from }) => `${id} ${formatPlace(from)}`),
    [
      `global ${setting.home}/policies/global.yaml:4`,
      `role ${setting.home}/policies/roles/reviewer.yaml:4`,
      `workspace ${setting.folder}/policy.yaml:4`,
      `remembered ${remembered}:4`,
      `one ${setting.dir}/one.yaml:4`,
      `two ${setting.dir}/two.yaml:4`,
    ],
  )
  assert.equal(mode.value, 'restricted')
})

test('without any file there is no layer and no problem', async () => {
  using setting = layerSetting()
  assert.deepEqual(await setting.layers(), { files: [], restricted: [], problems: [] })
})

for (const { title, request, message } of [
  { title: 'a role that is not there', request: { role: 'none' }, message: /there is no role "none"/ },
  {
    title: 'a session file that is not there',
    request: { sessionFiles: ['/nowhere/p.yaml'] },
    message: /nowhere\/p\.yaml: it does not exist/,
  },
]) {
  test(`${title} is an error, not a layer less`, async () => {
    using setting = layerSetting()
    const layers = await setting.layers(request)
    assert.throws(() => inputsOf(layers), { code: 'policy_not_found', message })
  })
}

test('a role is a name, never a path', async () => {
  using setting = layerSetting({ 'home/policies/global.yaml': ruleText('g', 'a.example.com', 'allow') })
  for (const role of ['../global', '/etc/passwd', 'a/b', '', 'A', 'x'.repeat(65), '.', '..'])
    await assert.rejects(setting.layers({ role }), { code: 'config_invalid' }, role)
})

test('the folder of another workspace does not hold for this one', async () => {
  using setting = layerSetting()
  setting.write(relative(setting.dir, join(setting.folder, 'workspace')), '/srv/other\n')
  const layers = await setting.layers()
  assert.throws(() => inputsOf(layers), /it names another workspace/)
})

test('a workspace that holds the home folder, lies in it, or is no folder is refused', async () => {
  using setting = layerSetting({ 'file.txt': '' })
  using inner = layerSetting()
  mkdirSync(join(setting.workspace, '.sallyport'))
  mkdirSync(join(setting.home, 'project'))
  symlinkSync(setting.home, join(inner.dir, 'link'))
  const { layersOf } = await import('../../../src/controller/sessions/session-layers.ts')
  const ask = (home: string, workspace: string) => layersOf({ home, workspace, sessionFiles: [], trust: setting.trust })
  for (const [home, workspace] of [
    [join(setting.workspace, '.sallyport'), setting.workspace],
    [join(setting.workspace, 'not/there/yet'), setting.workspace],
    [setting.home, join(setting.home, 'project')],
    [setting.home, setting.home],
    [join(inner.dir, 'link'), setting.home],
    [setting.home, join(setting.dir, 'file.txt')],
    [setting.home, join(setting.dir, 'none')],
  ] as const)
    await assert.rejects(ask(home, workspace), { code: 'workspace_refused' }, `${home} ${workspace}`)
})

test('an operator’s file that stands in the workspace is warned about; the workspace’s own is none of the operator’s', async () => {
  using setting = layerSetting({
    'workspace/p.yaml': ruleText('p', 'a.example.com', 'allow'),
    'workspace/.sallyport/policy.yaml': 'version: 1\n',
  })
  const { files, problems } = await setting.layers({ sessionFiles: [join(setting.workspace, 'p.yaml')] })
  assert.equal(files.length, 1)
  assert.match(problems[0]?.message ?? '', /it stands in the workspace/)
  const named = await setting.layers({ sessionFiles: [setting.own] })
  assert.throws(() => inputsOf(named), /accept it with sallyport trust/)
})

test('trusted, the workspace’s own policy is a layer after the role and before the operator’s own for it', async () => {
  using setting = layerSetting({ 'home/policies/global.yaml': ruleText('g', 'g.example.com', 'allow') })
  const text = ruleText('own', 'own.example.com', 'allow', '  mode: open\n')
  setting.write('workspace/.sallyport/policy.yaml', text)
  setting.write(relative(setting.dir, join(setting.folder, 'policy.yaml')), 'version: 1\nnetwork: {mode: restricted}\n')
  const before = await setting.layers()
  assert.equal(before.restricted[0]?.text, text)
  await setting.trust.add(setting.workspace, contentDigest(text))
  const { files, restricted } = await setting.layers()
  assert.deepEqual(restricted, [])
  assert.deepEqual(
    files.map(({ layer }) => layer),
    ['global', 'own', 'workspace'],
  )
  assert.equal(showPolicy(loadPolicy(files, { policyDirs: [] })).mode.value, 'restricted')
})

test('what is frozen says what was judged, with all that it extends, from the folder alone', async () => {
  using setting = layerSetting({
    'home/policies/global.yaml': `${ruleText('g', 'g.example.com', 'allow')}extends: [service/npm]\n`,
    'home/policies/service/npm.yaml': ruleText('npm', 'packages.example.com', 'allow'),
    'home/policies/harness/claude.yaml': `${ruleText('model', 'api.example.com', 'allow')}extends: [service/npm]\n`,
    'session.yaml': `${ruleText('s', 's.example.com', 'ask')}  harness: claude\nextends: [global]\nfilesystem: {hide: [".env"]}\n`,
    'workspace/.sallyport/policy.yaml': ruleText('w', 'g.example.com', 'deny'),
  })
  const into = join(setting.dir, 'frozen')
  const frozen = await freeze(setting, { sessionFiles: [join(setting.dir, 'session.yaml')] })
  const { digest } = frozen.policy
  // Nothing but the folder is left.
  for (const file of readdirSync(setting.home, { recursive: true, encoding: 'utf8', withFileTypes: true }))
    if (file.isFile()) unlinkSync(join(file.parentPath, file.name))
  unlinkSync(setting.own)
  const policy = loadFrozen(into, frozen)
  assert.equal(policy.digest, digest)
  assert.equal(policy.effective.rules.find(({ id }) => id === 'model')?.plane, 'control_plane')
  assert.equal(verdict(policy.decide(factsOf('GET https://g.example.com/'))), 'denied_by_rule workspace:w')
  assert.deepEqual(
    frozen.files,
    ['global', 'role', 'own', 'workspace', 'remembered', 'timed', 'timed-session', 'servers', 'user-servers', 'session-0'].map(
      (name) => `current/${name}.yaml`,
    ),
  )
  for (const name of readdirSync(join(into, 'current'), { recursive: true, encoding: 'utf8' })) {
    const stat = statSync(join(into, 'current', name))
    assert.equal(stat.mode & 0o777, stat.isDirectory() ? 0o755 : 0o444, name)
    if (lstatSync(join(into, 'current', name)).isSymbolicLink()) assert.ok(statSync(join(into, 'current', name)).isFile())
  }
})

test('messages of the sidecar name the operator’s own files again', async () => {
  using setting = layerSetting({
    'home/policies/global.yaml': `${ruleText('g', 'g.example.com', 'allow')}extends: [service/npm]\n`,
    'home/policies/service/npm.yaml': ruleText('npm', 'packages.example.com', 'allow'),
    'workspace/.sallyport/policy.yaml': ruleText('w', 'g.example.com', 'deny'),
  })
  const { named } = await freeze(setting)
  const mount = '/run/sallyport/policy'
  assert.equal(
    named(`${mount}/current/global.yaml:3: x, ${mount}/current/extends/service/npm.yaml:4, ${mount}/current/restricted.yaml:1`, mount),
    `${setting.home}/policies/global.yaml:3: x, ${setting.home}/policies/service/npm.yaml:4, ${setting.own}:1`,
  )
})

test('a change is one step: the names stay, layers may come and go, and of the generations two are kept', async () => {
  using setting = layerSetting({ 'home/policies/global.yaml': ruleText('g', 'g.example.com', 'allow') })
  const into = join(setting.dir, 'frozen')
  const first = await freeze(setting)
  setting.write('workspace/.sallyport/policy.yaml', ruleText('w', 'g.example.com', 'deny'))
  setting.write(relative(setting.dir, join(setting.folder, 'policy.yaml')), ruleText('late', 'late.example.com', 'allow'))
  for (let i = 0; i < 3; i++) await freeze(setting)
  const last = await freeze(setting)
  assert.deepEqual(last.files, first.files)
  // The names of the first still lead to what is in force.
  assert.equal(loadFrozen(into, first).digest, last.policy.digest)
  assert.equal(readdirSync(into).filter((name) => name.startsWith('policy-')).length, 2)
})

test('I18 with an error nothing is written, and what was frozen before stays', async () => {
  using setting = layerSetting({ 'home/policies/global.yaml': ruleText('g', 'g.example.com', 'allow') })
  const into = join(setting.dir, 'frozen')
  const before = await freeze(setting)
  const listed = readdirSync(into)
  for (const text of ['version: 2\n', ruleText('w', 'x.example.com', 'allow'), '\u0000', 'version: 1\nnetwork: {rules: [{id: a}]}\n']) {
    setting.write('workspace/.sallyport/policy.yaml', text)
    await assert.rejects(freeze(setting), (error: Error) => error.message.includes(setting.own))
    assert.deepEqual(readdirSync(into), listed)
    assert.equal(loadFrozen(into, before).digest, before.policy.digest)
  }
})

test('what is judged is what is copied: a file that changes in between changes nothing', async () => {
  using setting = layerSetting({ 'home/policies/global.yaml': ruleText('g', 'g.example.com', 'allow') })
  setting.write('workspace/.sallyport/policy.yaml', ruleText('w', 'g.example.com', 'deny'))
  const layers = await setting.layers()
  for (const file of [setting.own, join(setting.home, 'policies/global.yaml')]) writeFileSync(file, 'version: 1\nnetwork: {mode: open}\n')
  const into = join(setting.dir, 'frozen')
  const frozen = freezeLayers(layers, { policyDirs: [], into }, countingSystem('x'))
  assert.equal(frozen.policy.effective.mode.value, 'restricted')
  assert.equal(readFileSync(join(into, 'current/restricted.yaml'), 'utf8'), ruleText('w', 'g.example.com', 'deny'))
  assert.equal(readFileSync(join(into, 'current/global.yaml'), 'utf8'), ruleText('g', 'g.example.com', 'allow'))
})
