import assert from 'node:assert/strict'
import { mkdir, mkdtemp, realpath, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { OWN_VARIABLES } from '../../../src/controller/sessions/agent-environment.ts'
import type { ContainerOptions, EngineInfo, ImageFacts } from '../../../src/controller/sessions/engine.ts'
import { harden, type ContainerSpec } from '../../../src/controller/sessions/hardening.ts'
import { chooseJail, dividedJail, jailOfSubnet, siblingSubnets, subnetsOverlap } from '../../../src/controller/sessions/jail.ts'
import { isOverfull, lendOutput, watchOutput } from '../../../src/controller/sessions/sibling-output.ts'
import { siblingSpec } from '../../../src/controller/sessions/sibling-spec.ts'
import { checkWish } from '../../../src/controller/sessions/sibling-wish.ts'
import type { SiblingWish } from '../../../src/controller/sessions/sibling.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'

const CANARY = 'canary-value-of-nobody'
const WISH: SiblingWish = {
  kind: 'use',
  label: 'deploy-1',
  argv: ['curl', '-sS', 'https://example.com'],
  environment: { PUBLIC: 'yes' },
  values: { TOKEN: new Secret('token', CANARY) },
  stdin: 'closed',
  workspace: 'none',
  pinned: [],
}
const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }

let folder: string
before(async () => void (folder = await realpath(await mkdtemp(join(tmpdir(), 'sallyport-sibling-')))))
after(() => rm(folder, { recursive: true }))

test('a session’s /24 has a jail, an uplink and networks for siblings that have no address in common', () => {
  const { jail, uplink } = dividedJail(chooseJail('seed', []))
  const all = siblingSubnets(jail, uplink)
  assert.ok(all.length >= LIMITS.siblingsMax)
  const subnets = [jail.subnet, uplink, ...all.map(({ subnet }) => subnet)]
  for (const [index, one] of subnets.entries()) {
    for (const other of subnets.slice(index + 1)) assert.equal(subnetsOverlap(one, other), false, `${one} ${other}`)
    assert.ok(subnetsOverlap(one, jail.subnet.replace('.0/25', '.0/24')))
  }
  for (const { subnet, sidecar, sibling, ipRange } of all) {
    assert.notEqual(sidecar, sibling)
    for (const address of [sidecar, sibling]) {
      assert.ok(subnetsOverlap(`${address}/32`, subnet))
      assert.equal(subnetsOverlap(`${address}/32`, ipRange), false)
    }
  }
})

test('a session of an earlier version, whose uplink is half of its /24, has no network for siblings', () => {
  const jail = jailOfSubnet('10.213.7.0/24')
  assert.deepEqual(siblingSubnets({ subnet: '10.213.7.0/25' }, '10.213.7.128/25'), [])
  assert.deepEqual(siblingSubnets(jail ?? { subnet: '' }, '10.213.9.0/24'), [])
})

test('a wish that is as it should be is taken', () => {
  checkWish(WISH)
  checkWish({
    ...WISH,
    stdin: 'open',
    folder: '/',
    pinned: [{ target: '/sallyport/pinned/1/a', content: Buffer.from(''), executable: true }],
  })
})

