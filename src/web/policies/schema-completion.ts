import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete'

/** What of JSON Schema (draft 7) completion looks at. */
export type Schema = {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly $ref?: string
  readonly definitions?: Readonly<Record<string, Schema>>
}

/** Where something stands in a YAML text: keys, and `[]` for an entry of a list. */
type Path = readonly string[]
type Spot = {
  readonly path: Path
  /** A key of the map at `path`, or the value that stands there. */
  readonly wants: 'key' | 'value'
  /** Where what was typed of it begins. */
  readonly from: number
}

const WORD = /[A-Za-z0-9_."'-]*$/

/** Completes keys and values of a YAML text by its schema, with what it says about them. */
export function completeBySchema(root: Schema): (context: CompletionContext) => CompletionResult | null {
  return (context) => {
    const before = context.state.doc.sliceString(0, context.pos)
    const spot = spotOf(before)
    if (spot === undefined) return null
    const typed = before.slice(spot.from)
    if (typed === '' && !context.explicit && spot.wants === 'key') return null
    const found = schemasAt(root, spot.path)
    const options = spot.wants === 'key' ? keysOf(root, found) : valuesOf(root, found)
    return options.length === 0 ? null : { from: spot.from, options, validFor: /^[A-Za-z0-9_."'-]*$/ }
  }
}

/** What is being written at the end of this text. None within a comment. */
export function spotOf(before: string): Spot | undefined {
  const lineStart = before.lastIndexOf('\n') + 1
  const line = before.slice(lineStart)
  if (/(?:^|\s)#/.test(line)) return undefined
  const word = WORD.exec(before)?.[0] ?? ''
  const from = before.length - word.length
  const head = /^(\s*(?:- +)*)(?:([\w."'-]+):(?=\s|$))?/.exec(line)
  const lead = head?.[1] ?? ''
  const path = pathAbove(before.slice(0, lineStart), lead)
  const key = head?.[2]
  const rest = line.slice(head?.[0].length ?? 0)
  const open = openBrackets(rest)
  const at = key === undefined ? path : [...path, plain(key)]
  if (open.length > 0) return inFlow(at, open, from)
  if (key === undefined) return { path, wants: isEntryOfScalars(line) ? 'value' : 'key', from }
  return /^\s/.test(rest) || rest === '' ? { path: at, wants: 'value', from } : undefined
}

function isEntryOfScalars(line: string): boolean {
  return /^\s*- +["']/.test(line)
}

/** The keys and list entries that a line with this lead is in, by the indentation of those above it. */
function pathAbove(above: string, lead: string): Path {
  const path: string[] = []
  let column = lead.length
  for (const dash of [...lead.matchAll(/-/g)].toReversed()) {
    path.unshift('[]')
    column = dash.index
  }
  for (const line of above.split('\n').toReversed()) {
    const [, start = '', key] = /^(\s*(?:- +)*)(?:([\w."'-]+):(?=\s|$))?/.exec(line) ?? []
    if (/^\s*(?:#|$)/.test(line)) continue
    const isInEntry = path[0] === '[]'
    if (key !== undefined && (isInEntry ? start.length <= column : start.length < column)) {
      path.unshift(plain(key))
      column = start.length
    }
    for (const dash of [...start.matchAll(/-/g)].toReversed()) {
      if (dash.index >= column) continue
      path.unshift('[]')
      column = dash.index
    }
    if (column === 0 && path[0] !== '[]') break
  }
  return path
}

type Bracket = { readonly kind: 'map' | 'list'; key?: string | undefined; isValue: boolean }

/** The brackets of a line that are open at its end, each with the key that it is at. */
function openBrackets(text: string): Bracket[] {
  const open: Bracket[] = []
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"?|'[^']*'?|[{}[\],]|[^\s{}[\],:"']+|:(?=\s|$)/g)) {
    const last = open.at(-1)
    if (token === '{' || token === '[') open.push({ kind: token === '{' ? 'map' : 'list', isValue: false })
    else if (token === '}' || token === ']') open.pop()
    else if (last === undefined) continue
    else if (token === ',') [last.key, last.isValue] = [undefined, false]
    else if (token === ':') last.isValue = true
    else if (!last.isValue) last.key = plain(token)
  }
  return open
}

function inFlow(path: Path, open: readonly Bracket[], from: number): Spot {
  const parts = [...path]
  for (const [index, { kind, key, isValue }] of open.entries()) {
    const isLast = index === open.length - 1
    if (kind === 'list') parts.push('[]')
    else if (isValue && key !== undefined) parts.push(key)
    else if (isLast) return { path: parts, wants: 'key', from }
  }
  return { path: parts, wants: 'value', from }
}

function plain(key: string): string {
  return key.replaceAll(/^["']|["']$/g, '')
}

function schemasAt(root: Schema, path: Path): readonly Schema[] {
  let found = spread(root, root)
  for (const part of path)
    found = found.flatMap((schema) => {
      const next = part === '[]' ? schema.items : schema.properties?.[part]
      return next === undefined ? [] : spread(root, next)
    })
  return found
}

/** A schema and all that it is made of. */
function spread(root: Schema, schema: Schema): readonly Schema[] {
  const name = schema.$ref === undefined ? undefined : /^#\/definitions\/(.+)$/.exec(schema.$ref)?.[1]
  const named = name === undefined ? undefined : root.definitions?.[name]
  const parts = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? []), ...(named ? [named] : [])]
  return [schema, ...parts.flatMap((part) => spread(root, part))]
}

function keysOf(root: Schema, found: readonly Schema[]): Completion[] {
  const keys = new Map(found.flatMap(({ properties }) => Object.entries(properties ?? {})))
  return [...keys].map(([label, schema]) => {
    const all = spread(root, schema)
    const info = all.find(({ description }) => description !== undefined)?.description
    const isBlock = all.some(({ type }) => type === 'object')
    return {
      label,
      apply: isBlock ? `${label}:` : `${label}: `,
      type: 'property',
      detail: kindOf(all),
      ...(info !== undefined && { info }),
    }
  })
}

function kindOf(all: readonly Schema[]): string {
  const values = all.flatMap((schema) => schema.enum ?? (schema.const === undefined ? [] : [schema.const]))
  if (values.length > 0) return values.map(String).join(' | ')
  const type = all.find((schema) => schema.type !== undefined)?.type
  return type === undefined ? '' : type === 'array' ? 'list' : type === 'object' ? 'map' : String(type)
}

function valuesOf(root: Schema, found: readonly Schema[]): Completion[] {
  const all = found.flatMap((schema) => spread(root, schema))
  const info = all.find(({ description }) => description !== undefined)?.description
  const values = all.flatMap((schema) => schema.enum ?? (schema.const === undefined ? [] : [schema.const]))
  return [...new Set(values.map(valueText))].map((label) => ({ label, type: 'constant', ...(info !== undefined && { info }) }))
}

/** Words that are true or false to some readers of YAML stand in quotes. */
function valueText(value: unknown): string {
  return typeof value === 'string' && /^(?:y|n|yes|no|on|off)$/i.test(value) ? `"${value}"` : String(value)
}
