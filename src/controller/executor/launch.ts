import { open, stat } from 'node:fs/promises'
import { basename, isAbsolute, resolve } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { openCode, type CodeFile } from './code-file.ts'
import { hostPath, type Place } from './place.ts'
import { codeOperands, programName } from './programs.ts'
import { findOnPath } from './search-path.ts'

/** A token as it is, or a file of code behind what stands before its path, as `--file=`. */
export type Argument = string | { readonly code: CodeFile; readonly prefix: string; readonly token: string }

/** What is executed: a program of the machine's own format, and what it is told. */
export type Launch = {
  readonly file: CodeFile
  readonly argv0: string
  readonly arguments: readonly Argument[]
}

/** How the code of one command is found and opened. */
export type Finding = {
  readonly place: Place
  readonly cwd: string
  readonly path: readonly string[]
  /** Real paths of folders that an agent may write. */
  readonly agents: readonly string[]
  /** Everything that is opened, each file once. */
  readonly opened: Map<string, CodeFile>
  readonly stack: AsyncDisposableStack
}

/** Mach-O, in both orders of bytes, and for several machines. */
const MACH_O = new Set(['feedface', 'feedfacf', 'cefaedfe', 'cffaedfe', 'cafebabe', 'bebafeca'])
const ELF = '\x7fELF'
const SUFFIX = /\.(?:sh|bash|zsh|fish|[cm]?[jt]sx?|py|pyw|rb|pl|pm|php|lua|awk|sed|mk|sql|r|jl|tcl|exs?|scpt|jar|class)$/i

/** The program that a token stands for: a path, or a name on the fixed PATH. @throws command_invalid when there is none */
export async function openProgram(token: string, finding: Finding): Promise<CodeFile> {
  const { place, cwd, path } = finding
  if (token.includes('/')) return openNamed(hostPath(token, cwd, place) ?? resolve(token), finding)
  const found = await findOnPath(token, path)
  if (found === undefined)
    throw new SallyportError('command_invalid', `there is no program ${JSON.stringify(token)} on the path of host commands`, {
      hint: 'it is looked for on the PATH of the daemon, and never in a workspace',
    })
  return openNamed(found, finding)
}

/**
 * What runs when a program does: itself, or the interpreter that its first line names, which may be a script again (execve(2)). `env` in
 * that line is done here, so that what it would find is opened too.
 */
export async function launchOf(file: CodeFile, argv0: string, args: readonly Argument[], finding: Finding, depth = 0): Promise<Launch> {
  if (file.head.subarray(0, 2).toString('latin1') !== '#!') {
    // execvp(3) hands anything else to a shell.
    if (!isProgram(file.head))
      throw new SallyportError('command_invalid', `${file.named} is neither a program nor a script that names its interpreter`)
    return { file, argv0, arguments: args }
  }
  if (depth >= LIMITS.commandInterpretersMax) throw new SallyportError('command_invalid', `${file.named} has too many interpreters`)
  const [interpreter, word] = shebangOf(file)
  if (!isAbsolute(interpreter))
    throw new SallyportError('command_invalid', `${file.named} names no absolute path of an interpreter`, {
      hint: 'it would be looked for in the folder that the command runs in',
    })
  const script: Argument = { code: file, prefix: '', token: file.named }
  const named = basename(interpreter) === 'env' ? wordsOfEnv(word) : undefined
  if (named !== undefined) {
    const [program, ...words] = named
    return launchOf(await openProgram(program, finding), program, [...words, script, ...args], finding, depth + 1)
  }
  const next = await openNamed(interpreter, finding)
  return launchOf(next, interpreter, [...(word === undefined ? [] : [word]), script, ...args], finding, depth + 1)
}

/** By the head of its format (elf(5)): class, order of bytes, version, and what may be executed. */
function isProgram(head: Buffer): boolean {
  if (process.platform !== 'linux') return MACH_O.has(head.toString('hex', 0, 4))
  const [kind, order, version] = [head[4] ?? 0, head[5] ?? 0, head[6]]
  const type = order === 1 ? head[16] : head[17]
  return (
    head.toString('latin1', 0, 4) === ELF && [1, 2].includes(kind) && [1, 2].includes(order) && version === 1 && (type === 2 || type === 3)
  )
}