const pinned = (...targets: string[]) => targets.map((target) => ({ target, content: Buffer.from('x'), executable: false }))
for (const [why, change] of Object.entries<Partial<SiblingWish>>({
  'a label that leaves its name': { label: 'a/../b' },
  'no label': { label: '' },
  'a program that is an option of exec': { argv: ['-a', 'sh'] },
  'a program without a name': { argv: [''] },
  'a NUL in an argument': { argv: ['sh', 'a\0b'] },
  'half a character in an argument': { argv: ['sh', '\ud800'] },
  'an argument that the kernel would not take': { argv: ['sh', 'x'.repeat(LIMITS.argumentBytesMax)] },
  'a folder that is no whole path': { folder: 'src' },
  'a folder with a way up': { folder: '/workspace/../etc' },
  'a variable that is none': { environment: { 'BASH_FUNC_printf%%': '() { :; }' } },
  'a variable of the gate': { environment: { HTTPS_PROXY: 'http://elsewhere' } },
  'a secret variable of the gate': { values: { SALLYPORT_LEASE: new Secret('x', CANARY) } },
  'a way to an engine': { environment: { DOCKER_HOST: 'tcp://x' } },
  'a variable of the shim': { environment: { sallyport_end: '1' } },
  'a secret that is how the shell splits words': { values: { IFS: new Secret('x', CANARY) } },
  'a secret that the shell makes numbers of': { values: { RANDOM: new Secret('x', CANARY) } },
  'a variable that is given twice': { environment: { TOKEN: 'public' } },
  'a NUL in a secret': { values: { TOKEN: new Secret('x', `${CANARY}\0`) } },
  'a secret that is no Unicode': { values: { TOKEN: new Secret('x', `${CANARY}\ud800`) } },
  'an input that is no Unicode': { stdin: new Secret('x', `${CANARY}\udfff`) },
  'a secret that is too long': { values: { TOKEN: new Secret('x', CANARY.repeat(10_000)) } },
  'too many variables': { environment: Object.fromEntries(Array.from({ length: LIMITS.siblingVariablesMax }, (_, i) => [`V${i}`, ''])) },
  'a pinned file in the workspace, where its agent takes mounts away': { pinned: pinned('/workspace/run.sh') },
  'a pinned file beside its folder': { pinned: pinned('/sallyport/pinned/../ca.crt') },
  'a pinned file in place of the folder': { pinned: pinned('/sallyport/pinned') },
  'a pinned file twice': { pinned: pinned('/sallyport/pinned/a', '/sallyport/pinned/a') },
  'a pinned file in a pinned file': { pinned: pinned('/sallyport/pinned/a', '/sallyport/pinned/a/b') },
  'too many pinned files': {
    pinned: pinned(...Array.from({ length: LIMITS.siblingPinnedFilesMax + 1 }, (_, i) => `/sallyport/pinned/${i}`)),
  },
}))
  test(`no container is made for ${why}, and no value is in what is said of it`, () =>
    assert.throws(
      () => checkWish({ ...WISH, ...change }),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'sibling_refused')
        assert.ok(!error.message.includes(CANARY))
        return true
      },
    ))

const AGENT: ContainerSpec = {
  kind: 'agent',
  name: 'sallyport-abcdefghijklmnop-agent',
  labels: {},
  image: 'sha256:1111',
  user: { uid: 1000, gid: 1001 },
  command: ['sleep', 'infinity'],
  folder: '/workspace',
  environment: {},
  binds: [],
  scratch: [],
  network: { name: 'jail', gate: '10.213.7.2' },
  memoryBytes: 256 * 1024 ** 2,
  cpus: 0.5,
  processes: 100,
  runtime: 'runsc',
  seccompProfile: '{"defaultAction":"SCMP_ACT_ERRNO"}',
  tty: true,
  stdin: true,
  keepsLog: true,
}

function specOf(wish: SiblingWish): ContainerOptions {
  const [network] = siblingSubnets({ subnet: '10.213.7.0/25' }, '10.213.7.128/28')
  assert.ok(network !== undefined)
  return harden(
    siblingSpec(
      {
        name: 'sallyport-abcdefghijklmnop-sibling-deploy-1-00',
        labels: { 'sallyport.role': 'sibling' },
        agent: harden(AGENT),
        image: {
          id: 'sha256:1111',
          environment: [],
          volumes: ['/data'],
          labels: {},
          user: 'root',
          entrypoint: [],
          command: [],
        } satisfies ImageFacts,
        info: { cpus: 4 } as EngineInfo,
        network,
        binds: [{ source: '/s/pinned', target: '/sallyport/pinned', readOnly: true }],
        workspace: { mounts: [], environment: {} },
      },
      wish,
    ),
  )
}

test('I14 a sibling is hardened as its agent is, with no more of anything, no lease and no log', () => {
  const sibling = specOf(WISH)
  const agent = harden({ ...AGENT, kind: 'sibling' })
  const same = (host: ContainerOptions['HostConfig']) => {
    const { NetworkMode: _, Mounts: _mounts, Tmpfs: _tmpfs, Dns: _dns, ExtraHosts: _hosts, LogConfig: _log, ...rest } = host
    return rest
  }
  assert.deepEqual(same(sibling.HostConfig), same(agent.HostConfig))
  assert.deepEqual(sibling.HostConfig.LogConfig, { Type: 'none', Config: {} })
  assert.deepEqual([sibling.User, sibling.Tty, sibling.StdinOnce], ['1000:1001', false, true])
  assert.deepEqual(sibling.HostConfig.Dns, ['10.213.7.146'])
  assert.deepEqual(sibling.HostConfig.ExtraHosts, ['sallyport:10.213.7.146'])
  assert.deepEqual(Object.keys(sibling.HostConfig.Tmpfs).toSorted(), ['/data', '/home/agent', '/run', '/tmp', '/workspace'])
  assert.ok(sibling.HostConfig.Mounts.every(({ ReadOnly }) => ReadOnly))
  const names = new Set(sibling.Env.map((entry) => entry.slice(0, entry.indexOf('='))))
  assert.ok(!names.has('SALLYPORT_LEASE'))
  for (const name of OWN_VARIABLES) if (name !== 'SALLYPORT_LEASE') assert.ok(names.has(name), name)
})

