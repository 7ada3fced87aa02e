import {
  applyEdits,
  createScanner,
  findNodeAtLocation,
  modify,
  parseTree,
  type FormattingOptions,
  type JSONPath,
  type Node,
  type ParseError,
} from 'jsonc-parser'
import { SallyportError } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import type { FileServer, ServerEdit } from '../../wire/servers.ts'
import { HIDDEN } from './hidden-values.ts'

const FRESH = '{\n  "mcpServers": {}\n}\n'

/**
 * The text of `mcp.json` with one server changed: comments, order and all others stay as they are. A value that comes back hidden stays
 * what it is.
 * @throws mcp_config_invalid for a server that is not there, or a name that is taken
 */
export function editServers(before: string | undefined, edit: ServerEdit): string {
  const text = before === undefined || before.trim() === '' ? FRESH : before
  const has = (name: string): boolean => nodeOf(text, ['mcpServers', name]) !== undefined
  if (!isWhole(text)) throw unchangeable()
  switch (edit.kind) {
    case 'remove':
      return has(edit.name) ? changed(text, ['mcpServers', edit.name], undefined) : refuse(edit.name, 'has no server')
    case 'tools':
      return has(edit.name)
        ? changed(text, ['mcpServers', edit.name, 'tools'], edit.tools ?? undefined)
        : refuse(edit.name, 'has no server')
    case 'put': {
      const { name, was, server } = edit
      if (was === undefined || was !== name) if (has(name)) refuse(name, 'has already a server')
      if (was === undefined) return changed(text, ['mcpServers', name], writtenOf(server))
      if (!has(was)) refuse(was, 'has no server')
      return withFields(renamed(text, was, name), name, writtenOf(server))
    }
  }
}

function refuse(name: string, why: string): never {
  throw new SallyportError('mcp_config_invalid', `mcp.json ${why} "${shown(name)}"`, {
    hint: 'load the page anew: the file may have changed',
  })
}

function unchangeable(cause?: unknown): SallyportError {
  return new SallyportError('mcp_config_invalid', 'mcp.json is not what one server could be changed in', {
    hint: 'mend the file first',
    cause,
  })
}

function isWhole(text: string): boolean {
  const errors: ParseError[] = []
  const tree = parseTree(text, errors, { allowTrailingComma: true })
  const servers = tree === undefined ? undefined : findNodeAtLocation(tree, ['mcpServers'])
  return errors.length === 0 && tree?.type === 'object' && (servers === undefined || servers.type === 'object')
}

type Written = Readonly<Record<string, unknown>>

/** As clients of MCP write it. */
function writtenOf(server: FileServer): Written {
  const { tools } = server
  if ('url' in server) return { url: server.url, ...filled('headers', server.headers), ...(tools !== undefined && { tools }) }
  const [command = '', ...args] = server.command
  return {
    command,
    ...(args.length > 0 && { args }),
    ...filled('env', server.env),
    ...(tools !== undefined && { tools }),
    ...(server.workspace !== undefined && { workspace: server.workspace }),
    ...(server.image !== undefined && { image: server.image }),
  }
}

function filled(field: string, values: Readonly<Record<string, string>>): Written {
  return Object.keys(values).length > 0 ? { [field]: values } : {}
}

const MAPS = ['env', 'headers'] as const
const FIELDS = ['command', 'args', 'env', 'url', 'headers', 'tools', 'workspace', 'image'] as const