/** The interpreter and the one word behind it, as the kernel reads the line. */
function shebangOf(file: CodeFile): [string, string | undefined] {
  const end = file.head.indexOf(0x0a)
  if (end < 0 && file.head.length === LIMITS.commandShebangBytesMax)
    throw new SallyportError('command_invalid', `the first line of ${file.named} is too long`)
  const line = file.head.subarray(2, end < 0 ? undefined : end).toString('latin1')
  const [, interpreter = '', word] = /^[ \t]*([^ \t]*)(?:[ \t]+(.*?))?[ \t]*$/s.exec(line) ?? []
  return [interpreter, word === '' ? undefined : word]
}

/** The program and its words where `env` does nothing but find it; otherwise `env` itself runs. */
function wordsOfEnv(word: string | undefined): [string, ...string[]] | undefined {
  if (word === undefined) return undefined
  const rest = word.startsWith('-S')
    ? word
        .slice(2)
        .trim()
        .split(/[ \t]+/)
    : [word]
  const [program, ...words] = rest
  if (program === undefined || program === '' || program.startsWith('-') || program.includes('=')) return undefined
  return rest.some((one) => /["'\\$#]/.test(one)) ? undefined : [program, ...words]
}

/**
 * Opens every operand that is code, and says which of them the program runs: those become arguments that can be exchanged for what was
 * hashed. Others that look like code, as by their mode, are held to what they were, and passed as they are.
 */
export async function codeArguments(program: string, argv: readonly string[], finding: Finding): Promise<readonly Argument[]> {
  const args: Argument[] = argv.slice(1)
  let nested: CodeFile | undefined
  const seen = new Set<number>()
  let from = 0
  for (let name: string | undefined = program; name !== undefined;) {
    const operands = codeOperands(name, argv, from)
    name = undefined
    for (const operand of operands) {
      seen.add(operand.at)
      const token = argv[operand.at] as string
      if (operand.kind === 'command') {
        nested = await openedCommand(token, finding)
        if (nested === undefined) break
        if (token.includes('/')) args[operand.at - 1] = { code: nested, prefix: '', token }
        from = operand.at
        name = programName(nested.identity.path)
        continue
      }
      const path = resolve(finding.cwd, operand.path)
      if (await isFile(path)) args[operand.at - 1] = { code: await openNamed(path, finding), prefix: operand.prefix, token }
    }
  }
  for (const [i, token] of argv.entries()) if (i > 0 && !seen.has(i)) await holdIfCode(token, finding)
  return args
}

/** The command within a command. One that cannot be found is the program's to complain about; one that is no file is none. */
async function openedCommand(token: string, finding: Finding): Promise<CodeFile | undefined> {
  if (token.includes('/')) {
    const path = resolve(finding.cwd, token)
    return (await isFile(path)) ? openNamed(path, finding) : undefined
  }
  const found = await findOnPath(token, finding.path)
  return found === undefined ? undefined : openNamed(found, finding)
}

async function holdIfCode(token: string, finding: Finding): Promise<void> {
  const parts = [token, token.slice(token.indexOf('=') + 1), ...(/^-[A-Za-z]./.test(token) ? [token.slice(2)] : [])]
  for (const part of new Set(parts)) {
    if (part === '' || part.includes('\0')) continue
    const path = resolve(finding.cwd, part)
    if ((await isFile(path)) && (await looksLikeCode(path))) await openNamed(path, finding)
  }
}

async function looksLikeCode(path: string): Promise<boolean> {
  if (SUFFIX.test(path) || ((await stat(path)).mode & 0o111) !== 0) return true
  const head = Buffer.alloc(4)
  try {
    await using handle = await open(path)
    await handle.read(head, 0, 4, 0)
  } catch {
    // What we cannot read the program can neither.
    return false
  }
  return head.toString('latin1', 0, 2) === '#!' || head.toString('latin1', 0, 4) === ELF || MACH_O.has(head.toString('hex'))
}

async function openNamed(path: string, finding: Finding): Promise<CodeFile> {
  const known = finding.opened.get(path)
  if (known !== undefined) return known
  if (finding.opened.size >= LIMITS.commandCodeFilesMax)
    throw new SallyportError('command_invalid', `the command names more than ${LIMITS.commandCodeFilesMax} files of code`)
  const code = finding.stack.use(await openCode(path, finding.agents))
  finding.opened.set(path, code)
  return code
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}
