import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ContainerInspection, NetworkInspection } from '../../../src/controller/sessions/engine.ts'
import { harden, jailNetwork, type ContainerSpec } from '../../../src/controller/sessions/hardening.ts'
import { askedOf, containerDifferences, networkDifferences } from '../../../src/controller/sessions/verify.ts'

const SPEC: ContainerSpec = {
  kind: 'sidecar',
  name: 'sallyport-x-sidecar',
  labels: { 'sallyport.session': 'x', 'sallyport.role': 'sidecar', 'sallyport.home': 'h' },
  image: 'sha256:1',
  user: { uid: 1000, gid: 1000 },
  command: ['node', 'x'],
  folder: '/',
  environment: { LEASE: 'canary-value' },
  binds: [
    { source: '/srv/a', target: '/a', readOnly: true },
    { source: '/srv/b', target: '/b', readOnly: false },
  ],
  scratch: [{ target: '/tmp', bytes: 1, mode: '1777', runs: false }],
  network: { name: 'jail', address: '10.0.0.2', aliases: ['sallyport'] },
  memoryBytes: 1024,
  cpus: 1,
  processes: 10,
  runtime: 'runc',
  tty: false,
  stdin: false,
  keepsLog: true,
}
const OPTIONS = harden(SPEC)
const ASKED = askedOf(OPTIONS, ['PATH=/bin'], { jail: 'net1', uplink: 'net2' })
const ENGINE = { hasAppArmor: false }

/** What an engine shows of exactly that. */
function shown(): ContainerInspection & { HostConfig: Record<string, unknown> } {
  return structuredClone({
    Id: 'c1',
    Name: '/sallyport-x-sidecar',
    Image: 'sha256:1',
    AppArmorProfile: '',
    State: { Running: true, Pid: 7, ExitCode: 0, StartedAt: '' },
    Config: {
      User: '1000:1000',
      Env: ['PATH=/bin', 'LEASE=canary-value'],
      Entrypoint: ['node'],
      Cmd: ['x'],
      WorkingDir: '/',
      Labels: { ...SPEC.labels, maintainer: 'somebody' },
      Healthcheck: { Test: ['NONE'] },
      Tty: false,
      OpenStdin: false,
      StdinOnce: false,
    },
    HostConfig: {
      ...OPTIONS.HostConfig,
      CapAdd: null,
      Binds: null,
      ShmSize: 67_108_864,
      ConsoleSize: [0, 0],
      MemorySwappiness: null,
      Devices: [],
      BlkioWeight: 0,
      PortBindings: {},
      VolumesFrom: null,
    },
    Mounts: [
      { Type: 'bind', Source: '/srv/b', Destination: '/b', RW: true, Propagation: 'rprivate' },
      { Type: 'bind', Source: '/srv/a', Destination: '/a', RW: false, Propagation: 'rprivate' },
    ],
    NetworkSettings: {
      Networks: { jail: { NetworkID: 'net1', IPAddress: '10.0.0.2' }, uplink: { NetworkID: 'net2', IPAddress: '10.0.1.2' } },
      Ports: { '80/tcp': null },
    },
  })
}

test('a container that is what was asked for has no difference', () => assert.deepEqual(containerDifferences(ASKED, shown(), ENGINE), []))

/** Another value of the same kind, for any field. */
function altered(value: unknown): unknown {
  if (typeof value === 'boolean') return !value
  if (typeof value === 'number') return value + 1
  if (typeof value === 'string') return `${value}x`
  if (Array.isArray(value)) return value.length === 0 ? ['x'] : value.slice(1)
  return { ...(value as object), x: 'y' }
}

for (const [field, value] of Object.entries(OPTIONS.HostConfig)) {
  test(`I14 another HostConfig.${field} is noticed`, () => {
    const found = shown()
    found.HostConfig[field] = altered(value)
    assert.match(containerDifferences(ASKED, found, ENGINE).join('\n'), new RegExp(`^HostConfig\\.${field} is `, 'm'))
  })
  if (JSON.stringify(value) !== '[]' && value !== false && value !== '')
    test(`I14 no HostConfig.${field} is noticed`, () => {
      const found = shown()
      delete found.HostConfig[field]
      assert.match(containerDifferences(ASKED, found, ENGINE).join('\n'), new RegExp(`^HostConfig\\.${field} is nothing`, 'm'))
    })
}

