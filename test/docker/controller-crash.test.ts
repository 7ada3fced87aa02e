import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { reapStrays } from '../../src/controller/sessions/adopt.ts'
import type { SessionView } from '../../src/controller/sessions/session-parts.ts'
import { openState } from '../../src/controller/state.ts'
import { system } from '../../src/kernel/system.ts'
import { capture } from '../../scripts/steps.ts'
import { engineInventory, leftIn, makeHome, openSessions, type SessionsUnderTest } from '../support/controller-sessions.ts'

const CHILD = join(import.meta.dirname, '../support/sessions-child.ts')

/** Runs a controller that dies where it is told to, or that is killed once its session is up. */
async function controllerThatDies(home: string, death: string): Promise<SessionView | undefined> {
  const child = spawn(process.execPath, [CHILD, home, death], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (piece: Buffer) => {
    text += piece.toString('utf8')
    if (text.includes('\n')) child.kill('SIGKILL')
  })
  const [, signal] = (await once(child, 'close')) as [number | null, string | null]
  assert.equal(signal, 'SIGKILL')
  return text === '' ? undefined : (JSON.parse(text) as SessionView)
}

async function adopted(home: string, check: (under: SessionsUnderTest) => Promise<void>): Promise<void> {
  {
    await using under = await openSessions({ home })
    await under.sessions.adopt(new AbortController().signal)
    await check(under)
  }
  await rm(home, { recursive: true })
}

/** What the dead one had asked for, and saw no answer to, may come to be after the first look: the daemon looks again, and so does this. */
async function reapedAsTheDaemonDoes({ engine, home, parts }: SessionsUnderTest): Promise<void> {
  const end = system.elapsed() + 20_000
  for (let quiet = 0; quiet < 4 && system.elapsed() < end;) {
    await setTimeout(250)
    const { containers, networks } = await leftIn(engine, home)
    quiet = containers.length + networks.length === 0 ? quiet + 1 : 0
    if (quiet === 0) await reapStrays(parts)
  }
}

const DEATHS = [
  'step:networks',
  'verb:createNetwork:1:before',
  'verb:createNetwork:1:after',
  'verb:createNetwork:2:after',
  'step:containers',
  'verb:create:1:before',
  'verb:create:2:after',
  'verb:create:3:after',
  'verb:connect:1:before',
  'verb:connect:1:after',
  'step:gate',
  'verb:start:1:before',
  'verb:start:1:after',
  'step:agent',
  'verb:start:2:before',
  'verb:start:2:after',
]

for (const death of DEATHS) {
  test(`I40 a controller that is killed at ${death} leaves no half session to the next one`, async () => {
    const home = await makeHome()
    assert.equal(await controllerThatDies(home, death), undefined)
    await adopted(home, async (under) => {
      assert.deepEqual(under.sessions.list(), [])
      assert.equal(under.state.find('child')?.state, 'failed')
      if (death.endsWith(':before')) await reapedAsTheDaemonDoes(under)
      assert.deepEqual(await leftIn(under.engine, home), { containers: [], networks: [] })
      assert.deepEqual(
        (await readdir(join(home, 'sessions'))).filter((name) => name !== 'subnets'),
        [],
      )
      assert.equal(under.audited.filter(({ event }) => event === 'reaped').length, 1)
    })
  })
}

test('I40 a session that was up goes on under the next controller, and is taken down by it without a rest', async () => {
  const home = await makeHome()
  const view = await controllerThatDies(home, 'up')
  assert.ok(view !== undefined)
  await adopted(home, async (under) => {
    const [found] = under.sessions.list()
    assert.deepEqual([found?.id, found?.state, found?.agent.running, found?.sidecar.healthy], [view.id, 'running', true, true])
    assert.equal(
      (await under.run('child', ['sh', '-c', 'curl -sS -o /dev/null -w "%{http_code}" http://sallyport:7070/healthz'])).stdout,
      '200',
    )
    await under.sessions.down('child')
    assert.deepEqual(await leftIn(under.engine, home), { containers: [], networks: [] })
  })
})

for (const which of ['agent', 'sidecar'] as const) {
  test(`I40 a session whose ${which} was removed meanwhile is not half adopted`, async () => {
    const home = await makeHome()
    const view = await controllerThatDies(home, 'up')
    await capture('docker', ['rm', '--force', view?.[which].container ?? ''])
    await adopted(home, async (under) => {
      assert.deepEqual(under.sessions.list(), [])
      assert.deepEqual(await leftIn(under.engine, home), { containers: [], networks: [] })
    })
  })
}

