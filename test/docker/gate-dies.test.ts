import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createDockerEngine } from '../../src/controller/sessions/docker-engine.ts'
import type { SessionPlan } from '../../src/controller/sessions/session-parts.ts'
import { createRedaction, shownText } from '../../src/controller/terminal/redacted.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { capture } from '../../scripts/steps.ts'
import { AGENT_IMAGE, leftIn, openSessions } from '../support/controller-sessions.ts'
import { openTcpEngine } from '../support/tcp-engine.ts'

const SECRET = new Secret('TOKEN', 'token-canary-7f3a9c5e1b')
const IMAGE = `sallyport-test-dying-${process.pid}`

before(async () => {
  const context = mkdtempSync(join(tmpdir(), 'sallyport-dying-'))
  const program = `printf 'the first\\nI had %s \\033]52;c;eA==\\007\\n' ${SECRET.reveal()} >&2; exit 3`
  writeFileSync(join(context, 'Dockerfile'), `FROM ${AGENT_IMAGE}\nENTRYPOINT ${JSON.stringify(['sh', '-c', program])}\n`)
  assert.equal((await capture('docker', ['build', '--quiet', '--tag', IMAGE, context])).code, 0)
  rmSync(context, { recursive: true })
})
after(() => capture('docker', ['image', 'rm', '--force', IMAGE]))

const GATES: readonly { what: string; change: Partial<SessionPlan['sidecar']>; says: readonly RegExp[] }[] = [
  {
    what: 'that cannot use its settings',
    change: { environment: { SALLYPORT_UPSTREAM_PROXY: 'nonsense://x' } },
    says: [/^the gate ended /, /^config_invalid: the URL of the upstream proxy cannot be used/m],
  },
  {
    what: 'that ends in the moment in which it starts',
    change: { image: IMAGE },
    says: [/^the gate ended /, /^the first$/m, /^I had \*+/m],
  },
]

for (const by of ['a socket', 'the engine’s streams'] as const)
  for (const { what, change, says } of GATES)
    test(`what a gate ${what} said last is in the error of up, without secrets, where it is reached by ${by}`, async () => {
      await using tcp = await openTcpEngine()
      await using under = await openSessions({
        ...(by === 'the engine’s streams' && { base: createDockerEngine(tcp.address) }),
        plan: (plan) => ({ ...plan, sidecar: { ...plan.sidecar, ...change } }),
        parts: (parts) => ({
          ...parts,
          printed: (_session, text) =>
            shownText(
              createRedaction(() => [SECRET]),
              text,
            ),
        }),
      })
      const error: unknown = await under.up().then(
        () => undefined,
        (reason: unknown) => reason,
      )
      assert.ok(error instanceof SallyportError)
      assert.equal(error.code, 'sidecar_not_ready', error.message)
      for (const line of says) assert.match(error.message, line)
      assert.doesNotMatch(error.message, /canary/)
      assert.ok(!error.message.includes('\u001b'))
      assert.deepEqual(await leftIn(under.engine, under.home), { containers: [], networks: [] })
    })
