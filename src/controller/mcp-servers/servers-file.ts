import { hash } from 'node:crypto'
import { lstat } from 'node:fs/promises'
import { visit } from 'jsonc-parser'
import type * as z from 'zod'
import type { Audit } from '../../audit/audit.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { stagePrivateFile } from '../../kernel/private-file.ts'
import type { System } from '../../kernel/system.ts'
import type { SecretGrant } from '../../policy/policy.ts'
import type { AppliedSecrets } from '../../wire/secrets.ts'
import type { FileProblem, FileServer, ServersEdit, ServersFile, ServersSaved, ServersWrite } from '../../wire/servers.ts'
import { createTurns } from '../turns.ts'
import { editServers } from './edit-file.ts'
import type { ServerEntry } from './entries.ts'
import { HIDDEN, withoutValue, withoutValues } from './hidden-values.ts'
import { homeServersFile, invalidServers, parseHomeServers, readHomeText, type HomeProblem } from './home-file.ts'
import type { PlannedServers, ServersQuery } from './operator-servers.ts'
import type { SecretStates } from './secret-states.ts'
import { keysOf, NO_SERVERS } from './servers-view.ts'

export type ServersFileParts = {
  readonly home: string
  readonly plan: (query: ServersQuery, homeText?: string) => Promise<PlannedServers>
  readonly states: SecretStates
  /** Gives running sessions what they are to have now. */
  readonly apply: () => Promise<AppliedSecrets>
  readonly audit: Pick<Audit, 'append'>
  readonly system: Pick<System, 'random'>
}

/** I83: `mcp.json`, as the operator reads and changes it. */
export type ServersFileEditor = {
  /** Without values that look like secrets. @throws mcp_config_invalid when it cannot be read */
  read(): Promise<ServersFile>
  /** With them. */
  whole(): Promise<{ readonly content: string; readonly digest: string | null }>
  check(content: string): Promise<readonly FileProblem[]>
  /** @throws mcp_config_outdated; mcp_config_invalid with every error, a line each */
  write(wanted: z.infer<typeof ServersWrite>, by: string): Promise<ServersSaved>
  /** One server; what is wrong with others keeps nobody from it. @throws the same */
  edit(wanted: z.infer<typeof ServersEdit>, by: string): Promise<ServersSaved>
}

export function createServersFile(parts: ServersFileParts): ServersFileEditor {
  const file = homeServersFile(parts.home)
  const turns = createTurns(1)
  const never = new AbortController().signal
  /** What was changed is what was read: of two that change it at once the second is refused. */
  const save = async (before: string | null, change: Change): Promise<ServersSaved> => {
    const saved = await turns.take(never, () => saveFile(parts, file, before, change))
    return { ...saved, ...(await parts.apply()) }
  }
  return {
    read: () => readFile(parts, file),
    async whole() {
      const text = readHomeText(parts.home)
      await parts.audit.append({ event: 'operator', did: 'mcp_file_shown', details: file })
      return { content: text ?? '', digest: digestOf(text) }
    },
    check: (content) => problemsOf(parts, file, content),
    write: ({ before, content }, by) => save(before, { make: () => content, isOf: () => true, by }),
    edit: ({ before, edit }, by) =>
      save(before, {
        make: (text) => editServers(text, edit),
        isOf: ({ server }) => edit.kind !== 'remove' && (server === undefined || server === edit.name),
        by,
      }),
  }
}

type Change = {
  readonly make: (text: string | undefined) => string
  /** Whether a problem is one of this change. */
  readonly isOf: (problem: FileProblem) => boolean
  readonly by: string
}

async function saveFile(
  parts: ServersFileParts,
  file: string,
  before: string | null,
  { make, isOf, by }: Change,
): Promise<Pick<ServersSaved, 'digest' | 'problems'>> {
  const now = readHomeText(parts.home)
  const refuseOutdated = (text: string | undefined): void => {
    if (digestOf(text) !== before)
      throw new SallyportError('mcp_config_outdated', `${file} has changed since it was read`, { hint: 'look at it as it is now' })
  }
  refuseOutdated(now)
  await refuseLink(file)
  const content = make(now)
  if (Buffer.byteLength(content) > LIMITS.mcpHomeFileBytesMax)
    throw invalidServers([`${file}: it has more than ${LIMITS.mcpHomeFileBytesMax} bytes`])
  const problems = await problemsOf(parts, file, content)
  const errors = problems.filter((problem) => problem.severity === 'error' && isOf(problem))
  if (errors.length > 0) throw invalidServers(errors.map(({ line, column, message }) => `line ${line}, column ${column}: ${message}`))
  const digest = digestOf(content) ?? ''
  await using staged = await stagePrivateFile(file, content, parts.system)
  // To look at it took a while, in which an editor may have written it.
  refuseOutdated(readHomeText(parts.home))
  await parts.audit.append({ event: 'config_changed', of: 'mcp', what: file, did: now === undefined ? 'made' : 'changed', digest, by })
  await staged.put()
  return { digest, problems }
}

