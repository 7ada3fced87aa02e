/** Changes of policies from the page: shown first, then made exactly so or not at all. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import type { ChangeWish, LayerRef, PolicyEdit } from '../../../src/wire/policies.ts'
import { timedFile, workspacePolicyDir } from '../../../src/controller/sessions/session-layers.ts'
import { loadPolicy } from '../../../src/policy/policy.ts'
import { limitedFileSize } from '../../support/full-disk.ts'
import { changesSetting, type ChangesSetting } from '../../support/policy-changes.ts'

let place: ChangesSetting
beforeEach(() => (place = changesSetting()))
afterEach(() => place[Symbol.dispose]())

const SESSION = 'a'.repeat(16)
const GLOBAL = { kind: 'global' } as const
const TEXT = `# mine, and it stays
version: 1
network:
  # the first
  rules:
    - { id: api, host: api.example.com, ports: [443], action: allow } # read only
    - id: docs
      host: "docs.example.com"
      action: allow

# the end
`

const allow = (more: Partial<Extract<PolicyEdit, { kind: 'allow_host' }>> = {}): PolicyEdit => ({
  kind: 'allow_host',
  host: 'new.example.com',
  for: 'always',
  ...more,
})

/** Looks at a change, and makes it as it was looked at. */
async function make(wish: ChangeWish) {
  const { before, after, expiresAt, target } = await place.changes.preview(wish)
  const seen = { target, ...(before !== undefined && { before }), after, ...(expiresAt !== undefined && { expiresAt }) }
  return { ...(await place.changes.apply({ ...wish, ...seen })), seen, text: readFileSync(target, 'utf8') }
}

test('a host that is allowed becomes one line of the file: comments, order and quotes of all others stay', async () => {
  const file = place.write('home/policies/global.yaml', TEXT)
  const { text, target, id } = await make({ layer: GLOBAL, edit: allow({ methods: ['GET'] }) })
  assert.equal(target, file)
  const lines = text.split('\n')
  const [added, ...rest] = lines.filter((line) => !TEXT.split('\n').includes(line))
  assert.match(
    added ?? '',
    /^ {4}- \{ ?id: allow-new\.example\.com-[0-9a-f]{8}, host: new\.example\.com, ports: \[ ?443 ?\], methods: \[ ?GET ?\], action: allow ?\}$/,
  )
  assert.deepEqual(rest, [])
  assert.deepEqual(
    TEXT.split('\n').filter((line) => !lines.includes(line)),
    [],
  )
  assert.equal(statSync(file).mode & 0o777, 0o600)
  const [event] = place.audited
  assert.deepEqual(event, {
    event: 'config_changed',
    of: 'policy',
    what: file,
    did: 'applied',
    digest: (await place.changes.preview({ layer: GLOBAL, edit: allow() })).before,
    by: `the page, change ${id}`,
  })
})

for (const { layer, path, reached } of [
  { layer: GLOBAL, path: 'policies/global.yaml', reached: [SESSION, 'b'.repeat(16)] },
  { layer: { kind: 'role', role: 'review' }, path: 'policies/roles/review.yaml', reached: ['b'.repeat(16)] },
] satisfies { layer: LayerRef; path: string; reached: string[] }[])
  test(`a change of the layer ${layer.kind} reaches the sessions that have it, at once, and no other`, async () => {
    place.write('home/policies/roles/review.yaml', 'version: 1\n')
    place.run(SESSION, 'one')
    place.run('b'.repeat(16), 'two', { role: 'review' })
    const preview = await place.changes.preview({ layer, edit: allow() })
    assert.equal(preview.target, join(place.home, path))
    assert.deepEqual(
      preview.reaches.map(({ id }) => id),
      reached,
    )
    await make({ layer, edit: allow() })
    assert.deepEqual(place.refreshed, reached)
  })

