/** What the page would write, and where, while somebody else has a hand in it. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { changeDetail } from '../../src/controller/policy-files/history.ts'
import { workspacePolicyDir } from '../../src/controller/sessions/session-layers.ts'
import { changesSetting, type ChangesSetting } from '../support/policy-changes.ts'

let place: ChangesSetting
beforeEach(() => (place = changesSetting()))
afterEach(() => place[Symbol.dispose]())

const SESSION = 'a'.repeat(16)
const CONTENT = 'version: 1\nnetwork: {rules: [{id: a, host: a.example.com, action: allow}]}\n'

test('I80 a workspace that an agent has lead elsewhere after it was looked at gets nothing of what was meant for the other', async () => {
  // A folder in the workspace of one session is the workspace of another.
  const [meant, other, link] = ['meant', 'other', 'link'].map((name) => join(place.workspace, name)) as [string, string, string]
  for (const folder of [meant, other]) mkdirSync(folder)
  symlinkSync(meant, link)
  const wish = { layer: { kind: 'workspace', workspace: link }, edit: { kind: 'content', content: CONTENT } } as const
  const { target, after } = await place.changes.preview(wish)
  rmSync(link)
  symlinkSync(other, link)
  await assert.rejects(place.changes.apply({ ...wish, target, after }), { code: 'policy_file_changed' })
  for (const folder of [meant, other]) assert.ok(!existsSync(workspacePolicyDir(place.home, folder)))
  assert.deepEqual(place.audited, [])
})

test('I54 what an agent proposed is taken back with the proof that a proposal takes, and not as a change of the page', async () => {
  const target = place.write('home/policies/global.yaml', CONTENT)
  await place.files.apply({ id: 'proposal-1', of: 'policy', target, before: CONTENT, after: 'version: 1\n', appliedAt: 1 }, undefined)
  assert.equal((await changeDetail(place.files, 'proposal-1')).isProposed, true)
  await assert.rejects(place.changes.takeBack('proposal-1'), { code: 'policy_change_invalid' })
  assert.equal(readFileSync(target, 'utf8'), 'version: 1\n')
  await place.files.takeBack('proposal-1')
  assert.equal(readFileSync(target, 'utf8'), CONTENT)
})

test('nothing is allowed for a session that is over: it would be left behind, and nobody would have judged it', async () => {
  place.run(SESSION, 'one', { state: 'exited' })
  const layer = { kind: 'session', session: SESSION } as const
  const edit = { kind: 'allow_host', host: '*.com', for: 'session' } as const
  await assert.rejects(place.changes.preview({ layer, edit }), { code: 'policy_change_invalid' })
  await assert.rejects(place.changes.apply({ layer, edit, target: 'x', after: '0'.repeat(64) }), { code: 'policy_change_invalid' })
  assert.ok(!existsSync(join(place.home, 'policies', 'timed')))
})
