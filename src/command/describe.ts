import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { quoteWords, readWords } from '../kernel/words.ts'
import type { CommandFacts } from '../wire/command.ts'

export type CommandWish = { readonly argv: readonly string[] } | { readonly command: string }

/** What lies around a command that it must not reach. */
export type Surroundings = {
  /** `$SALLYPORT_HOME`. */
  readonly home: string
  /** The workspace's folder on the host. */
  readonly workspace: string
  /** Ports of the operator's surfaces on loopback. */
  readonly operatorPorts: readonly number[]
}

/**
 * Looks at a command without running anything of it.
 * @throws command_invalid for one that is empty, too long, or has a NUL
 */
export async function describeCommand(wish: CommandWish, _surroundings: Surroundings): Promise<CommandFacts> {
  const argv = 'argv' in wish ? wish.argv : wordsOf(wish.command)
  const text = 'command' in wish ? wish.command : quoteWords(wish.argv)
  if (text.length > LIMITS.commandCharsMax || text.includes('\0') || (argv !== undefined && (argv[0] ?? '') === ''))
    throw new SallyportError('command_invalid', `the command "${text.slice(0, 80)}" is empty, too long or has a NUL`)
  return {
    argv,
    text,
    parts: [{ argv: argv ?? [] }],
    hazards: [],
    isShell: argv === undefined,
    runsWorkspaceCode: false,
    risk: { level: 'caution', reasons: [] },
    environment: {},
  }
}

function wordsOf(command: string): readonly string[] | undefined {
  const words = readWords(command)
  return typeof words === 'string' ? undefined : words.map(({ text }) => text)
}