test('the first change of a workspace makes its folder, with the name of the workspace in it', async () => {
  const { target } = await make({ layer: { kind: 'workspace', workspace: place.workspace }, edit: allow() })
  assert.equal(target, join(workspacePolicyDir(place.home, place.workspace), 'policy.yaml'))
  assert.equal(readFileSync(join(dirname(target), 'workspace'), 'utf8'), `${place.workspace}\n`)
  assert.ok(!existsSync(join(place.workspace, '.sallyport')), 'the workspace itself is not written')
})

test('I80 a file that changed after it was looked at is not written, and a change that became another one is not made', async () => {
  const file = place.write('home/policies/global.yaml', TEXT)
  const { target, before = '', after } = await place.changes.preview({ layer: GLOBAL, edit: allow() })
  writeFileSync(file, `${TEXT}# mine too\n`)
  await assert.rejects(place.changes.apply({ layer: GLOBAL, edit: allow(), target, before, after }), { code: 'policy_file_changed' })
  assert.equal(readFileSync(file, 'utf8'), `${TEXT}# mine too\n`)
  writeFileSync(file, TEXT)
  await assert.rejects(place.changes.apply({ layer: GLOBAL, edit: allow({ host: 'evil.example.com' }), target, before, after }), {
    code: 'policy_file_changed',
  })
  await assert.rejects(place.changes.apply({ layer: GLOBAL, edit: allow(), target, after }), { code: 'policy_file_changed' })
  assert.equal(readFileSync(file, 'utf8'), TEXT)
  assert.deepEqual([place.audited, place.refreshed], [[], []])
})

test('two changes that were looked at together are made one after the other: the second is refused', async () => {
  place.write('home/policies/global.yaml', TEXT)
  const wishes = ['one.example.com', 'two.example.com'].map((host): ChangeWish => ({ layer: GLOBAL, edit: allow({ host }) }))
  const seen = await Promise.all(wishes.map((wish) => place.changes.preview(wish)))
  const results = await Promise.allSettled(
    wishes.map((wish, index) => {
      const { target = '', before = '', after = '' } = seen[index] ?? {}
      return place.changes.apply({ ...wish, target, before, after })
    }),
  )
  assert.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  assert.equal(place.audited.length, 1)
})

for (const { why, content } of [
  { why: 'no YAML', content: 'version: [\n' },
  { why: 'an unknown key', content: 'version: 1\nnetwrok: {}\n' },
  { why: 'characters that show as nothing', content: 'version: 1\n# \u202e\n' },
  {
    why: 'a rule twice',
    content: 'version: 1\nnetwork: {rules: [{id: a, host: a.example.com, action: allow}, {id: a, host: b.example.com, action: allow}]}\n',
  },
  { why: 'a host that is not canonical', content: 'version: 1\nnetwork: {rules: [{id: a, host: A.example.com, action: allow}]}\n' },
])
  test(`content with ${why} is shown with its line, and refused`, async () => {
    const file = place.write('home/policies/global.yaml', TEXT)
    const wish: ChangeWish = { layer: GLOBAL, edit: { kind: 'content', content } }
    const { isRefused, problems, target, before = '', after } = await place.changes.preview(wish)
    assert.ok(isRefused)
    assert.ok(problems.some(({ severity, line }) => severity === 'error' && line > 0))
    await assert.rejects(place.changes.apply({ ...wish, target, before, after }), { code: 'policy_invalid' })
    assert.equal(readFileSync(file, 'utf8'), TEXT)
  })

test('what would break the whole policy of a running session is refused, and named by the session', async () => {
  place.write('home/policies/global.yaml', TEXT)
  place.run(SESSION, 'one')
  const content = 'version: 1\nnetwork: {rules: [{id: docs, host: b.example.com, action: allow}]}\n'
  const layer = { kind: 'workspace', workspace: place.workspace } as const
  const { isRefused, problems } = await place.changes.preview({ layer, edit: { kind: 'content', content } })
  assert.ok(isRefused)
  assert.ok(problems.some(({ message, sessions }) => /docs/.test(message) && sessions?.includes('one')))
})

