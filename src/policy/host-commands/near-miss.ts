import type { CommandFacts } from '../../wire/command.ts'
import { formatPlace } from '../place.ts'
import type { HostCommandRule } from '../model.ts'
import { isBelow } from './folders.ts'
import { matchExactly } from './match.ts'
import { readPattern, type Token } from './tokens.ts'

/** The allowance that agrees with most words of a command, and where it stops to. */
export function describeNearMiss(rules: readonly HostCommandRule[], { argv }: CommandFacts, folder: string): string | undefined {
  if (argv === undefined) return undefined
  let best: { rule: HostCommandRule; tokens: readonly Token[]; agreeing: number } | undefined
  for (const rule of rules) {
    if (rule.list !== 'allow') continue
    const tokens = readPattern(rule.pattern)
    if (typeof tokens === 'string') continue
    const { agreeing } = matchExactly(tokens, argv)
    if (agreeing > (best?.agreeing ?? 0)) best = { rule, tokens, agreeing }
  }
  if (best === undefined) return undefined
  const { rule, tokens, agreeing } = best
  const named = `"${rule.pattern}" (${formatPlace(rule.from)})`
  if (matchExactly(tokens, argv).isMatch)
    return rule.cwd !== undefined && !isBelow(folder, rule.cwd) ? `${named} is about the folder ${rule.cwd}` : undefined
  const [argument, token] = [argv[agreeing], tokens[agreeing]]
  if (token === undefined)
    return `${named} has no argument after the first ${agreeing} words, and the command has "${shorten(argument ?? '')}"`
  if (argument === undefined) return `${named} wants ${describeToken(token)} after the first ${agreeing} words, and the command ends there`
  const option = token.kind !== 'literal' && argument.startsWith('-') ? ', which an option is not' : ''
  return `${named} wants ${describeToken(token)} where the command has "${shorten(argument)}"${option}`
}

function describeToken(token: Token): string {
  switch (token.kind) {
    case 'literal':
      return `"${shorten(token.text)}"`
    case 'any':
      return 'one argument'
    case 'rest':
      return 'any arguments'
    case 'slot':
      return `<${token.slot}>`
  }
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
