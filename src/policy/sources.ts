import { isAbsolute, normalize } from 'node:path'
import type { SecretSource } from './model.ts'

/** Sources that the format knows and this version does not read. */
const KNOWN_LATER = new Set(['vault', 'op', 'keychain', 'libsecret', 'pass', 'vault-http'])
const CONTROL = /[^\x20-\x7e\u0080-\u{10ffff}]/u
/** What a shell would act on. There is no shell: a command that relies on one would do something else than it says. */
const SHELL = '|&;<>$`(){}\\*?~#!'

/** Reads `env:NAME`, `file:/path` or `exec:command arguments`. A string is why it is refused. */
export function parseSource(text: string): SecretSource | string {
  const colon = text.indexOf(':')
  const kind = colon === -1 ? text : text.slice(0, colon)
  const rest = colon === -1 ? '' : text.slice(colon + 1)
  if (KNOWN_LATER.has(kind)) return `source "${kind}:" is known but not enforced by this version: use env:, file: or exec:`
  switch (kind) {
    case 'env':
      return /^[A-Za-z_][A-Za-z0-9_]*$/.test(rest)
        ? { kind, variable: rest }
        : `source "${text}" must name an environment variable, as in "env:GITHUB_TOKEN"`
    case 'file':
      return parseFile(text, rest)
    case 'exec': {
      const argv = splitCommand(rest)
      return typeof argv === 'string' ? `source "${text}": ${argv}` : { kind, argv }
    }
    default:
      // A value written here by mistake must not be printed.
      return 'source must begin with env:, file: or exec: (a value itself is never written into a policy)'
  }
}

function parseFile(text: string, path: string): SecretSource | string {
  if (!isAbsolute(path)) return `source "${text}" must be an absolute path, as in "file:/run/secrets/NAME"`
  if (CONTROL.test(path)) return 'source has a control character in its path'
  const right = normalize(path)
  if (right !== path || path.endsWith('/')) return `source "${text}" is not canonical; write "file:${right.replace(/(?<=.)\/$/, '')}"`
  return { kind: 'file', path }
}

/** Splits a command at spaces; '…' and "…" keep them. A string is why it is refused. */
function splitCommand(text: string): readonly string[] | string {
  const argv: string[] = []
  let word: string | undefined
  let quote: string | undefined
  for (const char of text) {
    if (CONTROL.test(char)) return 'the command has a control character or line break'
    if (quote !== undefined) {
      if (char === quote) quote = undefined
      // A shell would act on these inside "…" as well.
      else if (quote === '"' && '$`\\'.includes(char)) return `"${char}" inside "…" means nothing here, as no shell reads it: use '…'`
      else word = `${word ?? ''}${char}`
    } else if (char === "'" || char === '"') {
      quote = char
      word ??= ''
    } else if (char === ' ') {
      if (word !== undefined) argv.push(word)
      word = undefined
    } else if (SHELL.includes(char)) {
      return `"${char}" outside quotes means nothing here, as no shell reads it: quote it, or put the command into a script`
    } else word = `${word ?? ''}${char}`
  }
  if (quote !== undefined) return `a ${quote} is not closed`
  if (word !== undefined) argv.push(word)
  if ((argv[0] ?? '') === '') return 'it names no command'
  return argv
}
