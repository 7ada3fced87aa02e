import { basename } from 'node:path'
import type { ErrorCode } from '../../kernel/errors.ts'
import { quoteWords } from '../../kernel/words.ts'
import type { CommandFacts } from '../../wire/command.ts'
import { describeClass, programClass } from '../../wire/programs.ts'
import type { Tier } from '../../wire/question.ts'
import type { EffectiveHostCommands, HostCommandRule } from '../model.ts'
import { matchExactly, matchLoosely } from './match.ts'
import { describeNearMiss } from './near-miss.ts'
import { isBelow, workspaceFolder } from './folders.ts'
import { readPattern, type Token } from './tokens.ts'

/** What becomes of a command for the host. */
export type HostCommandDecision = {
  readonly action: 'allow' | 'ask' | 'deny' | 'disabled'
  /** The rule that decides, as `file:line pattern`. */
  readonly rule?: string
  readonly code?: ErrorCode
  /** One sentence. */
  readonly why: string
  /** The allowance that came nearest, and what it lacks. */
  readonly nearMiss?: string
  /** The lowest tier whose proof is enough, where somebody is asked. */
  readonly tier: Tier
  /** It runs code of the workspace, and may only inside the child sandbox: without one it asks. */
  readonly workspaceCode: boolean
  /** What its rule adds to its environment. What the tables know of its program is in the facts. */
  readonly environment: Readonly<Record<string, string>>
  /** Whether an answer may become a rule that allows exactly this. */
  readonly mayBeRemembered: boolean
}

const TIERS: readonly Tier[] = ['T0', 'T1', 'T2', 'T3']

/**
 * Decides about a command: the strictest of all that match, over all layers. No rule allows a class of program whose arguments are
 * programs themselves, a shell, or what would answer in the operator's place; and a hazard makes a question of an allowance. I43
 * @param cwd the folder it is to run in, from the workspace's folder, or below `/workspace`
 * @param now milliseconds since 1970: rules that ended before are none
 */
export function decideHostCommand(policy: EffectiveHostCommands, facts: CommandFacts, cwd: string, now: number): HostCommandDecision {
  const folder = workspaceFolder(cwd)
  const rules = policy.rules.filter((rule) => rule.expiresAt === undefined || now < rule.expiresAt)
  const basis: Basis = { policy, facts, folder, tier: tierOf(policy, facts) }
  if (policy.mode.value === 'disabled')
    return refuse(basis, 'disabled', 'command_disabled', 'the policy has host commands switched off (host_commands.mode: disabled)')
  if (facts.laundering !== undefined)
    return refuse(basis, 'deny', 'command_not_allowed', `${facts.laundering}: no rule and no answer can allow that`)
  if (folder === undefined) return refuse(basis, 'deny', 'command_invalid', `the folder "${cwd.slice(0, 200)}" is not in the workspace`)
  const denial = rules.find((rule) => rule.list === 'deny' && isAbout(rule, facts, folder))
  if (denial !== undefined) return { ...refuse(basis, 'deny', 'command_not_allowed', 'a rule denies it'), rule: nameRule(denial) }
  const question = rules.filter((rule) => rule.list === 'ask' && isAbout(rule, facts, folder))
  const allowance = rules.filter((rule) => rule.list === 'allow' && allows(rule, facts, folder))
  return decideOpen(basis, question, allowance, rules)
}

type Basis = {
  readonly policy: EffectiveHostCommands
  readonly facts: CommandFacts
  readonly folder: string | undefined
  readonly tier: Tier
}

