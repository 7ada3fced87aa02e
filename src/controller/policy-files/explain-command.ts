import { describeCommand, type CommandWish, type Surroundings } from '../../command/command.ts'
import { decideHostCommand, samplesOf, type Diagnostic, type EffectiveHostCommands, type HostCommandDecision } from '../../policy/policy.ts'
import { quoteWords } from '../../kernel/words.ts'
import type { CommandFacts } from '../../wire/command.ts'

/** What would become of a command for the host. Nothing is run or looked up. */
export type CommandExplanation = HostCommandDecision & {
  readonly command: string
  readonly argv?: readonly string[]
  readonly isShell: boolean
  readonly risk: CommandFacts['risk']
  readonly hazards: CommandFacts['hazards']
  /** What runs in its place: the same with what keeps the workspace's configuration from running programs. */
  readonly hardened?: readonly string[]
}

/** Explains a command by the same code that decides. @throws command_invalid */
export async function explainCommand(
  policy: EffectiveHostCommands,
  wish: CommandWish,
  cwd: string,
  around: Surroundings,
  now: number,
): Promise<CommandExplanation> {
  const facts = await describeCommand(wish, around)
  const { argv, isShell, risk, hazards, hardened } = facts
  return {
    ...decideHostCommand(policy, facts, cwd, now),
    command: 'command' in wish ? wish.command : quoteWords(wish.argv),
    ...(argv && { argv }),
    isShell,
    risk,
    hazards,
    ...(hardened && { hardened }),
  }
}

/** Rules that allow and never will: what they are about is a hazard, or code of the workspace. By what stands in them, whatever comes in their slots. */
export async function lintCommands({ rules }: EffectiveHostCommands, around: Surroundings): Promise<Diagnostic[]> {
  const found: Diagnostic[] = []
  for (const rule of rules) {
    if (rule.list !== 'allow') continue
    const [argv] = samplesOf(rule)
    if (argv === undefined) continue
    const facts = await describeCommand({ argv }, around)
    const [hazard] = facts.hazards
    const say = (message: string): void => {
      found.push({ ...rule.from, message: `pattern "${rule.pattern.slice(0, 200)}": ${message}` })
    }
    if (facts.laundering !== undefined) say(`it is always denied: ${facts.laundering}`)
    else if (hazard !== undefined) say(`it is always asked about: ${hazard.why}`)
    else if (facts.runsWorkspaceCode && !rule.workspaceCode)
      say('it is always asked about: it runs code of the workspace, and has no workspace_code: accept')
  }
  return found
}
