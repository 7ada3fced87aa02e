import type { SandboxView } from './sandbox.ts'

/**
 * A profile for sandbox-exec(1) of macOS: nothing, but what is listed. No network, so no loopback and no socket of a daemon; no Mach
 * services beyond those that every program asks for, so no keychain, no pasteboard and no launching of other programs outside.
 */
export function seatbeltProfile(view: SandboxView): string {
  const { workspace, hidden, homeFolder, temporary, tools, fixed, pinned } = view
  const below = (paths: readonly string[]): string => paths.map((path) => `(subpath ${quoted(path)})`).join(' ')
  const system = [
    '/usr',
    '/bin',
    '/sbin',
    '/System',
    '/Library/Apple',
    '/Library/Developer',
    '/Applications/Xcode.app',
    '/opt/homebrew',
    '/private/var/db/timezone',
    '/private/var/select',
  ]
  const settings = [
    '/private/etc/localtime',
    '/private/etc/passwd',
    '/private/etc/group',
    '/private/etc/protocols',
    '/private/etc/services',
    '/private/etc/ssl',
  ]
  return [
    '(version 1)',
    '(deny default)',
    '(allow process-fork)',
    '(allow signal (target same-sandbox))',
    '(allow sysctl-read)',
    '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.system.logger"))',
    '(allow file-read-metadata)',
    `(allow file-read* process-exec (literal "/") ${below([...system, ...settings, ...tools, workspace, temporary])})`,
    '(allow file-read* file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom") (literal "/dev/tty"))',
    `(allow file-write* ${below([workspace, temporary])})`,
    // The last rule that matches is the one that holds.
    ...(tools.length + 1 > 0 ? [`(deny file-read* file-write* process-exec ${below([homeFolder])})`] : []),
    `(allow file-read* process-exec ${below([...tools, workspace, temporary])})`,
    `(allow file-write* ${below([workspace, temporary])})`,
    ...(fixed.length === 0 ? [] : [`(deny file-write* ${below(fixed)})`]),
    ...(pinned.length === 0 ? [] : [`(allow file-read* process-exec ${below(pinned.map(({ copy }) => copy))})`]),
    ...(hidden.length === 0 ? [] : [`(deny file-read* file-write* process-exec ${below(hidden)})`]),
    '(deny network*)',
    '',
  ].join('\n')
}

/** A string of the profile's language, in which a backslash and a quote would end it. */
function quoted(path: string): string {
  return `"${path.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
