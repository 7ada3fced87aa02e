import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { LIMITS } from '../../kernel/limits.ts'
import { bubblewrapArguments } from './bubblewrap.ts'
import { seatbeltProfile } from './seatbelt.ts'

export type SandboxKind = 'bubblewrap' | 'seatbelt' | 'none'

/** I48: What a sandboxed command sees of the machine. Paths are real. */
export type SandboxView = {
  readonly workspace: string
  /** Never seen, whatever else is. */
  readonly hidden: readonly string[]
  /** The operator's home: an empty folder, but for tools. */
  readonly homeFolder: string
  readonly temporary: string
  /** Folders and files of tools, to be read. */
  readonly tools: readonly string[]
  /** Paths of the workspace that are read only, as its `.git`. */
  readonly fixed: readonly string[]
  /** Files in whose places copies are, which only we can write. */
  readonly pinned: readonly { readonly path: string; readonly copy: string }[]
  readonly cwd: string
}

/** Where sandboxes are installed: never an agent's to choose. */
const BUBBLEWRAP = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap', '/run/current-system/sw/bin/bwrap']
const SEATBELT = '/usr/bin/sandbox-exec'

let tried: { readonly kind: SandboxKind; readonly program: string } | undefined

/** The sandbox that works here, found by running something in it, once for the life of the process. */
export function sandboxOf(): SandboxKind {
  tried ??= tryOut()
  return tried.kind
}

function tryOut(): NonNullable<typeof tried> {
  if (process.platform === 'linux') {
    const trial = ['--ro-bind', '/', '/', '--unshare-all', '--die-with-parent', '--proc', '/proc', '--dev', '/dev', '--', '/bin/true']
    const program = BUBBLEWRAP.find((one) => works(one, trial))
    if (program !== undefined) return { kind: 'bubblewrap', program }
  }
  if (process.platform === 'darwin' && works(SEATBELT, ['-p', '(version 1)(allow default)', '/usr/bin/true']))
    return { kind: 'seatbelt', program: SEATBELT }
  return { kind: 'none', program: '' }
}

function works(program: string, args: readonly string[]): boolean {
  return existsSync(program) && spawnSync(program, args, { stdio: 'ignore', timeout: LIMITS.sandboxTrialMs, env: {} }).status === 0
}

/** The command line that runs a program in the sandbox. Only after `sandboxOf` said that there is one. */
export function inSandbox(view: SandboxView, program: string, args: readonly string[]): { readonly file: string; readonly args: string[] } {
  sandboxOf()
  const { kind, program: file } = tried ?? { kind: 'none', program: '' }
  switch (kind) {
    case 'bubblewrap':
      return { file, args: [...bubblewrapArguments(view), '--', program, ...args] }
    case 'seatbelt':
      return { file, args: ['-p', seatbeltProfile(view), program, ...args] }
    case 'none':
      throw new Error('there is no sandbox here')
  }
}
