import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { verifyAuditFolder } from '../../src/audit/audit.ts'
import { holdHome } from '../../src/controller/home.ts'
import { contentDigest } from '../../src/controller/sessions/workspace-trust.ts'
import { openDaemonPlace, type DaemonPlace } from '../support/daemon-command.ts'

const VALUE = 'value-that-is-in-no-record'

function changes(place: DaemonPlace): Record<string, unknown>[] {
  return readFileSync(join(place.home, 'audit', 'controller.jsonl'), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ event }) => event === 'config_changed')
}

const shapes = (place: DaemonPlace) => changes(place).map(({ of, what, did, version, by }) => ({ of, what, did, version, by }))

test('what commands change of secrets, trust and policy is in a signed audit without a daemon: names and versions, never values', async () => {
  await using place = openDaemonPlace()
  await place.must(['secret', 'set', 'API_KEY', '--unlock', 'key-file'], VALUE)
  await place.must(['secret', 'set', 'API_KEY'], `${VALUE}2`)
  await place.must(['secret', 'tag', 'API_KEY', '+prod'])
  await place.must(['secret', 'tag', 'API_KEY'])
  await place.must(['secret', 'ls'])
  await place.must(['secret', 'rotate-key'])
  await place.must(['secret', 'rm', 'API_KEY'])
  const policy = 'version: 1\nnetwork: {rules: [{id: a, host: api.example.com, action: deny}]}\n'
  const workspace = await place.workspace('own', { '.sallyport/policy.yaml': policy })
  await place.must(['trust', '--workspace', workspace, '--yes', '--digest', contentDigest(policy)])
  await place.must(['trust', 'rm', '--workspace', workspace])
  await place.must(['init', '--workspace', workspace])
  const file = String(changes(place).at(-1)?.['what'])
  assert.equal(changes(place).at(-1)?.['digest'], contentDigest(readFileSync(file, 'utf8')))
  const secret = { of: 'secret', what: 'API_KEY' }
  assert.deepEqual(shapes(place), [
    { ...secret, did: 'set', version: 1, by: 'sallyport secret set' },
    { ...secret, did: 'set', version: 2, by: 'sallyport secret set' },
    { ...secret, did: 'tagged', version: 3, by: 'sallyport secret tag' },
    { of: 'vault', what: 'key-file', did: 'key_rotated', version: 4, by: 'sallyport secret rotate-key' },
    { ...secret, did: 'removed', version: 3, by: 'sallyport secret rm' },
    { of: 'trust', what: workspace, did: 'accepted', version: undefined, by: 'sallyport trust' },
    { of: 'trust', what: workspace, did: 'withdrawn', version: undefined, by: 'sallyport trust rm' },
    { of: 'policy', what: file, did: 'written', version: undefined, by: 'sallyport init' },
  ])
  assert.ok(!readFileSync(join(place.home, 'audit', 'controller.jsonl'), 'utf8').includes(VALUE))
  assert.equal((await verifyAuditFolder(join(place.home, 'audit'))).unsigned, 0)
})

test('a change that could not be recorded is not made', async () => {
  await using place = openDaemonPlace()
  await place.must(['secret', 'set', 'API_KEY', '--unlock', 'key-file'], VALUE)
  await chmod(join(place.home, 'audit.key'), 0o644)
  for (const argv of [
    ['secret', 'set', 'OTHER'],
    ['secret', 'rm', 'API_KEY'],
    ['secret', 'rotate-key'],
  ]) {
    const { code, stderr } = await place.run(argv, VALUE)
    assert.equal(code, 1)
    assert.match(stderr, /^audit_key_invalid: /m)
  }
  const rows = JSON.parse(await place.must(['secret', 'ls', '--json'])) as { key: string; version: number }[]
  assert.deepEqual(
    rows.map(({ key, version }) => [key, version]),
    [['API_KEY', 1]],
  )
})

test('a home that another process holds without answering is left alone, and nothing is changed', async () => {
  await using place = openDaemonPlace()
  await place.must(['secret', 'set', 'API_KEY', '--unlock', 'key-file'], VALUE)
  await mkdir(join(place.home, 'policies'), { recursive: true })
  await writeFile(join(place.home, 'policies', 'global.yaml'), 'version: 1\n')
  using held = holdHome(place.home)
  assert.ok(held)
  const { code, stderr } = await place.run(['secret', 'set', 'OTHER'], VALUE)
  assert.equal(code, 1)
  assert.match(stderr, /^daemon_running: /m)
  assert.equal(changes(place).length, 1)
  assert.deepEqual(
    (JSON.parse(await place.must(['secret', 'ls', '--json'])) as { key: string }[]).map(({ key }) => key),
    ['API_KEY'],
  )
})
