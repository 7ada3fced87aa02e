import { LIMITS } from '../kernel/limits.ts'
import { ruleProblems, toRule } from './assemble.ts'
import { readDocument, type PolicyDocument } from './document.ts'
import { entriesOf, valueAt } from './entries.ts'
import { assembleGateway, gatewayBeyondRestriction } from './gateway-section.ts'
import { commandsBeyondRestriction, restrictedCommands } from './host-commands/restricted.ts'
import { readText, type Layer, type PolicyInput } from './layers.ts'
import type { Diagnostic, EffectiveGateway, EffectiveRule, HostCommandRule, Place } from './model.ts'
import { twice } from './names.ts'
import { Network, PolicyFile, Rule } from './schema.ts'
import { shapeProblems } from './shape.ts'

export type Restricted = {
  readonly files: readonly { readonly file: string; readonly text: string }[]
  /** Their ids are `workspace:ID`: none of another file can be one of these. */
  readonly rules: readonly EffectiveRule[]
  /** Denials and questions about host commands. */
  readonly commands: readonly HostCommandRule[]
  /** Methods that are switched off. */
  readonly gateway: EffectiveGateway
  readonly errors: readonly Diagnostic[]
  /** What the files say beyond denials and questions, each named. Errors as well, but ones that trust would settle. */
  readonly untrusted: readonly Diagnostic[]
  readonly isMissing: boolean
}

/** What a rule of a restricted file may say: the rest is about what passes, and would open something once a question is answered. */
const RULE_KEYS: ReadonlySet<string> = new Set(['id', 'host', 'ports', 'protocol', 'methods', 'paths', 'action'])

/**
 * Reads files that somebody wrote who may take away and not give: the agent's side of a workspace. Their rules deny or ask;
 * anything else is named in `untrusted`, and what they would extend is not read.
 */
export function readRestricted(inputs: readonly PolicyInput[]): Restricted {
  const files: { file: string; text: string }[] = []
  const errors: Diagnostic[] = []
  const layers: Layer[] = []
  let isMissing = false
  for (const input of inputs) {
    const file = typeof input === 'string' ? input : input.file
    const text = typeof input === 'string' ? readText(input, LIMITS.workspacePolicyBytesMax) : input.text
    if (typeof text !== 'string') {
      isMissing ||= text.isMissing
      errors.push({ file, line: 0, column: 0, message: text.problem })
      continue
    }
    files.push({ file, text })
    const read = readDocument(file, text)
    errors.push(...read.errors)
    if (read.document === undefined) continue
    errors.push(...shapeProblems(read.document).map(({ diagnostic }) => diagnostic))
    layers.push({ file, document: read.document, plane: 'agent' })
  }
  const entries = layers.flatMap((layer) => entriesOf(layer, ['network', 'rules']))
  if (entries.length > LIMITS.restrictedRulesMax)
    errors.push({ ...(entries[LIMITS.restrictedRulesMax]?.from ?? NOWHERE), message: `more than ${LIMITS.restrictedRulesMax} rules` })
  const read = entries.flatMap(({ raw, from }) => {
    const entry = Rule.safeParse(raw).data
    if (entry === undefined || entry.action === 'allow') return []
    const rule = toRule(entry, from, 'agent')
    return [{ problems: ruleProblems(rule, entry), rule: { ...rule, id: `workspace:${rule.id}`, restricted: true as const } }]
  })
  const commands = restrictedCommands(layers)
  if (commands.rules.length > LIMITS.restrictedRulesMax)
    errors.push({
      ...(commands.rules[LIMITS.restrictedRulesMax]?.from ?? NOWHERE),
      message: `more than ${LIMITS.restrictedRulesMax} rules about commands`,
    })
  return {
    files,
    commands: commands.rules,
    gateway: assembleGateway(layers),
    rules: read.map(({ rule }) => rule),
    errors: [...errors, ...commands.errors, ...read.flatMap(({ problems }) => problems), ...twice('rule', entries, 'id')],
    untrusted: layers.flatMap(({ document }) => beyondRestriction(document)),
    isMissing,
  }
}

const NOWHERE: Place = { file: '', line: 0, column: 0 }

/** Everything in a file that gives something, by name and line. */
function beyondRestriction(document: PolicyDocument): Diagnostic[] {
  const layer = { document }
  const found: Diagnostic[] = []
  const sections = Object.keys(PolicyFile.shape).filter(
    (key) => !['version', 'network', 'extends', 'host_commands', 'gateway'].includes(key),
  )
  for (const key of sections) {
    const value = valueAt(document.data, [key])
    if (value === undefined) continue
    const entries = entriesOf(layer, [key])
    if (!Array.isArray(value)) found.push({ ...document.placeOf([key]), message: `${key}: ${keysOf(value)}` })
    for (const { raw, from } of entries) found.push({ ...from, message: describeEntry(key, raw) })
  }
  for (const { raw, from } of entriesOf(layer, ['extends'])) found.push({ ...from, message: `extends ${quote(raw)}` })
  for (const key of Object.keys(Network.shape).filter((name) => name !== 'rules')) {
    const value = valueAt(document.data, ['network', key])
    if (value !== undefined) found.push({ ...document.placeOf(['network', key]), message: `network.${key}: ${keysOf(value)}` })
  }
  for (const { raw, from } of entriesOf(layer, ['network', 'rules'])) {
    const [id, host] = [valueAt(raw, ['id']), valueAt(raw, ['host'])]
    if (valueAt(raw, ['action']) === 'allow') found.push({ ...from, message: `rule ${quote(id)} allows ${quote(host)}` })
    else
      for (const key of Object.keys(Rule.shape).filter((name) => !RULE_KEYS.has(name)))
        if (valueAt(raw, [key]) !== undefined) found.push({ ...from, message: `rule ${quote(id)} has ${key}` })
  }
  return [...found, ...commandsBeyondRestriction(document), ...gatewayBeyondRestriction(document)]
}

function describeEntry(section: string, raw: unknown): string {
  switch (section) {
    case 'credentials':
      return `credential ${quote(valueAt(raw, ['id']))} writes secret ${quote(valueAt(raw, ['secret']))} for ${wordsOf(valueAt(raw, ['inject', 'domains']))}`
    case 'secrets':
      return `secret ${quote(valueAt(raw, ['name']))} is read from ${quote(valueAt(raw, ['source']))}`
    case 'mcp_servers': {
      const url = valueAt(raw, ['url'])
      return `MCP server ${quote(valueAt(raw, ['name']))} ${url === undefined ? `runs "${wordsOf(valueAt(raw, ['command']))}"` : `is at ${quote(url)}`}`
    }
    case 'routes':
      return `route ${quote(valueAt(raw, ['name']))} leads to ${quote(valueAt(raw, ['upstream']))}`
    default:
      return `${section}: ${keysOf(raw)}`
  }
}

function quote(value: unknown): string {
  return typeof value === 'string' ? `"${value.slice(0, 200)}"` : 'without a name'
}

function wordsOf(value: unknown): string {
  return Array.isArray(value) ? value.slice(0, 20).map(String).join(', ') : 'nothing that can be read'
}

function keysOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? Object.keys(value).join(', ') || 'empty' : String(value)
}
