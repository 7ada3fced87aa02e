import { existsSync, lstatSync, readlinkSync } from 'node:fs'
import { LIMITS } from '../../kernel/limits.ts'
import { isWithin } from '../sessions/real-path.ts'
import type { SandboxView } from './sandbox.ts'

/** Of the system: programs, libraries, and what these need to know. `/usr` and what a system that is not merged has beside it. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store', '/gnu/store', '/run/current-system/sw']

/** Settings of the system without a secret: no `/etc/shadow`, no keys of hosts or services, no settings of programs that name servers. */
const SETTINGS = [
  ...['alternatives', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'passwd', 'group', 'nsswitch.conf', 'localtime', 'timezone'],
  ...['ssl/certs', 'ssl/openssl.cnf', 'ca-certificates', 'pki/tls/certs', 'crypto-policies', 'os-release', 'debian_version', 'mime.types'],
  ...['java-17-openjdk', 'java-21-openjdk', 'java-11-openjdk', 'perl', 'python3', 'emacs', 'login.defs', 'protocols', 'services'],
].map((name) => `/etc/${name}`)

/**
 * What bwrap(1) is told: namespaces of its own for all there are (so no network, not even loopback of the host, no processes and
 * no System V memory of others), nothing of the file system but what is listed, and an end with ours.
 */
export function bubblewrapArguments(view: SandboxView): string[] {
  const { workspace, hidden, homeFolder, temporary, tools, fixed, pinned, cwd } = view
  const scratch = (path: string): string[] => ['--size', String(LIMITS.sandboxScratchBytesMax), '--tmpfs', path]
  return [
    ...['--unshare-all', '--die-with-parent', '--cap-drop', 'ALL', '--hostname', 'sandbox'],
    ...['--proc', '/proc', '--dev', '/dev'],
    ...scratch('/tmp'),
    ...scratch('/var/tmp'),
    ...scratch('/run'),
    ...[...SYSTEM, ...SETTINGS].flatMap(readable),
    ...(isWithin('/usr', homeFolder) ? [] : scratch(homeFolder)),
    ...tools.flatMap((path) => ['--ro-bind', path, path]),
    ...['--bind', workspace, workspace],
    ...fixed.flatMap((path) => ['--ro-bind', path, path]),
    ...['--bind', temporary, temporary],
    // Behind everything that could have them in it.
    ...hidden.filter((path) => [workspace, ...tools, ...SYSTEM].some((seen) => isWithin(seen, path))).flatMap(scratch),
    ...pinned.flatMap(({ path, copy }) => ['--ro-bind', copy, path]),
    ...['--chdir', cwd],
  ]
}

/** A link of the system, as `/bin`, is one there too. */
function readable(path: string): string[] {
  if (!existsSync(path)) return []
  return lstatSync(path).isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path]
}
