import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkPolicy, formatDiagnostic, loadPolicy, type Policy } from '../../../src/policy/policy.ts'
import { factsOf, hostname, verdict, writeFiles } from '../../support/policy.ts'
import { readProject, ROOT } from '../../support/tree.ts'

const HARNESS = `version: 1
extends: [base]
network:
  rules:
    - {id: model, host: model.example.com, ports: [443], action: allow}
    - {id: odd, host: odd.example.com, action: ask}
routes:
  - {name: model, upstream: "https://route.example.com"}
`
const BASE = 'version: 1\nnetwork: {rules: [{id: base, host: base.example.com, action: allow}]}\n'

const policyWith = (network: string, more = ''): { files: ReturnType<typeof writeFiles>; options: { policyDirs: string[] } } => {
  const files = writeFiles({
    'dir/harness/mine.yaml': HARNESS,
    'dir/base.yaml': BASE,
    'p.yaml': `version: 1\n${more}network:\n  ${network.replaceAll('\n', '\n  ')}\n`,
  })
  return { files, options: { policyDirs: [files.at('dir')] } }
}

function load(network: string, more?: string): Policy {
  const { files, options } = policyWith(network, more)
  using _ = files
  return loadPolicy([files.at('p.yaml')], options)
}

function problems(network: string, more?: string): { errors: string[]; warnings: string[] } {
  const { files, options } = policyWith(network, more)
  using _ = files
  const { errors, warnings } = checkPolicy([files.at('p.yaml')], options)
  const shorten = (text: string): string => text.replaceAll(`${files.dir}/`, '')
  return {
    errors: errors.map((error) => shorten(formatDiagnostic(error))),
    warnings: warnings.map((error) => shorten(formatDiagnostic(error))),
  }
}

const planeOf = (policy: Policy, request: string): string => {
  const decision = policy.decide(factsOf(request))
  return decision.action === 'deny' ? 'denied' : `${decision.action} ${decision.rule.id} ${decision.rule.plane}`
}

for (const mode of ['restricted', 'none', 'open']) {
  test(`the rules of the harness, and of what it extends, pass in mode ${mode} and are of the control plane`, () => {
    const policy = load(`mode: ${mode}\nharness: mine`)
    assert.equal(planeOf(policy, 'GET https://model.example.com/'), 'allow model control_plane')
    assert.equal(planeOf(policy, 'GET https://base.example.com/'), 'allow base control_plane')
    assert.equal(planeOf(policy, 'GET https://odd.example.com/'), 'ask odd control_plane')
    const tunnel = policy.decideTunnel(hostname('model.example.com'), 443)
    assert.equal(tunnel.action !== 'deny' && tunnel.rule.plane, 'control_plane')
  })
}

test('mode none lets nothing else through, and what is denied stays denied', () => {
  const policy = load(`mode: none
harness: mine
rules:
  - {id: mine, host: mine.example.com, action: allow}
  - {id: t, host: db.example.com, ports: [5432], protocol: tcp, action: allow}
  - {id: q, host: asked.example.com, action: ask}
  - {id: q-model, host: model.example.com, methods: [POST], action: ask}
  - {id: stop, host: model.example.com, methods: [DELETE], action: deny}`)
  for (const [request, expected] of Object.entries({
    'GET https://mine.example.com/': 'host_not_allowed',
    'GET https://asked.example.com/': 'host_not_allowed',
    'GET https://model.example.com/': 'allow model',
    'POST https://model.example.com/': 'allow model',
    'DELETE https://model.example.com/': 'denied_by_rule stop',
  }))
    assert.equal(verdict(policy.decide(factsOf(request))), expected, request)
  assert.equal(verdict(policy.decideTunnel(hostname('db.example.com'), 5432)), 'host_not_allowed')
  assert.equal(policy.knowsName(hostname('mine.example.com')), false)
  assert.equal(policy.knowsName(hostname('model.example.com')), true)
  assert.match(policy.warnings.map(({ message }) => message).join('\n'), /network\.mode: none leaves 4 rules without effect/)
})

test('a route of the harness leads on in mode none, and is of the control plane', () => {
  const policy = load('mode: none\nharness: mine')
  const [route] = policy.routes
  assert.ok(route)
  const decision = policy.decideRoute(route, factsOf('GET https://route.example.com/x'))
  assert.equal(verdict(decision), 'allow route:model')
  assert.equal(decision.action === 'allow' && decision.rule.plane, 'control_plane')
  assert.equal(planeOf(policy, 'GET https://route.example.com/x'), 'denied')
})

