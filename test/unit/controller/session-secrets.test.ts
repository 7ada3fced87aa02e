import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { openLateVault } from '../../../src/controller/late-vault.ts'
import { openProviders, type Providers } from '../../../src/controller/providers/providers.ts'
import { createSessionSecrets, type SessionSecrets } from '../../../src/controller/session-secrets.ts'
import { newLive, openGateLink } from '../../../src/controller/sessions/gate.ts'
import type { SessionParts, SessionRecord } from '../../../src/controller/sessions/session-parts.ts'
import type { LinkedSession } from '../../../src/controller/links/links.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { system } from '../../../src/kernel/system.ts'
import { scopeOfWorkspace } from '../../../src/vault/vault.ts'
import type { SecretHolder } from '../../../src/wire/secret-holder.ts'
import { recordingLog } from '../../support/audit.ts'
import { eventually } from '../../support/eventually.ts'
import { policyOf } from '../../support/policy.ts'
import { writePrograms } from '../../support/programs.ts'
import { vaultHome } from '../../support/vault.ts'

const NEVER = new AbortController().signal
const GONE = new Error('gone')

/** Secrets by their sources, each written into requests to a host of its own. */
function secretsOf(sources: Readonly<Record<string, string>>, providers: Providers, holder: SecretHolder = {}): SessionSecrets {
  const names = Object.keys(sources)
  const policy = policyOf({
    rules: names.map((name) => ({ id: name.toLowerCase(), host: `${name.toLowerCase()}.example.com` })),
    credentials: names.map((name) => ({
      id: name.toLowerCase(),
      secret: name,
      inject: { domains: [`${name.toLowerCase()}.example.com`], header: 'X-Key' },
    })),
    secrets: names.map((name) => ({ name, source: sources[name] })),
  })
  return createSessionSecrets(providers, () => ({ policy, holder }), system)
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('I30 a session gets the secrets of its own workspace and role, and does not start with those of another', async () => {
  await using home = await vaultHome()
  {
    await using vault = await home.create()
    vault.set('MINE', new Secret('MINE', 'value of mine'), { scope: scopeOfWorkspace('/projects/mine') })
    vault.set('CI', new Secret('CI', 'value of ci'), { scope: 'role:ci' })
  }
  await using vault = await openLateVault(home.file, () => home.open(), recordingLog().log)
  await using providers = openProviders({ env: {}, vault })
  const bundle = async (holder: SecretHolder) => secretsOf({ MINE: 'vault:MINE', CI: 'vault:CI' }, providers, holder).bundle('s', NEVER)
  assert.deepEqual((await bundle({ workspace: '/projects/mine', role: 'ci' })).values, { MINE: 'value of mine', CI: 'value of ci' })
  for (const holder of [{ workspace: '/projects/mine' }, { workspace: '/projects/other', role: 'ci' }, {}])
    await assert.rejects(bundle(holder), { code: 'secret_not_permitted' })
})

test('when nobody waits for a session’s secrets any more the program that looks one up is killed at once', async () => {
  using programs = writePrograms({ print: 'echo $$ >"$DIR/pid"; sleep 1000; echo the-value' })
  await using providers = openProviders({ env: programs.env })
  const stop = new AbortController()
  const bundle = secretsOf({ SLOW: 'exec:print' }, providers).bundle('s', stop.signal)
  await eventually(() => assert.match(existsSync(programs.at('pid')) ? programs.read('pid') : '', /\d\n/))
  const pid = Number(programs.read('pid'))
  stop.abort(GONE)
  await assert.rejects(bundle, GONE)
  await eventually(() => assert.equal(isRunning(pid), false))
})

test('when nobody waits for a session’s secrets any more the server that has one is not waited for', async () => {
  const asked = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  const server = createServer((_request, response) => {
    response.once('close', () => closed.resolve())
    asked.resolve()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  try {
    const hashicorp = { address, token: { kind: 'env', variable: 'VAULT_TOKEN' }, isWrapped: false } as const
    await using providers = openProviders({ env: { VAULT_TOKEN: 'token-of-vault' }, hashicorp })
    const stop = new AbortController()
    const bundle = secretsOf({ FAR: 'vault-http:secret/far#token' }, providers).bundle('s', stop.signal)
    await asked.promise
    stop.abort(GONE)
    await assert.rejects(bundle, GONE)
    await closed.promise
  } finally {
    server.close()
    server.closeAllConnections()
  }
})

test('a secret that cannot be had ends the look-ups of the others beside it', async () => {
  using programs = writePrograms({
    print: 'echo $$ >"$DIR/pid"; sleep 1000; echo the-value',
    fail: 'while [ ! -s "$DIR/pid" ]; do sleep 0.01; done; exit 1',
  })
  await using providers = openProviders({ env: programs.env })
  await assert.rejects(secretsOf({ SLOW: 'exec:print', NONE: 'exec:fail' }, providers).bundle('s', NEVER), { code: 'secret_unavailable' })
  await eventually(() => assert.equal(isRunning(Number(programs.read('pid'))), false))
})

for (const { what, isRising, by } of [
  { what: 'while a session starts, by the end of its start', isRising: true, by: 'start' },
  { what: 'while a session starts, by the end of its gate', isRising: true, by: 'gate' },
  { what: 'of a session that runs, by the end of its gate', isRising: false, by: 'gate' },
] as const)
  test(`a look-up of secrets is ended ${what}`, async () => {
    const [start, gate] = [new AbortController(), new AbortController()]
    const live = newLive('s')
    if (isRising) live.rising = [start.signal]
    let linked: LinkedSession | undefined
    const parts = {
      home: '/home',
      state: { isRevoked: () => false, addLease: () => undefined },
      leases: { issue: () => Promise.resolve({ id: 'l', token: 't' }) },
      links: { open: (session: LinkedSession) => Promise.resolve((linked = session)) },
      secrets: (_session: string, signal: AbortSignal) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
    } as unknown as SessionParts
    await openGateLink(parts, live, { workspace: '/w' } as SessionRecord, { onState: () => undefined, renew: () => undefined })
    const asked = linked?.secrets(gate.signal)
    const failed = assert.rejects(asked ?? Promise.resolve(), GONE)
    const [one, other] = by === 'start' ? [start, gate] : [gate, start]
    one.abort(GONE)
    await failed
    assert.equal(other.signal.aborted, false)
  })
