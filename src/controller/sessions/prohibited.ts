import { SallyportError } from '../../kernel/errors.ts'
import { nearest } from '../../kernel/nearest.ts'
import type { ImageFacts } from './engine.ts'

/** One thing that nobody can ask for. */
export type Prohibition = {
  /** As it is called in our messages. */
  readonly setting: string
  /** Its spellings in compose files, on command lines and in the engine's API, without case, dashes and underscores. */
  readonly spellings: readonly string[]
  /** Why not, as a whole sentence. */
  readonly reason: string
  /** A value that asks for nothing: it may stand there. Default: what is empty or false. */
  readonly isHarmless?: (value: unknown) => boolean
}

const HOST_NAMESPACE = 'the session would see or touch that part of the host, or of another container'

/** What would undo what holds a container, by every name that it is known by. The order is that of the documents. */
export const PROHIBITIONS: readonly Prohibition[] = [
  { setting: 'privileged', spellings: ['privileged'], reason: 'a privileged container is root on the host' },
  { setting: 'pid', spellings: ['pid', 'pidmode'], reason: HOST_NAMESPACE, isHarmless: isPrivate },
  {
    setting: 'network_mode',
    spellings: ['network', 'networkmode', 'net', 'networks'],
    reason: 'the only network of a session is its own jail',
  },
  { setting: 'ipc', spellings: ['ipc', 'ipcmode'], reason: HOST_NAMESPACE, isHarmless: isPrivate },
  { setting: 'uts', spellings: ['uts', 'utsmode'], reason: HOST_NAMESPACE, isHarmless: isPrivate },
  { setting: 'userns_mode', spellings: ['userns', 'usernsmode'], reason: 'it would switch off the engine’s own separation of users' },
  { setting: 'cgroup', spellings: ['cgroup', 'cgroupns', 'cgroupnsmode', 'cgroupparent'], reason: HOST_NAMESPACE, isHarmless: isPrivate },
  {
    setting: 'devices',
    spellings: ['devices', 'device', 'devicerequests', 'devicecgrouprules', 'gpus', 'blkioconfig', 'deviceread', 'devicewrite'],
    reason: 'a device of the host is a way to the host',
  },
  { setting: 'cap_add', spellings: ['capadd', 'capabilities'], reason: 'no process of a session holds a capability' },
  { setting: 'cap_drop', spellings: ['capdrop'], reason: 'all capabilities are dropped already', isHarmless: isAll },
  {
    setting: 'security_opt',
    spellings: ['securityopt', 'security', 'apparmor', 'selinux', 'nonewprivileges'],
    reason: 'seccomp, AppArmor, SELinux and no-new-privileges stay on; a stricter profile is named by session.seccomp',
  },
  { setting: 'sysctls', spellings: ['sysctls', 'sysctl'], reason: 'the kernel settings of a session are what keeps it in its network' },
  { setting: 'volumes_from', spellings: ['volumesfrom'], reason: 'it would bring the mounts of another container' },
  {
    setting: 'volumes',
    spellings: ['volumes', 'volume', 'binds', 'volumedriver', 'tmpfs'],
    reason: 'what is mounted is named by session.mounts, where it is looked at',
  },
  { setting: 'read_only', spellings: ['readonly', 'readonlyrootfs'], reason: 'the root filesystem is read-only', isHarmless: isTrue },
  {
    setting: 'ports',
    spellings: ['ports', 'publish', 'expose', 'publishallports', 'portbindings'],
    reason: 'nothing outside reaches into the jail; sallyport forward does, for you alone',
  },
  { setting: 'links', spellings: ['links', 'link', 'externallinks'], reason: 'a session reaches its gate and nobody else' },
  {
    setting: 'dns',
    spellings: ['dns', 'dnssearch', 'dnsopt', 'dnsoptions', 'extrahosts', 'addhost'],
    reason: 'the only resolver of a session is its gate',
  },
  { setting: 'group_add', spellings: ['groupadd', 'groups'], reason: 'a group of the host (docker, disk) is a way to the host' },
  {
    setting: 'masked_paths',
    spellings: ['maskedpaths', 'readonlypaths', 'systempaths'],
    reason: 'these parts of the kernel’s files belong to the machine',
  },
  { setting: 'oom', spellings: ['oomkilldisable', 'oomscoreadj'], reason: 'the agent goes first when memory ends, and not the host' },
  {
    setting: 'ulimits',
    spellings: ['ulimits', 'ulimit', 'shmsize', 'memswaplimit', 'memoryswap', 'memswappiness'],
    reason: 'limits are memory, cpus and pids of session',
  },
  { setting: 'restart', spellings: ['restart', 'restartpolicy', 'autoremove', 'rm'], reason: 'the life of a session is the controller’s' },
  {
    setting: 'logging',
    spellings: ['logging', 'logdriver', 'logopt', 'logconfig'],
    reason: 'what the agent prints is bounded and read by the controller',
  },
  { setting: 'entrypoint', spellings: ['entrypoint', 'healthcheck'], reason: 'what a session runs is its command and nothing beside' },
  { setting: 'labels', spellings: ['labels', 'label', 'annotations'], reason: 'labels say whose a container is' },
  { setting: 'init', spellings: ['init'], reason: 'a session has an init of ours', isHarmless: isTrue },
]