/** What no rule denies. */
function decideOpen(
  basis: Basis,
  questions: readonly HostCommandRule[],
  allowances: readonly HostCommandRule[],
  rules: readonly HostCommandRule[],
): HostCommandDecision {
  const { policy, facts } = basis
  // The one that lets the least through: workspace code only where each of them says so is no help, so the one that does is taken.
  const allowance = allowances.find((rule) => rule.workspaceCode) ?? allowances[0]
  const needsSandbox = facts.runsWorkspaceCode
  const environment = (questions[0] ?? allowance)?.environment ?? {}
  const tier = highest([basis.tier, ...[...questions, ...allowances].flatMap((rule) => rule.presence ?? [])])
  const common = {
    tier,
    workspaceCode: needsSandbox,
    environment,
    mayBeRemembered: isRememberable(facts) && questions.length === 0 && policy.mode.value === 'allowlist',
  }
  const ask = (why: string, rule?: HostCommandRule): HostCommandDecision => ({
    action: 'ask',
    ...(rule && { rule: nameRule(rule) }),
    why,
    ...optional('nearMiss', allowance === undefined ? describeNearMiss(rules, facts, basis.folder ?? '.') : undefined),
    ...common,
  })
  if (questions[0] !== undefined) return ask('a rule asks about it', questions[0])
  if (facts.isShell || facts.argv === undefined)
    return ask('it is a line for a shell, which no rule can allow: ask for one command as a list of arguments')
  const unfit = unfitness(facts)
  if (unfit !== undefined) return ask(unfit, allowance)
  switch (policy.mode.value) {
    case 'allowlist':
      break
    case 'always-prompt':
    case 'blocklist':
    case 'disabled':
      return ask(`the mode is ${policy.mode.value}: what no rule denies is asked about`)
  }
  if (allowance === undefined) return ask('no rule allows it')
  const [hazard, ...more] = facts.hazards
  if (hazard !== undefined)
    return ask(
      `${shortened(hazard.token)}: ${hazard.why}${more.length === 0 ? '' : `, and ${more.length} more`}: an allowance is a question then`,
      allowance,
    )
  if (needsSandbox && !allowance.workspaceCode)
    return ask('it runs code of the workspace, which the agent can write, and the rule has no workspace_code: accept', allowance)
  return { action: 'allow', rule: nameRule(allowance), why: 'a rule allows it', ...common }
}

/** Classes that are asked about whatever an allowance says. */
function unfitness({ parts }: CommandFacts): string | undefined {
  for (const { argv } of parts) {
    const kind = programClass(argv[0] ?? '')
    if (kind !== undefined) return `"${shortened(argv[0] ?? '')}" is ${describeClass(kind)}: no rule can allow it`
  }
  return undefined
}

function isRememberable(facts: CommandFacts): boolean {
  const { argv } = facts
  return (
    argv !== undefined &&
    !facts.isShell &&
    facts.hazards.length === 0 &&
    !facts.runsWorkspaceCode &&
    facts.laundering === undefined &&
    unfitness(facts) === undefined &&
    typeof readPattern(quoteWords(argv)) !== 'string'
  )
}

function isAbout(rule: HostCommandRule, facts: CommandFacts, folder: string): boolean {
  if (rule.cwd !== undefined && !isBelow(folder, rule.cwd)) return false
  const tokens = tokensOf(rule)
  return facts.parts.some(({ argv }) => matchLoosely(tokens, argv))
}

function allows(rule: HostCommandRule, { argv, isShell }: CommandFacts, folder: string): boolean {
  if (argv === undefined || isShell || (rule.cwd !== undefined && !isBelow(folder, rule.cwd))) return false
  return matchExactly(tokensOf(rule), argv).isMatch
}

/** `file:line pattern`. The agent is told it: of the file its name, and not where the operator keeps it. */
export function nameRule({ from, pattern }: HostCommandRule): string {
  return `${basename(from.file)}:${from.line} ${pattern}`
}

const TOKENS = new WeakMap<HostCommandRule, readonly Token[]>()

/** The words of a rule's pattern. */
export function tokensOf(rule: HostCommandRule): readonly Token[] {
  const known = TOKENS.get(rule)
  if (known !== undefined) return known
  const read = readPattern(rule.pattern)
  if (typeof read === 'string') throw new Error(read) // the schema has refused it before
  TOKENS.set(rule, read)
  return read
}

function tierOf(policy: EffectiveHostCommands, facts: CommandFacts): Tier {
  const runsAnything = facts.isShell || facts.runsWorkspaceCode || unfitness(facts) !== undefined
  return highest([policy.presence[facts.risk.level].value, facts.tier ?? 'T0', runsAnything ? 'T1' : 'T0'])
}

function highest(tiers: readonly Tier[]): Tier {
  return TIERS[Math.max(0, ...tiers.map((tier) => TIERS.indexOf(tier)))] ?? 'T3'
}

function refuse({ tier, facts }: Basis, action: 'deny' | 'disabled', code: ErrorCode, why: string): HostCommandDecision {
  return { action, code, why, tier, workspaceCode: facts.runsWorkspaceCode, environment: {}, mayBeRemembered: false }
}

function shortened(text: string): string {
  return text.length > 120 ? `${text.slice(0, 120)}…` : text
}

function optional<K extends string, T>(key: K, value: T | undefined): { readonly [P in K]?: T } {
  return value === undefined ? {} : ({ [key]: value } as { readonly [P in K]?: T })
}