test('mode none without a harness is warned about: everything is denied', () => {
  assert.match(problems('mode: none').warnings.join(), /p\.yaml:3: network\.mode: none without network\.harness: everything is denied/)
})

test('the file of a harness that is extended is a layer like any other', () => {
  const extended = load('mode: restricted', 'extends: [harness/mine]\n')
  assert.equal(planeOf(extended, 'GET https://model.example.com/'), 'allow model agent')
  assert.equal(planeOf(load('mode: none', 'extends: [harness/mine]\n'), 'GET https://model.example.com/'), 'denied')
})

test('a harness that is extended as well is read once, and is of the control plane', () => {
  const policy = load('mode: none\nharness: mine', 'extends: [harness/mine]\n')
  assert.equal(planeOf(policy, 'GET https://model.example.com/'), 'allow model control_plane')
  assert.equal(policy.effective.files.length, 3)
})

test('of two layers the later one names the harness, and the other is not read', () => {
  using files = writeFiles({
    'dir/harness/one.yaml': 'version: 1\nnetwork: {rules: [{id: one, host: one.example.com, action: allow}]}\n',
    'dir/harness/two.yaml': 'version: 1\nnetwork: {rules: [{id: two, host: two.example.com, action: allow}]}\n',
    'a.yaml': 'version: 1\nnetwork: {harness: one}\n',
    'b.yaml': 'version: 1\nnetwork: {harness: two, mode: none}\n',
  })
  const policy = loadPolicy([files.at('a.yaml'), files.at('b.yaml')], { policyDirs: [files.at('dir')] })
  assert.equal(planeOf(policy, 'GET https://two.example.com/'), 'allow two control_plane')
  assert.equal(planeOf(policy, 'GET https://one.example.com/'), 'denied')
  assert.equal(policy.effective.harness?.value, 'two')
})

test('the file of a harness comes first, so that the policy which names it has the last word on the mode; it names no other', () => {
  using files = writeFiles({
    'dir/harness/one.yaml': 'version: 1\nnetwork: {mode: open, lease: required}\n',
    'dir/harness/two.yaml': 'version: 1\nnetwork: {harness: one}\n',
    'a.yaml': 'version: 1\nnetwork: {harness: one, mode: restricted}\n',
    'b.yaml': 'version: 1\nnetwork: {harness: two}\n',
  })
  const policy = loadPolicy([files.at('a.yaml')], { policyDirs: [files.at('dir')] })
  assert.deepEqual([policy.effective.mode.value, policy.isLeaseRequired], ['restricted', true])
  const { errors } = checkPolicy([files.at('b.yaml')], { policyDirs: [files.at('dir')] })
  assert.deepEqual(
    errors.map(({ message }) => message),
    ['the file of a harness names no other: extend it instead'],
  )
})

test('a denial or question that covers a rule of the harness holds, and is warned about with both names', () => {
  const rules = (action: string): string => `harness: mine\nrules: [{id: mine, host: "*.example.com", action: ${action}}]`
  assert.equal(planeOf(load(rules('deny')), 'GET https://model.example.com/'), 'denied')
  const denied = problems(rules('deny'))
  assert.deepEqual(denied.errors, [])
  assert.match(
    denied.warnings.join('\n'),
    /p\.yaml:4: rule "mine": it denies all that rule "model" \(dir\/harness\/mine\.yaml:5\) lets the harness itself do: the stricter one holds/,
  )
  assert.equal(planeOf(load(rules('ask')), 'GET https://model.example.com/'), 'ask mine agent')
  assert.match(problems(rules('ask')).warnings.join('\n'), /rule "mine": it asks before all that rule "model"/)
})

test('a denial of a part, or of something else, is not said to be against the harness', () => {
  const { warnings } = problems(
    'harness: mine\nrules: [{id: a, host: model.example.com, methods: [PUT], action: deny}, {id: b, host: x.example.com, action: deny}]',
  )
  assert.doesNotMatch(warnings.join(), /harness itself/)
})

test('an unknown harness is an error with the nearest name, and one that is no name never reaches the file system', () => {
  assert.match(
    problems('harness: nine').errors.join('\n'),
    /^p\.yaml:3: network\.harness "nine": there is no harness\/nine\.yaml in dir: did you mean "mine"\?$/,
  )
  for (const name of ['../base', 'Mine', 'a/b', '.'])
    assert.match(problems(`harness: "${name}"`).errors.join('\n'), /^p\.yaml:3: harness ".*" must be a name like "claude"/, name)
})

