import assert from 'node:assert/strict'
import { test } from 'node:test'
import { subnetsOverlap } from '../../src/controller/sessions/jail.ts'
import { listenOnHost } from '../support/host.ts'
import { connectFromAgent, openSession, type Session } from '../support/session.ts'

const API = 'https://api.demo.internal/v1/me'
const AUDIT = '/var/lib/sallyport/audit/audit.jsonl'
const NO_WAY = /No route to host|Network is unreachable/

async function isAuthenticated(session: Session, seconds = 20): Promise<boolean> {
  return (await session.agent(['curl', '-sS', '-m', String(seconds), API])).stdout.includes('"authenticated":true')
}

test('I12 two workspaces side by side work, and neither reaches the other', async (t) => {
  const [one, two] = await Promise.all([openSession(), openSession()])
  t.after(() => Promise.all([one, two].map((session) => session[Symbol.asyncDispose]())))

  await t.test('each has a project, a subnet, a token and an authority of its own', async () => {
    assert.notEqual(one.name, two.name)
    assert.equal(subnetsOverlap(one.project.env.get('SALLYPORT_SUBNET') ?? '', two.project.env.get('SALLYPORT_SUBNET') ?? ''), false)
    assert.notEqual(one.token, two.token)
    const authorities = await Promise.all([one, two].map(async (session) => (await session.agent(['cat', '/sallyport/ca.crt'])).stdout))
    assert.notEqual(authorities[0], authorities[1])
  })

  await t.test('each agent gets its authenticated answer', async () => {
    assert.deepEqual(await Promise.all([isAuthenticated(one), isAuthenticated(two)]), [true, true])
  })

  await t.test('no address of the second session is reachable from the first one’s agent', async () => {
    await two.project.compose(['exec', '-d', 'agent', 'python3', '-m', 'http.server', '8000'])
    const targets = [
      [await two.address('sidecar', 'jail'), 3128],
      [await two.address('sidecar', 'jail'), 7070],
      [await two.address('sidecar', 'uplink'), 3128],
      [await two.address('agent', 'jail'), 8000],
      [await two.address('upstream', 'uplink'), 443],
    ] as const
    const results = await Promise.all(targets.map(([address, port]) => connectFromAgent(one, address, port)))
    for (const [index, result] of results.entries()) assert.match(result, NO_WAY, targets[index]?.join(':'))
  })

  await t.test('the first one’s gate does not lead to the second session either', async () => {
    const seen = (await two.upstreamSaw()).length
    for (const address of [await two.address('sidecar', 'jail'), await two.address('upstream', 'uplink')]) {
      const { stdout } = await one.agent(['curl', '-sS', '-o', '/dev/null', '-D', '-', `https://${address}/v1/me`])
      assert.match(stdout, /^HTTP\/1\.1 403 /)
    }
    assert.equal((await two.upstreamSaw()).length, seen)
  })
})

test('I12 the sidecar’s death leaves no way out, and its return needs nothing from a running agent', async (t) => {
  await using session = await openSession()
  await using host = await listenOnHost()
  const upstream = await session.address('upstream', 'uplink')
  const authority = (await session.agent(['cat', '/sallyport/ca.crt'])).stdout
  const agentId = (await session.inspect('agent')).Id
  assert.ok(await isAuthenticated(session))

  await t.test('killed, it leaves the agent without a way to the API, to this machine and to its own place', async () => {
    const jail = await session.address('sidecar', 'jail')
    const seen = (await session.upstreamSaw()).length
    assert.equal((await session.project.compose(['stop', '-t', '0', 'sidecar'])).code, 0)
    const others = [
      [upstream, 443],
      [(session.project.env.get('SALLYPORT_SUBNET') ?? '').replace(/0\/24$/, '1'), host.port],
    ] as const
    // Side by side: each is a wait for what never comes.
    const [isServed, gate, ...results] = await Promise.all([
      isAuthenticated(session, 5),
      connectFromAgent(session, jail, 3128),
      ...others.map(([address, port]) => connectFromAgent(session, address, port)),
    ])
    assert.equal(isServed, false)
    assert.notEqual(gate, 'connected')
    for (const [index, result] of results.entries()) assert.match(result, NO_WAY, others[index]?.join(':'))
    assert.equal(host.connections(), 0)
    assert.equal((await session.upstreamSaw()).length, seen)
  })

  await t.test('started again, it has the same authority and serves the agent that kept running', async () => {
    assert.equal((await session.project.compose(['up', '-d', '--wait', '--no-build', '--no-recreate', 'sidecar'])).code, 0)
    assert.equal((await session.inspect('agent')).Id, agentId)
    assert.ok(await isAuthenticated(session))
    assert.equal((await session.agent(['curl', '-sS', 'http://sallyport:7070/ca.crt'])).stdout.trim(), authority.trim())
  })

  await t.test('the audit goes on in the same chain', async () => {
    const { code, stdout } = await session.sidecar(['sallyport', 'audit', 'verify', AUDIT, '--json'])
    assert.equal(code, 0, stdout)
    const events = (await session.sidecar(['cat', AUDIT])).stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { event: string })
    assert.equal(events.filter(({ event }) => event === 'started').length, 2)
  })

  await t.test('made anew by compose, it still is the one that the agent trusts', async () => {
    assert.equal((await session.project.compose(['up', '-d', '--wait', '--no-build', '--force-recreate', '--no-deps', 'sidecar'])).code, 0)
    assert.ok(await isAuthenticated(session))
  })
})
