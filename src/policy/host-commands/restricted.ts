import type { PolicyDocument } from '../document.ts'
import { entriesOf, valueAt } from '../entries.ts'
import type { Layer } from '../layers.ts'
import type { Diagnostic, HostCommandRule } from '../model.ts'
import { exampleProblems } from './lints.ts'
import { CommandRule, HostCommands } from './schema.ts'
import { writtenRules } from './section.ts'

/** What a rule of a file that may only take away may say. The rest is about what runs once a question is answered. */
const KEYS: ReadonlySet<string> = new Set(['pattern', 'cwd', 'presence', 'expires', 'match', 'not_match'])

/** Denials and questions about host commands of files that may only take away, with what is wrong with them. I29 */
export function restrictedCommands(layers: readonly Layer[]): {
  readonly rules: readonly HostCommandRule[]
  readonly errors: readonly Diagnostic[]
} {
  const written = writtenRules(layers).filter(({ rule }) => rule.list !== 'allow')
  return {
    rules: written.map(({ rule: { cwd, presence, expiresAt, list, pattern, from } }) => ({
      list,
      pattern,
      ...(cwd !== undefined && { cwd }),
      environment: {},
      openTail: false,
      workspaceCode: false,
      ...(presence !== undefined && { presence }),
      ...(expiresAt !== undefined && { expiresAt }),
      restricted: true,
      from,
    })),
    errors: written.flatMap(({ rule, entry }) => exampleProblems(rule, entry).map((message) => ({ ...rule.from, message }))),
  }
}

/** What such a file says of host commands beyond denials and questions, each by name and line. */
export function commandsBeyondRestriction(document: PolicyDocument): Diagnostic[] {
  const section = valueAt(document.data, ['host_commands'])
  if (section === undefined) return []
  if (typeof section !== 'object' || section === null || Object.keys(section).length === 0)
    return [{ ...document.placeOf(['host_commands']), message: 'host_commands: empty' }]
  const found: Diagnostic[] = []
  for (const key of Object.keys(HostCommands.shape).filter((name) => name !== 'ask' && name !== 'deny')) {
    const value = valueAt(section, [key])
    if (value === undefined) continue
    if (!Array.isArray(value))
      found.push({
        ...document.placeOf(['host_commands', key]),
        message: `host_commands.${key}: ${typeof value === 'string' ? value.slice(0, 200) : 'something else'}`,
      })
    for (const { raw, from } of entriesOf({ document }, ['host_commands', key]))
      found.push({ ...from, message: `a command is allowed: "${patternOf(raw)}"` })
  }
  for (const key of ['ask', 'deny'])
    for (const { raw, from } of entriesOf({ document }, ['host_commands', key]))
      for (const field of Object.keys(CommandRule.shape).filter((name) => !KEYS.has(name)))
        if (valueAt(raw, [field]) !== undefined) found.push({ ...from, message: `the rule about "${patternOf(raw)}" has ${field}` })
  return found
}

function patternOf(raw: unknown): string {
  const pattern = typeof raw === 'string' ? raw : valueAt(raw, ['pattern'])
  return typeof pattern === 'string' ? pattern.slice(0, 200) : 'nothing that can be read'
}