/** What a session can be given: `session:` of a policy. */
const ALLOWED = ['image', 'memory', 'cpus', 'pids', 'runtime', 'seccomp', 'user', 'environment', 'mounts']

/** The engine's API by another way: a program that finds these talks to an engine. */
const ENGINE_VARIABLES =
  /^(?:DOCKER_(?:HOST|CONTEXT|TLS|TLS_VERIFY|CERT_PATH|CONFIG|API_VERSION)|CONTAINER_HOST|CONTAINERD_(?:ADDRESS|NAMESPACE)|BUILDKIT_HOST|PODMAN_HOST)$/i

/** Where an image may declare no volume: what is there is ours, or the system's. */
const SYSTEM_FOLDERS = new Set([
  '/',
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/lib',
  '/lib64',
  '/proc',
  '/run/sallyport',
  '/sallyport',
  '/sbin',
  '/sys',
  '/usr',
])

/**
 * Refuses what would undo the hardening, in whatever spelling, by its name and with the reason.
 * @throws SallyportError config_prohibited; config_invalid for a setting that sessions don't have
 */
export function refuseProhibited(settings: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(settings)) {
    if (ALLOWED.includes(name)) continue
    const plain = name.replace(/^--?/, '').replaceAll(/[-_]/g, '').toLowerCase()
    const found = PROHIBITIONS.find(({ spellings }) => spellings.includes(plain))
    if (found === undefined) {
      const near = nearest(name, ALLOWED)
      throw new SallyportError('config_invalid', `"${name}" is no setting of a session`, {
        hint: near === undefined ? `there are ${ALLOWED.join(', ')}` : `is "${near}" meant?`,
      })
    }
    if (!(found.isHarmless ?? isNothing)(value)) prohibit(`${found.setting} (${name}: ${shown(value)})`, found.reason)
  }
}

/** @throws SallyportError config_prohibited for a variable that leads to an engine, or that is the gate's own */
export function refuseVariables(names: Iterable<string>, own: ReadonlySet<string>): void {
  for (const name of names) {
    if (ENGINE_VARIABLES.test(name))
      prohibit(`the variable ${name}`, 'it leads programs to a container engine, and who commands one commands the host')
    if (own.has(name)) prohibit(`the variable ${name}`, 'it is the gate’s own: the agent’s programs would miss their way out')
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) prohibit(`the variable "${name}"`, 'this is no name of a variable')
  }
}

/**
 * What an image declares is overruled (user, entrypoint, health check) or covered (volumes) by what a session asks for; refused is
 * what could not be.
 * @throws SallyportError config_prohibited
 */
export function refuseImage(name: string, image: Pick<ImageFacts, 'volumes' | 'labels'>): void {
  for (const volume of image.volumes) {
    const path = volume.replace(/\/+$/, '') || '/'
    if (SYSTEM_FOLDERS.has(path) || !path.startsWith('/') || path.split('/').includes('..'))
      prohibit(`the image ${name} with the volume ${volume}`, 'a volume there takes the place of the system’s files or ours')
  }
  const label = Object.keys(image.labels).find((key) => key.startsWith('sallyport.'))
  if (label !== undefined)
    prohibit(`the image ${name} with the label ${label}`, 'these labels say whose a container is, and what may be removed')
}

/** @throws SallyportError config_prohibited */
export function prohibit(what: string, reason: string): never {
  throw new SallyportError('config_prohibited', `${what} is refused: ${reason}`, { hint: 'remove it' })
}

function isNothing(value: unknown): boolean {
  if (value === null || value === undefined || value === false || value === '') return true
  return typeof value === 'object' && Object.keys(value).length === 0
}

function isPrivate(value: unknown): boolean {
  return isNothing(value) || value === 'private'
}

function isTrue(value: unknown): boolean {
  return value === true
}

function isAll(value: unknown): boolean {
  return isNothing(value) || (Array.isArray(value) && value.length === 1 && String(value[0]).toUpperCase() === 'ALL')
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value)
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
