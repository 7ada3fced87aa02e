import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { capture } from '../../scripts/steps.ts'
import { refuseOpen, runSelftest, WAYS, type SelftestRow, type SelftestSetting } from '../../src/controller/selftest/selftest.ts'
import { openJail, runOnce, SIDECAR_IMAGE, type AgentOptions, type TestJail } from '../support/jail.ts'
import { openSession } from '../support/session.ts'

const NEVER = new AbortController().signal

let jail: TestJail
before(async () => (jail = await openJail()))
after(() => jail[Symbol.asyncDispose]())

const openOf = (rows: readonly SelftestRow[]): string[] => rows.filter(({ ok }) => !ok).map(({ id }) => id)

async function tryWith(options: AgentOptions = {}, setting: Partial<SelftestSetting> = {}, where = jail): Promise<SelftestRow[]> {
  return runSelftest(where.parts(options), { ...where.setting, ...setting }, NEVER)
}

test('I12 I14 in a jail as compose.yaml makes it every way is shut, within the time that it may take', async () => {
  const began = performance.now()
  const rows = await tryWith()
  assert.deepEqual(
    rows.filter(({ ok }) => !ok),
    [],
  )
  assert.deepEqual(
    rows.map(({ id }) => id),
    WAYS.map(({ id }) => id),
  )
  refuseOpen(rows)
  // A figure for people: nothing here fails by how busy the machine is.
  process.stderr.write(`# selftest took ${Math.round(performance.now() - began)} ms\n`)
})

test('I12 I14 in the agent’s place of a session that compose.yaml made every way is shut', async () => {
  await using session = await openSession()
  const { Id } = await session.inspect('agent')
  const [agent] = JSON.parse((await capture('docker', ['inspect', Id])).stdout)
  const network = `${session.name}_jail`
  const networkId = (await capture('docker', ['network', 'inspect', '--format', '{{.Id}}', network])).stdout.trim()
  const { User, Env } = agent.Config
  const body = { Image: SIDECAR_IMAGE, User, Env, HostConfig: agent.HostConfig, NetworkingConfig: { EndpointsConfig: { [network]: {} } } }
  const rows = await runSelftest(
    { runProbe: (Cmd, signal) => runOnce({ ...body, Cmd }, [], signal), inspectAgent: () => Promise.resolve(agent) },
    {
      subnet: session.project.env.get('SALLYPORT_SUBNET') ?? '',
      sidecar: await session.address('sidecar', 'jail'),
      networkId,
      neighbours: [jail.jail.sidecar],
      writable: ['/tmp', '/run', '/home/agent', '/workspace'],
      isRootAllowed: false,
    },
    NEVER,
  )
  assert.deepEqual(
    rows.filter(({ ok }) => !ok),
    [],
  )
  assert.match(rows.find(({ id }) => id === 'agent-process')?.detail ?? '', /^process \d+/)
})

for (const { opened, options, open } of [
  { opened: 'a capability', options: { hostConfig: { CapAdd: ['NET_RAW'] } }, open: ['capabilities'] },
  { opened: 'a writable root', options: { hostConfig: { ReadonlyRootfs: false } }, open: ['root-filesystem'] },
  { opened: 'IPv6', options: { hostConfig: { Sysctls: { 'net.ipv6.conf.all.disable_ipv6': '0' } } }, open: ['ipv6'] },
  { opened: 'new privileges', options: { hostConfig: { SecurityOpt: [] } }, open: ['no-new-privileges'] },
  {
    opened: 'every system call',
    options: { hostConfig: { SecurityOpt: ['no-new-privileges:true', 'seccomp=unconfined'] } },
    open: ['seccomp', 'namespaces'],
  },
  { opened: 'root', options: { user: '0:0' }, open: ['user'] },
  { opened: 'the host’s processes', options: { hostConfig: { PidMode: 'host' } }, open: ['namespaces', 'leases'] },
  { opened: 'the host’s name', options: { hostConfig: { UTSMode: 'host' } }, open: ['namespaces'] },
  {
    opened: 'a name of the host',
    options: { hostConfig: { ExtraHosts: ['host.docker.internal:127.0.0.1'] } },
    open: ['host-names'],
  },
  {
    opened: 'a device that writes the kernel’s memory',
    options: { hostConfig: { Devices: [{ PathOnHost: '/dev/null', PathInContainer: '/dev/mem', CgroupPermissions: 'rwm' }] } },
    open: ['kernel-files'],
  },
]) {
  test(`${opened} in the agent’s container turns red ${open.join(' and ')}, and nothing else`, async () => {
    assert.deepEqual(openOf(await tryWith(options as AgentOptions)), open)
  })
}

for (const { mounted, target, mode, open } of [
  { mounted: 'the engine’s socket', target: '/var/run/docker.sock', mode: 'ro', open: ['engine-socket'] },
  { mounted: 'the engine’s socket under another name', target: '/srv/docker.sock', mode: 'ro', open: ['engine-socket'] },
  { mounted: 'another folder of the host', target: '/srv/data', mode: 'rw', open: ['mounts'] },
  { mounted: 'the folder of secrets', target: '/run/secrets', mode: 'ro', open: ['sidecar-folders'] },
  { mounted: 'the sidecar’s lease', target: '/run/sallyport/lease', mode: 'ro', open: ['sidecar-folders', 'leases'] },
]) {
  test(`${mounted} mounted in the agent’s container turns red ${open.join(' and ')}, and nothing else`, async () => {
    const source = join(jail.folder, `throw-away-${target.replaceAll('/', '-')}`)
    if (target.includes('.sock') || target.endsWith('lease')) writeFileSync(source, '')
    else mkdirSync(source)
    const rows = await tryWith({
      hostConfig: { Binds: [`${join(jail.folder, 'workspace')}:/workspace:rw`, `${source}:${target}:${mode}`] },
    })
    assert.deepEqual(openOf(rows), open)
  })
}

