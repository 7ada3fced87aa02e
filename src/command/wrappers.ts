import { programClass, programName } from '../wire/programs.ts'

/** What a program starts with its own arguments. */
export type Inner = { readonly argv: readonly string[] } | { readonly script: string }

/** Programs that start the rest of their arguments, and the options of theirs that take a value. */
const VALUED: Readonly<Record<string, string>> = {
  env: 'uCS',
  sudo: 'ugpCrthDRT',
  doas: 'uC',
  nice: 'n',
  ionice: 'cnp',
  timeout: 'sk',
  gtimeout: 'sk',
  stdbuf: 'ioe',
  xargs: 'aEIiLlnPsd',
  parallel: 'jaSN',
  watch: 'n',
  flock: 'wE',
  time: 'fo',
  strace: 'oeEpsuXIaOP',
  taskset: 'p',
  chrt: 'TPD',
  setpriv: '',
  chroot: '',
  unshare: 'SG',
  nsenter: 'tSG',
  busybox: '',
  toybox: '',
  nohup: '',
  setsid: '',
  npx: 'pc',
  bunx: '',
  pnpx: '',
  uvx: '',
  command: '',
  exec: 'a',
  builtin: '',
  rlwrap: '',
  script: 'cIOtToEmB',
  'systemd-run': 'puHM',
  runuser: 'ugGcs',
  su: 'cgGs',
  caffeinate: 'tw',
  tmux: '',
  screen: 'S',
  'dbus-run-session': '',
  faketime: 'f',
  open: '',
  entr: '',
  xcrun: '',
  valgrind: '',
  perf: 'o',
  gdb: '',
  catchsegv: '',
  ltrace: 'oe',
  cgexec: 'g',
  numactl: 'CmNi',
  proot: '',
  fakeroot: '',
  bwrap: '',
  firejail: '',
  'sandbox-exec': 'fpn',
  hyperfine: 'wmrS',
  watchexec: 'efw',
  nodemon: 'xew',
  setarch: '',
  ld: '',
}

/** What the arguments of a wrapper or a shell start, as far as they say it. More readings than one are all given. */
export function innerCommands(argv: readonly string[]): readonly Inner[] {
  const [program = '', ...given] = argv
  const name = programName(program)
  const kind = programClass(program)
  if (kind === 'shell') return shellScripts(name, given)
  if (kind !== 'wrapper') return embedded(name, given)
  const found: Inner[] = []
  for (const [at, argument] of given.entries()) {
    const value =
      /^-S(.+)/.exec(argument)?.[1] ??
      /^--split-string=(.*)/.exec(argument)?.[1] ??
      (/^(?:-[a-zA-Z]*S|--split-string)$/.test(argument) ? given[at + 1] : undefined)
    if (name === 'env' && value !== undefined) found.push({ script: value })
    if (/^(?:-c|--command|--call)$/.test(argument) && given[at + 1] !== undefined) found.push({ script: given[at + 1] ?? '' })
  }
  const start = firstCommand(name, given)
  // Which of its arguments is the program is for the wrapper to know: each that could be one is looked at.
  for (const at of start) {
    const rest = given.slice(at)
    if (rest.length > 0) found.push({ argv: rest })
  }
  if ((name === 'xargs' || name === 'parallel' || name === 'watch' || name === 'hyperfine') && start[0] !== undefined)
    found.push({ script: given.slice(start[0]).join(' ') })
  return found
}

function firstCommand(name: string, given: readonly string[]): number[] {
  const valued = VALUED[name] ?? ''
  const starts: number[] = []
  for (let at = 0; at < given.length; at += 1) {
    const argument = given[at] ?? ''
    if (argument === '--') return [...starts, at + 1]
    if (argument.startsWith('-')) {
      if (/^-[a-zA-Z]$/.test(argument) && valued.includes(argument.charAt(1))) at += 1
      continue
    }
    if (/^[A-Za-z_]\w*=/.test(argument)) continue
    // `timeout 5 x`, `taskset 1 x`, `chroot /d x`: the first operand may be the wrapper's own.
    starts.push(at)
    if (starts.length === 2) return starts
  }
  return starts
}

function shellScripts(name: string, given: readonly string[]): Inner[] {
  const found: Inner[] = []
  for (const [at, argument] of given.entries())
    if (/^-[a-zA-Z]*c[a-zA-Z]*$|^\/c$/i.test(argument) && given[at + 1] !== undefined) found.push({ script: given[at + 1] ?? '' })
  if (name === 'eval') found.push({ script: given.join(' ') })
  if (name === 'exec' || name === 'command' || name === 'builtin') {
    const rest = given.slice(given.findIndex((argument) => !argument.startsWith('-')))
    if (rest.length > 0) found.push({ argv: rest })
  }
  return found
}

/** Programs that are no wrappers and start what some of their arguments say. */
function embedded(name: string, given: readonly string[]): Inner[] {
  if (name === 'find' || name === 'gfind' || name === 'fd') {
    return given.flatMap((argument, at): Inner[] => {
      if (!/^(?:-exec|-execdir|-ok|-okdir|-x|-X|--exec|--exec-batch)$/.test(argument)) return []
      const end = given.findIndex((other, index) => index > at && (other === ';' || other === '+'))
      return [{ argv: given.slice(at + 1, end === -1 ? undefined : end) }]
    })
  }
  if (name === 'git') {
    return given.flatMap((argument, at): Inner[] => {
      if (argument === '--exec' || argument === '-x') return [{ script: given[at + 1] ?? '' }]
      const alias = /^alias\.[^=]+=!(.*)$/s.exec(argument)?.[1]
      if (alias !== undefined) return [{ script: alias }]
      return argument === 'run' && given[at - 1] === 'bisect' ? [{ argv: given.slice(at + 1) }] : []
    })
  }
  if (/^(?:docker|podman|nerdctl|kubectl|compose)$/.test(name)) return []
  const option = given.flatMap(
    (argument) =>
      /^(?:--compress-program|--to-command|--use-compress-program|--checkpoint-action=exec|--rsh|--pre)=(.+)$/s.exec(argument)?.[1] ?? [],
  )
  return option.map((script) => ({ script }))
}
