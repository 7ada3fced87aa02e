import type { Risk, Tier } from './question.ts'

/** **X** executes other code, **W** writes or deletes files, **R** reads any file, **N** talks to the network or sends data, **C** loads configuration that can do X. */
export type HazardLetter = 'X' | 'W' | 'R' | 'N' | 'C'

/** What an argument of a program does beyond what the program is known for. */
export type CommandHazard = {
  /** `*` for what is one whatever the program. */
  readonly program: string
  /** As the table has it, or the argument itself where the table has a form and not a word. */
  readonly token: string
  readonly letter: HazardLetter
  readonly why: string
}

/** One program with its arguments, as it is or inside of another: what a wrapper starts, a part of a pipeline. */
export type CommandPart = { readonly argv: readonly string[] }

/** All that is known of a command without running anything. */
export type CommandFacts = {
  /** `undefined`: class shell, which only a shell could run. No rule allows it. */
  readonly argv: readonly string[] | undefined
  /** As it was asked for, or the words of `argv` quoted. */
  readonly text: string
  /** Every program that was found in it, at least one; what a wrapper starts comes after the wrapper. */
  readonly parts: readonly CommandPart[]
  readonly hazards: readonly CommandHazard[]
  readonly isShell: boolean
  /** Runs what is in the workspace, as `npm test` does: the agent's code. */
  readonly runsWorkspaceCode: boolean
  /** Why it is refused whatever the rules say: it would answer for the operator, or change who answers. */
  readonly laundering?: string
  readonly risk: Risk
  /** The lowest tier that is enough for what it does, whatever its risk maps to. */
  readonly tier?: Tier
  /** The same command with options that keep the configuration of a workspace from running programs: run this in place of `argv`. */
  readonly hardened?: readonly string[]
  /** Variables that keep it from starting a pager or an editor, or asking on a terminal. */
  readonly environment: Readonly<Record<string, string>>
}
