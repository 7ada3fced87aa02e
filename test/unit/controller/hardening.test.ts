import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { agentEnvironment } from '../../../src/controller/sessions/agent-environment.ts'
import {
  harden,
  jailNetwork,
  MASKED_PATHS,
  READONLY_PATHS,
  uplinkNetwork,
  type ContainerSpec,
} from '../../../src/controller/sessions/hardening.ts'
import { chooseJail, dividedJail, subnetsOverlap } from '../../../src/controller/sessions/jail.ts'

const AGENT: ContainerSpec = {
  kind: 'agent',
  name: 'sallyport-abcdefghijklmnop-agent',
  labels: { 'sallyport.session': 'abcdefghijklmnop', 'sallyport.role': 'agent', 'sallyport.home': '0123456789abcdef' },
  image: 'sha256:1111',
  user: { uid: 1000, gid: 1001 },
  command: ['claude', '--print', 'hello'],
  folder: '/workspace',
  environment: { HOME: '/home/agent', A: 'b=c' },
  binds: [
    { source: '/srv/project', target: '/workspace', readOnly: false },
    { source: '/state/passwd', target: '/etc/passwd', readOnly: true },
  ],
  scratch: [{ target: '/tmp', bytes: 1024, mode: '1777', runs: true }],
  network: { name: 'sallyport-abcdefghijklmnop-jail', gate: '10.213.7.2' },
  memoryBytes: 4096,
  cpus: 1.5,
  processes: 100,
  runtime: 'runc',
  tty: true,
  stdin: true,
  keepsLog: true,
}

test('only an agent whose input is a pipe is told of its end, and no gate', () => {
  const once = (spec: Partial<typeof AGENT>): boolean => harden({ ...AGENT, ...spec }).StdinOnce
  assert.deepEqual([once({ tty: false }), once({ tty: true }), once({ tty: false, kind: 'sidecar' })], [true, false, false])
})

test('I14 an agent is asked for as this and nothing else', () => {
  assert.deepEqual(harden(AGENT), {
    name: 'sallyport-abcdefghijklmnop-agent',
    Image: 'sha256:1111',
    User: '1000:1001',
    Entrypoint: ['claude'],
    Cmd: ['--print', 'hello'],
    WorkingDir: '/workspace',
    Env: ['HOME=/home/agent', 'A=b=c'],
    Labels: AGENT.labels,
    Healthcheck: { Test: ['NONE'] },
    Tty: true,
    OpenStdin: true,
    StdinOnce: false,
    HostConfig: {
      CapAdd: [],
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges:true'],
      Privileged: false,
      ReadonlyRootfs: true,
      Init: true,
      IpcMode: 'private',
      PidMode: '',
      UTSMode: '',
      UsernsMode: '',
      CgroupnsMode: 'private',
      NetworkMode: 'sallyport-abcdefghijklmnop-jail',
      Runtime: 'runc',
      Sysctls: { 'net.ipv6.conf.all.disable_ipv6': '1' },
      Memory: 4096,
      MemorySwap: 4096,
      NanoCpus: 1_500_000_000,
      PidsLimit: 100,
      OomKillDisable: false,
      Ulimits: [{ Name: 'core', Soft: 0, Hard: 0 }],
      Tmpfs: { '/tmp': 'rw,exec,nosuid,nodev,size=1024,mode=1777' },
      Mounts: [
        {
          Type: 'bind',
          Source: '/srv/project',
          Target: '/workspace',
          ReadOnly: false,
          BindOptions: { Propagation: 'rprivate', NonRecursive: true },
        },
        {
          Type: 'bind',
          Source: '/state/passwd',
          Target: '/etc/passwd',
          ReadOnly: true,
          BindOptions: { Propagation: 'rprivate', NonRecursive: true },
        },
      ],
      MaskedPaths: MASKED_PATHS,
      ReadonlyPaths: READONLY_PATHS,
      Dns: ['10.213.7.2'],
      DnsSearch: ['.'],
      DnsOptions: ['timeout:1', 'attempts:2'],
      ExtraHosts: ['sallyport:10.213.7.2'],
      RestartPolicy: { Name: 'no', MaximumRetryCount: 0 },
      LogConfig: { Type: 'json-file', Config: { 'max-size': '10485760', 'max-file': '3' } },
      AutoRemove: false,
      PublishAllPorts: false,
    },
    NetworkingConfig: { EndpointsConfig: { 'sallyport-abcdefghijklmnop-jail': {} } },
  })
})

test('I14 a probe is asked for as its agent, but for its name', () => {
  const { HostConfig } = harden({ ...AGENT, kind: 'probe', name: 'sallyport-abcdefghijklmnop-probe' })
  assert.deepEqual(HostConfig, harden(AGENT).HostConfig)
})