/** Field by field, and no field that is what it should be already. */
function withFields(before: string, name: string, wanted: Written): string {
  const at: JSONPath = ['mcpServers', name]
  let text = before
  const set = (path: JSONPath, value: unknown): void => {
    const now = valueAt(text, path)
    if (value === HIDDEN && typeof now === 'string') return
    if (JSON.stringify(now) !== JSON.stringify(value)) text = changed(text, path, value)
  }
  const isOtherKind = 'url' in wanted !== (nodeOf(text, [...at, 'url']) !== undefined)
  if (isOtherKind) set([...at, 'type'], undefined)
  for (const field of FIELDS) {
    const value = wanted[field]
    if (
      MAPS.some((one) => one === field) &&
      typeof value === 'object' &&
      value !== null &&
      nodeOf(text, [...at, field])?.type === 'object'
    ) {
      for (const key of keysOf(text, [...at, field])) if (!Object.hasOwn(value, key)) set([...at, field, key], undefined)
      for (const [key, one] of Object.entries(value)) set([...at, field, key], one)
    } else if (field === 'args' && Array.isArray(value)) {
      const now = valueAt(text, [...at, 'args'])
      set(
        [...at, 'args'],
        value.map((one: unknown, index) => (one === HIDDEN && Array.isArray(now) ? ((now as unknown[])[index] ?? one) : one)),
      )
    } else set([...at, field], value)
  }
  return text
}

function renamed(text: string, was: string, name: string): string {
  if (was === name) return text
  const [key] = nodeOf(text, ['mcpServers', was])?.parent?.children ?? []
  return key === undefined ? text : `${text.slice(0, key.offset)}${JSON.stringify(name)}${text.slice(key.offset + key.length)}`
}

function changed(text: string, path: JSONPath, value: unknown): string {
  if (value === undefined) return without(text, path)
  try {
    return applyEdits(text, modify(text, path, value, { formattingOptions: formattingOf(text) }))
  } catch (cause) {
    throw unchangeable(cause)
  }
}

/** Without a property, and the comma that it makes one too many. Comments stay, which may be of its neighbours. */
function without(text: string, path: JSONPath): string {
  const property = nodeOf(text, path)?.parent
  const { children: siblings = [] } = property?.parent ?? {}
  if (property === undefined) return text
  const end = property.offset + property.length
  const before = siblings[siblings.indexOf(property) - 1]
  const comma = commaBetween(text, end) ?? (before && commaBetween(text, before.offset + before.length))
  const cuts = [{ from: property.offset, to: end }, ...(comma === undefined ? [] : [{ from: comma, to: comma + 1 }])]
  const gone = cuts.toSorted((a, b) => b.from - a.from).reduce((rest, { from, to }) => `${rest.slice(0, from)}${rest.slice(to)}`, text)
  const at = comma !== undefined && comma < property.offset ? property.offset - 1 : property.offset
  const start = gone.lastIndexOf('\n', at - 1) + 1
  const next = gone.indexOf('\n', at)
  // A line with nothing on it but the property goes with it.
  return next !== -1 && start > 0 && gone.slice(start, next).trim() === '' ? `${gone.slice(0, start)}${gone.slice(next + 1)}` : gone
}

/** Where the next comma is, when nothing comes before it but spaces and comments. */
function commaBetween(text: string, from: number): number | undefined {
  const scanner = createScanner(text, true)
  scanner.setPosition(from)
  return (scanner.scan() as number) === COMMA ? scanner.getTokenOffset() : undefined
}

/** `SyntaxKind.CommaToken`, which is a const enum. */
const COMMA = 5

/** As the file is written so far. */
function formattingOf(text: string): FormattingOptions {
  const [, indent = '  '] = /\n([ \t]+)\S/.exec(text) ?? []
  return {
    insertSpaces: !indent.startsWith('\t'),
    tabSize: indent.startsWith('\t') ? 1 : indent.length,
    eol: text.includes('\r\n') ? '\r\n' : '\n',
  }
}

function nodeOf(text: string, path: JSONPath): Node | undefined {
  const tree = parseTree(text, [], { allowTrailingComma: true })
  return tree === undefined ? undefined : findNodeAtLocation(tree, path)
}

function keysOf(text: string, path: JSONPath): string[] {
  return nodeOf(text, path)?.children?.flatMap(({ children = [] }) => String(children[0]?.value ?? '')) ?? []
}

function valueAt(text: string, path: JSONPath): unknown {
  const node = nodeOf(text, path)
  return node?.type === 'array' ? node.children?.map(({ value }): unknown => value) : (node?.value as unknown)
}