for (const [field, value] of Object.entries({
  Binds: ['/:/host'],
  Devices: [{ PathOnHost: '/dev/sda' }],
  DeviceRequests: [{ Count: -1 }],
  DeviceCgroupRules: ['a *:* rwm'],
  VolumesFrom: ['other'],
  PortBindings: { '80/tcp': [{ HostPort: '80' }] },
  GroupAdd: ['docker'],
  CgroupParent: '/x',
  OomScoreAdj: -1000,
  ShmSize: 1,
  Links: ['a:b'],
  Annotations: { x: 'y' },
  SettingOfANewerEngine: true,
}))
  test(`I14 an added HostConfig.${field} is noticed`, () => {
    const found = shown()
    found.HostConfig[field] = value
    assert.match(containerDifferences(ASKED, found, ENGINE).join('\n'), new RegExp(`^HostConfig\\.${field} is .* instead of nothing`, 'm'))
  })

type Change = { readonly what: string; readonly change: (found: ReturnType<typeof shown>) => unknown; readonly line: RegExp }
const CHANGES: Change[] = [
  { what: 'another user', change: (f) => Object.assign(f.Config, { User: 'root' }), line: /Config\.User/ },
  { what: 'no user', change: (f) => Object.assign(f.Config, { User: '' }), line: /Config\.User/ },
  { what: 'another program', change: (f) => Object.assign(f.Config, { Entrypoint: ['sh'] }), line: /Config\.Entrypoint/ },
  { what: 'another argument', change: (f) => Object.assign(f.Config, { Cmd: ['y'] }), line: /Config\.Cmd/ },
  { what: 'another folder', change: (f) => Object.assign(f.Config, { WorkingDir: '/etc' }), line: /Config\.WorkingDir/ },
  { what: 'a terminal', change: (f) => Object.assign(f.Config, { Tty: true }), line: /Config\.Tty/ },
  { what: 'an open stdin', change: (f) => Object.assign(f.Config, { OpenStdin: true }), line: /Config\.OpenStdin/ },
  { what: 'a health check', change: (f) => Object.assign(f.Config, { Healthcheck: { Test: ['CMD', 'x'] } }), line: /Healthcheck/ },
  { what: 'another image', change: (f) => Object.assign(f, { Image: 'sha256:2' }), line: /^Image/ },
  { what: 'another name', change: (f) => Object.assign(f, { Name: '/other' }), line: /^Name/ },
  {
    what: 'another label',
    change: (f) => Object.assign(f.Config.Labels ?? {}, { 'sallyport.home': 'z' }),
    line: /Labels\.sallyport\.home/,
  },
  {
    what: 'an added label of ours',
    change: (f) => Object.assign(f.Config.Labels ?? {}, { 'sallyport.more': 'z' }),
    line: /sallyport\.more was added/,
  },
  {
    what: 'an added variable',
    change: (f) => Object.assign(f.Config, { Env: [...(f.Config.Env ?? []), 'LD_PRELOAD=/x'] }),
    line: /LD_PRELOAD was added/,
  },
  { what: 'a missing variable', change: (f) => Object.assign(f.Config, { Env: ['PATH=/bin'] }), line: /LEASE is missing/ },
  {
    what: 'another value',
    change: (f) => Object.assign(f.Config, { Env: ['PATH=/bin', 'LEASE=other-value'] }),
    line: /LEASE has another value$/m,
  },
  {
    what: 'an added mount',
    change: (f) =>
      Object.assign(f, { Mounts: [...f.Mounts, { Type: 'volume', Source: '', Destination: '/data', RW: true, Propagation: '' }] }),
    line: /volume .* at \/data was added/,
  },
  { what: 'a missing mount', change: (f) => Object.assign(f, { Mounts: f.Mounts.slice(1) }), line: /\/b is missing/ },
  { what: 'a mount from elsewhere', change: (f) => Object.assign(f.Mounts[0] ?? {}, { Source: '/etc' }), line: /Mounts: \/b/ },
  { what: 'a writable mount', change: (f) => Object.assign(f.Mounts[1] ?? {}, { RW: true }), line: /Mounts: \/a/ },
  { what: 'a shared mount', change: (f) => Object.assign(f.Mounts[0] ?? {}, { Propagation: 'rshared' }), line: /Mounts: \/b/ },
  {
    what: 'another network',
    change: (f) => Object.assign(f.NetworkSettings.Networks, { bridge: { NetworkID: 'b', IPAddress: '' } }),
    line: /network bridge was added/,
  },
  { what: 'a missing network', change: (f) => Object.assign(f.NetworkSettings, { Networks: {} }), line: /network jail is missing/ },
  {
    what: 'a network of the same name',
    change: (f) => Object.assign(f.NetworkSettings.Networks['jail'] ?? {}, { NetworkID: 'foreign' }),
    line: /the id of jail/,
  },
  {
    what: 'another address',
    change: (f) => Object.assign(f.NetworkSettings.Networks['jail'] ?? {}, { IPAddress: '10.0.0.9' }),
    line: /the address on jail/,
  },
  {
    what: 'a published port',
    change: (f) => Object.assign(f.NetworkSettings, { Ports: { '80/tcp': [{ HostPort: '1' }] } }),
    line: /80\/tcp is published/,
  },
  {
    what: 'no AppArmor by name',
    change: (f) => Object.assign(f, { AppArmorProfile: 'unconfined' }),
    line: /AppArmorProfile is unconfined/,
  },
]
for (const { what, change, line } of CHANGES)
  test(`I14 ${what} is noticed, and no value of a variable is said`, () => {
    const found = shown()
    change(found)
    const lines = containerDifferences(ASKED, found, ENGINE).join('\n')
    assert.match(lines, line)
    assert.doesNotMatch(lines, /canary-value|other-value/)
  })

