import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync, chownSync, chmodSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { ensureBaseImage } from '../../scripts/base-image.ts'
import { ensureHarnessImages } from '../../scripts/harness-images.ts'
import { STATE, capture, type Outcome } from '../../scripts/steps.ts'
import { openSessions } from '../support/controller-sessions.ts'
import type { SessionPlan } from '../../src/controller/sessions/session-parts.ts'
import { harnessOf, type Harness, type HarnessSetting } from '../../src/controller/sessions/harness.ts'

const UID = 10_001
const SETTING: HarnessSetting = { workspace: '/workspace', secrets: [], placeholders: {}, mcpServers: [], now: Date.UTC(2026, 10, 1) }

/** The agent's user in a hardened container without any network, with the harness's files in its HOME. */
async function runIn(harness: Harness, argv: readonly string[]): Promise<Outcome> {
  const home = mkdtempSync(join(STATE, 'harness-'))
  try {
    for (const { path, content } of harness.homeFiles) {
      mkdirSync(dirname(join(home, path)), { recursive: true })
      writeFileSync(join(home, path), content, { mode: 0o600 })
      if (process.getuid?.() === 0) chownSync(join(home, path), UID, UID)
      for (let at = dirname(join(home, path)); at.startsWith(home); at = dirname(at)) open(at)
    }
    open(home)
    const hardened = ['--cap-drop', 'ALL', '--security-opt', 'no-new-privileges:true', '--read-only', '--init', '--network', 'none']
    const limits = ['--memory', '2g', '--pids-limit', '256', '--user', `${UID}:${UID}`, '--tmpfs', '/tmp:rw,exec,mode=1777']
    const environment = Object.entries({ HOME: '/home/agent', ...harness.environment }).flatMap(([k, v]) => ['--env', `${k}=${v}`])
    const mounts = ['--volume', `${home}:/home/agent:rw`, '--label', 'sallyport.test=harness']
    return await capture('docker', ['run', '--rm', ...hardened, ...limits, ...environment, ...mounts, harness.image ?? '', ...argv], {
      timeoutMs: 120_000,
    })
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}

function open(folder: string): void {
  if (process.getuid?.() === 0) chownSync(folder, UID, UID)
  else chmodSync(folder, 0o777)
}

test('codex takes its worthless login for a subscription for one, and never sees the secret', async () => {
  await ensureHarnessImages(['codex'], await ensureBaseImage())
  const { stdout, stderr } = await runIn(harnessOf('codex', { ...SETTING, secrets: ['CODEX_ACCESS_TOKEN'] }), ['codex', 'login', 'status'])
  assert.match(stdout + stderr, /Logged in using ChatGPT/)
})

test('opencode finds the provider whose secret the policy has, and no other', async () => {
  await ensureHarnessImages(['opencode'], await ensureBaseImage())
  const harness = harnessOf('opencode', { ...SETTING, secrets: ['ANTHROPIC_API_KEY'] })
  const { stdout, stderr } = await runIn(harness, ['opencode', 'auth', 'list'])
  assert.match(stdout + stderr, /ANTHROPIC_API_KEY/)
  assert.doesNotMatch(stdout + stderr, /OPENAI_API_KEY/)
})

for (const { what, change, image, hint } of [
  {
    what: 'harness',
    change: (plan: SessionPlan) => ({
      ...plan,
      agent: { ...plan.agent, image: 'sallyport/agent-of-nobody:1', imageHint: 'docker build it' },
    }),
    image: 'sallyport/agent-of-nobody:1',
    hint: 'docker build it',
  },
  {
    what: 'gate',
    change: (plan: SessionPlan) => ({ ...plan, sidecar: { ...plan.sidecar, image: 'sallyport/gate-of-nobody:1' } }),
    image: 'sallyport/gate-of-nobody:1',
    hint: 'make it, in the folder of Sallyport: npm start',
  },
])
  test(`an image of ours for a ${what} is not fetched where it is missing: the error says how it is made`, async () => {
    await using under = await openSessions({ plan: change })
    await assert.rejects(under.up(), { code: 'image_missing', message: `the engine has no image ${image}`, hint })
  })
