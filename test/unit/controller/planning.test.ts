import assert from 'node:assert/strict'
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { createPlanning } from '../../../src/controller/planning.ts'
import type { SessionPlan } from '../../../src/controller/sessions/session-parts.ts'
import { openTrust } from '../../../src/controller/sessions/workspace-trust.ts'
import { system } from '../../../src/kernel/system.ts'

let folder: string
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'sallyport-planning-')))
  for (const name of ['home', 'workspace']) await mkdir(join(folder, name))
})
afterEach(() => rm(folder, { recursive: true }))

/** The plan of a session whose policy names this profile. */
async function planWith(profile: string): Promise<SessionPlan> {
  const [file, policy] = [join(folder, 'profile.json'), join(folder, 'policy.yaml')]
  await writeFile(file, profile)
  await writeFile(policy, `version: 1\nsession: {seccomp: ${file}}\n`)
  return await planOf(policy)
}

async function planOf(policy: string, harness?: string): Promise<SessionPlan> {
  const home = join(folder, 'home')
  const presets = join(import.meta.dirname, '../../../policies')
  const trust = openTrust(home, system)
  const planning = createPlanning({
    home,
    presets,
    trust,
    images: { sidecar: 's', agent: 'a' },
    gate: { environment: {}, mounts: [] },
    system,
  })
  const workspace = join(folder, 'workspace')
  return await planning.prepare(
    { workspace, policy: [policy], command: [], tty: false, selftest: false, ...(harness !== undefined && { harness }) },
    { id: 'a'.repeat(16), workspace, policyFolder: join(folder, 'frozen') },
  )
}

for (const profile of [
  { defaultAction: 'SCMP_ACT_ALLOW' },
  { defaultAction: 'SCMP_ACT_LOG' },
  { defaultAction: 'SCMP_ACT_TRACE' },
  { defaultAction: 'SCMP_ACT_NOTIFY' },
  { defaultAction: 'SCMP_ACT_ALLOW', syscalls: [{ names: ['mount'], action: 'SCMP_ACT_ERRNO' }] },
  { syscalls: [] },
  [],
  null,
  'unconfined',
])
  test(`I14 a seccomp profile that is open where it says nothing is refused: ${JSON.stringify(profile)}`, async () => {
    await assert.rejects(planWith(JSON.stringify(profile)), { code: 'config_prohibited' })
  })

test('a seccomp profile that names what it allows is the one that the session gets', async () => {
  const profile = '{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read"],"action":"SCMP_ACT_ALLOW"}]}'
  assert.equal((await planWith(profile)).agent.seccompProfile, profile)
})

test('what is no JSON is no profile', async () => {
  await assert.rejects(planWith('unconfined'), { code: 'config_invalid' })
})

for (const { what, asked, policy, harness } of [
  { what: 'a session that nobody names one for', asked: undefined, policy: '', harness: undefined },
  { what: 'one that is asked for', asked: 'claude', policy: '', harness: 'claude' },
  { what: 'one that a policy names', asked: undefined, policy: 'network: {harness: codex}\n', harness: 'codex' },
  { what: 'one that is asked for over the policy’s', asked: 'claude', policy: 'network: {harness: codex}\n', harness: 'claude' },
  { what: 'none, asked for', asked: 'plain', policy: '', harness: undefined },
])
  test(`the harness of ${what} is ${harness ?? 'none'}`, async () => {
    assert.equal((await planOf(await policyOf(policy), asked)).harness, harness)
  })

async function policyOf(text: string): Promise<string> {
  const file = join(folder, 'policy.yaml')
  await writeFile(file, `version: 1\n${text}`)
  return file
}

test('an image of ours is made on this machine: where it is missing the plan says how, and none of a stranger’s is fetched by its name', async () => {
  const { image, imageHint } = (await planOf(await policyOf(''), 'claude')).agent
  assert.match(image, /^sallyport\/agent-claude:/)
  assert.match(imageHint ?? '', new RegExp(`docker build .* --target claude --tag ${image} `))
})

test('a harness whose program nobody can fetch wants an image of the operator’s own', async () => {
  await assert.rejects(planOf(await policyOf(''), 'cursor'), { code: 'image_missing', hint: /--image REF/ })
  const { image, imageHint } = (await planOf(await policyOf('session: {image: "mine/cursor:1"}\n'), 'cursor')).agent
  assert.deepEqual([image, imageHint], ['mine/cursor:1', undefined])
})
