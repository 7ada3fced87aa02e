import { programName } from '../../wire/programs.ts'
import { fitsSlot, type Token } from './tokens.ts'

/**
 * Whether an allowance is about this command: word for word, in this order, and the program as it is written, so that `git` is no other
 * file of that name. `*` and slots take one argument that no program reads as an option.
 * @returns how many words agree before the first that does not: all of them and `isMatch` for a match
 */
export function matchExactly(tokens: readonly Token[], argv: readonly string[]): { readonly isMatch: boolean; readonly agreeing: number } {
  const hasRest = tokens.at(-1)?.kind === 'rest'
  const fixed = hasRest ? tokens.slice(0, -1) : tokens
  for (const [index, token] of fixed.entries()) {
    const argument = argv[index]
    if (argument === undefined || !fits(token, argument)) return { isMatch: false, agreeing: index }
  }
  return { isMatch: hasRest || argv.length === fixed.length, agreeing: fixed.length }
}

/**
 * Whether a denial or a question is about this command in any reading of it: the program by its name wherever it lies, options in any
 * order, in clusters (`-fr`) or by a beginning of their name, other options in between, with or without a value of their own. So
 * `rm -rf **` is about `/bin/rm -r --one-file-system -f x`, and `git push **` about `git -C . push`.
 */
export function matchLoosely(tokens: readonly Token[], argv: readonly string[]): boolean {
  const [program, ...given] = argv
  const [first, ...wanted] = tokens
  if (program === undefined || first?.kind !== 'literal' || programName(first.text) !== programName(program)) return false
  if (matchExactly(wanted, given).isMatch || matchInPlace(wanted, given)) return true
  const options = wanted.filter((token) => token.kind === 'literal' && isOption(token.text))
  const operands = wanted.filter((token) => !options.includes(token))
  return options.every((token) => token.kind === 'literal' && hasOption(given, token.text)) && someReading(operands, given)
}

function fits(token: Token, argument: string): boolean {
  switch (token.kind) {
    case 'literal':
      return token.text === argument
    case 'any':
      return argument !== '' && !argument.startsWith('-')
    case 'slot':
      return fitsSlot(token.slot, argument)
    case 'rest':
      return true
  }
}

/** `*` of a denial is any argument, an option too. */
function fitsDenial(token: Token, argument: string): boolean {
  return token.kind === 'any' || fits(token, argument)
}

function matchInPlace(wanted: readonly Token[], given: readonly string[]): boolean {
  const hasRest = wanted.at(-1)?.kind === 'rest'
  const fixed = hasRest ? wanted.slice(0, -1) : wanted
  return (
    (hasRest ? given.length >= fixed.length : given.length === fixed.length) &&
    fixed.every((token, at) => fitsDenial(token, given[at] ?? ''))
  )
}

/** Operands in order, where an argument after an option may be that option's value. */
function someReading(operands: readonly Token[], given: readonly string[]): boolean {
  const hasRest = operands.at(-1)?.kind === 'rest'
  const wanted = hasRest ? operands.slice(0, -1) : operands
  // How many operands may have been read before this argument, in some reading.
  let reached = new Set([0])
  for (const [index, argument] of given.entries()) {
    const next = new Set<number>()
    const mayBeValue = index > 0 && isOption(given[index - 1] ?? '')
    for (const count of reached) {
      if (isOption(argument) || mayBeValue) next.add(count)
      const token = wanted[count]
      if (token === undefined ? hasRest : fitsDenial(token, argument)) next.add(Math.min(count + 1, wanted.length))
    }
    if (next.size === 0) return false
    reached = next
  }
  return reached.has(wanted.length)
}

function isOption(argument: string): boolean {
  return argument.length > 1 && argument.startsWith('-')
}

/** Whether the options given say this one. Each letter of `-rf` is one; of long names a beginning is enough, either way. */
function hasOption(given: readonly string[], wanted: string): boolean {
  if (given.includes(wanted)) return true
  if (wanted.startsWith('--')) {
    const [name = ''] = wanted.split('=')
    return name !== '--' && given.some((argument) => isBeginning(argument, name))
  }
  const letters = wanted.slice(1).split('')
  return letters.every(
    (letter) =>
      given.some((argument) => /^-[^-]/.test(argument) && argument.includes(letter)) ||
      LONG[letter]?.some((name) => given.some((argument) => isBeginning(argument, name))) === true,
  )
}

/** Names that nearly every program has for these letters. */
const LONG: Readonly<Record<string, readonly string[]>> = { r: ['--recursive'], R: ['--recursive'], f: ['--force'] }

function isBeginning(argument: string, name: string): boolean {
  const [said = ''] = argument.split('=')
  return said.length > 2 && said.startsWith('--') && (name.startsWith(said) || said.startsWith(name))
}
