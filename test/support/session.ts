import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DockerComposeEnvironment } from 'testcontainers'
import { prepareDemo, type ComposeProject } from '../../scripts/project.ts'
import { ROOT, STATE, capture, type Outcome, type RunOptions } from '../../scripts/steps.ts'

/** A compose project as `sallyport compose --demo` and compose.yaml make it, with the images as built. */
export type Session = AsyncDisposable & {
  readonly name: string
  readonly project: ComposeProject
  readonly workspace: string
  /** The value of DEMO_TOKEN: for checking that it is nowhere. */
  readonly token: string
  /** Runs a program in the agent. */
  agent(argv: readonly string[], options?: RunOptions): Promise<Outcome>
  /** Runs a program in the sidecar. */
  sidecar(argv: readonly string[]): Promise<Outcome>
  /** `docker inspect` of a service's container. */
  inspect(service: Service): Promise<ContainerInfo>
  /** The service's address on one of the project's networks. */
  address(service: Service, network: 'jail' | 'uplink'): Promise<string>
  /** What the demo's upstream has answered so far. */
  upstreamSaw(): Promise<UpstreamRequest[]>
}

export type Service = 'sidecar' | 'agent' | 'upstream' | 'trust'
export type UpstreamRequest = { readonly method: string; readonly path: string; readonly status: number; readonly authorization: string }

/** The part of `docker inspect` that is looked at. */
export type ContainerInfo = {
  readonly Id: string
  readonly State: { readonly Pid: number; readonly Running: boolean }
  readonly Config: { readonly User: string; readonly Env: readonly string[]; readonly Cmd: readonly string[] | null }
  readonly HostConfig: Readonly<Record<string, unknown>>
  readonly Mounts: readonly { readonly Type: string; readonly Destination: string; readonly RW: boolean; readonly Source: string }[]
  readonly NetworkSettings: {
    readonly Networks: Readonly<Record<string, { readonly IPAddress: string }>>
    readonly Ports: Readonly<Record<string, unknown>>
  }
}

/** One home for all test processes: the subnets that they reserve are told apart there. */
const HOME = join(STATE, 'test-home')

/** Brings a session up, with what `fill` puts into its workspace before, and a policy of this text instead of the demo's. When it is disposed of, its containers, networks, volumes and folders are gone. */
export async function openSession(
  fill: (workspace: string) => Promise<void> = async () => undefined,
  policyText?: string,
): Promise<Session> {
  await mkdir(HOME, { recursive: true })
  const folder = await mkdtemp(join(STATE, 'test-'))
  const workspace = join(folder, 'workspace')
  await mkdir(workspace)
  await fill(workspace)
  const policy = policyText === undefined ? undefined : join(folder, 'policy', 'policy.yaml')
  if (policy !== undefined) {
    await mkdir(dirname(policy))
    await writeFile(policy, policyText ?? '')
  }
  const place = { envFile: join(folder, '.env'), workspace, home: HOME, baseImage: 'none:none' }
  const project = await prepareDemo({ ...place, ...(policy !== undefined && { policy }) })
  const name = project.env.get('COMPOSE_PROJECT_NAME') ?? ''
  const environment = await new DockerComposeEnvironment(ROOT, (project.env.get('COMPOSE_FILE') ?? '').split(':'))
    .withEnvironmentFile(project.envFile)
    .withProjectName(name)
    .withClientOptions({ commandOptions: ['--no-build'] })
    .up(['sidecar', 'agent', 'upstream'])
  const inspect = (service: Service): Promise<ContainerInfo> => inspectContainer(project, service)
  return {
    name,
    project,
    workspace,
    token: (await readFile(join(project.env.get('SALLYPORT_SECRETS_DIR') ?? '', 'DEMO_TOKEN'), 'utf8')).trim(),
    agent: (argv, options) => project.compose(['exec', '-T', 'agent', ...argv], options),
    sidecar: (argv) => project.compose(['exec', '-T', 'sidecar', ...argv]),
    inspect,
    address: async (service, network) => {
      const info = await inspect(service)
      const address = info.NetworkSettings.Networks[`${name}_${network}`]?.IPAddress
      if (!address) throw new Error(`${service} is not on ${network}`)
      return address
    },
    upstreamSaw: async () => requestsOf((await capture('docker', ['logs', (await inspect('upstream')).Id])).stdout),
    [Symbol.asyncDispose]: async () => {
      await environment.down({ removeVolumes: true, timeout: 0 })
      await rm(folder, { recursive: true, force: true })
      await rm(project.env.get('SALLYPORT_STATE_DIR') ?? '', { recursive: true, force: true })
    },
  }
}

async function inspectContainer(project: ComposeProject, service: Service): Promise<ContainerInfo> {
  const id = (await project.compose(['ps', '--all', '--quiet', service])).stdout.trim()
  const [info] = JSON.parse((await capture('docker', ['inspect', id])).stdout) as ContainerInfo[]
  if (info === undefined) throw new Error(`${service} has no container`)
  return info
}

function requestsOf(log: string): UpstreamRequest[] {
  return log
    .split('\n')
    .filter((line) => line.startsWith('{"method"'))
    .map((line) => JSON.parse(line) as UpstreamRequest)
}

/** Tries a TCP connection from inside the agent: `connected`, or the kernel's reason why not. */
export async function connectFromAgent(session: Session, address: string, port: number): Promise<string> {
  const script = `
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 8).close()
    print('connected')
except OSError as error:
    print(error)`
  const { stdout, stderr } = await session.agent(['python3', '-c', script, address, String(port)])
  return stdout.trim() || stderr
}
