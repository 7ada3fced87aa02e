import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync, mkdirSync, chmodSync, chownSync } from 'node:fs'
import { join } from 'node:path'
import { imageOf } from '../../scripts/images.ts'
import { STATE, capture, run } from '../../scripts/steps.ts'
import { engineNetworks } from '../../src/controller/sessions/engine-facts.ts'
import { chooseJail, type Jail } from '../../src/controller/sessions/jail.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { InspectedContainer, ProbeRun, SelftestParts, SelftestSetting } from '../../src/controller/selftest/selftest.ts'
import { engine } from './engine-api.ts'

/** As compose.yaml has it: an image that the operator names, or the one of this version. */
export const SIDECAR_IMAGE = process.env['SALLYPORT_SIDECAR_IMAGE'] || imageOf('sidecar')
const LABEL = 'sallyport.test'
const UID = 10_001
const HOME_TMPFS = 'rw,exec,nosuid,nodev,size=64m,mode=0700,uid=10001,gid=10001'

export type AgentOptions = { readonly user?: string; readonly hostConfig?: Record<string, unknown>; readonly networks?: readonly string[] }

/** A jail with a gate in it, as compose.yaml makes them, without anything behind. */
export type TestJail = AsyncDisposable & {
  readonly jail: Jail
  readonly network: string
  readonly folder: string
  readonly setting: SelftestSetting
  /** A container with the agent's options and these differences, made for the probe. */
  parts(options?: AgentOptions, agent?: AgentOptions): SelftestParts
  /** Starts a container that stays, and gives its id. It is removed with the jail. */
  start(body: Record<string, unknown>): Promise<string>
}

type JailOptions = { readonly driverOptions?: Record<string, string>; readonly policy?: string }

export async function openJail({ driverOptions, policy }: JailOptions = {}): Promise<TestJail> {
  const name = `sallyport-test-${randomBytes(4).toString('hex')}`
  const jail = chooseJail(
    name,
    engineNetworks().flatMap(({ subnets }) => subnets),
  )
  mkdirSync(STATE, { recursive: true })
  const folder = mkdtempSync(join(STATE, 'jail-'))
  const options = driverOptions ?? { 'com.docker.network.bridge.inhibit_ipv4': 'true' }
  const workspace = join(folder, 'workspace')
  mkdirSync(workspace)
  if (process.getuid?.() === 0) chownSync(workspace, UID, UID)
  chmodSync(folder, 0o755)
  writeFileSync(join(folder, 'policy.yaml'), policy ?? 'version: 1\nnetwork: {mode: restricted, rules: []}\n', { mode: 0o644 })
  const flags = Object.entries(options).flatMap(([key, value]) => ['--opt', `${key}=${value}`])
  const place = ['--subnet', jail.subnet, '--ip-range', jail.ipRange, '--label', `${LABEL}=${name}`]
  const networkId = (await run('docker', ['network', 'create', '--internal', ...flags, ...place, name])).trim()
  const containers: string[] = []
  const start = async (body: Record<string, unknown>): Promise<string> => {
    const { Id } = await engine<{ Id: string }>('POST', '/containers/create', { Labels: { [LABEL]: name }, ...body })
    containers.push(Id)
    await engine('POST', `/containers/${Id}/start`)
    return Id
  }
  const dispose = async (): Promise<void> => {
    for (const id of containers) await capture('docker', ['rm', '--force', '--volumes', id])
    await capture('docker', ['network', 'rm', name])
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await start(gateBody(jail, name, join(folder, 'policy.yaml')))
    await gateIsUp(containers[0] ?? '')
  } catch (error) {
    await dispose()
    throw error
  }
  return {
    jail,
    network: name,
    folder,
    setting: {
      subnet: jail.subnet,
      sidecar: jail.sidecar,
      networkId,
      neighbours: [],
      writable: ['/tmp', '/run', '/home/agent', '/workspace'],
      isRootAllowed: false,
    },
    parts: (options_ = {}, agent = options_) => partsOf({ network: name, jail, workspace, label: name }, options_, agent),
    start,
    [Symbol.asyncDispose]: dispose,
  }
}

