import { readFileSync, readlinkSync } from 'node:fs'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { openCanary, hostAddresses, linkLocalAddresses, type Canary } from './canary.ts'
import { differences, type InspectedContainer } from './differences.ts'
import { readStatus } from './proc-files.ts'
import { parseFindings, type ProbeTask } from './task.ts'
import { WAYS, type Finding, type WayId } from './ways.ts'

export type { InspectedContainer } from './differences.ts'
export { WAYS, type Finding, type WayId } from './ways.ts'

/** What is done to the engine, by who does that. */
export type SelftestParts = {
  /**
   * Runs a container to its end and removes it: the sidecar's image, the entry point `node` and `sallyport.js` of the image, the
   * given command, and everything else exactly as the agent's container has it, the environment too.
   */
  runProbe(command: readonly string[], signal: AbortSignal): Promise<ProbeRun>
  /** The agent's container, as the engine describes it; undefined when there is none yet. */
  inspectAgent(signal: AbortSignal): Promise<(InspectedContainer & { readonly State: { readonly Pid: number } }) | undefined>
}

export type ProbeRun = {
  readonly exitCode: number
  /** At most `LIMITS.probeOutputBytesMax`. */
  readonly stdout: string
  readonly stderr: string
  /** As the engine described it while it was there. */
  readonly inspected: InspectedContainer
}

/** The jail that is tried. */
export type SelftestSetting = {
  /** CIDR. */
  readonly subnet: string
  /** The gate's address in the jail. */
  readonly sidecar: string
  /** The engine's id of the jail network: its bridge is named after it. */
  readonly networkId: string
  /** Addresses of the gates of other sessions in their jails. */
  readonly neighbours: readonly string[]
  /** Where the session lets its agent write: mount points. */
  readonly writable: readonly string[]
  readonly isRootAllowed: boolean
}

export type SelftestRow = Finding & { readonly what: string; readonly expected: string; readonly why: string }

const NAMESPACES = ['pid', 'net', 'ipc', 'uts', 'mnt', 'user', 'cgroup']
const EMPTY = /^0+$/
/** As the engine names the bridges of its networks. */
const BRIDGE_ID_CHARS = 12

/**
 * Tries every way of `WAYS`, by a probe in the agent's place, and says which are shut. A way that could not be tried is not.
 *
 * The probe runs the sidecar's image, as nothing in the agent's is relied on. It proves what network, mounts, capabilities,
 * limits of the kernel and the gate allow to any process of such a container; that the agent's container is such a one is row
 * `same-container`. What the files of the agent's own image are is not looked at: without capabilities and with
 * no_new_privs none of them gives more rights than the probe has.
 */
export async function runSelftest(parts: SelftestParts, setting: SelftestSetting, signal: AbortSignal): Promise<SelftestRow[]> {
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(LIMITS.selftestMs)])
  await using canary = await openCanary()
  const task = taskOf(setting, canary.port)
  const [run, agent] = await Promise.all([
    parts.runProbe(['probe', JSON.stringify(task)], bounded).catch((error: unknown) => problem(error)),
    parts.inspectAgent(bounded).catch((error: unknown) => problem(error)),
  ])
  signal.throwIfAborted()
  const found = new Map<WayId, Finding>(findingsOf(run).map((finding) => [finding.id, finding]))
  for (const finding of await arrivals(canary)) found.set(finding.id, finding)
  for (const finding of [compared(run, agent), agentProcess(agent)]) found.set(finding.id, finding)
  return WAYS.map((way) => ({ ...way, ...(found.get(way.id) ?? { id: way.id, ok: false, detail: notTried(run) }) }))
}

/** I38
 * @throws SallyportError selftest_failed with every way that is open */
export function refuseOpen(rows: readonly SelftestRow[]): void {
  const open = rows.filter(({ ok }) => !ok)
  if (open.length === 0 && rows.length > 0) return
  throw new SallyportError('selftest_failed', open.map(({ id, detail }) => `${id}: ${detail}`).join('\n') || 'nothing was tried', {
    hint: 'sallyport doctor tells what this engine lacks; --no-selftest starts a session all the same, and is recorded',
  })
}

