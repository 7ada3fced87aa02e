import type { HazardLetter } from '../../wire/command.ts'

/** One fact of a manual: what some argument of a program does beyond what the program is known for. */
export type HazardRow = {
  readonly letter: HazardLetter
  /**
   * `--long`, `-x`, or a subcommand as `submodule/foreach`: any of them is the hazard. Empty with `operand` or `operandsMin`: what stands
   * without an option.
   */
  readonly tokens: readonly string[]
  /** Only after these subcommands. */
  readonly on?: readonly string[]
  /** Only with a value like this. */
  readonly value?: RegExp
  /** An operand like this. */
  readonly operand?: RegExp
  /** So many operands, or more. */
  readonly operandsMin?: number
  /** Not with one of these options. */
  readonly unless?: readonly string[]
  readonly why: string
}

export type ProgramTable = {
  readonly names: readonly string[]
  /**
   * How it reads options. `gnu`: `--long`, by any beginning, and letters in clusters. `exact`: whole words after one or two dashes.
   * `bundle`: as gnu, and the first operand is a cluster, as for tar.
   */
  readonly style: 'gnu' | 'exact' | 'bundle'
  /** Letters that take a value: in a cluster what comes after is that. */
  readonly valued?: string
  /** Long names that take a value. */
  readonly valuedLong?: readonly string[]
  /** Subcommands may be shortened, as npm's. */
  readonly abbreviates?: true
  /** Its operands are names and not paths. */
  readonly operandsAreNames?: true
  /** A URL among its operands makes it fetch from there. */
  readonly isLocal?: true
  readonly rows: readonly HazardRow[]
  /** What every form that is none of `readOnly` does. */
  readonly otherwise?: { readonly letter: HazardLetter; readonly why: string }
  /** Forms that only show something, by how they begin: `log`, `pr/view`, `--version`, `*` for any, `describe-*` for a word that begins so. */
  readonly readOnly: readonly string[]
  /** The least presence for a form that is not read-only. */
  readonly tier?: 'T1' | 'T2'
  readonly environment?: Readonly<Record<string, string>>
}

type More = { on?: string; value?: RegExp; operand?: RegExp; operandsMin?: number; unless?: string }

/** @param tokens separated by spaces */
export function row(letter: HazardLetter, tokens: string, why: string, more: More = {}): HazardRow {
  return {
    letter,
    tokens: list(tokens),
    ...(more.on !== undefined && { on: list(more.on) }),
    ...(more.value && { value: more.value }),
    ...(more.operand && { operand: more.operand }),
    ...(more.operandsMin !== undefined && { operandsMin: more.operandsMin }),
    ...(more.unless !== undefined && { unless: list(more.unless) }),
    why,
  }
}

export function list(text: string): readonly string[] {
  return text.split(/\s+/).filter((word) => word !== '')
}
