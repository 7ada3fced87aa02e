import type { CommandHazard } from '../../wire/command.ts'
import { programName } from '../../wire/programs.ts'
import { readArguments, type Argument } from './arguments.ts'
import { AWS, GCLOUD, SECRET_STORES, SECURITY, TERRAFORM } from './clouds.ts'
import { DOCKER, HELM, KUBECTL } from './containers.ts'
import { ARCHIVERS, FD, FIND, GREP, READERS, RG, SED, SORT, TAR, WRITERS } from './files.ts'
import { GH } from './forges.ts'
import { GIT } from './git.ts'
import { CURL, DATABASES, GPG, PSQL, RSYNC, SCP, SSH } from './network.ts'
import { BUILDERS, CARGO, GO, NPM, PIP, SWIFT, SYSTEM_PACKAGES, XCODEBUILD } from './packages.ts'
import { DESKTOP, DISKS, JOURNAL, KILL, PS, SERVICES, SHOWERS } from './system.ts'
import type { HazardRow, ProgramTable } from './table.ts'

/** Every program that is known, with what its arguments may do. Data: each row is one fact. */
export const TABLES: readonly ProgramTable[] = [
  GIT,
  GH,
  DOCKER,
  KUBECTL,
  HELM,
  TERRAFORM,
  AWS,
  GCLOUD,
  SECRET_STORES,
  SECURITY,
  NPM,
  CARGO,
  GO,
  PIP,
  SYSTEM_PACKAGES,
  SWIFT,
  XCODEBUILD,
  BUILDERS,
  FIND,
  FD,
  GREP,
  RG,
  SED,
  TAR,
  ARCHIVERS,
  SORT,
  ...READERS,
  WRITERS,
  SSH,
  SCP,
  RSYNC,
  CURL,
  PSQL,
  DATABASES,
  GPG,
  PS,
  JOURNAL,
  SERVICES,
  DESKTOP,
  KILL,
  DISKS,
  SHOWERS,
]

const BY_NAME: ReadonlyMap<string, ProgramTable> = new Map(TABLES.flatMap((table) => table.names.map((name) => [name, table] as const)))

/** What is known of a program, by its name. */
export function tableOf(program: string): ProgramTable | undefined {
  return BY_NAME.get(programName(program))
}

/** What a program with these arguments does that the tables warn of, each row once. */
export function findHazards(argv: readonly string[]): CommandHazard[] {
  const [name = '', ...given] = argv
  const table = tableOf(name)
  if (table === undefined) return []
  const program = programName(name)
  const read = readArguments(given, table)
  const found = table.rows.flatMap((row): CommandHazard[] => {
    const token = findToken(row, table, read)
    return token === undefined ? [] : [{ program, token, letter: row.letter, why: `${program}: ${row.why}` }]
  })
  const { otherwise } = table
  if (otherwise !== undefined && found.length === 0 && !isReadOnly(argv))
    found.push({ program, token: given[0] ?? program, letter: otherwise.letter, why: `${program}: ${otherwise.why}` })
  return found
}

/** Whether it is one of the forms that only show something. What else its arguments do is for `findHazards`. */
export function isReadOnly(argv: readonly string[]): boolean {
  const [name = '', ...given] = argv
  const table = tableOf(name)
  if (table === undefined) return false
  const read = readArguments(given, table)
  return table.readOnly.some((form) => {
    if (form === '*') return true
    if (form.startsWith('-')) return given[0] === form
    return startsWithWords(read, form.split('/'), matchesWildcard)
  })
}

/** The token of a row that stands in the arguments, or the argument that it is about. */
function findToken(row: HazardRow, table: ProgramTable, read: readonly Argument[]): string | undefined {
  if (row.unless?.some((option) => read.some((argument) => argument.kind === 'option' && isOption(argument.name, option, table))) === true)
    return undefined
  const scope = row.on ?? []
  const isGlobal = scope.includes('@globals')
  const inScope = isGlobal || row.on === undefined || scope.some((words) => startsWithWords(read, words.split('/'), wordFor(table)))
  if (!inScope) return undefined
  const firstWord = read.findIndex((argument) => argument.kind === 'operand' && !argument.mayBeValue)
  const looked = isGlobal && firstWord !== -1 ? read.slice(0, firstWord) : read
  if (row.tokens.length === 0) return findOperand(row, looked)
  for (const token of row.tokens) {
    if (!token.startsWith('-')) {
      if (startsWithWords(read, token.split('/'), wordFor(table))) return token
    } else if (
      looked.some((argument) => argument.kind === 'option' && isOption(argument.name, token, table) && hasValue(row, argument.value))
    ) {
      return token
    }
  }
  return undefined
}

function hasValue({ value }: HazardRow, given: string | undefined): boolean {
  return value === undefined || (given !== undefined && value.test(given))
}

function findOperand({ operand, operandsMin }: HazardRow, read: readonly Argument[]): string | undefined {
  const operands = read.filter((argument) => argument.kind === 'operand')
  if (operand !== undefined) return operands.find(({ text }) => operand.test(text))?.text
  if (operandsMin === 0) return operands[0]?.text ?? ''
  return operandsMin !== undefined && operands.length >= operandsMin ? operands[operandsMin - 1]?.text : undefined
}

/** GNU takes any beginning of a long name, and ours may be a beginning of theirs: either way it is this one. */
function isOption(given: string, wanted: string, { style }: ProgramTable): boolean {
  if (style === 'exact') return given === wanted.replace(/^--/, '-')
  if (!wanted.startsWith('--')) return given === wanted
  return given.length > 2 && given.startsWith('--') && (wanted.startsWith(given) || given.startsWith(wanted))
}

/** Operands begin with these words, where one after an option may be that option's value. */
function startsWithWords(read: readonly Argument[], words: readonly string[], isWord: (given: string, wanted: string) => boolean): boolean {
  let reached = new Set([0])
  for (const argument of read) {
    if (argument.kind !== 'operand') continue
    const next = new Set<number>()
    for (const count of reached) {
      if (argument.mayBeValue) next.add(count)
      if (isWord(argument.text, words[count] ?? '')) next.add(count + 1)
    }
    if (next.has(words.length)) return true
    if (next.size === 0) return false
    reached = next
  }
  return false
}

function wordFor({ abbreviates }: ProgramTable): (given: string, wanted: string) => boolean {
  return abbreviates === true
    ? (given, wanted) => given === wanted || (given.length > 1 && wanted.startsWith(given))
    : (given, wanted) => given === wanted
}

function matchesWildcard(given: string, wanted: string): boolean {
  if (wanted === '*') return true
  return wanted.endsWith('*') ? given.startsWith(wanted.slice(0, -1)) : given === wanted
}
