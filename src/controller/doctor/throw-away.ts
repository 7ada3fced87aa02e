import { createHash } from 'node:crypto'
import { createServer } from 'node:net'
import { mkdtempSync, rmSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import { runSelftest, type InspectedContainer, type ProbeRun, type SelftestRow } from '../selftest/selftest.ts'
import { chooseJail, type Jail } from '../sessions/jail.ts'
import { complaintOf, type Docker } from './docker.ts'
import type { DoctorOutcome as Outcome } from '../../wire/first-run.ts'

export type ThrowAwayParts = {
  readonly docker: Docker
  readonly image: string
  /** `$SALLYPORT_HOME`: containers carry its hash, so that another installation leaves them alone. */
  readonly home: string
  readonly system: Pick<System, 'random'>
  /** Every subnet that is taken, in CIDR form. */
  readonly taken: readonly string[]
  /** The engine can leave a bridge without any address of the host by itself. */
  readonly canIsolate: boolean
}

/** As a session's containers have it. */
const HARDENED = [
  ...flag('--cap-drop', 'ALL'),
  ...flag('--security-opt', 'no-new-privileges:true'),
  '--read-only',
  '--init',
  ...flag('--ipc', 'private'),
  ...flag('--memory', '512m'),
  ...flag('--memory-swap', '512m'),
  ...flag('--pids-limit', '128'),
  ...flag('--cpus', '1'),
]
/** A container without a network has no such setting to make. */
const NO_IPV6 = flag('--sysctl', 'net.ipv6.conf.all.disable_ipv6=1')
const USER = '10001:10001'
const AGENT_USER_TMPFS = 'rw,exec,nosuid,nodev,size=16m,mode=0700,uid=10001,gid=10001'
/** Of the image: any policy that needs no secret. */
const POLICY = '/opt/sallyport/policies/service/npm.yaml'
const GATE_WAIT = 'until (exec 3<>/dev/tcp/127.0.0.1/7070) 2>/dev/null; do sleep 0.1; done'
const Inspected = z.array(z.unknown()).length(1)

/** What is made for one check, and removed with it, whatever happens. */
class Scrap {
  readonly parts: ThrowAwayParts
  readonly name: string
  readonly #containers: string[] = []
  readonly #networks: string[] = []

  constructor(parts: ThrowAwayParts) {
    this.parts = parts
    this.name = `sallyport-doctor-${parts.system.random(6).toString('hex')}`
  }

  labels(role: string): string[] {
    const home = createHash('sha256').update(this.parts.home).digest('hex').slice(0, 16)
    return ['--label', `sallyport.role=${role}`, '--label', `sallyport.home=${home}`, '--label', `sallyport.doctor=${this.name}`]
  }

  async network(args: readonly string[], signal: AbortSignal): Promise<string> {
    this.#networks.push(this.name)
    return this.run(['network', 'create', ...this.labels('jail'), ...args, this.name], signal)
  }

  /** Its name is ours before it exists: one that was made while nobody waited for it any more is removed too. */
  async create(what: string, args: readonly string[], signal: AbortSignal): Promise<string> {
    const name = `${this.name}-${what}`
    this.#containers.push(name)
    return this.run(['create', '--name', name, '--pull', 'never', ...this.labels('probe'), ...args], signal)
  }

  /** @throws SallyportError engine_unavailable with what docker complained */
  async run(args: readonly string[], signal: AbortSignal): Promise<string> {
    const said = await this.parts.docker(args, signal)
    if (said.code === 0) return said.stdout.trim()
    throw new SallyportError('engine_unavailable', `docker ${args.slice(0, 2).join(' ')}: ${complaintOf(said)}`)
  }

  /** Has its own time: what is given up is cleared away as well. */
  async [Symbol.asyncDispose](): Promise<void> {
    const signal = AbortSignal.timeout(LIMITS.doctorCallMs)
    if (this.#containers.length > 0) await this.parts.docker(['rm', '--force', '--volumes', ...this.#containers], signal)
    for (const network of this.#networks) await this.parts.docker(['network', 'rm', network], signal)
  }
}

/**
 * A jail as sessions have it, with a gate in it, and the selftest of a session in that.
 * @throws SallyportError engine_unavailable, subnet_exhausted when it could not be made
 */
export async function tryJail(parts: ThrowAwayParts, signal: AbortSignal): Promise<SelftestRow[]> {
  await using scrap = new Scrap(parts)
  const jail = chooseJail(scrap.name, parts.taken)
  const networkId = await scrap.network(networkArgs(jail, parts.canIsolate), signal)
  const gate = await scrap.create('gate', gateArgs(parts.image, scrap.name, jail), signal)
  await scrap.run(['start', gate], signal)
  await scrap.run(['exec', gate, 'timeout', String(LIMITS.doctorCallMs / 1_000), 'bash', '-c', GATE_WAIT], signal)
  const agentArgs = [
    ...flag('--network', scrap.name),
    ...flag('--dns', jail.sidecar),
    ...flag('--dns-search', '.'),
    ...flag('--dns-opt', 'timeout:1', 'attempts:2'),
    ...flag('--user', USER),
    ...flag('--tmpfs', '/tmp:rw,nosuid,nodev,size=16m,mode=1777', `/home/agent:${AGENT_USER_TMPFS}`),
    ...HARDENED,
    ...NO_IPV6,
    ...flag('--env', 'HTTP_PROXY=http://sallyport:3128'),
    parts.image,
  ]
  return await runSelftest(
    {
      runProbe: async (command, probeSignal) => runProbe(scrap, [...agentArgs, ...command], probeSignal),
      inspectAgent: async (inspectSignal) => {
        const agent = await scrap.create('agent', [...agentArgs, '--version'], inspectSignal)
        return inspect(scrap, agent, inspectSignal) as Promise<InspectedContainer & { State: { Pid: number } }>
      },
    },
    {
      subnet: jail.subnet,
      sidecar: jail.sidecar,
      networkId,
      neighbours: [],
      writable: ['/tmp', '/home/agent'],
      isRootAllowed: false,
    },
    signal,
  )
}

/**
 * Whether a program in a container can talk to a socket of this machine that is mounted there.
 * @throws SallyportError engine_unavailable when it could not be tried
 */
export async function trySocket(parts: ThrowAwayParts, signal: AbortSignal): Promise<Outcome> {
  await using scrap = new Scrap(parts)
  // Where the path of a socket below the home may go: a short folder of this machine's own.
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-'))
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.end('sallyport')
  })
  try {
    server.listen(join(folder, 'control.sock'))
    await once(server, 'listening')
    const script =
      "const s = require('node:net').connect('/probe/control.sock'); s.on('error', (e) => process.stdout.write(e.code)); s.pipe(process.stdout)"
    const owner = `${process.getuid?.() ?? 0}:${process.getgid?.() ?? 0}`
    const mount = flag('--mount', `type=bind,source=${folder},target=/probe,readonly`)
    const args = [...flag('--network', 'none'), ...flag('--user', owner), ...HARDENED, ...mount, ...flag('--entrypoint', 'node')]
    const id = await scrap.create('socket', [...args, parts.image, '-e', script], signal)
    const said = await parts.docker(['start', '--attach', id], signal)
    const text = said.stdout.trim()
    if (text === 'sallyport') return { state: 'ok', found: 'a socket of this machine answers inside a container' }
    return {
      state: 'warning',
      found: `a mounted socket does not answer inside a container: ${text || complaintOf(said)}`,
      todo: 'nothing: the control channel goes over the engine’s own stream instead',
    }
  } finally {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

function networkArgs(jail: Jail, canIsolate: boolean): string[] {
  const options = ['--opt', 'com.docker.network.bridge.inhibit_ipv4=true']
  if (canIsolate) options.push('--opt', 'com.docker.network.bridge.gateway_mode_ipv4=isolated')
  return ['--internal', ...options, '--subnet', jail.subnet, '--ip-range', jail.ipRange]
}

function gateArgs(image: string, network: string, jail: Jail): string[] {
  const environment = {
    SALLYPORT_SIDECAR_IP: jail.sidecar,
    SALLYPORT_SUBNET: jail.subnet,
    SALLYPORT_POLICY: POLICY,
    SALLYPORT_AUDIT: '/tmp/audit.jsonl',
    SALLYPORT_CA_DIR: '/tmp/ca',
    SALLYPORT_SESSION: network,
  }
  return [
    ...flag('--network', network),
    ...flag('--ip', jail.sidecar),
    ...flag('--network-alias', 'sallyport'),
    ...flag('--user', USER),
    ...HARDENED,
    ...NO_IPV6,
    ...flag('--sysctl', 'net.ipv4.ip_unprivileged_port_start=0'),
    ...flag('--tmpfs', '/tmp:rw,noexec,nosuid,nodev,size=16m,mode=1777'),
    ...flag('--env', ...Object.entries(environment).map(([name, value]) => `${name}=${value}`)),
    image,
  ]
}

/** The flag before each of the values. */
function flag(name: string, ...values: readonly string[]): string[] {
  return values.flatMap((value) => [name, value])
}

async function runProbe(scrap: Scrap, args: readonly string[], signal: AbortSignal): Promise<ProbeRun> {
  const id = await scrap.create('probe', args, signal)
  const inspected = await inspect(scrap, id, signal)
  const { code, stdout, stderr } = await scrap.parts.docker(['start', '--attach', id], signal)
  return { exitCode: code, stdout, stderr, inspected }
}

async function inspect(scrap: Scrap, id: string, signal: AbortSignal): Promise<InspectedContainer> {
  const [info] = Inspected.parse(JSON.parse(await scrap.run(['inspect', '--type', 'container', id], signal)))
  return info as InspectedContainer
}