async function readFile(parts: ServersFileParts, file: string): Promise<ServersFile> {
  const text = readHomeText(parts.home)
  const { text: content, hidden } = withoutValues(text ?? '')
  const { entries, lines } = parseHomeServers(file, text ?? NO_SERVERS)
  const keys = await parts.states.keys()
  const declared = (await secretsDeclared(parts)).filter(({ source }) => source.kind !== 'mcp-config')
  const others = keys === 'closed' ? [] : keys.filter((key) => !declared.some(({ name }) => name === key))
  return {
    path: file,
    digest: digestOf(text),
    content,
    hidden,
    servers: entries.map((entry, at) => ({ name: entry.name, line: lines[at] ?? 0, server: formOf(entry) })),
    problems: text === undefined ? [] : await problemsOf(parts, file, text),
    secrets: [
      ...declared.map(({ name, source }) => ({ key: name, source: source.kind })),
      ...others.map((key) => ({ key, source: 'vault' })),
    ].toSorted((a, b) => (a.key < b.key ? -1 : 1)),
    isVaultOpen: keys !== 'closed',
  }
}

/** Everything that is wrong with a text, in its order: what it is, what policies say beside it, and secrets that are not there. */
async function problemsOf(parts: ServersFileParts, file: string, text: string): Promise<readonly FileProblem[]> {
  const { entries, problems: own } = parseHomeServers(file, text)
  const found: (HomeProblem & Pick<FileProblem, 'severity'>)[] = [...own, ...hiddenIn(text)].map((one) => ({ ...one, severity: 'error' }))
  let declared: readonly SecretGrant[] = []
  if (own.length > 0) declared = await secretsDeclared(parts)
  else
    try {
      declared = (await parts.plan({ policy: [] }, text)).policy.secrets
    } catch (error) {
      if (!(error instanceof SallyportError)) throw error
      found.push(...error.message.split('\n').map((line) => besideOf(file, text, line)))
    }
  for (const entry of entries)
    for (const key of keysOf(entry)) {
      const { state } = await parts.states.of(key, declared, {})
      const said = MISSING[state]
      if (said !== undefined) found.push({ ...said(key), offset: offsetOf(text, entry.name, key), server: entry.name })
    }
  return found
    .map(({ offset, ...rest }) => ({ ...rest, ...positionOf(text, offset) }))
    .toSorted((a, b) => a.line - b.line || a.column - b.column)
}

type Said = Pick<FileProblem, 'message' | 'severity'>
const MISSING: Readonly<Partial<Record<string, (key: string) => Said>>> = {
  unknown: (key) => ({ severity: 'error', message: `there is no secret ${key}: store it with "sallyport secret set ${key}"` }),
  locked: (key) => ({
    severity: 'error',
    message: `the vault is closed, so that nobody can tell whether there is a secret ${key}: unlock it`,
  }),
  kept: (key) => ({
    severity: 'warning',
    message: `the secret ${key} is kept for a workspace or role: other sessions do not start with it`,
  }),
}

/** What a policy says against it: of a server of this file, or of something else that keeps sessions from starting. */
function besideOf(file: string, text: string, said: string): HomeProblem & Pick<FileProblem, 'severity'> {
  const [, line, message] = said.startsWith(`${file}:`) ? (/^(\d+): ([^]*)$/.exec(said.slice(file.length + 1)) ?? []) : []
  if (line === undefined || message === undefined) return { message: said, offset: 0, severity: 'warning' }
  const server = /^MCP server "([^"]*)"/.exec(message)?.[1]
  const before = text.split('\n', Number(line) - 1).reduce((sum, one) => sum + one.length + 1, 0)
  return { message, offset: before, severity: 'error', ...(server !== undefined && { server }) }
}

async function secretsDeclared(parts: ServersFileParts): Promise<readonly SecretGrant[]> {
  try {
    return (await parts.plan({ policy: [] }, NO_SERVERS)).policy.secrets
  } catch (error) {
    if (error instanceof SallyportError) return []
    throw error
  }
}

/** A value that was hidden when it was read must not be written as what stood for it. */
function hiddenIn(text: string): HomeProblem[] {
  const found: HomeProblem[] = []
  visit(text, {
    onLiteralValue(value, offset, _length, _line, _character, path) {
      const [, server] = path()
      if (typeof value === 'string' && value.includes(HIDDEN))
        found.push({
          message: 'a value was hidden here: write "${secret:KEY}" for one of the vault',
          offset,
          ...(typeof server === 'string' && { server }),
        })
    },
  })
  return found
}

function offsetOf(text: string, server: string, key: string): number {
  let found = 0
  visit(text, {
    onLiteralValue(value, offset, _length, _line, _character, path) {
      if (found === 0 && path()[1] === server && typeof value === 'string' && value.includes(`\${secret:${key}}`)) found = offset
    },
  })
  return found
}

function positionOf(text: string, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset).split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}

function formOf(entry: ServerEntry): FileServer {
  const tools = entry.tools === undefined ? {} : { tools: [...entry.tools] }
  if ('url' in entry) return { url: withoutValue('url', entry.url), headers: shownValues(entry.headers), ...tools }
  const { command, env, workspace, image } = entry
  return {
    command: command.map((word, at) => withoutValue('', word, command[at - 1])),
    env: shownValues(env),
    ...tools,
    ...(workspace !== undefined && { workspace }),
    ...(image !== undefined && { image }),
  }
}

function shownValues(all: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(all).map(([name, value]) => [name, withoutValue(name, value)]))
}

function digestOf(text: string | undefined): string | null {
  return text === undefined ? null : hash('sha256', text, 'hex')
}

/** It would be put in the place of the link, and the file that it leads to would stay as it is. @throws mcp_config_invalid */
async function refuseLink(file: string): Promise<void> {
  const found = await lstat(file).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
  })
  if (found?.isSymbolicLink() === true) throw invalidServers([`${file}: it is a link: change the file that it leads to`])
}
