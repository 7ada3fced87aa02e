import { existsSync, lstatSync, readlinkSync } from 'node:fs'
import { LIMITS } from '../../kernel/limits.ts'
import { isWithin } from '../sessions/real-path.ts'
import type { SandboxView } from './sandbox.ts'

/** Of the system: programs, libraries, and what these need to know. `/usr` and what a system that is not merged has beside it. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store', '/gnu/store', '/run/current-system/sw']

/** Settings of the system without a secret: no `/etc/shadow`, no keys of hosts or services, no settings of programs that name servers. */
const SETTINGS = [
  'alternatives ld.so.cache ld.so.conf ld.so.conf.d passwd group nsswitch.conf localtime timezone protocols services login.defs',
  'ssl/certs ssl/openssl.cnf ca-certificates pki/tls/certs crypto-policies os-release debian_version mime.types perl python3',
  'java-11-openjdk java-17-openjdk java-21-openjdk java-25-openjdk',
].flatMap((names) => names.split(' ').map((name) => `/etc/${name}`))

/**
 * What bwrap(1) is told: namespaces of its own for all there are (so no network, not even loopback of the host, no processes and
 * no System V memory of others), nothing of the file system but what is listed, and an end with ours.
 */
export function bubblewrapArguments(view: SandboxView): string[] {
  const { workspace, hidden, homeFolder, temporary, tools, fixed, pinned, cwd } = view
  const base = '--unshare-all --die-with-parent --cap-drop ALL --hostname sandbox --proc /proc --dev /dev'.split(' ')
  return [
    ...base,
    ...['/tmp', '/var/tmp', '/run'].flatMap(scratch),
    ...[...SYSTEM, ...SETTINGS].flatMap(readable),
    // The operator's home, unless the system itself lies in it.
    ...(isWithin(homeFolder, '/usr') || isWithin('/usr', homeFolder) ? [] : scratch(homeFolder)),
    ...tools.flatMap((path) => ['--ro-bind', path, path]),
    '--bind',
    workspace,
    workspace,
    ...fixed.flatMap((path) => ['--ro-bind', path, path]),
    '--bind',
    temporary,
    temporary,
    // Behind everything that could have them in it.
    ...hidden.filter((path) => [workspace, ...tools, ...SYSTEM].some((seen) => isWithin(seen, path))).flatMap(scratch),
    ...pinned.flatMap(({ path, copy }) => ['--ro-bind', copy, path]),
    '--chdir',
    cwd,
  ]
}

/** An empty folder that goes with the command. */
function scratch(path: string): string[] {
  return ['--size', String(LIMITS.sandboxScratchBytesMax), '--tmpfs', path]
}

/** A link of the system, as `/bin`, is one there too. */
function readable(path: string): string[] {
  if (!existsSync(path)) return []
  return lstatSync(path).isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path]
}
