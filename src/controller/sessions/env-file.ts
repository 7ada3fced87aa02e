import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { SallyportError } from '../../kernel/errors.ts'

/** A line is over where compose ends it: U+2028 and U+2029, which `.` leaves out without the flag, stand within one. */
const ASSIGNMENT = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/s
const PLAIN = /^[A-Za-z0-9_./:@,+-]*$/

/** The values of a `.env` as compose reads them; of a name that stands twice the last. An absent file is an empty one. */
export function readEnvFile(file: string): Map<string, string> {
  const values = new Map<string, string>()
  for (const line of linesOf(file)) {
    const match = ASSIGNMENT.exec(line)
    if (match?.[1] !== undefined) values.set(match[1], unquote(match[2] ?? ''))
  }
  return values
}

/**
 * Sets values in a `.env` and keeps every other line and their order. The file appears whole or not at all, with mode 0600:
 * it names the folders of secrets.
 * @throws SallyportError config_invalid when a value has a line break, which no `.env` can carry.
 */
export function writeEnvFile(file: string, values: ReadonlyMap<string, string>): void {
  const pending = new Map(values)
  const lines = linesOf(file).flatMap((line) => {
    const name = ASSIGNMENT.exec(line)?.[1]
    if (name === undefined || !values.has(name)) return [line]
    const value = pending.get(name)
    pending.delete(name)
    return value === undefined ? [] : [assignment(name, value)]
  })
  for (const [name, value] of pending) lines.push(assignment(name, value))
  const aside = `${file}.${process.pid}.new`
  const fd = openSync(aside, 'wx', 0o600)
  try {
    writeSync(fd, `${lines.join('\n')}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(aside, file)
}

function linesOf(file: string): string[] {
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8').replace(/\n$/, '').split(/\r?\n/)
}

/** compose interpolates `$` in bare and double-quoted values, and reads `#` as a comment; in single quotes all is literal. */
function assignment(name: string, value: string): string {
  if (/[\r\n\0]/.test(value)) throw new SallyportError('config_invalid', `${name} cannot be written: its value has a line break`)
  if (PLAIN.test(value)) return `${name}=${value}`
  // Compose takes a backslash before the closing quote for an escape.
  if (!value.includes("'") && !value.endsWith('\\')) return `${name}='${value}'`
  return `${name}="${value.replace(/[\\"$]/g, '\\$&')}"`
}

function unquote(text: string): string {
  if (/^'[^']*'/.test(text)) return text.slice(1, text.indexOf("'", 1))
  const double = /^"((?:[^"\\]|\\.)*)"/.exec(text)
  if (double?.[1] !== undefined) return double[1].replace(/\\([\\"$])/g, '$1')
  return text.replace(/\s+#.*$/s, '')
}