test('what was wrong elsewhere before keeps nobody from a change', async () => {
  place.write('home/policies/global.yaml', 'version: 1\nnonsense: true\n')
  const layer = { kind: 'workspace', workspace: place.workspace } as const
  const { isRefused, problems } = await place.changes.preview({ layer, edit: allow() })
  assert.ok(!isRefused)
  assert.ok(problems.some(({ message }) => /nonsense/.test(message)))
})

for (const role of ['../../../etc/x', '..', 'a/b', 'A', '', 'x\u0000', 'x'.repeat(65)])
  test(`a role named ${JSON.stringify(role.slice(0, 16))} leads nowhere`, async () => {
    await assert.rejects(place.changes.preview({ layer: { kind: 'role', role }, edit: allow() }), { code: 'policy_change_invalid' })
  })

for (const workspace of ['/../../etc', '/x/../..', '/dev/null'])
  test(`a workspace named ${workspace} has a policy of its own folder, wherever it leads`, async () => {
    const { target } = await place.changes.preview({ layer: { kind: 'workspace', workspace }, edit: allow() })
    assert.match(target.slice(place.home.length), /^\/policies\/workspaces\/[0-9a-f]{64}\/policy\.yaml$/)
  })

test('I80 a policy that is a link, or is behind one, is neither read nor written', async () => {
  const elsewhere = place.write('elsewhere/target.yaml', 'version: 1\n')
  mkdirSync(join(place.home, 'policies'))
  symlinkSync(elsewhere, join(place.home, 'policies', 'global.yaml'))
  await assert.rejects(place.changes.preview({ layer: GLOBAL, edit: allow() }), { code: 'policy_change_invalid' })
  symlinkSync(dirname(elsewhere), join(place.home, 'policies', 'roles'))
  await assert.rejects(place.changes.preview({ layer: { kind: 'role', role: 'target' }, edit: allow() }), { code: 'policy_change_invalid' })
  assert.equal(readFileSync(elsewhere, 'utf8'), 'version: 1\n')
})

test('I80 what cannot be recorded is not changed', async () => {
  const file = place.write('home/policies/global.yaml', TEXT)
  place.refuse.audit = true
  await assert.rejects(make({ layer: GLOBAL, edit: allow() }))
  assert.equal(readFileSync(file, 'utf8'), TEXT)
  assert.deepEqual(await place.files.list(), [])
})

test('a disk that is full leaves the file as it was, and nothing half done', async () => {
  const file = place.write('home/policies/global.yaml', TEXT)
  await using disk = await limitedFileSize()
  writeFileSync(disk.file, '')
  await disk.fill(0)
  await assert.rejects(make({ layer: GLOBAL, edit: allow() }), { code: 'policy_change_invalid' })
  await disk.free()
  assert.deepEqual(readdirSync(dirname(file)), ['global.yaml'])
  assert.equal(readFileSync(file, 'utf8'), TEXT)
  assert.deepEqual([await place.files.list(), place.refreshed], [[], []])
})

test('I81 what is allowed for an hour ends with it, by its own file, and an end is never later than what was looked at', async () => {
  const layer = { kind: 'workspace', workspace: place.workspace } as const
  const edit = allow({ for: 'hour' })
  const { text, target, seen } = await make({ layer, edit })
  assert.equal(target, timedFile(place.home, { workspace: place.workspace }))
  const policy = loadPolicy([{ file: target, text }], { policyDirs: [] })
  const facts = { scheme: 'https', host: 'new.example.com', port: 443, method: 'GET', path: '/' } as never
  const end = place.clock.now + 3_600_000
  assert.deepEqual(
    [policy.decide(facts).action, policy.asOf(end - 1).decide(facts).action, policy.asOf(end).decide(facts).action],
    ['deny', 'allow', 'deny'],
  )
  assert.equal(policy.asOf(end - 1).nextEnd, end)
  await assert.rejects(place.changes.apply({ layer, edit, ...seen, expiresAt: end + 1 }), { code: 'policy_change_invalid' })
  await assert.rejects(place.changes.apply({ layer, edit, target, after: seen.after }), { code: 'policy_change_invalid' })
})

