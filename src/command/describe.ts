import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { quoteWords, readWords } from '../kernel/words.ts'
import type { CommandFacts, CommandHazard } from '../wire/command.ts'
import type { Tier } from '../wire/question.ts'
import { hardenGit } from './git-hardening.ts'
import { findHazards, isReadOnly, tableOf } from './hazards/hazards.ts'
import { launderingOf } from './laundering.ts'
import { placeHazards } from './places.ts'
import { riskOf, worstOf } from './risk.ts'
import { readScript } from './shell.ts'
import { runsWorkspaceCode } from './workspace-code.ts'
import { innerCommands } from './wrappers.ts'

export type CommandWish = { readonly argv: readonly string[] } | { readonly command: string }

/** What lies around a command that it must not reach. */
export type Surroundings = {
  /** `$SALLYPORT_HOME`. */
  readonly home: string
  /** The workspace's folder on the host. */
  readonly workspace: string
  /** Ports of the operator's surfaces on loopback. */
  readonly operatorPorts: readonly number[]
}

/** Commands in commands in commands: what is deeper is dangerous as it is. */
const DEPTH_MAX = 6

/**
 * Looks at a command without running anything of it: what is started by what, which arguments are hazards, what it could reach, how
 * dangerous it is. A line is one command only where two readers agree on its words, one that knows no operator and a parser of the shell.
 * @throws command_invalid for one that is empty, too long, or has a NUL
 */
export async function describeCommand(wish: CommandWish, surroundings: Surroundings): Promise<CommandFacts> {
  const text = 'command' in wish ? wish.command : quoteWords(wish.argv)
  judgeSize(wish, text)
  const found: Found = { parts: [], dangers: [], isTooMuch: false }
  let argv: readonly string[] | undefined
  if ('argv' in wish) {
    argv = wish.argv
    await collect({ argv }, found, 0)
  } else {
    const script = await readScript(wish.command)
    argv = agreed(wish.command, script.only)
    found.dangers.push(...(argv === undefined ? script.dangers : []))
    for (const command of argv === undefined ? script.commands : [argv]) await collect({ argv: command }, found, 0)
  }
  if (found.parts.length === 0) found.parts.push({ argv: argv ?? [text.trim()] })
  return judge(argv, text, found, surroundings)
}

type Found = { readonly parts: { readonly argv: readonly string[] }[]; readonly dangers: string[]; isTooMuch: boolean }

function judgeSize(wish: CommandWish, text: string): void {
  const fail = (what: string): never => {
    throw new SallyportError('command_invalid', `the command "${text.slice(0, 80)}" ${what}`, {
      hint: 'ask for one program with its arguments, as a list',
    })
  }
  if (text.includes('\0')) fail('has a NUL, which no argument can have')
  if (text.length > LIMITS.commandCharsMax) fail(`is longer than ${LIMITS.commandCharsMax} characters`)
  const words = 'argv' in wish ? wish.argv : [wish.command.trim()]
  if ((words[0] ?? '').trim() === '') fail('names no program')
  if (words.length > LIMITS.commandWordsMax) fail(`has more than ${LIMITS.commandWordsMax} arguments`)
  if ('argv' in wish && words.some((word) => word.length > LIMITS.commandWordCharsMax))
    fail(`has an argument of more than ${LIMITS.commandWordCharsMax} characters`)
}

/** The words of a line on which both readers agree. */
function agreed(line: string, only: readonly string[] | undefined): readonly string[] | undefined {
  const words = readWords(line)
  if (typeof words === 'string' || only === undefined) return undefined
  const [first] = words
  // `X=1 y` and the words of the grammar (`if`, `time`) are the parser's to know; both have to see plain words.
  return first !== undefined && words.length === only.length && words.every(({ text }, index) => text === only[index]) ? only : undefined
}

/** A program, and all that it starts as far as its arguments say. */
async function collect(
  inner: { readonly argv: readonly string[] } | { readonly script: string },
  found: Found,
  depth: number,
): Promise<void> {
  if (depth > DEPTH_MAX || found.parts.length >= LIMITS.commandPartsMax) {
    found.isTooMuch = true
    return
  }
  if ('script' in inner) {
    const { commands, dangers } = await readScript(inner.script)
    found.dangers.push(...dangers)
    for (const argv of commands) await collect({ argv }, found, depth + 1)
    return
  }
  const { argv } = inner
  if (argv.length === 0) return
  found.parts.push({ argv })
  for (const next of innerCommands(argv)) await collect(next, found, depth + 1)
}

function judge(
  argv: readonly string[] | undefined,
  text: string,
  { parts, dangers, isTooMuch }: Found,
  surroundings: Surroundings,
): CommandFacts {
  const { workspace } = surroundings
  const hazards: CommandHazard[] = []
  const reasons = dangers.map((reason) => ({ level: 'dangerous' as const, reason }))
  if (isTooMuch) reasons.push({ level: 'dangerous', reason: 'it has more commands in it than are looked at' })
  let runsCode = false
  for (const part of parts) {
    const own = [...findHazards(part.argv), ...placeHazards(part.argv, workspace)]
    const isOfWorkspace = runsWorkspaceCode(part.argv, workspace)
    runsCode ||= isOfWorkspace
    hazards.push(...own)
    reasons.push(...(riskOf(part.argv, own, isOfWorkspace) as typeof reasons))
  }
  if (isTooMuch) hazards.push({ program: '*', token: '', letter: 'X', why: 'it has more commands in it than are looked at' })
  // What a line has in it beside its commands, as what it writes to, is text: each word of it is looked at.
  const looked = argv === undefined ? [...parts, { argv: ['', ...text.split(/[\s;|&()<>"'`]+/)] }] : parts
  const laundering = looked.map((part) => launderingOf(part.argv, surroundings)).find((why) => why !== undefined)
  const [first] = parts
  const hardened = argv === undefined ? undefined : hardenGit(argv)
  return {
    argv,
    text,
    parts,
    hazards: distinct(hazards),
    isShell: argv === undefined,
    runsWorkspaceCode: runsCode,
    ...(laundering !== undefined && { laundering }),
    risk: worstOf(reasons),
    ...lowestTier(parts, hazards),
    ...(hardened && { hardened }),
    environment: (first && tableOf(first.argv[0] ?? '')?.environment) ?? {},
  }
}

function distinct(hazards: readonly CommandHazard[]): CommandHazard[] {
  const seen = new Set<string>()
  return hazards.filter(({ program, token, why }) => {
    const key = JSON.stringify([program, token, why])
    return seen.has(key) ? false : Boolean(seen.add(key))
  })
}

function lowestTier(parts: CommandFacts['parts'], hazards: readonly CommandHazard[]): { readonly tier?: Tier } {
  const tiers = parts
    .filter(({ argv }) => !isReadOnly(argv) || hazards.length > 0)
    .flatMap(({ argv }) => tableOf(argv[0] ?? '')?.tier ?? [])
  if (tiers.includes('T2')) return { tier: 'T2' }
  return tiers.length === 0 ? {} : { tier: 'T1' }
}
