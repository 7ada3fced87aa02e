import { quoteWords, readWords } from '../../kernel/words.ts'

export const SLOTS = ['int', 'sha', 'name', 'relpath'] as const
export type Slot = (typeof SLOTS)[number]

/** One word of a pattern. `rest` is any number of arguments, and stands at the end. */
export type Token =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'any' }
  | { readonly kind: 'rest' }
  | { readonly kind: 'slot'; readonly slot: Slot }

/** Words of a pattern, so that matching has a bound. */
const TOKENS_MAX = 256

/** Reads a pattern. @returns its words, or what is wrong with it */
export function readPattern(pattern: string): readonly Token[] | string {
  const words = readWords(pattern, '*<>')
  const say = (problem: string): string => `pattern "${pattern.slice(0, 200)}": ${problem}`
  if (typeof words === 'string')
    return say(`${words}, and no shell reads it: write what a command has in it in single quotes, and one command in one pattern`)
  if (words.length === 0) return say('it has no word')
  if (words.length > TOKENS_MAX) return say(`more than ${TOKENS_MAX} words`)
  const tokens: Token[] = []
  for (const [index, { text, isPlain }] of words.entries()) {
    const token = isPlain ? readToken(text) : { kind: 'literal' as const, text }
    if (typeof token === 'string') return say(token)
    if (index === 0 && token.kind !== 'literal') return say('the first word is a program by its name')
    if (token.kind === 'rest' && index !== words.length - 1) return say('"**" stands at the end, or is "*", for one argument')
    tokens.push(token)
  }
  if (words[0]?.text === '') return say('the first word is a program by its name')
  return tokens
}

/** The pattern that matches this command and no other: what an answer "remember" becomes. */
export function exactPattern(argv: readonly string[]): string {
  return quoteWords(argv)
}

/** Whether an argument is what the slot is for. None takes one that a program could read as an option. */
export function fitsSlot(slot: Slot, argument: string): boolean {
  switch (slot) {
    case 'int':
      return /^(?:0|[1-9]\d{0,15})$/.test(argument)
    case 'sha':
      return /^[0-9a-f]{7,64}$/.test(argument)
    case 'name':
      return /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(argument) && !argument.includes('..')
    case 'relpath':
      return isRelativePath(argument)
  }
}

/** Below the folder it is used in, and not what a program reads as something else: an option, `host:path`, `@file`. */
function isRelativePath(argument: string): boolean {
  if (argument === '.') return true
  if (argument.length > 4_096 || /^[-~@+]/.test(argument) || !/^[^\p{C}\p{Z}:\\*?[\]{}$`'"<>|&;]+$/u.test(argument)) return false
  return argument
    .replace(/\/$/, '')
    .split('/')
    .every((part) => part !== '' && part !== '.' && part !== '..' && part.toLowerCase() !== '.git')
}

function readToken(text: string): Token | string {
  if (text === '*') return { kind: 'any' }
  if (text === '**') return { kind: 'rest' }
  const slot = SLOTS.find((name) => text === `<${name}>`)
  if (slot !== undefined) return { kind: 'slot', slot }
  if (/^<[^<>]*>$/.test(text)) return `"${text}" is none of ${SLOTS.map((name) => `<${name}>`).join(', ')}`
  if (/[*<>]/.test(text))
    return `"${text}" has ${text.includes('*') ? '"*"' : '"<" or ">"'} in a word: only "*" as a whole word is one argument; in single quotes it is itself`
  return { kind: 'literal', text }
}
