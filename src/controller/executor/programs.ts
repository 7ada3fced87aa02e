/** Which operand of a program is a program itself. Names are those of files, without a version at the end. */

type Interpreter = {
  /** Options whose value is the next token. */
  readonly withValue: readonly string[]
  /** Options after which there is no script: what runs is their value, a module, or nothing. */
  readonly instead: readonly string[]
  /** Options whose value is the script. */
  readonly script?: readonly string[]
  /** A word before the script, as `run` of `deno run x.ts`. */
  readonly commands?: readonly string[]
}

const SHELL: Interpreter = { withValue: ['-o', '+o', '-O', '+O', '--rcfile', '--init-file'], instead: ['-c', '-s'] }
const AWK: Interpreter = { withValue: ['-v', '-F', '--assign', '--field-separator'], instead: [], script: ['-f', '--file', '-E', '--exec'] }

const INTERPRETERS: Readonly<Record<string, Interpreter>> = {
  ...Object.fromEntries(['sh', 'bash', 'dash', 'zsh', 'ksh', 'mksh', 'fish', 'ash'].map((name) => [name, SHELL])),
  ...Object.fromEntries(['awk', 'gawk', 'mawk', 'nawk'].map((name) => [name, AWK])),
  node: {
    withValue: ['-r', '--require', '--import', '--loader', '--experimental-loader', '-C', '--conditions', '--env-file', '--title'],
    instead: ['-e', '--eval', '-p', '--print', '--run', '--test', '-i', '--interactive', '-pe'],
  },
  python: { withValue: ['-W', '-X', '--check-hash-based-pycs'], instead: ['-c', '-m'] },
  ruby: { withValue: ['-I', '-r', '-C', '-E', '--encoding'], instead: ['-e'] },
  perl: { withValue: ['-I'], instead: ['-e', '-E'] },
  php: { withValue: ['-c', '-d', '-z'], instead: ['-r', '-B', '-R', '-a', '-S'], script: ['-f', '--file', '-F'] },
  lua: { withValue: ['-l'], instead: ['-e', '-i'] },
  Rscript: { withValue: [], instead: ['-e'] },
  tclsh: { withValue: ['-encoding'], instead: [] },
  osascript: { withValue: ['-l', '-s'], instead: ['-e', '-i'] },
  deno: { withValue: ['-c', '--config', '--import-map'], instead: ['eval', 'repl', 'task'], commands: ['run'] },
  bun: {
    withValue: ['-r', '--preload', '-c', '--config', '--cwd'],
    instead: ['-e', '--eval', '-p', '--print', 'x', 'test'],
    commands: ['run'],
  },
  tsx: { withValue: [], instead: ['-e', '--eval', '-p', '--print'], commands: ['watch'] },
  make: { withValue: ['-C', '-I', '-o', '-W', '-j', '-l'], instead: [], script: ['-f', '--file', '--makefile'] },
}

/** Programs that run the command which follows: how many operands come first, and options whose value is the next token. */
const RUNNERS: Readonly<Record<string, { readonly operands: number; readonly withValue: readonly string[] }>> = {
  env: { operands: 0, withValue: ['-u', '--unset', '-C', '--chdir'] },
  timeout: { operands: 1, withValue: ['-k', '--kill-after', '-s', '--signal'] },
  nice: { operands: 0, withValue: ['-n', '--adjustment'] },
  ionice: { operands: 0, withValue: ['-c', '-n', '-p'] },
  nohup: { operands: 0, withValue: [] },
  setsid: { operands: 0, withValue: [] },
  stdbuf: { operands: 0, withValue: ['-i', '-o', '-e'] },
  time: { operands: 0, withValue: ['-f', '-o'] },
  flock: { operands: 1, withValue: ['-w', '-E'] },
  xargs: { operands: 0, withValue: ['-a', '-d', '-E', '-I', '-L', '-n', '-P', '-s'] },
  chrt: { operands: 1, withValue: ['-T', '-P', '-D'] },
  taskset: { operands: 1, withValue: [] },
}

export type CodeOperand =
  /** A script of the interpreter: the value of an option, or the first operand. */
  | { readonly kind: 'script'; readonly at: number; readonly prefix: string; readonly path: string }
  /** A command within the command, from this token on. */
  | { readonly kind: 'command'; readonly at: number }

/** The name of a program's file as the tables have it: `python3.12` is `python`. */
export function programName(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return Object.hasOwn(INTERPRETERS, name) || Object.hasOwn(RUNNERS, name) ? name : name.replace(/[\d.-]+$/, '')
}

/** What of the arguments (`argv[from]` is the program) is a program, by the tables. */
export function codeOperands(program: string, argv: readonly string[], from: number): CodeOperand[] {
  if (Object.hasOwn(RUNNERS, program)) {
    const at = nestedCommand(argv, from + 1, RUNNERS[program] as (typeof RUNNERS)[string])
    return at === undefined ? [] : [{ kind: 'command', at }]
  }
  return Object.hasOwn(INTERPRETERS, program) ? scripts(INTERPRETERS[program] as Interpreter, argv, from + 1) : []
}

function nestedCommand(argv: readonly string[], from: number, runner: (typeof RUNNERS)[string]): number | undefined {
  let operands = runner.operands
  for (let at = from; at < argv.length; at++) {
    const token = argv[at] as string
    if (token.startsWith('-') && token !== '-') at += runner.withValue.includes(token) ? 1 : 0
    // Of env: a variable.
    else if (/^[A-Za-z_][A-Za-z0-9_]*=/.test(token) || token === '-') continue
    else if (operands > 0) operands -= 1
    else return at
  }
  return undefined
}

function scripts(interpreter: Interpreter, argv: readonly string[], from: number): CodeOperand[] {
  const { withValue, instead, script = [], commands = [] } = interpreter
  const found: CodeOperand[] = []
  for (let at = from; at < argv.length; at++) {
    const token = argv[at] as string
    const glued = script.find(
      (option) => token.startsWith(option) && token !== option && (!option.startsWith('--') || token[option.length] === '='),
    )
    if (script.includes(token) && at + 1 < argv.length) {
      found.push({ kind: 'script', at: at + 1, prefix: '', path: argv[at + 1] as string })
      at += 1
    } else if (glued !== undefined) {
      const prefix = glued.startsWith('--') ? `${glued}=` : glued
      found.push({ kind: 'script', at, prefix, path: token.slice(prefix.length) })
    } else if (instead.some((option) => isOption(token, option))) return found
    else if (token === '--') continue
    else if (token.startsWith('-') || token.startsWith('+')) at += withValue.includes(token) ? 1 : 0
    else if (commands.includes(token)) continue
    // A program whose script is an option's value has data as operands.
    else return script.length > 0 ? found : [...found, { kind: 'script', at, prefix: '', path: token }]
  }
  return found
}

/** Also `-c` among the letters of `-xc`, and `--eval=…`. */
function isOption(token: string, option: string): boolean {
  if (token === option || token.startsWith(`${option}=`)) return true
  return /^-[a-zA-Z]$/.test(option) && /^-[a-zA-Z]+$/.test(token) && token.includes(option[1] as string)
}