function gateBody(jail: Jail, network: string, policy: string): Record<string, unknown> {
  return {
    Image: SIDECAR_IMAGE,
    Env: [
      `SALLYPORT_SIDECAR_IP=${jail.sidecar}`,
      `SALLYPORT_SUBNET=${jail.subnet}`,
      'SALLYPORT_POLICY=/etc/sallyport/policy.yaml',
      'SALLYPORT_AUDIT=/tmp/audit.jsonl',
      'SALLYPORT_CA_DIR=/tmp/ca',
      'SALLYPORT_SESSION=test',
    ],
    HostConfig: {
      ...HARDENED,
      Sysctls: { ...HARDENED.Sysctls, 'net.ipv4.ip_unprivileged_port_start': '0' },
      Binds: [`${policy}:/etc/sallyport/policy.yaml:ro`],
      Tmpfs: { '/tmp': 'rw,mode=1777' },
      NetworkMode: network,
    },
    NetworkingConfig: { EndpointsConfig: { [network]: { IPAMConfig: { IPv4Address: jail.sidecar }, Aliases: ['sallyport'] } } },
  }
}

/** As compose.yaml has it for everybody. */
const HARDENED = {
  CapDrop: ['ALL'],
  SecurityOpt: ['no-new-privileges:true'],
  ReadonlyRootfs: true,
  IpcMode: 'private',
  Init: true,
  Sysctls: { 'net.ipv6.conf.all.disable_ipv6': '1' },
  Memory: 512 * 1024 * 1024,
  PidsLimit: 256,
}

type Cell = { readonly network: string; readonly jail: Jail; readonly workspace: string; readonly label: string }

function agentBody({ network, jail, workspace, label }: Cell, options: AgentOptions, command: readonly string[]): Record<string, unknown> {
  return {
    Image: SIDECAR_IMAGE,
    Cmd: command,
    User: options.user ?? `${UID}:${UID}`,
    Env: ['HTTP_PROXY=http://sallyport:3128', 'HOME=/home/agent'],
    Labels: { [LABEL]: label },
    HostConfig: {
      ...HARDENED,
      Binds: [`${workspace}:/workspace:rw`],
      Tmpfs: { '/tmp': 'rw,exec,nosuid,nodev,mode=1777', '/run': HOME_TMPFS, '/home/agent': HOME_TMPFS },
      NetworkMode: network,
      Dns: [jail.sidecar],
      DnsSearch: ['.'],
      DnsOptions: ['timeout:1', 'attempts:2'],
      ...options.hostConfig,
    },
    NetworkingConfig: { EndpointsConfig: { [network]: {} } },
  }
}

function partsOf(cell: Cell, options: AgentOptions, agent: AgentOptions): SelftestParts {
  return {
    runProbe: (command, signal) => runOnce(agentBody(cell, options, command), options.networks ?? [], signal),
    inspectAgent: async () => {
      const { Id } = await engine<{ Id: string }>('POST', '/containers/create', agentBody(cell, agent, ['sleep', '60']))
      try {
        for (const network of agent.networks ?? []) await engine('POST', `/networks/${network}/connect`, { Container: Id })
        return await engine<InspectedContainer & { State: { Pid: number } }>('GET', `/containers/${Id}/json`)
      } finally {
        await engine('DELETE', `/containers/${Id}?force=true&v=true`)
      }
    },
  }
}

/** Creates, starts, waits, reads and removes a container. */
export async function runOnce(body: Record<string, unknown>, networks: readonly string[], signal: AbortSignal): Promise<ProbeRun> {
  const { Id } = await engine<{ Id: string }>('POST', '/containers/create', body)
  try {
    for (const network of networks) await engine('POST', `/networks/${network}/connect`, { Container: Id })
    const inspected = await engine<InspectedContainer>('GET', `/containers/${Id}/json`)
    await engine('POST', `/containers/${Id}/start`)
    signal.throwIfAborted()
    const { StatusCode } = await engine<{ StatusCode: number }>('POST', `/containers/${Id}/wait`)
    const { stdout, stderr } = await capture('docker', ['logs', Id])
    return { exitCode: StatusCode, stdout: stdout.slice(0, LIMITS.probeOutputBytesMax), stderr, inspected }
  } finally {
    await engine('DELETE', `/containers/${Id}?force=true&v=true`)
  }
}

async function gateIsUp(id: string): Promise<void> {
  const script = 'until (exec 3<>/dev/tcp/127.0.0.1/7070) 2>/dev/null; do sleep 0.1; done'
  const { code } = await capture('docker', ['exec', id, 'timeout', '20', 'bash', '-c', script])
  if (code !== 0) throw new Error(`the gate did not come up: ${(await capture('docker', ['logs', id])).stderr}`)
}