test('I14 a sibling of a large agent is given its own share and not the agent’s', () => {
  const large = harden({ ...AGENT, memoryBytes: 64 * 1024 ** 3, cpus: 32, processes: 100_000 })
  const [network] = siblingSubnets({ subnet: '10.213.7.0/25' }, '10.213.7.128/28')
  assert.ok(network !== undefined)
  const image = { id: 'sha256:1111', environment: [], volumes: [], labels: {}, user: '', entrypoint: [], command: [] }
  const context = { name: 'n', labels: {}, image, network, binds: [], workspace: { mounts: [], environment: {} } }
  const { memoryBytes, cpus, processes } = siblingSpec({ ...context, agent: large, info: { cpus: 64 } as EngineInfo }, WISH)
  assert.deepEqual([memoryBytes, cpus, processes], [LIMITS.siblingMemoryBytes, LIMITS.siblingCpusMax, LIMITS.siblingProcessesMax])
})

test('no value is in anything that the engine is asked for, and only /output can be written, by files of a bounded length', () => {
  const asked = specOf({ ...WISH, stdin: new Secret('in', CANARY), output: { folder: '/s/uses/1', bytesMax: 4_096 } })
  assert.ok(!JSON.stringify(asked).includes(CANARY))
  assert.ok(!JSON.stringify(asked).includes(Buffer.from(CANARY).toString('base64').slice(0, 12)))
  assert.deepEqual(
    asked.HostConfig.Mounts.flatMap(({ Target, ReadOnly }) => (ReadOnly ? [] : Target)),
    ['/output'],
  )
  assert.deepEqual(asked.HostConfig.Ulimits.at(-1), { Name: 'fsize', Soft: 4_096, Hard: 4_096 })
})

test('only an empty folder below the session’s own is lent to a sibling, and none that a link leads to', async () => {
  const own = join(folder, 'session')
  const uses = join(own, 'uses')
  await mkdir(join(uses, 'one'), { recursive: true })
  await mkdir(join(folder, 'elsewhere'))
  await mkdir(join(uses, 'full', 'x'), { recursive: true })
  await symlink(join(folder, 'elsewhere'), join(uses, 'link'))
  lendOutput(join(uses, 'one'), own, owner)
  for (const path of [
    own,
    join(uses, 'full'),
    join(uses, 'link'),
    join(folder, 'elsewhere'),
    join(uses, 'none'),
    join(uses, '..', '..', 'elsewhere'),
  ])
    assert.throws(() => lendOutput(path, own, owner), { code: 'sibling_refused' }, path)
})

test('output is too much by its bytes, its names and its room, and not by what links lead to', async () => {
  const place = join(folder, 'output')
  await mkdir(join(place, 'deep', 'er'), { recursive: true })
  await writeFile(join(folder, 'large'), Buffer.alloc(100_000))
  await symlink(join(folder, 'large'), join(place, 'link'))
  await symlink('/', join(place, 'deep', 'root'))
  await writeFile(join(place, 'deep', 'er', 'file'), Buffer.alloc(1_000))
  assert.equal(await isOverfull(place, 1_000), false)
  assert.equal(await isOverfull(place, 999), true)
  await writeFile(join(place, 'sparse'), '')
  await truncate(join(place, 'sparse'), 1024 ** 3)
  assert.equal(await isOverfull(place, 1024 ** 2), true)
  await rm(join(place, 'sparse'))
  // By names that are no text.
  for (const path of ['\xff', '\xfe/\xfd']) {
    const whole = Buffer.concat([Buffer.from(`${place}/`), Buffer.from(path, 'latin1')])
    if (path.includes('/')) await mkdir(whole.subarray(0, whole.lastIndexOf('/')))
    await writeFile(whole, Buffer.alloc(10_000))
    assert.equal(await isOverfull(place, 10_000), true, JSON.stringify(path))
    assert.equal(await isOverfull(place, 50_000), false, JSON.stringify(path))
    await rm(whole)
  }
  for (let index = 0; index <= LIMITS.siblingOutputNamesMax; index += 1) await writeFile(join(place, `n${index}`), '')
  assert.equal(await isOverfull(place, 1024 ** 2), true)
})

test('the watch over an output says once that it is too much, and nothing when it is told to end', async () => {
  const place = join(folder, 'watched')
  await mkdir(place)
  const full = Promise.withResolvers<void>()
  const watching = watchOutput(place, 10, full.resolve, new AbortController().signal)
  await writeFile(join(place, 'file'), 'more than ten bytes')
  await full.promise
  await watching
  const ended = new AbortController()
  const quiet = watchOutput(place, 1_000, () => assert.fail('nothing is too much'), ended.signal)
  ended.abort()
  await quiet
})