test('I14 no AppArmor profile is noticed where the engine has AppArmor', () => {
  assert.deepEqual(containerDifferences(ASKED, shown(), { hasAppArmor: true }), ['AppArmorProfile is missing'])
})

test('a kernel that does not count swap is not taken for an alteration, but memory without a bound is', () => {
  const found = shown()
  found.HostConfig['MemorySwap'] = -1
  assert.deepEqual(containerDifferences(ASKED, found, ENGINE), [])
  found.HostConfig['Memory'] = 0
  assert.equal(containerDifferences(ASKED, found, ENGINE).length, 2)
})

test('what is kept of what was asked for holds no value of a variable', () => assert.doesNotMatch(JSON.stringify(ASKED), /canary-value/))

const JAIL = jailNetwork('jail', { subnet: '10.0.0.0/25', sidecar: '10.0.0.2', ipRange: '10.0.0.64/26' }, SPEC.labels, false)
const { CheckDuplicate: _, ...NETWORK } = JAIL

for (const { what, change, line } of [
  { what: 'a way out', change: { Internal: false }, line: /Internal/ },
  { what: 'IPv6', change: { EnableIPv6: true }, line: /EnableIPv6/ },
  { what: 'another driver', change: { Driver: 'macvlan' }, line: /Driver/ },
  { what: 'attachable', change: { Attachable: true }, line: /Attachable/ },
  { what: 'an address of the host', change: { Options: {} }, line: /Options/ },
  {
    what: 'another option of the bridge',
    change: { Options: { ...JAIL.Options, 'com.docker.network.bridge.name': 'docker0' } },
    line: /Options/,
  },
  { what: 'another subnet', change: { IPAM: { Driver: 'default', Config: [{ Subnet: '10.0.0.0/24' }] } }, line: /IPAM/ },
  { what: 'a stranger', change: { Containers: { c9: { Name: 'stranger' } } }, line: /stranger is on it/ },
] as const)
  test(`I12 a jail with ${what} is noticed`, () => {
    const found = { ...NETWORK, Id: 'n', Containers: { c1: { Name: 'sallyport-x-agent' } }, ...change } as unknown as NetworkInspection
    assert.match(networkDifferences(JAIL, found, ['sallyport-x-agent']).join('\n'), line)
  })

test('a jail as it was asked for has no difference', () => {
  const found = { ...NETWORK, Id: 'n', Containers: { c1: { Name: 'sallyport-x-agent' } } } as unknown as NetworkInspection
  assert.deepEqual(networkDifferences(JAIL, found, ['sallyport-x-agent']), [])
})

test('a gate may be on the network of a sibling at the address that it was given there, and on no other', () => {
  const found = shown()
  const networks = found.NetworkSettings.Networks as Record<string, { NetworkID: string; IPAddress: string }>
  networks['side'] = { NetworkID: 'net3', IPAddress: '10.0.1.2' }
  const differences = (visits: Record<string, { address: string }>) =>
    containerDifferences(ASKED, found, ENGINE, new Map(Object.entries(visits)))
  assert.deepEqual(differences({ side: { address: '10.0.1.2' } }), [])
  assert.match(differences({}).join(), /the network side was added/)
  assert.match(differences({ other: { address: '10.0.1.2' } }).join(), /the network side was added/)
  assert.match(differences({ side: { address: '10.0.1.3' } }).join(), /the address on side is "10.0.1.2" instead of "10.0.1.3"/)
  delete networks['side']
  assert.deepEqual(differences({ side: { address: '10.0.1.2' } }), [])
})
