import type { SandboxView } from './sandbox.ts'

/** Programs, libraries and settings of the system without a secret. */
const SYSTEM = [
  '/usr /bin /sbin /System /Library/Apple /Library/Developer /Applications/Xcode.app /opt/homebrew /private/var/db/timezone',
  '/private/var/select /private/etc/localtime /private/etc/passwd /private/etc/group /private/etc/protocols /private/etc/services',
  '/private/etc/ssl',
].flatMap((paths) => paths.split(' '))

/**
 * A profile for sandbox-exec(1) of macOS: nothing, but what is listed. No network, so no loopback and no socket of a daemon; no Mach
 * services beyond those that every program asks for, so no keychain, no pasteboard and no launching of other programs outside.
 */
export function seatbeltProfile(view: SandboxView): string {
  const { workspace, hidden, homeFolder, temporary, tools, fixed, pinned } = view
  const below = (paths: readonly string[]): string => paths.map((path) => `(subpath ${quoted(path)})`).join(' ')
  const seen = [...SYSTEM, ...tools, workspace, temporary]
  return [
    '(version 1)',
    '(deny default)',
    '(allow process-fork)',
    '(allow signal (target same-sandbox))',
    '(allow sysctl-read)',
    '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.system.logger"))',
    `(allow file-read* process-exec (literal "/") ${below(seen)})`,
    ...['null', 'zero', 'random', 'urandom'].map((name) => `(allow file-read* file-write-data (literal "/dev/${name}"))`),
    // Of two rules that match, the later one holds.
    `(deny file-read* file-write* process-exec (subpath ${quoted(homeFolder)}))`,
    `(allow file-read* process-exec ${below([...tools, workspace, temporary, ...pinned.map(({ copy }) => copy)])})`,
    `(allow file-write* ${below([workspace, temporary])})`,
    ...[...fixed, ...pinned.map(({ path }) => path)].map((path) => `(deny file-write* (subpath ${quoted(path)}))`),
    ...hidden.map((path) => `(deny file-read* file-write* process-exec (subpath ${quoted(path)}))`),
    '(deny network*)',
    '',
  ].join('\n')
}

/** A string of the profile's language, in which a backslash and a quote would end it. */
function quoted(path: string): string {
  return `"${path.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
