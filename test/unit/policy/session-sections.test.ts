import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadPolicy } from '../../../src/policy/policy.ts'
import { policyOf, problemsOf } from '../../support/policy.ts'

test('filesystem and session are parsed into bytes, numbers and ids', () => {
  const policy = policyOf(
    `version: 1
filesystem: {workspace: ro, hide: [".env", "secrets/**"], git_metadata: writable}
session: {image: "node:24-bookworm-slim", memory: 4g, cpus: "1.5", pids: 512, runtime: runsc, user: "1000:100", seccomp: /etc/seccomp.json}
network: {rules: [{id: a, host: a.example.com, action: allow}]}
`,
  )
  assert.deepEqual(policy.filesystem, { workspace: 'ro', hide: ['.env', 'secrets/**'], gitMetadata: 'writable' })
  assert.deepEqual(policy.session, {
    image: 'node:24-bookworm-slim',
    memoryBytes: 4 * 1_024 ** 3,
    cpus: 1.5,
    pids: 512,
    runtime: 'runsc',
    user: { uid: 1000, gid: 100 },
    seccomp: '/etc/seccomp.json',
  })
})

test('what is not said is protected, the operator’s, and otherwise left to whoever makes the session', () => {
  const policy = policyOf('version: 1\n')
  assert.deepEqual(policy.filesystem, { workspace: 'rw', hide: [], gitMetadata: 'protected' })
  assert.deepEqual(policy.session, { user: 'operator' })
})

test('over layers patterns add up, and of each other field the last word counts, with the place where it stands', () => {
  const policy = loadPolicy(
    [
      { file: 'a.yaml', text: 'version: 1\nfilesystem: {workspace: rw, hide: [".env"]}\nsession: {memory: 1g, pids: 100}\n' },
      { file: 'b.yaml', text: 'version: 1\nfilesystem: {workspace: ro, hide: [".env", "keys/**"]}\nsession: {memory: 512m, user: root}\n' },
    ],
    { policyDirs: [] },
  )
  assert.deepEqual(policy.filesystem, { workspace: 'ro', hide: ['.env', 'keys/**'], gitMetadata: 'protected' })
  assert.deepEqual(policy.session, { memoryBytes: 512 * 1_024 ** 2, pids: 100, user: 'root' })
  const { hide, workspace, gitMetadata } = policy.effective.filesystem
  assert.deepEqual(
    [hide[0]?.from.file, hide[1]?.from.file, workspace.from?.file, gitMetadata.from],
    ['a.yaml', 'b.yaml', 'b.yaml', undefined],
  )
  assert.deepEqual([policy.effective.session.pids?.from?.file, policy.effective.session.memoryBytes?.from?.line], ['a.yaml', 3])
})

for (const [text, says] of [
  ['session: {memory: 4GB}', /memory "4GB" is not an amount of memory: .*as "4g"/],
  ['session: {memory: 4}', /session\.memory must be a text/],
  ['session: {memory: 1m}', /memory "1m" is out of range/],
  ['session: {memory: 9999999g}', /out of range/],
  ['session: {cpus: 0}', /session\.cpus/],
  ['session: {cpus: "0.01"}', /cpus "0\.01" must be between/],
  ['session: {cpus: "1e3"}', /cpus "1e3" must be between/],
  ['session: {cpus: "1.555"}', /two decimals at most/],
  ['session: {pids: 1}', /session\.pids must be 16 at least/],
  ['session: {pids: 99999999}', /session\.pids must be 1000000 at most/],
  ['session: {runtime: "a b"}', /must be the name of a runtime/],
  ['session: {runtime: "/usr/bin/runc"}', /must be the name of a runtime/],
  ['session: {user: "0:0"}', /has the id of root: write root/],
  ['session: {user: "1000:0"}', /has the id of root/],
  ['session: {user: admin}', /must be operator, root or "UID:GID"/],
  ['session: {user: "4294967295:1"}', /must be operator, root or "UID:GID"/],
  ['session: {seccomp: profile.json}', /must be an absolute path/],
  ['session: {seccomp: /etc/../p.json}', /must be an absolute path/],
  ['session: {image: "-v /:/host"}', /is not the name of an image/],
  ['session: {image: "Node:24"}', /is not the name of an image/],
  ['session: {image: "a b"}', /is not the name of an image/],
  ['session: {image: ""}', /must not be empty/],
  ['session: {privileged: true}', /unknown key "privileged"/],
  ['session: {memroy: 4g}', /did you mean "memory"/],
  ['filesystem: {hide: ["/etc/passwd"]}', /begins with "\/".*write "etc\/passwd"/],
  ['filesystem: {hide: ["../x"]}', /empty part, "\." or "\.\."/],
  ['filesystem: {hide: ["a//b"]}', /empty part/],
  ['filesystem: {hide: ["**"]}', /hides everything: use workspace: none/],
  ['filesystem: {hide: ["a**"]}', /a whole part of its own/],
  ['filesystem: {hide: ["[ab]"]}', /means something else elsewhere/],
  ['filesystem: {hide: []}', /must not be empty/],
  ['filesystem: {hide: [".env", ".env"]}', /stands in the list twice/],
  ['filesystem: {workspace: rx}', /must be rw or ro or none, not "rx"/],
  ['filesystem: {git_metadata: "off"}', /must be protected or writable/],
] as const)
  test(`${text} is refused with the place and what to write`, () => {
    const { errors } = problemsOf(`version: 1\n${text}\n`)
    assert.match(errors.join('\n'), says)
    for (const error of errors) assert.match(error, /^policy\.yaml:2: /)
  })

for (const image of ['a', 'node:24', 'localhost:5000/a/b:1', 'registry.example.com/x__y/z-1@sha256:' + 'a'.repeat(64), 'a:T_1.2-3'])
  test(`the image ${image} is a name`, () => assert.equal(policyOf(`version: 1\nsession: {image: "${image}"}\n`).session.image, image))