test('I12 the sidecar does not forward, comes back by itself, and has its address', () => {
  const sidecar = harden({ ...AGENT, kind: 'sidecar', network: { name: 'jail', address: '10.213.7.2', aliases: ['sallyport'] } })
  assert.deepEqual(sidecar.HostConfig.Sysctls, {
    'net.ipv6.conf.all.disable_ipv6': '1',
    'net.ipv4.ip_forward': '0',
    'net.ipv4.ip_unprivileged_port_start': '0',
  })
  assert.equal(sidecar.HostConfig.RestartPolicy.Name, 'unless-stopped')
  assert.deepEqual(sidecar.NetworkingConfig.EndpointsConfig, {
    jail: { IPAMConfig: { IPv4Address: '10.213.7.2' }, Aliases: ['sallyport'] },
  })
})

test('a seccomp profile and a runtime pass through, and change nothing else', () => {
  const { SecurityOpt, Runtime, ...rest } = harden({
    ...AGENT,
    seccompProfile: '{"defaultAction":"SCMP_ACT_ERRNO"}',
    runtime: 'runsc',
  }).HostConfig
  assert.deepEqual(SecurityOpt, ['no-new-privileges:true', 'seccomp={"defaultAction":"SCMP_ACT_ERRNO"}'])
  assert.equal(Runtime, 'runsc')
  const { SecurityOpt: _, Runtime: __, ...plain } = harden(AGENT).HostConfig
  assert.deepEqual(rest, plain)
})

test('what a container prints is not kept where it must not be on the disk', () => {
  assert.deepEqual(harden({ ...AGENT, keepsLog: false }).HostConfig.LogConfig, { Type: 'none', Config: {} })
})

test('I12 a jail is internal, without an address of the host and without IPv6; its sidecar’s address is given to nobody else', () => {
  const { jail, uplink } = dividedJail(chooseJail('seed', []))
  const network = jailNetwork('name', jail, AGENT.labels, false)
  assert.equal(network.Internal, true)
  assert.equal(network.EnableIPv6, false)
  assert.deepEqual(network.Options, { 'com.docker.network.bridge.inhibit_ipv4': 'true' })
  assert.equal(jailNetwork('name', jail, {}, true).Options['com.docker.network.bridge.gateway_mode_ipv4'], 'isolated')
  assert.equal(subnetsOverlap(`${jail.sidecar}/32`, jail.ipRange), false)
  assert.equal(subnetsOverlap(`${jail.sidecar}/32`, jail.subnet), true)
  assert.equal(subnetsOverlap(jail.subnet, uplink), false)
  assert.equal(uplinkNetwork('name', uplink, {}).Internal, false)
})

type Compose = { readonly services: { readonly agent: { readonly environment: Record<string, string> } & Record<string, unknown> } }

function compose(): Compose {
  return parse(readFileSync(join(import.meta.dirname, '../../../compose.yaml'), 'utf8'), { merge: true }) as Compose
}

test('an agent has the environment that compose.yaml gives it', () => {
  const { environment } = compose().services.agent
  const proxy = environment['http_proxy'] ?? ''
  const expected = Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [
      name,
      value === proxy ? 'http://sallyport:3128' : name === 'SALLYPORT_LEASE' ? 'L' : value.trim(),
    ]),
  )
  assert.deepEqual(agentEnvironment('L', undefined), expected)
})

test('the lease is shown to the proxy where the policy wants it, in its short form', () => {
  const { https_proxy: proxy, SALLYPORT_LEASE: lease } = agentEnvironment('long', 'short')
  assert.equal(proxy, 'http://agent:short@sallyport:3128')
  assert.equal(lease, 'long')
})

test('I14 an agent is held by whatever holds the one of compose.yaml', () => {
  const { HostConfig } = harden(AGENT)
  const agent = compose().services.agent
  assert.deepEqual(agent['cap_drop'], HostConfig.CapDrop)
  assert.deepEqual(agent['security_opt'], HostConfig.SecurityOpt)
  assert.equal(agent['read_only'], HostConfig.ReadonlyRootfs)
  assert.equal(agent['privileged'], HostConfig.Privileged)
  assert.equal(agent['ipc'], HostConfig.IpcMode)
  assert.equal(agent['init'], HostConfig.Init)
  assert.deepEqual(agent['sysctls'], HostConfig.Sysctls)
  assert.deepEqual(agent['dns_search'], HostConfig.DnsSearch)
  assert.deepEqual(agent['dns_opt'], HostConfig.DnsOptions)
})