test('I38 a network that is only internal turns red what reaches the host by the bridge, and nothing else', async () => {
  await using plain = await openJail({ driverOptions: {} })
  const rows = await tryWith({}, {}, plain)
  assert.deepEqual(openOf(rows), ['host-services', 'host-datagrams', 'icmp'])
  assert.match(rows.find(({ id }) => id === 'host-services')?.detail ?? '', /arrived, from/)
})

test('a second network turns red the routes, and the host that is behind it', async () => {
  const open = openOf(await tryWith({ networks: ['bridge'] }))
  for (const id of ['host-services', 'host-datagrams', 'routes']) assert.ok(open.includes(id), id)
})

test('a gate of another session that answers turns red other-sessions, and nothing else', async () => {
  assert.deepEqual(openOf(await tryWith({}, { neighbours: [jail.jail.sidecar] })), ['other-sessions'])
})

test('a resolver other than the gate turns red dns, though it too says that the name does not exist', async () => {
  const script = `const s = require('node:dgram').createSocket('udp4')
s.on('message', (m, r) => { m[2] |= 0x80; m[3] = 0x83; s.send(m, r.port, r.address) })
s.bind(53, () => console.log('ready'))`
  const address = jail.jail.subnet.replace(/0\/24$/, '3')
  await jail.start({
    Image: SIDECAR_IMAGE,
    Entrypoint: ['node', '-e', script],
    Cmd: [],
    HostConfig: { NetworkMode: jail.network, Sysctls: { 'net.ipv4.ip_unprivileged_port_start': '0' } },
    NetworkingConfig: { EndpointsConfig: { [jail.network]: { IPAMConfig: { IPv4Address: address } } } },
  })
  const rows = await tryWith({ hostConfig: { Dns: [address] } })
  assert.deepEqual(openOf(rows), ['dns'])
})

test('a policy that lets the agent ask for a cloud’s metadata turns red metadata, and nothing else', async () => {
  await using lenient = await openJail({
    policy:
      'version: 1\nnetwork:\n  rules:\n    - {id: m, host: 169.254.169.254, ports: [80], action: allow, addresses: ["169.254.169.254"]}\n',
  })
  assert.deepEqual(openOf(await tryWith({}, {}, lenient)), ['metadata'])
})

test('an agent’s container that has more than the probe had turns red same-container alone', async () => {
  const rows = await runSelftest(jail.parts({}, { hostConfig: { CapAdd: ['SYS_ADMIN'] } }), jail.setting, NEVER)
  assert.deepEqual(openOf(rows), ['same-container'])
  assert.match(rows.find(({ id }) => id === 'same-container')?.detail ?? '', /HostConfig\.CapAdd/)
})

test('an agent that runs with more than it should have turns red agent-process', async () => {
  const id = await jail.start({
    Image: SIDECAR_IMAGE,
    Entrypoint: ['sleep', 'infinity'],
    HostConfig: { NetworkMode: 'none', SecurityOpt: ['seccomp=unconfined'] },
  })
  const [info] = JSON.parse((await capture('docker', ['inspect', id])).stdout)
  const rows = await runSelftest({ ...jail.parts(), inspectAgent: () => Promise.resolve(info) }, jail.setting, NEVER)
  assert.deepEqual(openOf(rows), ['same-container', 'agent-process'])
})

test('without a gate nothing counts as shut that only the gate can refuse', async () => {
  const open = openOf(await tryWith({}, { sidecar: jail.jail.subnet.replace(/0\/24$/, '9') }))
  assert.deepEqual(open, ['metadata'])
})

test('a probe that does not run, or says what it likes, leaves every way open', async () => {
  for (const stdout of ['', '[]', '{"ok":true}', '[{"id":"dns","ok":true}]', `[${'{},'.repeat(30)}{}]`]) {
    const run = { ...(await jail.parts().runProbe(['--version'], NEVER)), stdout }
    const rows = await runSelftest({ ...jail.parts(), runProbe: () => Promise.resolve(run) }, jail.setting, NEVER)
    assert.equal(rows.find(({ id }) => id === 'capabilities')?.ok, false, stdout)
    assert.throws(() => refuseOpen(rows), { code: 'selftest_failed' })
  }
  const rows = await runSelftest({ ...jail.parts(), runProbe: () => Promise.reject(new Error('no engine')) }, jail.setting, NEVER)
  assert.equal(openOf(rows).length, WAYS.length - 1)
})

test('nothing is left of a selftest', async () => {
  const list = async () => (await capture('docker', ['ps', '--all', '--quiet', '--filter', `label=sallyport.test=${jail.network}`])).stdout
  const listed = await list()
  await tryWith()
  assert.equal(await list(), listed)
})
