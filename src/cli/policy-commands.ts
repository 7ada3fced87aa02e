import { describeCommand, type Surroundings } from '../command/command.ts'
import { visible } from '../kernel/visible.ts'
import {
  decideHostCommand,
  formatPlace,
  nameRule,
  samplesOf,
  type Diagnostic,
  type EffectiveHostCommands,
  type HostCommandDecision,
} from '../policy/policy.ts'
import type { CommandFacts } from '../wire/command.ts'

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
  command: string,
  cwd: string,
  around: Surroundings,
  now: number,
): Promise<CommandExplanation> {
  const facts = await describeCommand({ command }, around)
  const { argv, isShell, risk, hazards, hardened } = facts
  return {
    ...decideHostCommand(policy, facts, cwd, now),
    command,
    ...(argv && { argv }),
    isShell,
    risk,
    hazards,
    ...(hardened && { hardened }),
  }
}

/** For people. */
export function printCommandExplanation(explanation: CommandExplanation): string {
  const { action, command, why, code, rule, nearMiss, tier, risk, hazards, workspaceCode, environment, hardened } = explanation
  const lines = [`${action}  ${command}`, `  why         ${why}`]
  if (code !== undefined) lines.push(`  code        ${code}`)
  if (rule !== undefined) lines.push(`  rule        ${rule}`)
  if (nearMiss !== undefined) lines.push(`  near miss   ${nearMiss}`)
  lines.push(`  risk        ${risk.level}`, ...risk.reasons.map((reason) => `              ${reason}`))
  if (action === 'ask') lines.push(`  presence    ${tier}`)
  if (workspaceCode) lines.push('  sandbox     it runs code of the workspace: without one it is asked about')
  for (const { token, letter, why: reason } of hazards) lines.push(`  hazard      ${letter} ${token}: ${reason}`)
  for (const [name, value] of Object.entries(environment)) lines.push(`  environment ${name}=${value}`)
  if (hardened !== undefined) lines.push(`  runs as     ${hardened.join(' ')}`)
  return `${lines.map(visible).join('\n')}\n`
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

/** The section as it holds, for people; nothing where no file says anything of it. */
export function printHostCommands({ mode, presence, rules }: EffectiveHostCommands): string[] {
  if (mode.from === undefined && rules.length === 0 && Object.values(presence).every(({ from }) => from === undefined)) return []
  return [
    `host_commands ${mode.value}${mode.from === undefined ? ' (default)' : ` (${formatPlace(mode.from)})`}`,
    ...rules.map(
      (rule) => `  ${rule.list.padEnd(5)}  ${rule.pattern}${describeExtras(rule)}  (${nameRule(rule).slice(0, -rule.pattern.length - 1)})`,
    ),
    `presence ${Object.entries(presence)
      .map(([level, { value }]) => `${level} ${value}`)
      .join(', ')}`,
  ]
}

function describeExtras({ cwd, workspaceCode, presence, expiresAt, environment }: EffectiveHostCommands['rules'][number]): string {
  const parts = [
    cwd && `in ${cwd}`,
    workspaceCode && 'workspace code',
    presence && `presence ${presence}`,
    expiresAt && `until ${new Date(expiresAt).toISOString()}`,
    ...Object.keys(environment).map((name) => `with ${name}`),
  ].filter(Boolean)
  return parts.length === 0 ? '' : `  ${parts.join('  ')}`
}
