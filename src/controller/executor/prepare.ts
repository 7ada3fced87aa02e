import { basename } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import type { CommandSubject } from '../../wire/question.ts'
import { changeOfCode, type CodeFile } from './code-file.ts'
import { commandEnvironment } from './environment.ts'
import { hardenedEnvironment, hardenedGit } from './git-hardening.ts'
import { redactorOf } from './joint-redaction.ts'
import { codeArguments, launchOf, openProgram, type Finding, type Launch } from './launch.ts'
import { agentFolders, changeOfFolder, openFolder, type HeldFolder, type Place } from './place.ts'
import { programName } from './programs.ts'
import { sandboxOf } from './sandbox.ts'
import { searchPath } from './search-path.ts'
import { temporaryFolderOf } from './temporary.ts'

/** A command that can be performed once, as it is shown. Everything that it is made of is open until it is disposed of. */
export type Prepared = AsyncDisposable & {
  /** All that decides what runs. */
  readonly subject: CommandSubject
}

/** What `perform` knows of a prepared command. */
export type Held = AsyncDisposable & {
  readonly subject: CommandSubject
  readonly launch: Launch
  readonly cwd: HeldFolder
  readonly code: readonly CodeFile[]
  readonly path: readonly string[]
  readonly place: Place
  readonly temporary: string
  readonly system: Pick<System, 'elapsed' | 'random'>
}

/** Not on the object: what was not made here cannot be performed. */
const held = new WeakMap<Prepared, Held>()

/**
 * Looks at everything that a command is made of, and runs nothing.
 * @param extra.environment what the rule adds
 * @param extra.known what is ours to add, as the program is known: no rule could
 * @param extra.sandbox whether it runs in a child sandbox
 * @param extra.secrets what its output will be redacted of: what looks for them is made now, and not when somebody waits
 * @throws command_invalid, secret_invalid, config_prohibited (a variable), sandbox_unavailable
 */
export async function prepare(
  wish: { readonly argv: readonly string[]; readonly cwd?: string },
  place: Place,
  extra: {
    readonly environment: Readonly<Record<string, string>>
    readonly known?: Readonly<Record<string, string>>
    readonly sandbox: boolean
    readonly secrets?: readonly Secret[]
  },
  system: Pick<System, 'elapsed' | 'random'>,
): Promise<Prepared> {
  refuse(wish.argv)
  redactorOf(extra.secrets ?? [])
  const sandbox = extra.sandbox ? sandboxOf() : 'none'
  if (extra.sandbox && sandbox === 'none')
    throw new SallyportError(
      'sandbox_unavailable',
      `${JSON.stringify(wish.argv[0])} would run what is in the workspace, and there is no sandbox here`,
      {
        hint: 'install bubblewrap and let users make namespaces (Linux); without it each run has to be asked for',
      },
    )
  await using stack = new AsyncDisposableStack()
  const cwd = await openFolder(wish.cwd ?? place.inContainer, place)
  stack.defer(() => cwd.handle.close())
  const path = await searchPath(place)
  const agents = await agentFolders(place)
  const finding: Finding = { place, cwd: cwd.path, path, agents, opened: new Map(), stack }
  const executable = await openProgram(wish.argv[0] as string, finding)
  const isGit = [executable.named, executable.identity.path].some((name) => basename(name) === 'git')
  const program = isGit ? 'git' : programName(executable.named)
  const argv = isGit ? hardenedGit(wish.argv) : wish.argv
  const args = await codeArguments(program, argv, finding)
  const launch = await launchOf(executable, argv[0] as string, args, finding)
  const temporary = await temporaryFolderOf(place)
  const environment = {
    ...commandEnvironment(place.environment, { path, temporary }, extra.environment),
    ...extra.known,
    ...hardenedEnvironment(program, argv),
  }
  const code = [...finding.opened.values()]
  const subject: CommandSubject = {
    kind: 'command',
    argv: [...argv],
    executable: executable.identity,
    scripts: code.filter((one) => one !== executable).map(({ identity }) => identity),
    cwd: { path: cwd.path, device: cwd.device, inode: cwd.inode },
    environment,
    secrets: [],
    sandbox,
  }
  const running = stack.move()
  const prepared: Prepared = {
    subject,
    // What is performed closes itself: a number of a descriptor that was closed may be another file's.
    [Symbol.asyncDispose]: async () => takeHeld(prepared)?.[Symbol.asyncDispose](),
  }
  const own = { subject: structuredClone(subject), launch, cwd, code, path, place, temporary, system }
  held.set(prepared, { ...own, [Symbol.asyncDispose]: () => running.disposeAsync() })
  return prepared
}

/** What was prepared, once: a second call has nothing. */
export function takeHeld(prepared: Prepared): Held | undefined {
  const own = held.get(prepared)
  held.delete(prepared)
  return own
}

/** Why the command is not any more what it was when it was prepared, or `undefined`. */
export async function changeOf({ code, cwd }: Held): Promise<string | undefined> {
  const changes = await Promise.all([changeOfFolder(cwd), ...code.map(changeOfCode)])
  return changes.find((change) => change !== undefined)
}

function refuse(argv: readonly string[]): void {
  if (argv.length === 0 || argv[0] === '') throw new SallyportError('command_invalid', 'the command has no program')
  if (argv.length > LIMITS.commandArgumentsMax) throw new SallyportError('command_invalid', `the command has ${argv.length} arguments`)
  if (argv.some((token) => token.includes('\0'))) throw new SallyportError('command_invalid', 'the command has a NUL in it')
  // A lone surrogate would become another character on its way to the program.
  if (argv.some((token) => !token.isWellFormed())) throw new SallyportError('command_invalid', 'the command is not Unicode text')
  const bytes = argv.reduce((sum, token) => sum + Buffer.byteLength(token), 0)
  if (bytes > LIMITS.commandArgumentBytesMax)
    throw new SallyportError('command_invalid', `the command is longer than ${LIMITS.commandArgumentBytesMax} bytes`)
}
