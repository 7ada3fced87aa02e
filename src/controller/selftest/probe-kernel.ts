import { execFile } from 'node:child_process'
import { closeSync, constants, existsSync, openSync, readFileSync, readdirSync, readlinkSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { readMounts, readStatus, type Mount } from './proc-files.ts'
import type { ProbeTask } from './task.ts'
import type { Finding, WayId } from './ways.ts'

const CAPABILITY_SETS = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']
/** What every container has besides what a session gives it, and the kind of file system that it is: a folder of the host is another. */
const ENGINE_MOUNTS: Readonly<Record<string, string>> = {
  '/proc': 'proc',
  '/dev': 'tmpfs',
  '/dev/pts': 'devpts',
  '/dev/console': 'devpts',
  '/dev/mqueue': 'mqueue',
  '/dev/shm': 'tmpfs',
  '/sys/fs/cgroup': 'tmpfs',
}
const ENGINE_FILES = new Set(['/etc/resolv.conf', '/etc/hostname', '/etc/hosts'])
const SYSTEM_FOLDERS = ['/', '/etc', '/usr/bin', '/usr/local/bin', '/opt', '/var', '/root']
const KERNEL_FILES = [
  '/proc/sys/kernel/core_pattern',
  '/proc/sys/kernel/modprobe',
  '/proc/sys/fs/binfmt_misc/register',
  '/proc/sys/net/ipv4/ip_forward',
  '/proc/sys/net/ipv6/conf/all/disable_ipv6',
  '/proc/sysrq-trigger',
  '/proc/kcore',
  '/sys/kernel/uevent_helper',
  '/sys/kernel/mm/transparent_hugepage/enabled',
  '/sys/fs/cgroup/cgroup.procs',
  '/sys/fs/cgroup/memory/memory.limit_in_bytes',
  '/sys/fs/cgroup/memory/release_agent',
  '/sys/fs/cgroup/rdma/release_agent',
  '/sys/fs/cgroup/devices/devices.allow',
  '/dev/mem',
  '/dev/kmsg',
  '/dev/fuse',
  '/dev/kvm',
  '/dev/net/tun',
]
const ENGINE_SOCKETS = [
  'docker.sock',
  'docker.sock.raw',
  'containerd/containerd.sock',
  'podman/podman.sock',
  'crio/crio.sock',
  'buildkit/buildkitd.sock',
]
const SOCKET_FOLDERS = ['/var/run', '/run', '/run/user/0', '/tmp']
const SIDECAR_FOLDERS = ['/run/sallyport', '/run/secrets', '/var/lib/sallyport', '/etc/sallyport']
const LEASE_FILES = ['/run/sallyport/lease', '/run/secrets/lease']
const NAMESPACES = ['pid', 'net', 'ipc', 'uts', 'mnt', 'user', 'cgroup'] as const
/** Of a user namespace every container of an ordinary engine has the host's; of cgroups those of version 1 too. */
const MAY_BE_SHARED = new Set(['user', 'cgroup'])

/** What a process in the agent's place may do to its own machine. Nothing is left changed. */
export async function tryKernel(task: ProbeTask): Promise<Finding[]> {
  const status = readStatus(readFileSync('/proc/self/status', 'utf8'))
  const mounts = readMounts(readFileSync('/proc/self/mountinfo', 'utf8'))
  const held = CAPABILITY_SETS.filter((name) => status[name] !== undefined && !/^0+$/.test(status[name]))
  const isComplete = CAPABILITY_SETS.every((name) => status[name] !== undefined)
  const uid = process.getuid?.()
  return [
    finding(
      'capabilities',
      isComplete && held.length === 0,
      held.map((name) => `${name} ${status[name]}`),
      'all sets are empty',
    ),
    finding('no-new-privileges', status['NoNewPrivs'] === '1', [`NoNewPrivs ${status['NoNewPrivs']}`], 'NoNewPrivs 1'),
    finding('seccomp', status['Seccomp'] === '2', [`Seccomp mode ${status['Seccomp']}`], 'mode 2'),
    finding('user', task.isRootAllowed || (uid !== undefined && uid !== 0), [`uid ${uid}`], `uid ${uid}`),
    rootFilesystem(mounts),
    writableMounts(mounts, task.writable),
    kernelFiles(),
    engineSockets(mounts),
    sidecarFolders(mounts),
    leases(),
    await namespaces(task.namespaces),
  ]
}

function rootFilesystem(mounts: readonly Mount[]): Finding {
  const root = mounts.findLast(({ point }) => point === '/')
  const open = root?.isWritable === false ? [] : ['/ is mounted for writing']
  for (const folder of SYSTEM_FOLDERS) {
    const covered = mounts.some(({ point }) => point === folder && point !== '/')
    if (!covered && canMake(join(folder, `.sallyport-probe-${process.pid}`))) open.push(`a file could be made in ${folder}`)
  }
  return finding('root-filesystem', open.length === 0, open, 'read-only')
}

function canMake(file: string): boolean {
  try {
    closeSync(openSync(file, 'wx'))
    unlinkSync(file)
    return true
  } catch {
    return false
  }
}

function writableMounts(mounts: readonly Mount[], allowed: readonly string[]): Finding {
  const known = new Set(allowed)
  const surplus = mounts.filter((mount) => mount.isWritable && mount.point !== '/' && !known.has(mount.point) && !isOfEngine(mount))
  const open = surplus.map(({ point, type }) => `${point} (${type})`)
  return finding('mounts', open.length === 0, open, `${mounts.filter(({ isWritable }) => isWritable).length} that may be`)
}

/** What is hidden of /proc and /sys is covered with /dev/null of the container. */
function isOfEngine({ root, point, type }: Mount): boolean {
  if (ENGINE_FILES.has(point)) return true
  if (ENGINE_MOUNTS[point] === type) return true
  return root === '/null' && type === 'tmpfs' && /^\/(?:proc|sys)\//.test(point)
}

/** Opened, never written: what opens could be. */
function kernelFiles(): Finding {
  const open = KERNEL_FILES.filter((file) => {
    try {
      closeSync(openSync(file, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY))
      return true
    } catch {
      return false
    }
  })
  return finding('kernel-files', open.length === 0, open, `${KERNEL_FILES.length} tried, none opens`)
}

function engineSockets(mounts: readonly Mount[]): Finding {
  const paths = SOCKET_FOLDERS.flatMap((folder) => ENGINE_SOCKETS.map((name) => join(folder, name)))
  const names = new Set(ENGINE_SOCKETS.map((name) => name.split('/').at(-1)))
  const mounted = mounts.filter(({ root, point }) => [root, point].some((path) => names.has(path.split('/').at(-1) ?? '')))
  const open = [...new Set([...paths.filter((path) => existsSync(path)), ...mounted.map(({ point }) => point)])]
  return finding('engine-socket', open.length === 0, open, `none at ${paths.length} places, none mounted`)
}

/** The probe's own image has some of these folders: what counts is what is mounted there. */
function sidecarFolders(mounts: readonly Mount[]): Finding {
  const open = mounts.filter(({ point }) => SIDECAR_FOLDERS.some((folder) => point === folder || point.startsWith(`${folder}/`)))
  const sockets = mounts.filter(({ root, point }) => [root, point].some((path) => path.endsWith('/control.sock')))
  const points = [...new Set([...open, ...sockets].map(({ point }) => point))]
  return finding('sidecar-folders', points.length === 0, points, 'none is mounted')
}

/** Processes of others show in /proc with their environment, where a lease would be. */
function leases(): Finding {
  const files = LEASE_FILES.filter((file) => existsSync(file))
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const parents = new Map(pids.map((pid) => [pid, parentOf(pid)]))
  const own = lineOf(String(process.pid), parents)
  const foreign = pids.filter((pid) => !own.has(pid) && !lineOf(pid, parents).has(String(process.pid)))
  const open = [...files, ...foreign.map((pid) => `process ${pid}`)]
  return finding('leases', open.length === 0, open, 'no file of a lease, no process but its own')
}

/** A process and those that it comes from. */
function lineOf(pid: string, parents: ReadonlyMap<string, string>): Set<string> {
  const line = new Set<string>()
  for (let at = pid; at !== '0' && at !== '' && !line.has(at); at = parents.get(at) ?? '') line.add(at)
  return line
}

function parentOf(pid: string): string {
  try {
    return readStatus(readFileSync(`/proc/${pid}/status`, 'utf8'))['PPid'] ?? ''
  } catch {
    // It ended meanwhile, as those do that are started here.
    return String(process.pid)
  }
}

async function namespaces(host: readonly string[]): Promise<Finding> {
  const shared = NAMESPACES.filter((kind) => !MAY_BE_SHARED.has(kind) && host.includes(readlinkSync(`/proc/self/ns/${kind}`)))
  const made = await ranWell('unshare', ['--user', '--map-root-user', 'true'])
  const mounted = await ranWell('unshare', ['--mount', 'true'])
  const open = [...shared.map((kind) => `${kind} is the host’s`), ...(made ? ['a user namespace could be made'] : [])]
  if (mounted) open.push('a mount namespace could be made')
  const seen = host.length === 0 ? 'the host’s are not known here' : 'none is the host’s'
  return finding('namespaces', open.length === 0, open, `${seen}, none can be made`)
}

/**
 * Whether a program that needs the tried right ended well. One that is not there tells nothing: then the capability sets do. One that
 * does not end was not refused.
 */
export function ranWell(file: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(file, args, { timeout: LIMITS.probeAttemptMs, killSignal: 'SIGKILL' }, (error) =>
      resolve(error === null || error.killed === true),
    )
  })
}

/** `whenOpen` is what was found to be wrong. */
export function finding(id: WayId, ok: boolean, whenOpen: readonly string[], whenShut: string): Finding {
  const detail = ok ? whenShut : whenOpen.join(', ') || 'could not be read'
  return { id, ok, detail: detail.length > 900 ? `${detail.slice(0, 900)}…` : detail }
}

/** A finding for an attempt that broke: what could not be tried counts as open. */
export function broken(id: WayId, error: unknown): Finding {
  return { id, ok: false, detail: `could not be tried: ${codeOf(error)}` }
}
