import type { CommandExplanation } from '../controller/policy-files/explain-command.ts'
import { visible } from '../kernel/visible.ts'

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
