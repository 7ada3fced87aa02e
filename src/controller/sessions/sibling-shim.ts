import type { SiblingWish } from './sibling.ts'

/**
 * I63: What a container beside the agent runs first: it reads variables from its stdin, exports them, and becomes the command. A value is never
 * an argument of a program: `read`, `printf`, `export` and `exec` are the shell's own, which is looked at for the one that POSIX leaves to
 * choose. `read` of a shell takes no more from a pipe than its line (POSIX), so that what follows is the command's.
 */
const READ_VARIABLES = `
case $(command -v printf) in
  printf) ;;
  *) echo 'sallyport: the /bin/sh of this image has no printf of its own' >&2; exit 126 ;;
esac
sallyport_end=
while IFS= read -r sallyport_name; do
  if [ "$sallyport_name" = . ]; then sallyport_end=1; break; fi
  IFS= read -r sallyport_value || exit 125
  sallyport_value=$(printf '%bx' "$sallyport_value") || exit 125
  export "$sallyport_name=\${sallyport_value%x}"
done
if [ -z "$sallyport_end" ]; then echo 'sallyport: the variables of this command did not come whole' >&2; exit 125; fi
unset sallyport_name sallyport_value sallyport_end
`

/** Variables of the shell that begin so are the shim's own. */
export const SHIM_VARIABLES = /^sallyport_/i

/**
 * Names that shells give a meaning of their own, or refuse to set: what is exported under them would not be what was given, or would
 * change how the shim reads the rest. Of bash, dash, busybox, ksh and zsh.
 */
export const SHELL_VARIABLES: ReadonlySet<string> = new Set(
  `_ BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_COMPAT BASH_ENV BASH_EXECUTION_STRING
  BASH_LINENO BASH_LOADABLES_PATH BASH_REMATCH BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO BASH_VERSION BASH_XTRACEFD CHILD_MAX COLUMNS
  COMP_CWORD COMP_KEY COMP_LINE COMP_POINT COMP_TYPE COMP_WORDBREAKS COMP_WORDS COPROC DIRSTACK EGID ENV EPOCHREALTIME EPOCHSECONDS
  ERRNO EUID FCEDIT FPATH FUNCNAME GID GROUPS HISTCMD HISTFILE HISTSIZE IFS LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES
  LC_MONETARY LC_NUMERIC LC_TIME LINENO LINES LOCPATH MAIL MAILCHECK MAILPATH MAPFILE OLDPWD OPTARG OPTERR OPTIND PATH PIPESTATUS
  POSIXLY_CORRECT PPID PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 PWD RANDOM READLINE_ARGUMENT READLINE_LINE READLINE_MARK READLINE_POINT REPLY
  SECONDS SHELLOPTS SHLVL SRANDOM TMOUT UID USERNAME`.split(/\s+/),
)

/** The program and its arguments: no value is in them. */
export function siblingCommand({ argv, stdin }: Pick<SiblingWish, 'argv' | 'stdin'>): [string, ...string[]] {
  const become = stdin === 'closed' ? 'exec "$@" </dev/null' : 'exec "$@"'
  return [SHELL, '-c', `${READ_VARIABLES}${become}`, 'sh', ...argv]
}

export const SHELL = '/bin/sh'

/** What its stdin begins with: for each variable a line with its name and one with its value, then a line with a dot. */
export function siblingInput({ values }: Pick<SiblingWish, 'values'>): Buffer {
  const lines = Object.entries(values).flatMap(([name, value]) => [name, escaped(value.reveal())])
  return Buffer.from([...lines, '.', ''].join('\n'), 'latin1')
}

/** One line of ASCII that `printf %b` makes the value of: each byte but the plainest as `\0` and three octal digits (POSIX). */
function escaped(value: string): string {
  const pieces = Array.from(Buffer.from(value, 'utf8'), (byte) =>
    isPlain(byte) ? String.fromCharCode(byte) : `\\0${byte.toString(8).padStart(3, '0')}`,
  )
  return pieces.join('')
}

function isPlain(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a)
}
