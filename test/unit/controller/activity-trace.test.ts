/** How a request of the live list is decided by the policy of its session, and whether a further rule could let it pass. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { remedyOf, traceOf } from '../../../src/controller/activity/trace.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { visible } from '../../../src/kernel/visible.ts'
import { loadPolicy, type Policy } from '../../../src/policy/policy.ts'
import type { ActivityLine } from '../../../src/wire/activity.ts'
import { temporaryFolder, type Folder } from '../../support/audit.ts'

let folder: Folder
let policy: Policy

const GLOBAL = `version: 1
network:
  rules:
    - {id: reads, host: api.github.com, methods: [GET], paths: ["/repos/**"], action: allow, tls: intercept}
    - {id: never, host: denied.dev, action: deny}
    - {id: asks, host: asked.dev, action: ask}
    - {id: database, host: db.dev, ports: [5432], protocol: tcp, action: allow}
routes:
  - {name: github, upstream: "https://api.github.com/v3"}
`

before(async () => {
  folder = await temporaryFolder()
  const current = join(folder.path, 'current')
  mkdirSync(current)
  writeFileSync(join(current, 'global.yaml'), GLOBAL)
  writeFileSync(join(current, 'role.yaml'), 'version: 1\n')
  policy = loadPolicy([join(current, 'global.yaml'), join(current, 'role.yaml')], { policyDirs: [] })
})
after(() => folder[Symbol.asyncDispose]())

const DENIED: ActivityLine = {
  n: 1,
  session: 's-1',
  request: 'r1',
  at: 0,
  lane: 'connect',
  plane: 'agent',
  scheme: 'https',
  method: 'GET',
  host: 'api.github.com',
  port: 443,
  path: '/user',
  decision: 'deny',
  code: 'denied_by_rule',
  credentials: [],
  state: 'done',
}
const traced = (more: Partial<ActivityLine>, decidedBy?: string) =>
  traceOf({ ...DENIED, ...more }, decidedBy, () => ({ policy, folder: join(folder.path, 'current') }))
const remedy = (more: Partial<ActivityLine>) => remedyOf({ ...DENIED, ...more }, traced(more))

function traceIn(found: ReturnType<typeof traced>) {
  assert.ok('trace' in found, JSON.stringify(found))
  return found
}

test('the rules of the host are told with their layer and line, and layers that say nothing are not', () => {
  const { trace, layers } = traceIn(traced({}))
  assert.equal(trace.decision, 'deny')
  assert.deepEqual(
    trace.candidates.map(({ id, at, matches }) => [id, at, matches]),
    [['reads', 'global, line 4', false]],
  )
  assert.deepEqual(layers, [{ layer: 'global', file: 'global.yaml' }])
})

test('it is said that the policy is another one than when it was decided, and nothing is said where that is not known', () => {
  assert.equal(traceIn(traced({}, policy.digest)).trace.isChanged, false)
  assert.equal(traceIn(traced({}, 'f'.repeat(64))).trace.isChanged, true)
  assert.equal(traceIn(traced({})).trace.isChanged, undefined)
})

test('a connection that nobody looked into is explained as one, a route by where it leads', () => {
  const { scheme: _scheme, method: _method, path: _path, ...bare } = DENIED
  const of = (more: Partial<ActivityLine>) => traceOf({ ...bare, ...more }, undefined, () => ({ policy }))
  assert.equal(traceIn(of({ host: 'db.dev', port: 5432 })).trace.decision, 'allow')
  assert.equal(traceIn(of({ host: 'db.dev', port: 80 })).trace.decision, 'deny')
  assert.equal(traceIn(of({ host: 'asked.dev' })).trace.decision, 'ask')
  const route = traceIn(traced({ rule: 'route:github', lane: 'route', path: '/v3/user', decision: 'allow' }))
  assert.deepEqual([route.trace.decision, route.trace.rule?.id], ['allow', 'route:github'])
})

test('where there is no rule to look at, or no policy any more, it says so', () => {
  const { host: _host, ...nowhere } = DENIED
  const of = (line: ActivityLine) => traceOf(line, undefined, () => ({ policy }))
  assert.deepEqual(of(nowhere), { problem: 'It was refused before any rule was looked at.' })
  assert.ok('problem' in of({ ...DENIED, lane: 'mcp' }) && 'problem' in of({ ...DENIED, lane: 'token' }))
  const gone = (): never => {
    throw new SallyportError('policy_not_found', 'gone')
  }
  assert.deepEqual(traceOf(DENIED, undefined, gone), { problem: 'The session is over, and its policy went with it.' })
})

test('a host that no rule is about can be allowed, with method and path to narrow it by', () => {
  const found = remedy({ host: 'new.dev', code: 'host_not_allowed' })
  assert.deepEqual(found, { isPossible: true, host: 'new.dev', port: 443, method: 'GET', path: '/user' })
})

test('I86 a path that an agent chose as a pattern is not offered: a rule for it would be about more', () => {
  for (const path of ['/**', '/a*', `/${'x'.repeat(10)}[cut: 2000 characters]`]) {
    const found = remedy({ host: 'new.dev', code: 'host_not_allowed', path })
    assert.deepEqual(found, { isPossible: true, host: 'new.dev', port: 443, method: 'GET' })
  }
})

for (const { more, why } of [
  { more: { host: '169.254.169.254', code: 'host_not_allowed' }, why: /metadata/ },
  { more: { host: '169.254.169.254', code: 'address_refused' }, why: /No rule changes that/ },
  { more: { host: 'metadata.google.internal', code: 'host_not_allowed' }, why: /refused/ },
  { more: { host: 'localhost', code: 'host_not_allowed' }, why: /refused/ },
  { more: { host: 'denied.dev' }, why: /"never" \(global, line 5\) denies it/ },
  { more: { host: 'asked.dev', code: 'approval_denied' }, why: /answer the question/ },
  { more: { host: 'A\u202E.dev' }, why: /No rule can allow it/ },
  { more: { code: 'secret_unavailable' }, why: /No rule changes that/ },
] as const)
  test(`a rule is not offered for ${visible(JSON.stringify(more))}`, () => {
    const found = remedy(more)
    assert.ok(found !== undefined && !found.isPossible, JSON.stringify(found))
    assert.match(found.why, why)
  })

test('what passed needs no remedy', () => {
  assert.equal(remedy({ decision: 'allow' }), undefined)
})