test('I14 a session that was altered meanwhile is ended, and the difference is recorded', async () => {
  const home = await makeHome()
  const view = await controllerThatDies(home, 'up')
  await capture('docker', ['update', '--memory', '8g', '--memory-swap', '8g', view?.agent.container ?? ''])
  await adopted(home, async (under) => {
    assert.deepEqual(under.sessions.list(), [])
    const event = under.audited.find((one) => one.event === 'unverified')
    assert.match(event?.details?.join('\n') ?? '', /HostConfig\.Memory is 8589934592 instead of 4294967296/)
    assert.deepEqual(await leftIn(under.engine, home), { containers: [], networks: [] })
  })
})

test('I40 a stopped gate of a session that was up is started again by the next controller', async () => {
  const home = await makeHome()
  const view = await controllerThatDies(home, 'up')
  await capture('docker', ['stop', '--time', '0', view?.sidecar.container ?? ''])
  await adopted(home, async (under) => {
    assert.equal(under.sessions.list()[0]?.sidecar.healthy, true)
    assert.equal(
      (await under.run('child', ['curl', '-sS', '-o', '/dev/null', '-w', '%{http_code}', 'http://sallyport:7070/healthz'])).stdout,
      '200',
    )
  })
})

test('a gate that is killed after the next controller has taken its session over keeps the authority that running programs trust', async () => {
  const home = await makeHome()
  await mkdir(join(home, 'policies'), { mode: 0o700 })
  await writeFile(join(home, 'policies', 'global.yaml'), 'version: 1\nnetwork: {rules: [{id: a, host: a.example.test, action: allow}]}\n')
  const view = await controllerThatDies(home, 'up')
  const [agent = '', sidecar = ''] = [view?.agent.container, view?.sidecar.container]
  await capture('docker', ['exec', agent, 'cp', '/sallyport/ca.crt', '/tmp/as-started.crt'])
  await adopted(home, async (under) => {
    const found = await under.engine.inspect(sidecar)
    process.kill(found?.State.Pid ?? 0, 'SIGKILL')
    const curl = ['curl', '-sS', '-o', '/dev/null', '-w', '%{http_code}', '--cacert', '/tmp/as-started.crt', 'https://a.example.test/']
    let last: Awaited<ReturnType<SessionsUnderTest['run']>>
    // Whatever the gate says of a name that has no address, it says it within TLS.
    const end = system.elapsed() + 15_000
    do {
      await setTimeout(50)
      last = await under.run('child', curl)
    } while (last.code !== 0 && system.elapsed() < end)
    assert.equal(last.code, 0, last.stderr)
    assert.notEqual((await under.engine.inspect(sidecar))?.State.StartedAt, found?.State.StartedAt)
  })
})

test('I28 a session whose leases were revoked does not get them back from the next controller, also by a gate that begins anew', async () => {
  const home = await makeHome()
  const view = await controllerThatDies(home, 'up')
  {
    using state = openState(join(home, 'state.db'), system)
    state.revokeLeases(view?.id ?? '')
  }
  await capture('docker', ['restart', '--time', '0', view?.sidecar.container ?? ''])
  await adopted(home, async (under) => {
    assert.deepEqual(under.sessions.list(), [])
    assert.ok(under.state.leases().every(({ state }) => state !== 'live'))
    assert.match(under.audited.find(({ event }) => event === 'reaped')?.details?.[0] ?? '', /^session_revoked/)
    assert.deepEqual(await leftIn(under.engine, home), { containers: [], networks: [] })
  })
})

test('I40 what is not of this home is never touched: other containers, other homes, and what only looks like ours', async () => {
  const home = await makeHome()
  await using other = await openSessions()
  const neighbour = await other.up()
  const label = `sallyport.home=${Object.values((await import('../../src/controller/sessions/session-names.ts')).homeLabel(home))[0]}`
  const names = ['sallyport-test-foreign', 'sallyport-test-labelled']
  try {
    await capture('docker', ['create', '--name', names[0] ?? '', '--label', 'sallyport.test=1', 'sallyport/agent:0.1.0'])
    // As a container of an image that carries the labels would be.
    await capture('docker', [
      'create',
      '--name',
      names[1] ?? '',
      '--label',
      label,
      '--label',
      'sallyport.session=aaaaaaaaaaaaaaaa',
      '--label',
      'sallyport.role=agent',
      'sallyport/agent:0.1.0',
    ])
    const before = await engineInventory()
    await controllerThatDies(home, 'step:agent')
    await adopted(home, async () => {})
    const after = await engineInventory()
    assert.deepEqual(
      before
        .filter((line) => line.includes(neighbour.id) || names.some((name) => line.endsWith(name)))
        .filter((line) => !after.includes(line)),
      [],
    )
    assert.equal((await other.run(neighbour.id, ['true'])).code, 0)
  } finally {
    await capture('docker', ['rm', '--force', ...names])
  }
  assert.equal(existsSync(home), false)
})
