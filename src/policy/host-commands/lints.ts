import { readWords } from '../../kernel/words.ts'
import { describeClass, programClass } from '../../wire/programs.ts'
import { formatPlace } from '../place.ts'
import type { Diagnostic, EffectiveHostCommands, HostCommandRule } from '../model.ts'
import { matchExactly, matchLoosely } from './match.ts'
import type { WrittenRule } from './section.ts'
import { readPattern, type Token } from './tokens.ts'

/** What contradicts itself in the rules, what can never be, and what deserves a second look. */
export function lintHostCommands(
  written: readonly WrittenRule[],
  mode: EffectiveHostCommands['mode'],
): { errors: Diagnostic[]; warnings: Diagnostic[] } {
  const errors: Diagnostic[] = []
  const warnings: Diagnostic[] = []
  const rules = written.map(({ rule }) => rule)
  for (const { rule, entry } of written) {
    const say = (message: string): Diagnostic => ({ ...rule.from, message: `pattern "${shorten(rule.pattern)}": ${message}` })
    errors.push(...ruleProblems(rule, entry).map(say), ...exampleProblems(rule, entry).map(say))
    if (rule.list === 'allow' && rule.openTail && tokensOf(rule).at(-1)?.kind === 'rest')
      warnings.push(say('its tail is open: whatever stands there passes that is no known hazard'))
    const { inFile, elsewhere } = coveredBy(rule, rules)
    if (inFile !== undefined) errors.push(say(`it can never hold: ${inFile}`))
    else if (elsewhere !== undefined) warnings.push(say(`it can never hold: ${elsewhere}`))
  }
  const first = rules.find((rule) => rule.list === 'allow')
  if (first !== undefined && mode.value !== 'allowlist')
    warnings.push({
      ...first.from,
      message: `rules that allow have no effect in host_commands.mode: ${mode.value}${mode.from === undefined ? ', the default' : ''}: write mode: allowlist`,
    })
  return { errors, warnings }
}

/** Commands that the pattern of a rule is about: what stands for a word is filled in, in two ways. For what is said of patterns. */
export function samplesOf({ pattern }: Pick<HostCommandRule, 'pattern'>): readonly (readonly string[])[] {
  const tokens = readPattern(pattern)
  if (typeof tokens === 'string') return []
  return [0, 1].map((turn) => tokens.flatMap((token) => sampleOf(token, turn)))
}

function sampleOf(token: Token, turn: number): string[] {
  switch (token.kind) {
    case 'literal':
      return [token.text]
    case 'any':
      return [turn === 0 ? 'x' : 'other-word']
    case 'rest':
      return turn === 0 ? [] : ['other-word']
    case 'slot':
      return [
        { int: ['1', '23'], sha: ['0123abc', 'fedcba9876543210'], name: ['x', 'other-word'], relpath: ['x', 'a/b.txt'] }[token.slot][
          turn
        ] ?? 'x',
      ]
  }
}

function tokensOf({ pattern }: HostCommandRule): readonly Token[] {
  const read = readPattern(pattern)
  return typeof read === 'string' ? [] : read
}

function ruleProblems(rule: HostCommandRule, entry: WrittenRule['entry']): string[] {
  const tokens = tokensOf(rule)
  const [first] = tokens
  const program = first?.kind === 'literal' ? first.text : ''
  const isOpen = tokens.at(-1)?.kind === 'rest'
  const found: string[] = []
  if (rule.list !== 'allow') {
    if (rule.workspaceCode) found.push('workspace_code has no effect on a rule that does not allow: remove it')
    if (rule.list === 'deny')
      for (const key of ['env', 'presence'] as const)
        if (entry[key] !== undefined) found.push(`${key} has no effect on a denial: remove it`)
    return found
  }
  const kind = programClass(program)
  if (kind !== undefined)
    found.push(
      `"${program}" is ${describeClass(kind)}, which no rule can allow${kind === 'own' ? '' : ': allow the programs that are meant by their own names, or put it under ask'}`,
    )
  if (isOpen && !rule.openTail) found.push('"**" lets any arguments pass, options too: write the arguments out, or add open_tail: accept')
  if (!isOpen && rule.openTail) found.push('open_tail has no effect without "**" at the end: remove it')
  if (program.includes('/') && !program.startsWith('/') && !rule.workspaceCode)
    found.push(
      `"${program}" is a file of the workspace, which the agent can write: add workspace_code: accept, or name a program by its name`,
    )
  return found
}

/** Commands of `match` and `not_match` with which a rule does not do what they say. */
export function exampleProblems(rule: HostCommandRule, { match = [], not_match: not = [] }: WrittenRule['entry']): string[] {
  const tokens = tokensOf(rule)
  const isAbout = (argv: readonly string[]): boolean =>
    rule.list === 'allow' ? matchExactly(tokens, argv).isMatch : matchLoosely(tokens, argv)
  return [
    ...match.filter((example) => !isAbout(argvOf(example))).map((example) => `match: "${nameOf(example)}" is not matched`),
    ...not.filter((example) => isAbout(argvOf(example))).map((example) => `not_match: "${nameOf(example)}" is matched`),
  ]
}

function argvOf(example: string | readonly string[]): readonly string[] {
  if (typeof example !== 'string') return example
  const words = readWords(example, '*<>?[]{}~#!')
  return typeof words === 'string' ? [] : words.map(({ text }) => text)
}

function nameOf(example: string | readonly string[]): string {
  return shorten(typeof example === 'string' ? example : example.join(' '))
}

/** A stricter rule, or the same one before, that is about all that this one is about. */
function coveredBy(rule: HostCommandRule, rules: readonly HostCommandRule[]): { inFile?: string; elsewhere?: string } {
  const samples = samplesOf(rule)
  for (const other of rules) {
    if (other === rule || other.cwd !== undefined || other.expiresAt !== undefined || samples.length === 0) continue
    const isStricter = STRICTNESS[other.list] > STRICTNESS[rule.list]
    const isSame =
      other.list === rule.list && other.pattern === rule.pattern && rules.indexOf(other) < rules.indexOf(rule) && rule.cwd === undefined
    if (!isSame && !(isStricter && samples.every((argv) => matchLoosely(tokensOf(other), argv)))) continue
    const why = isSame
      ? `the same stands at ${formatPlace(other.from)}`
      : `"${shorten(other.pattern)}" at ${formatPlace(other.from)} ${other.list === 'deny' ? 'denies' : 'asks about'} all of it`
    return other.from.file === rule.from.file ? { inFile: why } : { elsewhere: why }
  }
  return {}
}

const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const

function shorten(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}