function taskOf(setting: SelftestSetting, port: number): ProbeTask {
  const { subnet, sidecar, neighbours, writable, isRootAllowed } = setting
  return {
    host: { addresses: hostAddresses().slice(0, 64), port },
    linkLocal: linkLocalAddresses(`br-${setting.networkId.slice(0, BRIDGE_ID_CHARS)}`).slice(0, 8),
    subnet,
    sidecar,
    neighbours: neighbours.slice(0, 64),
    writable: [...writable],
    namespaces: ownNamespaces(),
    isRootAllowed,
  }
}

/** Of this machine; none where the engine's machine is another one (macOS). */
function ownNamespaces(): string[] {
  return NAMESPACES.flatMap((kind) => {
    try {
      return [readlinkSync(`/proc/self/ns/${kind}`)]
    } catch {
      return []
    }
  })
}

type Problem = { readonly problem: string }

function problem(error: unknown): Problem {
  return { problem: error instanceof SallyportError ? `${error.code}: ${error.message}` : codeOf(error) }
}

function findingsOf(run: ProbeRun | Problem): Finding[] {
  return 'problem' in run || run.exitCode !== 0 || run.stdout.length > LIMITS.probeOutputBytesMax ? [] : (parseFindings(run.stdout) ?? [])
}

function notTried(run: ProbeRun | Problem): string {
  if ('problem' in run) return `not tried: ${run.problem}`.slice(0, 300)
  if (run.exitCode === 0) return 'not tried: the probe said nothing of it'
  return `not tried: the probe ended with ${run.exitCode}: ${run.stderr.trim().split('\n').at(-1) ?? ''}`.slice(0, 300)
}

/** What the listener saw counts, whatever the probe says. Where it saw nothing, what the probe says stays. */
async function arrivals(canary: Canary): Promise<Finding[]> {
  const seen: [WayId, readonly string[]][] = [
    ['host-services', canary.connections()],
    ['host-datagrams', await canary.datagrams().catch(() => ['so many that the listener is full'])],
  ]
  return seen.flatMap(([id, from]) =>
    from.length === 0 ? [] : [{ id, ok: false, detail: `${from.length} arrived, from ${[...new Set(from)].join(', ')}` }],
  )
}

function compared(run: ProbeRun | Problem, agent: Awaited<ReturnType<SelftestParts['inspectAgent']>> | Problem): Finding {
  const id = 'same-container'
  if ('problem' in run) return { id, ok: false, detail: notTried(run) }
  if (agent === undefined) return { id, ok: false, detail: 'the agent has no container to compare with' }
  if ('problem' in agent) return { id, ok: false, detail: `not compared: ${agent.problem}` }
  const differing = differences(agent, run.inspected)
  if (differing.length > 0) return { id, ok: false, detail: `they differ in ${differing.join(', ')}` }
  return { id, ok: true, detail: `${Object.keys(agent.HostConfig).length} options, user, mounts and networks are alike` }
}

/** Read from outside, so that nothing has to run in the agent. */
function agentProcess(agent: Awaited<ReturnType<SelftestParts['inspectAgent']>> | Problem): Finding {
  const id = 'agent-process'
  if (agent === undefined || 'problem' in agent || agent.State.Pid === 0) return { id, ok: true, detail: 'it has not started yet' }
  const status = statusOf(agent.State.Pid)
  if (status === undefined) return { id, ok: true, detail: 'not looked at: its process cannot be seen from here' }
  const sets = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].filter((name) => !EMPTY.test(status[name] ?? ''))
  const open = sets.map((name) => `${name} ${status[name]}`)
  if (status['NoNewPrivs'] !== '1') open.push('it may gain privileges')
  if (status['Seccomp'] !== '2') open.push('no filter of system calls')
  return { id, ok: open.length === 0, detail: open.join(', ') || `process ${agent.State.Pid}: nothing held, nothing to gain` }
}

function statusOf(pid: number): Readonly<Record<string, string>> | undefined {
  try {
    const status = readStatus(readFileSync(`/proc/${pid}/status`, 'utf8'))
    // With an engine in another machine the number is somebody else's here: only a process in other namespaces is a container's.
    const isContained = readlinkSync(`/proc/${pid}/ns/pid`) !== readlinkSync('/proc/self/ns/pid')
    return isContained ? status : undefined
  } catch {
    return undefined
  }
}
