import { posix } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import { OWN_VARIABLES, WORKSPACE } from './agent-environment.ts'
import { refuseVariables } from './prohibited.ts'
import { SHELL_VARIABLES, SHIM_VARIABLES } from './sibling-shim.ts'
import type { SiblingWish } from './sibling.ts'

/** Where pinned files are in a sibling. The workspace is no place for them: who may write there takes what is mounted over it away. */
export const PINNED = '/sallyport/pinned'

/**
 * Whether a container could be made of a wish, before anything is made.
 * @throws SallyportError sibling_refused. No value is in it
 */
export function checkWish(wish: SiblingWish): void {
  const { label, argv, folder = WORKSPACE, environment, values, pinned } = wish
  if (!/^[a-z0-9-]{1,32}$/.test(label)) refuse(`"${shown(label)}" is no label of a container`, 'a-z, 0-9 and "-", 32 characters at most')
  checkArguments(argv)
  if (!isCanonical(folder)) refuse(`the folder "${shown(folder)}" is not a whole path without "..", "." and doubled slashes`)
  checkVariables(environment, values)
  if (typeof wish.stdin === 'object') checkText(wish.stdin.reveal(), 'what the command is to read')
  if (pinned.length > LIMITS.siblingPinnedFilesMax)
    refuse(`${pinned.length} pinned files are too many`, `${LIMITS.siblingPinnedFilesMax} are the most`)
  if (pinned.reduce((sum, { content }) => sum + content.length, 0) > LIMITS.siblingPinnedBytesMax)
    refuse('the pinned files are too long', `${LIMITS.siblingPinnedBytesMax} bytes together are the most`)
  const targets = new Set(pinned.map(({ target }) => target))
  for (const { target } of pinned) {
    if (!target.startsWith(`${PINNED}/`) || !isCanonical(target))
      refuse(`"${shown(target)}" is no place for a pinned file`, `those are below ${PINNED}`)
    for (let above = posix.dirname(target); above !== PINNED; above = posix.dirname(above))
      if (targets.has(above)) refuse(`"${shown(above)}" is to be a file and a folder`)
  }
  if (targets.size < pinned.length) refuse('two pinned files have one place')
}

function checkArguments(argv: readonly string[]): void {
  const [program = ''] = argv
  // Shells differ in whether they read what begins so as an option of exec.
  if (program === '' || program.startsWith('-')) refuse(`"${shown(program)}" is no name of a program`)
  if (argv.length > LIMITS.commandWordsMax) refuse(`a command of ${argv.length} words is too long`)
  if (argv.some((word) => word.includes('\0') || !word.isWellFormed())) refuse('an argument has a NUL in it, or is no Unicode')
  if (argv.some((word) => Buffer.byteLength(word) > LIMITS.argumentBytesMax - 1))
    refuse('an argument is too long', `${LIMITS.argumentBytesMax - 1} bytes are the most`)
}

function checkVariables(environment: SiblingWish['environment'], values: SiblingWish['values']): void {
  const names = [...Object.keys(environment), ...Object.keys(values)]
  if (names.length > LIMITS.siblingVariablesMax)
    refuse(`${names.length} variables are too many`, `${LIMITS.siblingVariablesMax} are the most`)
  try {
    refuseVariables(names, OWN_VARIABLES)
  } catch (cause) {
    if (cause instanceof SallyportError) throw new SallyportError('sibling_refused', cause.message, { cause })
    throw cause
  }
  const own = names.find((name) => SHIM_VARIABLES.test(name))
  if (own !== undefined) refuse(`the variable ${own} is one of ours`)
  const special = Object.keys(values).find((name) => SHELL_VARIABLES.has(name))
  if (special !== undefined) refuse(`the variable ${special} means something to the shell that hands secrets over`, 'use another name')
  const double = Object.keys(values).find((name) => Object.hasOwn(environment, name))
  if (double !== undefined) refuse(`the variable ${double} is given twice`)
  for (const [name, value] of Object.entries(environment)) checkText(value, `the variable ${name}`)
  for (const [name, value] of Object.entries(values)) {
    checkText(value.reveal(), `the variable ${name}`)
    if (value.reveal().includes('\0')) refuse(`the variable ${name} would have a NUL in it`)
  }
  if (Object.values(environment).some((value) => value.includes('\0'))) refuse('a variable would have a NUL in it')
}

/** What is no Unicode would become something else on its way. */
function checkText(text: string, what: string): void {
  if (!text.isWellFormed()) refuse(`${what} is no Unicode`)
  if (Buffer.byteLength(text) > LIMITS.siblingTextBytesMax)
    refuse(`${what} is too long`, `${LIMITS.siblingTextBytesMax} bytes are the most`)
}

function isCanonical(path: string): boolean {
  return path.startsWith('/') && !path.includes('\0') && path.isWellFormed() && posix.resolve(path) === path
}

function refuse(what: string, hint?: string): never {
  throw new SallyportError('sibling_refused', what, hint === undefined ? {} : { hint })
}
