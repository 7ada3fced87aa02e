/** A real sidecar process and real links, over a socket and over standard streams. */
import assert from 'node:assert/strict'
import { open as openFile, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { once } from 'node:events'
import { test } from 'node:test'
import { connect } from 'node:net'
import {
  AGENT_LEASE,
  createTestSession,
  openTestController,
  SESSION,
  SIDECAR_LEASE,
  startController,
  startSidecar,
} from '../support/control.ts'
import { AuditChain } from '../support/control-audit.ts'
import { eventually } from '../support/eventually.ts'
import { headerOf } from '../support/http2-upstream.ts'
import { loadPolicy } from '../../src/policy/policy.ts'
import { enterOwnNetwork } from '../support/own-network.ts'
import { bodyOf, exchangeRaw, openTunnel } from '../support/raw-client.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'

// The sidecar's ports are fixed.
await enterOwnNetwork(import.meta.filename)

const [FIRST, SECOND, THIRD] = ['first-canary-7f3a9c5e1b', 'second-canary-02be6d41f8', 'third-canary-c35590aa17']
const PROXY = 3128
const HOST = '127.0.0.1'

type Setting = Awaited<ReturnType<typeof openControlled>>

async function openControlled(transport: 'unix' | 'stdio', more: { graceMs?: number; policy?: string; network?: string } = {}) {
  await using parts = new AsyncDisposableStack()
  const upstream = parts.use(await openUpstream())
  const session = parts.use(await createTestSession({ TOKEN: FIRST }))
  const open = () => openTestController(session, { graceMs: more.graceMs ?? 600_000 })
  let controller = await open()
  parts.defer(() => controller[Symbol.asyncDispose]())
  const text = (rules = ''): string => policyText(upstream, more.network ?? '', rules)
  const sidecar = parts.use(await startSidecar({ transport, session, policy: text() }))
  let attached = transport === 'stdio' ? sidecar.attach(controller.link) : undefined
  await controller.link.ready(AbortSignal.timeout(30_000)).catch((error: unknown) => {
    throw new Error(`${String(error)}\n${sidecar.stderr()}\n${controller.log()}`)
  })
  const running = parts.move()
  return {
    upstream,
    session,
    sidecar,
    text,
    link: () => controller.link,
    log: () => controller.log(),
    /** What a request comes to: the credential that arrived, or the code of the refusal. */
    async ask(path = '/') {
      const authority = `${HOST}:${upstream.port}`
      const seen = upstream.requests.length
      const answer = await exchangeRaw(PROXY, `GET http://${authority}${path} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)
      if (bodyOf(answer).startsWith('{')) return (JSON.parse(bodyOf(answer)) as { code: string }).code
      return headerOf(upstream.requests[seen], 'authorization') ?? 'no credential'
    },
    async leave() {
      if (transport === 'stdio') attached?.detach()
      await controller[Symbol.asyncDispose]()
    },
    async listenAgain() {
      controller = await open()
      if (transport === 'stdio') attached = sidecar.attach(controller.link)
    },
    async comeBack() {
      await this.listenAgain()
      await controller.link.ready(AbortSignal.timeout(30_000))
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

function policyText({ port }: Upstream, network: string, rules: string): string {
  return `version: 1
network:
${network}  rules:
    - {id: api, host: ${HOST}, ports: [${port}], paths: ["/**"], action: allow, plaintext: accept, addresses: ["127.0.0.0/8"]}
${rules}credentials:
  - {id: token, secret: TOKEN, inject: {domains: [${HOST}], paths: ["/"], header: Authorization}}
secrets:
  - {name: TOKEN, source: "env:NOT_HERE"}
`
}

/** I1 in everything that the processes said. */
function assertUnsaid({ sidecar, session, log }: Setting, transport: string): void {
  const stdout = sidecar.stdout().toString('latin1')
  const said = [sidecar.stderr(), session.lines.join('\n'), log(), stdout]
  for (const value of [FIRST, SECOND, THIRD, SIDECAR_LEASE, AGENT_LEASE, 'PRIVATE KEY'])
    assert.ok(!said.some((text) => text.includes(value)), `${value} in ${transport}: ${said.map((text) => text.includes(value)).join()}`)
}

/** Whether an object of the sidecar's heap still leads to this text: what nothing leads to is not in a snapshot. */
async function isReachable({ sidecar }: Setting, text: string): Promise<boolean> {
  const snapshots = async (): Promise<string[]> => (await readdir(sidecar.folder)).filter((name) => name.endsWith('.heapsnapshot'))
  for (const name of await snapshots()) await rm(join(sidecar.folder, name))
  sidecar.child.kill('SIGUSR2')
  const file = await eventually(async () => {
    const [name] = await snapshots()
    const path = join(sidecar.folder, name ?? '')
    assert.match(await endOf(path), /\]\}\s*$/)
    return path
  })
  return (await readFile(file)).includes(text)
}

async function endOf(path: string): Promise<string> {
  await using file = await openFile(path)
  const { size } = await file.stat()
  const { buffer, bytesRead } = await file.read(Buffer.alloc(8), 0, 8, Math.max(0, size - 8))
  return buffer.toString('latin1', 0, bytesRead)
}

for (const transport of ['unix', 'stdio'] as const) {
  test(`I1 over ${transport} a sidecar has its secrets from the controller alone, in memory, and says none of them`, async () => {
    await using setting = await openControlled(transport)
    assert.deepEqual(setting.session.states, ['connected', 'ready'])
    assert.equal(await setting.ask(), FIRST)
    assert.equal(await setting.ask('/without'), 'no credential')
    await eventually(() => assert.ok(setting.session.lines.filter((line) => line.includes('"event":"finished"')).length >= 2))
    assert.equal(AuditChain.problemOf(setting.session.lines), undefined)
    assertUnsaid(setting, transport)
    const environment = await readFile(`/proc/${setting.sidecar.child.pid}/environ`, 'latin1')
    assert.ok(!environment.includes(FIRST) && !environment.includes(SIDECAR_LEASE))
  })

  test(`I18 over ${transport} secrets are swapped under running traffic, at once for all, and one that cannot be used changes nothing`, async () => {
    await using setting = await openControlled(transport)
    const seen: string[] = []
    let isSwapped = false
    const traffic = Promise.all(
      Array.from({ length: 4 }, async () => {
        for (let after = 0; after < 5;) {
          const isAfter = isSwapped
          const arrived = await setting.ask()
          seen.push(arrived)
          if (!isAfter) continue
          after += 1
          assert.equal(arrived, SECOND)
        }
      }),
    )
    await eventually(() => assert.ok(seen.length > 8))
    setting.session.bundle = { version: 2, values: { TOKEN: SECOND } }
    await setting.link().pushSecrets(setting.session.bundle)
    isSwapped = true
    await traffic
    assert.deepEqual(new Set(seen), new Set([FIRST, SECOND]))
    await assert.rejects(setting.link().pushSecrets({ version: 3, values: { TOKEN: 'new\r\nline-canary' } }), { code: 'secret_invalid' })
    await assert.rejects(setting.link().pushSecrets({ version: 3, values: {} }), { code: 'secret_missing' })
    assert.equal(await setting.ask(), SECOND)
    await eventually(() => assert.ok(setting.session.lines.some((line) => line.includes('"secrets":2'))))
    assertUnsaid(setting, transport)
  })

  test(`I18 over ${transport} a policy is in force when the push of it resolves, and a broken one is said to be`, async () => {
    await using setting = await openControlled(transport)
    await writeFile(
      setting.sidecar.policy,
      setting.text(`    - {id: denied, host: ${HOST}, ports: [${setting.upstream.port}], paths: ["/no"], action: deny}\n`),
    )
    await setting.link().pushPolicy()
    assert.equal(await setting.ask('/no'), 'denied_by_rule')
    await writeFile(setting.sidecar.policy, 'version: 1\nnetwork: {nothing: known}\n')
    await assert.rejects(setting.link().pushPolicy(), { code: 'policy_invalid' })
    assert.equal(await setting.ask(), FIRST)
  })

  test(`I18 over ${transport} a gate that was away while its policy was replaced has the last one before it counts as ready`, async () => {
    await using setting = await openControlled(transport)
    setting.session.policyDigest = () => loadPolicy([setting.sidecar.policy], { policyDirs: [] }).digest
    const reloads = (): number => setting.sidecar.stderr().split('"reloaded"').length - 1
    await setting.leave()
    await setting.comeBack()
    assert.equal(reloads(), 0)
    await setting.leave()
    const rule = `    - {id: denied, host: ${HOST}, ports: [${setting.upstream.port}], paths: ["/no"], action: deny}\n`
    await writeFile(setting.sidecar.policy, setting.text(rule))
    await setting.comeBack()
    assert.equal(await setting.ask('/no'), 'denied_by_rule')
    assert.equal(reloads(), 1)
  })

  test(`I18 over ${transport} a gate that cannot take the policy that is in force does not count as ready`, async () => {
    await using setting = await openControlled(transport)
    setting.session.policyDigest = () => 'f'.repeat(64)
    await setting.leave()
    await writeFile(setting.sidecar.policy, 'version: 1\nnetwork: {nothing: known}\n')
    await setting.listenAgain()
    await eventually(() => assert.match(setting.log(), /does not take the policy that is in force/))
    assert.equal(setting.session.states.filter((state) => state === 'ready').length, 1)
  })

  test(`I11 over ${transport} the next controller has the authority of the gate, which is nowhere in clear, and no other is made`, async () => {
    await using setting = await openControlled(transport)
    const given = setting.session.authority()
    const kept: unknown[] = []
    setting.session.keepAuthority = (authority) => void kept.push(authority)
    setting.session.authority = () => assert.fail('another authority is made')
    await setting.leave()
    await setting.comeBack()
    assert.deepEqual(kept, [given])
    const lines = given.keyPem.split('\n').filter((line) => !line.startsWith('-----') && line !== '')
    for (const line of lines) assert.ok(!setting.sidecar.stdout().includes(line))
    assertUnsaid(setting, transport)
  })

  test(`I34 over ${transport} revoking cuts what runs, takes the secrets back, and nothing passes afterwards`, async () => {
    await using setting = await openControlled(transport)
    assert.equal(await setting.ask(), FIRST)
    const sent = setting.upstream.requests.length
    assert.ok(await isReachable(setting, FIRST), 'what is searched has it while it is in force')
    const tunnel = await openTunnel(PROXY, `${HOST}:${setting.upstream.port}`)
    assert.equal(tunnel.status, 200)
    const cut = once(tunnel.socket, 'close')
    await setting.link().revoke()
    await cut
    assert.equal(await setting.ask(), 'session_revoked')
    assert.equal(await isReachable(setting, FIRST), false)
    await writeFile(setting.sidecar.policy, setting.text(`    - {id: more, host: ${HOST}, ports: [1234], action: deny}\n`))
    setting.sidecar.child.kill('SIGHUP')
    assert.equal(await setting.ask('/without'), 'session_revoked')
    assert.equal(setting.upstream.requests.length, sent)
    await assert.rejects(setting.link().pushSecrets({ version: 2, values: { TOKEN: SECOND } }), {
      code: /session_revoked|sidecar_unreachable/,
    })
    assert.equal(await setting.ask(), 'session_revoked')
    assertUnsaid(setting, transport)
  })

  test(`I34 over ${transport} without a controller secrets are kept for the grace and no longer; what needs none passes; one that comes back has them given again`, async () => {
    await using setting = await openControlled(transport, { graceMs: 500 })
    assert.equal(await setting.ask(), FIRST)
    await setting.leave()
    assert.equal(await setting.ask(), FIRST)
    await eventually(async () => assert.notEqual(await setting.ask(), FIRST))
    const sent = setting.upstream.requests.length
    assert.equal(await setting.ask(), 'controller_unavailable')
    assert.equal(setting.upstream.requests.length, sent)
    assert.equal(await setting.ask('/without'), 'no credential')
    assert.equal(await isReachable(setting, FIRST), false)
    setting.session.bundle = { version: 2, values: { TOKEN: THIRD } }
    await setting.comeBack()
    assert.equal(await setting.ask(), THIRD)
    await eventually(() => assert.ok(setting.session.lines.some((line) => line.includes('"secrets_ended"'))))
    await eventually(() =>
      assert.equal(
        setting.session.lines.filter((line) => line.includes('"finished"')).length,
        setting.session.lines.filter((line) => line.includes('"decided"')).length,
      ),
    )
    assert.equal(AuditChain.problemOf(setting.session.lines), undefined)
    assertUnsaid(setting, transport)
  })

  test(`I34 over ${transport} a lease that was revoked while no controller was there ends the session when one is back`, async () => {
    await using setting = await openControlled(transport)
    await setting.leave()
    setting.session.isRevoked = true
    await setting.listenAgain()
    await eventually(async () => assert.equal(await setting.ask(), 'session_revoked'))
    const sent = setting.upstream.requests.length
    assert.equal(await setting.ask('/without'), 'session_revoked')
    assert.equal(setting.upstream.requests.length, sent)
    assertUnsaid(setting, transport)
  })

  test(`over ${transport} the agent's lease is known by the hash that the controller told`, async () => {
    await using setting = await openControlled(transport, { network: '  lease: required\n' })
    const authority = `${HOST}:${setting.upstream.port}`
    const send = (lease: string): Promise<string> =>
      exchangeRaw(
        PROXY,
        `GET http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\nProxy-Authorization: Basic ${Buffer.from(`x:${lease}`).toString('base64')}\r\nConnection: close\r\n\r\n`,
      )
    assert.match(await send(AGENT_LEASE), / 200 /)
    for (const wrong of [SIDECAR_LEASE, `${AGENT_LEASE}0`, AGENT_LEASE.slice(0, -1), '']) assert.match(await send(wrong), / 407 /)
    assert.equal(await setting.ask(), 'lease_required')
    assertUnsaid(setting, transport)
  })

  for (const { what, code, exit, change } of [
    { what: 'a lease of another session', code: 'control_refused', exit: 1, change: { verifyLease: () => false } },
    {
      what: 'a secret that the controller cannot resolve',
      code: 'secret_missing',
      exit: 2,
      change: { secrets: () => Promise.resolve({ version: 1, values: {} }) },
    },
  ]) {
    test(`over ${transport} a sidecar with ${what} ends with ${code} and has opened nothing`, async () => {
      await using session = await createTestSession({ TOKEN: FIRST }, change)
      await using controller = await openTestController(session)
      await using upstream = await openUpstream()
      await using sidecar = await startSidecar({ transport, session, policy: policyText(upstream, '', '') })
      if (transport === 'stdio') sidecar.attach(controller.link)
      assert.equal(await sidecar.closed, exit)
      assert.match(sidecar.stderr(), new RegExp(`^${code}: `, 'm'))
      assert.equal(sidecar.stderr().includes('"event":"ready"'), false)
    })
  }

  test(`over ${transport} another version is a coded error at both ends, and the sidecar gets no secret`, async () => {
    await using session = await createTestSession({ TOKEN: FIRST })
    await using controller = await openTestController(session, { version: '9.9.9' })
    await using upstream = await openUpstream()
    await using sidecar = await startSidecar({ transport, session, policy: policyText(upstream, '', '') })
    if (transport === 'stdio') sidecar.attach(controller.link)
    await assert.rejects(controller.link.ready(AbortSignal.timeout(30_000)), { code: 'control_version_mismatch', message: /9\.9\.9/ })
    assert.equal(await sidecar.closed, 1)
    assert.match(sidecar.stderr(), /^control_version_mismatch: .*9\.9\.9/m)
    assert.equal(session.secretsAsked, 0)
  })
}

test('an audit in a file is sent from there, and a sidecar that is started again sends what is new', async () => {
  await using upstream = await openUpstream()
  await using session = await createTestSession({ TOKEN: FIRST })
  await using controller = await openTestController(session)
  const folder = join(session.socketDir, '..')
  const start = () =>
    startSidecar({
      transport: 'unix',
      session,
      policy: policyText(upstream, '', ''),
      env: { SALLYPORT_AUDIT: join(folder, 'audit.jsonl') },
    })
  for (let turn = 1; turn <= 2; turn++) {
    await using sidecar = await start()
    await controller.link.ready(AbortSignal.timeout(30_000))
    const socket = connect(PROXY, HOST)
    socket.end(`GET http://${HOST}:${upstream.port}/ HTTP/1.1\r\nHost: ${HOST}:${upstream.port}\r\nConnection: close\r\n\r\n`)
    socket.resume()
    await once(socket, 'close')
    sidecar.child.kill('SIGTERM')
    assert.equal(await sidecar.closed, 0)
    await eventually(() => assert.equal(session.lines.filter((line) => line.includes('"stopped"')).length, turn))
  }
  assert.equal(AuditChain.problemOf(session.lines), undefined)
  assert.equal(session.lines.filter((line) => line.includes('"started"')).length, 2)
  assert.ok(session.lines[0]?.includes(SESSION))
})

test('a controller that is killed leaves the sidecar its secrets for the grace, and the next one on the same folder has it again', async () => {
  await using upstream = await openUpstream()
  await using session = await createTestSession({ TOKEN: FIRST })
  const ask = async (): Promise<string | undefined> => {
    const authority = `${HOST}:${upstream.port}`
    const answer = await exchangeRaw(PROXY, `GET http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)
    return bodyOf(answer).startsWith('{')
      ? (JSON.parse(bodyOf(answer)) as { code: string }).code
      : headerOf(upstream.requests.at(-1), 'authorization')
  }
  await using first = await startController({ socketDir: session.socketDir, graceMs: 1_500, token: FIRST })
  await using sidecar = await startSidecar({ transport: 'unix', session, policy: policyText(upstream, '', '') })
  await first.printed('ready')
  assert.equal(await ask(), FIRST)
  await first.kill()
  assert.equal(await ask(), FIRST)
  await eventually(async () => assert.equal(await ask(), 'controller_unavailable'))
  await using second = await startController({ socketDir: session.socketDir, graceMs: 1_500, token: SECOND })
  await second.printed('ready')
  await eventually(async () => assert.equal(await ask(), SECOND))
  assert.doesNotMatch(sidecar.stderr(), /canary/)
})
