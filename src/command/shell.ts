import type { Command, ParsedScript, Redirection, SyntaxNode, Word } from 'unbash'
import { isForbiddenVariable } from '../wire/variables.ts'
import { programClass } from '../wire/programs.ts'

/** What a line for a shell has in it, as far as can be told without running it. */
export type Script = {
  /** Every command in it, in pipelines, substitutions, loops and functions too. */
  readonly commands: readonly (readonly string[])[]
  /** What makes it more dangerous than its commands are, in words. */
  readonly dangers: readonly string[]
  /** The words of its only command, where that is all there is. */
  readonly only: readonly string[] | undefined
}

/** Nodes of a line that are looked at: a longer one is dangerous as it is. */
const NODES_MAX = 20_000

/** Reads a line as bash would, with the parser that is loaded when it is first needed. Never throws for what is in the line. */
export async function readScript(line: string): Promise<Script> {
  const { forEachChild, parse } = await import('unbash')
  const commands: string[][] = []
  const dangers = new Set<string>()
  let count = 0
  const visit = (node: SyntaxNode): void => {
    count += 1
    if (count > NODES_MAX) return
    look(node, commands, dangers)
    forEachChild(node, visit)
  }
  let script: ParsedScript
  try {
    script = parse(line)
    visit(script)
  } catch {
    // Nested deeper than the parser goes: it is for nobody to read.
    return { commands, dangers: ['it is nested too deeply to be read'], only: undefined }
  }
  if (count > NODES_MAX) dangers.add('it is too long to be read')
  return { commands, dangers: [...dangers], only: onlyCommand(script) }
}

function look(node: SyntaxNode, commands: string[][], dangers: Set<string>): void {
  switch (node.type) {
    case 'Script':
      if (node.errors !== undefined && node.errors.length > 0) dangers.add('it cannot be read as a line for a shell')
      break
    case 'Command':
      lookAtCommand(node, commands, dangers)
      break
    case 'Pipeline':
      for (const command of node.commands.slice(1)) {
        const name = command.type === 'Command' ? command.name?.value : undefined
        const kind = name === undefined ? undefined : programClass(name)
        if (kind === 'shell' || kind === 'interpreter' || (kind === 'wrapper' && command.type === 'Command' && runsShell(command)))
          dangers.add(`a pipe into ${name ?? ''} runs what comes through it`)
      }
      break
    case 'Assignment':
      if (isForbiddenVariable(node.name)) dangers.add(`it sets ${node.name}, which decides what programs run, load or trust`)
      break
    case 'Redirect':
      if (node.target !== undefined && /^\/dev\/(?:tcp|udp)\//.test(node.target.value)) dangers.add('it opens a connection by /dev/tcp')
      break
    case 'Function':
      dangers.add('it defines a function, which may stand for a program')
      break
    default:
      break
  }
}

function lookAtCommand(node: Command, commands: string[][], dangers: Set<string>): void {
  const words = wordsOf(node)
  // A name that is only known when it runs: whatever it says is what runs.
  if (node.name !== undefined && (node.name.parts ?? []).some((part) => /Expansion|Substitution/.test(part.type)))
    dangers.add('the name of a program in it comes out of an expansion')
  if (words.length > 0) commands.push(words)
  const files = node.redirects.flatMap((redirection: Redirection) =>
    redirection.type === 'Redirect' && redirection.target !== undefined ? [redirection.target.value] : [],
  )
  // What it writes to and reads from is looked at as operands are.
  if (files.length > 0) commands.push(['cat', ...files])
  const kind = words[0] === undefined ? undefined : programClass(words[0])
  if (kind !== 'shell' && kind !== 'interpreter') return
  const parts = node.suffix.flatMap((word) => (word.type === 'Word' ? (word.parts ?? []) : []))
  const inner = parts.flatMap((part) => ('parts' in part ? [part, ...(part.parts ?? [])] : [part]))
  if (inner.some(({ type }) => type === 'CommandExpansion' || type === 'ProcessSubstitution'))
    dangers.add(`${words[0] ?? ''} runs what another command prints`)
  if (node.redirects.some(({ type }) => type === 'HereDoc' || type === 'HereString'))
    dangers.add(`${words[0] ?? ''} runs what is written in the line`)
}

function runsShell(command: Command): boolean {
  return wordsOf(command).some((word) => programClass(word) === 'shell' || programClass(word) === 'interpreter')
}

function wordsOf(node: Command): string[] {
  const words = node.args.map((argument) => (argument.type === 'Word' ? argument.value : argument.text))
  return node.name === undefined ? [] : [node.name.value, ...words]
}

/** A line that is one command, each word of which is text alone. */
function onlyCommand({ commands, errors }: ParsedScript): readonly string[] | undefined {
  const [statement, ...more] = commands
  if (statement === undefined || more.length > 0 || (errors?.length ?? 0) > 0 || statement.background === true) return undefined
  const { command } = statement
  if (command.type !== 'Command' || command.name === undefined || command.prefix.length > 0 || command.redirects.length > 0)
    return undefined
  const words = [command.name, ...command.args]
  return words.every((word): word is Word => word.type === 'Word') ? words.map((word) => word.value) : undefined
}
