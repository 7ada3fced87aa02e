import { isReadOnly } from './hazards/hazards.ts'
import { programName } from '../wire/programs.ts'

/** What a repository's own configuration would run, switched off. Tried: each of these stops what it names. */
const SETTINGS = [
  'core.fsmonitor=false',
  'core.hooksPath=/dev/null',
  'core.pager=cat',
  'core.sshCommand=false',
  'protocol.ext.allow=never',
  'protocol.file.allow=user',
  'submodule.recurse=false',
  'core.untrackedCache=false',
]
const AFTER: Readonly<Record<string, readonly string[]>> = {
  log: ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  show: ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  diff: ['--no-ext-diff', '--no-textconv', '--ignore-submodules=all'],
  status: ['--ignore-submodules=all'],
}

/**
 * A form of git that only shows something, with options that keep the configuration of the repository from running programs: the agent
 * wrote it. Filters that an attribute names are not among them: whether some are configured is for whoever runs it to see.
 * @returns `undefined` for what is not such a form
 */
export function hardenGit(argv: readonly string[]): readonly string[] | undefined {
  const [program = '', subcommand = '', ...rest] = argv
  if (programName(program) !== 'git' || subcommand.startsWith('-') || !isReadOnly(argv)) return undefined
  return [program, ...SETTINGS.flatMap((setting) => ['-c', setting]), subcommand, ...(AFTER[subcommand] ?? []), ...rest]
}
