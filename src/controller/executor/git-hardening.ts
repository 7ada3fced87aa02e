/**
 * I46: What keeps git from running what a repository's own configuration names (git-config(1)): of a workspace, that is an agent's to write.
 * In the environment, so that a git which another program starts has it too.
 */
const SETTINGS: readonly (readonly [string, string])[] = [
  ['core.fsmonitor', 'false'],
  ['core.hooksPath', '/dev/null'],
  ['core.pager', 'cat'],
  ['gpg.program', 'gpg'],
  ['gpg.ssh.program', 'ssh-keygen'],
  ['gpg.x509.program', 'gpgsm'],
  ['log.showSignature', 'false'],
  ['core.untrackedCache', 'false'],
  ['protocol.ext.allow', 'never'],
  ['protocol.file.allow', 'user'],
  ['submodule.recurse', 'false'],
]

/** Programs that run git, or that show things by a pager, which they would start. */
const RUNS_GIT = new Set([
  'git',
  'gh',
  'glab',
  'hub',
  'jj',
  'tig',
  'git-lfs',
  'npm',
  'pnpm',
  'yarn',
  'bun',
  'cargo',
  'go',
  'swift',
  'make',
  'just',
  'pre-commit',
])

const PAGERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  git: { PAGER: 'cat' },
  gh: { GH_PAGER: 'cat', PAGER: 'cat' },
  aws: { AWS_PAGER: '' },
  systemctl: { SYSTEMD_PAGER: 'cat' },
  journalctl: { SYSTEMD_PAGER: 'cat' },
}

/** Commands of git that speak with another repository: these may start ssh, by its own name. For all others there is none. */
const REMOTE = new Set(['push', 'fetch', 'pull', 'clone', 'ls-remote', 'remote', 'submodule', 'archive', 'send-pack', 'fetch-pack'])

/** Variables that a program gets beside those of every command. @param program its file's name */
export function hardenedEnvironment(program: string, argv: readonly string[]): Readonly<Record<string, string>> {
  const pagers = Object.hasOwn(PAGERS, program) ? (PAGERS[program] as Record<string, string>) : {}
  if (!RUNS_GIT.has(program) && !program.startsWith('git-')) return pagers
  const ssh = program !== 'git' || REMOTE.has(argv[commandAt(argv)] ?? '') ? 'ssh' : 'false'
  const settings = [...SETTINGS, ['core.sshCommand', ssh] as const]
  return {
    ...pagers,
    GIT_ASKPASS: 'false',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_EDITOR: 'false',
    GIT_SEQUENCE_EDITOR: 'false',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_PAGER: 'cat',
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], i) => [
        [`GIT_CONFIG_KEY_${i}`, key],
        [`GIT_CONFIG_VALUE_${i}`, value],
      ]),
    ),
  }
}

/** Options of git itself whose value is the next token (git(1)). */
const WITH_VALUE = new Set(['-c', '-C', '--git-dir', '--work-tree', '--namespace', '--config-env', '--super-prefix', '--attr-source'])

/** What each command would run by configuration or attributes that no setting turns off, as options that do. */
const FLAGS: Readonly<Record<string, readonly string[]>> = {
  log: ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  show: ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  diff: ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  whatchanged: ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  'format-patch': ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  'diff-tree': ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  'diff-index': ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  'diff-files': ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  status: ['--ignore-submodules=all'],
  blame: ['--no-textconv'],
  grep: ['--no-textconv'],
}

/** The arguments of git as it is run: with the options above, right behind its command. `stash show` has them behind `show`. */
export function hardenedGit(argv: readonly string[]): readonly string[] {
  const at = commandAt(argv)
  if (argv[at] === 'stash' && argv[at + 1] === 'show') {
    const rest = argv.slice(at + 2)
    // Without an option of the caller's it shows statistics, and any option ends that.
    const shown = rest.some((token) => token.startsWith('-')) ? [] : ['--stat']
    return [...argv.slice(0, at + 2), '--no-ext-diff', '--no-textconv', ...shown, ...rest]
  }
  const command = argv[at] ?? ''
  return Object.hasOwn(FLAGS, command) ? [...argv.slice(0, at + 1), ...(FLAGS[command] ?? []), ...argv.slice(at + 1)] : argv
}

/** Where the command of git stands in its arguments. */
function commandAt(argv: readonly string[]): number {
  let at = 1
  while (at < argv.length && argv[at]?.startsWith('-')) at += WITH_VALUE.has(argv[at] as string) ? 2 : 1
  return at
}
