import { lstatSync, realpathSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { codeOf } from '../../kernel/errors.ts'
import type { Bind } from './hardening.ts'
import { prohibit } from './prohibited.ts'
import { isWithin, realpathOfNearest } from './real-path.ts'

/** What must not come into a session, whoever asks for it. Real paths, whether they exist or not. */
export type GuardedPlaces = {
  /** Sockets of container engines. */
  readonly sockets: readonly string[]
  /** Folders with their reason: neither they, nor what lies in them, nor a folder that holds them. */
  readonly folders: readonly { readonly path: string; readonly what: string }[]
}

/** Folders of the machine itself. What lies in them is refused as well. */
const SYSTEM = [
  '/proc',
  '/sys',
  '/dev',
  '/boot',
  '/etc',
  '/run',
  '/var/run',
  '/var/lib/docker',
  '/var/lib/containerd',
  '/var/lib/containers',
]
/** Below /run, yet no part of the machine: what is mounted for the operator. */
const MEDIA = ['/run/media']
/** In the operator's home: keys and logins. */
const HOME_SECRETS = [
  '.ssh',
  '.aws',
  '.gnupg',
  '.docker',
  '.kube',
  '.config/gcloud',
  '.azure',
  '.netrc',
  '.password-store',
  '.local/share/keyrings',
]

/** Where mounts may not be in the container: what is ours, and the system's. */
const OWN_TARGETS = [
  '/',
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/lib',
  '/lib64',
  '/proc',
  '/run',
  '/sallyport',
  '/sbin',
  '/sys',
  '/usr',
  '/tmp',
  '/workspace',
  '/home/agent',
]

/**
 * The places of this machine. `home` is Sallyport's state, `socket` the engine's socket and `rootFolder` its state where it runs
 * here, `userHome` the operator's.
 */
export function guardedPlaces(
  { home, socket, rootFolder }: { readonly home: string; readonly socket: string | undefined; readonly rootFolder: string | undefined },
  userHome: string = homedir(),
): GuardedPlaces {
  const user = `/run/user/${process.getuid?.() ?? 0}`
  const sockets = [
    '/var/run/docker.sock',
    '/run/docker.sock',
    '/run/containerd/containerd.sock',
    '/run/crio/crio.sock',
    '/run/podman/podman.sock',
    '/run/buildkit/buildkitd.sock',
    `${user}/docker.sock`,
    `${user}/podman/podman.sock`,
    join(userHome, '.docker/run/docker.sock'),
    join(userHome, '.docker/desktop/docker.sock'),
    join(userHome, '.colima/default/docker.sock'),
    ...(socket === undefined ? [] : [socket]),
  ]
  return {
    sockets: both(sockets),
    folders: [
      ...both([home]).map((path) => ({ path, what: 'Sallyport’s own state' })),
      ...both([...SYSTEM, ...(rootFolder === undefined ? [] : [rootFolder])]).map((path) => ({ path, what: 'part of the host’s system' })),
      ...both(HOME_SECRETS.map((name) => join(userHome, name))).map((path) => ({ path, what: 'where your keys and logins are' })),
    ],
  }
}

/**
 * The real path of a mount that somebody names, looked at before anything is made: a symbolic link is followed, and of what does not
 * exist yet the place is what counts.
 * @throws SallyportError config_prohibited by name and with the reason
 */
export function checkedSource(source: string, places: GuardedPlaces): string {
  if (!source.startsWith('/') || source.includes('\0')) prohibit(`the mount "${source}"`, 'it is not a whole path of the host')
  const real = realOrRefused(source)
  const via = real === normalize(source) ? `the mount ${source}` : `the mount ${source} (really ${real})`
  if (real === '/') prohibit(via, 'it is the whole host')
  for (const socket of places.sockets) {
    if (real === socket) prohibit(via, 'it is the socket of a container engine, and who commands one commands the host')
    if (isWithin(real, socket)) prohibit(via, `it holds ${socket}, the socket of a container engine`)
  }
  if (!MEDIA.some((folder) => isWithin(folder, real))) {
    for (const { path, what } of places.folders) {
      if (isWithin(path, real)) prohibit(via, path === real ? `it is ${what}` : `it lies in ${path}: ${what}`)
      if (isWithin(real, path)) prohibit(via, `it holds ${path}: ${what}`)
    }
  }
  const found = statSync(real, { throwIfNoEntry: false })
  if (found === undefined) prohibit(via, 'it does not exist, and whoever makes it decides what is mounted')
  if (found.isSocket()) prohibit(via, 'it is a socket: whoever listens there acts outside the session')
  if (!found.isFile() && !found.isDirectory()) prohibit(via, 'it is neither a file nor a folder')
  return real
}

function realOrRefused(source: string): string {
  try {
    return realpathOfNearest(normalize(source))
  } catch (error) {
    return prohibit(`the mount ${source}`, `where it leads cannot be seen (${codeOf(error)})`)
  }
}

/** The same for the place in the container. @throws SallyportError config_prohibited */
export function checkedTarget(target: string): string {
  const plain = normalize(target).replace(/(?<=.)\/+$/, '')
  if (!target.startsWith('/') || target.includes('\0') || target.split('/').includes('..'))
    prohibit(`the mount at "${target}"`, 'it is not a whole path of the container')
  const own = OWN_TARGETS.find((path) => path === plain)
  if (own !== undefined) prohibit(`the mount at ${target}`, 'what is there is the system’s or ours')
  for (const folder of ['/proc', '/sys', '/dev', '/etc', '/sallyport', '/run/sallyport'])
    if (isWithin(folder, plain)) prohibit(`the mount at ${target}`, `what is below ${folder} is the system’s or ours`)
  return plain
}

/**
 * Mounts whose source is no longer what it was: somebody put a link in its place, or took it away, after it was looked at. The engine
 * follows links when the container starts.
 */
export function movedSources(binds: readonly Pick<Bind, 'source'>[]): string[] {
  return binds.map(({ source }) => source).filter((source) => !isItself(source))
}

function isItself(source: string): boolean {
  try {
    return realpathSync(source) === source && !lstatSync(source).isSymbolicLink() && lstatSync(dirname(source)).isDirectory()
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false
    throw error
  }
}

/** As they are written, and as they really are. */
function both(paths: readonly string[]): string[] {
  return [...new Set(paths.flatMap((path) => [normalize(path), realpathOfNearest(path)]))]
}