test('what is allowed for a session is in no file of another, and a session has no policy that could be edited', async () => {
  place.run(SESSION, 'one')
  const layer = { kind: 'session', session: SESSION } as const
  const { target } = await make({ layer, edit: allow({ for: 'session' }) })
  assert.equal(target, timedFile(place.home, { session: SESSION }))
  assert.deepEqual(place.refreshed, [SESSION])
  for (const edit of [allow(), { kind: 'content', content: 'version: 1\n' } as const])
    await assert.rejects(place.changes.preview({ layer, edit }), { code: 'policy_change_invalid' })
  await assert.rejects(place.changes.preview({ layer: { kind: 'session', session: '../x' }, edit: allow({ for: 'session' }) }), {
    code: 'session_not_found',
  })
  for (const one of [GLOBAL, { kind: 'role', role: 'r' } as const])
    await assert.rejects(place.changes.preview({ layer: one, edit: allow({ for: 'hour' }) }), { code: 'policy_change_invalid' })
})

test('a credential is declared with its secret once, and takes the place of the one of its id', async () => {
  const edit = (header: string): PolicyEdit => ({
    kind: 'credential',
    secrets: [{ name: 'API_KEY', source: 'vault:API_KEY' }],
    credential: { id: 'api', inject: { domains: ['api.example.com'], methods: ['GET'], header } },
  })
  place.write('home/policies/global.yaml', TEXT)
  await make({ layer: GLOBAL, edit: edit('X-One') })
  const { text } = await make({ layer: GLOBAL, edit: edit('X-Two') })
  const policy = loadPolicy([{ file: 'global.yaml', text }], { policyDirs: [] })
  assert.deepEqual(
    policy.effective.secrets.map(({ name, resources }) => [name, resources]),
    [['API_KEY', ['inject']]],
  )
  assert.deepEqual(
    policy.effective.credentials.map(({ id, place: at }) => [id, at.kind === 'header' && at.header]),
    [['api', 'X-Two']],
  )
  assert.ok(text.startsWith('# mine, and it stays\n') && text.endsWith('# the end\n'))
  const preset = await make({
    layer: GLOBAL,
    edit: { kind: 'credential', secrets: [{ name: 'GITHUB_TOKEN', source: 'vault:GITHUB_TOKEN' }], preset: 'service/github' },
  })
  assert.match(preset.text, /extends:\n\s*- service\/github\n/)
  await assert.rejects(
    place.changes.preview({ layer: GLOBAL, edit: { kind: 'credential', secrets: [{ name: 'A', source: 'vault:A' }] } }),
    {
      code: 'policy_change_invalid',
    },
  )
})

test('I80 a change is taken back to the byte, unless the file is another one by now', async () => {
  const file = place.write('home/policies/global.yaml', TEXT)
  const first = await make({ layer: GLOBAL, edit: allow() })
  const second = await make({ layer: GLOBAL, edit: allow({ host: 'other.example.com' }) })
  await assert.rejects(place.changes.takeBack(first.id), { code: 'proposal_outdated' })
  await place.changes.takeBack(second.id)
  await place.changes.takeBack(first.id)
  assert.equal(readFileSync(file, 'utf8'), TEXT)
  await assert.rejects(place.changes.takeBack(first.id), { code: 'proposal_invalid' })
})

test('a rule is taken out again by its id', async () => {
  place.run(SESSION, 'one')
  const layer = { kind: 'session', session: SESSION } as const
  const { text } = await make({ layer, edit: allow({ for: 'day' }) })
  const id = /id: (\S+),/.exec(text)?.[1] ?? ''
  const gone = await make({ layer, edit: { kind: 'remove_rule', id } })
  assert.doesNotMatch(gone.text, /new\.example\.com/)
  await assert.rejects(place.changes.preview({ layer, edit: { kind: 'remove_rule', id } }), { code: 'policy_change_invalid' })
})