test('a credential is not said to have no rule while the harness is missing', () => {
  const more =
    'credentials: [{id: c, secret: T, inject: {domains: [m.example.com], methods: [GET], header: X}}]\nsecrets: [{name: T, source: "env:T"}]\n'
  assert.doesNotMatch(problems('harness: nine', more).warnings.join(), /no rule allows/)
})

test('the digest knows mode, harness, lease and plane', () => {
  const digests = ['mode: restricted', 'mode: open', 'lease: required', 'harness: mine', 'mode: none\nharness: mine'].map(
    (text) => load(text).digest,
  )
  assert.equal(new Set([...digests, load('mode: restricted', 'extends: [harness/mine]\n').digest]).size, 6)
})

const presets = readdirSync(join(ROOT, 'policies/harness')).map((file) => file.replace(/\.yaml$/, ''))
const options = { policyDirs: [join(ROOT, 'policies')] }

/** What stands commented out in a preset, as policies: rules in one, each block of credentials in one. */
function examplesOf(text: string): string[] {
  const rules = [...text.matchAll(/^ {4}# (- \{id: .*\})$/gm)].map(([, rule]) => `    ${rule}\n`).join('')
  const blocks = [...text.matchAll(/^# credentials:\n(?:# {2,}.*\n|# secrets:\n|# routes:\n)+/gm)].map(([block]) =>
    block.replaceAll(/^# /gm, ''),
  )
  const [route] = [...text.matchAll(/^# routes:\n(?:# {2,}.*\n)+/gm)].map(([block]) => block.replaceAll(/^# /gm, ''))
  const withRoute = blocks.map((block, index) => (index === 0 && route !== undefined ? `${block}${route}` : block))
  return [...(rules === '' ? [] : [`network:\n  rules:\n${rules}`]), ...withRoute]
}

for (const name of presets) {
  test(`the preset ${name} loads without a warning, by network.harness and by extends, with every example in it`, () => {
    const text = readProject(`policies/harness/${name}.yaml`)
    const examples = examplesOf(text)
    assert.ok(examples.length >= 2, 'rules and credentials are shown')
    for (const use of [`network: {harness: ${name}}\n`, `extends: [harness/${name}]\n`]) {
      for (const example of ['', ...examples]) {
        // A key stands once: the harness is named on a layer of its own.
        // Of credentials some are for hosts of rules that are examples, too.
        using files = writeFiles({
          'p.yaml': `version: 1\n${use}`,
          'r.yaml': `version: 1\n${examples[0]}`,
          'e.yaml': `version: 1\n${example}`,
        })
        const layers = ['p.yaml', ...(example === examples[0] || example === '' ? [] : ['r.yaml']), 'e.yaml']
        const { errors, warnings } = checkPolicy(
          layers.map((layer) => files.at(layer)),
          options,
        )
        assert.deepEqual([...errors, ...warnings].map(formatDiagnostic), [], `${use}${example}`)
      }
    }
  })
}

for (const [name, allowed, denied] of [
  ['claude', 'POST https://api.anthropic.com/v1/messages', 'POST https://http-intake.logs.us5.datadoghq.com/api'],
  ['codex', 'POST https://api.openai.com/v1/responses', 'POST https://chatgpt.com/backend-api/conversation'],
  ['codex', 'POST https://chatgpt.com/backend-api/codex/responses', 'POST https://chatgpt.com/backend-api/codex/analytics-events/events'],
  [
    'gemini',
    'POST https://generativelanguage.googleapis.com/v1beta/models/x:streamGenerateContent?alt=sse',
    'POST https://play.googleapis.com/log',
  ],
  ['opencode', 'POST https://api.anthropic.com/v1/messages', 'GET https://opencode.ai/zen'],
  ['copilot', 'POST https://api.individual.githubcopilot.com/chat/completions', 'GET https://api.github.com/repos/acme/private/contents'],
  ['cursor', 'POST https://agentn.global.api5.cursor.sh/agent.v1.AgentService/Run', 'GET https://cursor.com/install'],
] as const) {
  test(`with the harness ${name} alone ${allowed} passes and ${denied} does not`, () => {
    using files = writeFiles({ 'p.yaml': `version: 1\nnetwork: {mode: none, harness: ${name}}\n` })
    const policy = loadPolicy([files.at('p.yaml')], options)
    assert.match(planeOf(policy, allowed), /^allow .* control_plane$/)
    assert.equal(planeOf(policy, denied), 'denied')
  })
}
