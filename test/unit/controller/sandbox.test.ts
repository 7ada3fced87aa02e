import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ContainerInspection, Engine, EngineInfo, NetworkInspection } from '../../../src/controller/sessions/engine.ts'
import { lookAtSandbox } from '../../../src/controller/sessions/sandbox.ts'
import { harden, jailNetwork, type ContainerSpec } from '../../../src/controller/sessions/hardening.ts'
import type { SessionRecord } from '../../../src/controller/sessions/session-parts.ts'
import { askedOf } from '../../../src/controller/sessions/verify.ts'

const ID = 'abcdefghijklmnop'
const JAIL = `sallyport-${ID}-jail`
const AREA = { subnet: '10.9.0.0/29', ipRange: '10.9.0.4/30', sidecar: '10.9.0.2' }
const INFO = { hasSeccomp: true, hasAppArmor: false, isRootless: false, isRemapped: false } as EngineInfo

const SPEC: ContainerSpec = {
  kind: 'agent',
  name: `sallyport-${ID}-agent`,
  labels: {},
  image: 'sha256:1',
  user: { uid: 1_000, gid: 1_000 },
  command: ['sh'],
  folder: '/workspace',
  environment: {},
  binds: [
    { source: '/w', target: '/workspace', readOnly: false },
    { source: '/w/.git/hooks', target: '/workspace/.git/hooks', readOnly: true },
  ],
  scratch: [],
  network: { name: JAIL },
  memoryBytes: 1_000,
  cpus: 2,
  processes: 10,
  runtime: 'runc',
  tty: false,
  stdin: false,
  keepsLog: true,
}

/** A session as the engine shows it, but for this. */
async function looked(change: (found: object) => void, network: Partial<NetworkInspection> = {}, info: Partial<EngineInfo> = {}) {
  const options = harden(SPEC)
  const { HostConfig, ...config } = options
  const found = structuredClone({
    Id: 'a',
    Name: options.name,
    Image: options.Image,
    State: { Running: true, Pid: 1, ExitCode: 0, StartedAt: '' },
    Config: config,
    HostConfig,
    Mounts: SPEC.binds.map(({ source, target, readOnly }) => ({
      Type: 'bind',
      Source: source,
      Destination: target,
      RW: !readOnly,
      Propagation: 'rprivate',
    })),
    NetworkSettings: { Networks: { [JAIL]: { NetworkID: 'n', IPAddress: '10.9.0.4' } } },
  })
  change(found)
  const asked = askedOf(options, [], { [JAIL]: 'n' })
  const jail = jailNetwork(JAIL, AREA, {}, false)
  const engine = {
    info: async () => ({ ...INFO, ...info }),
    inspect: async (id: string) => (id === 'agent' ? (found as unknown as ContainerInspection) : undefined),
    network: async () => ({ ...jail, Id: 'n', Containers: {}, ...network }),
  } as unknown as Engine
  const record = {
    ids: { agent: 'agent', sidecar: 'sidecar' },
    agent: asked,
    networks: [jail],
    filesystem: { workspace: 'rw', hide: [], git_metadata: 'protected' },
  } as unknown as SessionRecord
  const view = await lookAtSandbox({ engine, system: { now: () => 5 } }, ID, record, new Map())
  return { ...view, open: view.flags.filter(({ holds }) => holds === false).map(({ id }) => id) }
}

test('a container as it was asked for holds in every flag, and what the engine lacks is said to be lacking', async () => {
  const { flags, open, differences } = await looked(() => undefined)
  assert.deepEqual(open, [])
  assert.deepEqual(
    flags.filter(({ holds }) => holds === null).map(({ id }) => id),
    ['apparmor'],
  )
  assert.equal(flags.find(({ id }) => id === 'git')?.found, 'on; 1 place of the workspace covered, hidden ones too')
  // Its gate is not there in this test, and that is told.
  assert.deepEqual(differences, ['gate: its container is gone'])
})

type Host = Record<string, unknown>
for (const { flag, change } of [
  { flag: 'read_only_root', change: (host: Host) => (host['ReadonlyRootfs'] = false) },
  { flag: 'capabilities', change: (host: Host) => (host['CapAdd'] = ['NET_ADMIN']) },
  { flag: 'capabilities', change: (host: Host) => (host['CapDrop'] = []) },
  { flag: 'privileged', change: (host: Host) => (host['Privileged'] = true) },
  { flag: 'no_new_privileges', change: (host: Host) => (host['SecurityOpt'] = []) },
  { flag: 'no_new_privileges', change: (host: Host) => (host['SecurityOpt'] = ['no-new-privileges:false']) },
  { flag: 'seccomp', change: (host: Host) => (host['SecurityOpt'] = ['no-new-privileges:true', 'seccomp=unconfined']) },
  { flag: 'namespaces', change: (host: Host) => (host['PidMode'] = 'host') },
  { flag: 'memory', change: (host: Host) => (host['Memory'] = 0) },
  { flag: 'cpus', change: (host: Host) => (host['NanoCpus'] = 0) },
  { flag: 'pids', change: (host: Host) => (host['PidsLimit'] = -1) },
])
  test(`I84 what was changed in the engine is shown as it is now: ${flag} is open, and told as a difference`, async () => {
    const { open, differences } = await looked((found) => void change((found as { HostConfig: Host }).HostConfig))
    assert.deepEqual(open, [flag])
    assert.ok(differences.some((line) => line.startsWith('agent: HostConfig.')))
  })

test('a jail that leads somewhere, and an agent on a second network, are open', async () => {
  assert.deepEqual((await looked(() => undefined, { Internal: false })).open, ['jail'])
  assert.deepEqual((await looked(() => undefined, { Options: {} })).open, ['jail'])
  const { open } = await looked((found) => {
    const { Networks } = (found as { NetworkSettings: { Networks: Record<string, unknown> } }).NetworkSettings
    Networks['bridge'] = { NetworkID: 'b', IPAddress: '172.17.0.2' }
  })
  assert.deepEqual(open, ['jail'])
})

test('an agent that is root is open, but in a user namespace', async () => {
  const root = (found: object): void => void ((found as { Config: Host }).Config['User'] = '0:0')
  assert.deepEqual((await looked(root)).open, ['user'])
  assert.deepEqual((await looked(root, {}, { isRootless: true })).open, [])
})
