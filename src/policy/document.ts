import {
  isMap,
  isNode,
  isScalar,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  type Node,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml'
import type { Diagnostic, Place } from './model.ts'

/** A YAML file as data, with the place of every part of it. */
export type PolicyDocument = {
  readonly data: unknown
  /** Where the value at a path of keys and positions stands, or its nearest parent that exists. */
  placeOf(path: readonly PropertyKey[]): Place
  /** Where a key of the map at a path stands. */
  placeOfKey(path: readonly PropertyKey[], key: string): Place
}

/**
 * Reads one strict YAML 1.2 document. Whatever two readers could read in two ways is an error: duplicate keys, tabs,
 * anchors, aliases, merge keys, tags, directives, several documents, words and numbers that YAML 1.1 takes otherwise.
 */
export function readDocument(file: string, text: string): { document?: PolicyDocument; errors: readonly Diagnostic[] } {
  const lines = new LineCounter()
  const at = (offset: number): Place => {
    const { line, col } = lines.linePos(offset)
    return { file, line, column: col }
  }
  const early = textProblems(file, text)
  if (early.length > 0) return { errors: early }
  let parsed: Document.Parsed
  try {
    parsed = parseDocument(text, {
      version: '1.2',
      schema: 'core',
      merge: false,
      uniqueKeys: true,
      strict: true,
      prettyErrors: false,
      resolveKnownTags: false,
      lineCounter: lines,
    })
  } catch (error) {
    return {
      errors: [
        {
          file,
          line: 0,
          column: 0,
          message: `it cannot be read as YAML: ${error instanceof RangeError ? 'it is nested too deeply' : String(error)}`,
        },
      ],
    }
  }
  const errors: Diagnostic[] = [...parsed.errors, ...parsed.warnings].map((error) => ({
    ...at(error.pos[0]),
    message: yamlMessage(error.code, error.message),
  }))
  if (errors.length > 0) return { errors }
  const strict = findStrictProblems(parsed, at)
  errors.push(...strict.found)
  if (!strict.isPlainData) return { errors }
  const document: PolicyDocument = {
    data: parsed.toJS() as unknown,
    placeOf: (path) => at(nodeAt(parsed, path)?.range?.[0] ?? 0),
    placeOfKey(path, key) {
      const map = nodeAt(parsed, path)
      const pair = isMap(map) ? map.items.find((item) => isScalar(item.key) && item.key.value === key) : undefined
      return at((pair?.key as Scalar | undefined)?.range?.[0] ?? map?.range?.[0] ?? 0)
    },
  }
  return { document, errors }
}

function nodeAt(parsed: Document.Parsed, path: readonly PropertyKey[]): Node | null {
  for (let length = path.length; length > 0; length--) {
    const node = parsed.getIn(path.slice(0, length), true)
    if (node !== undefined && node !== null) return node as Node
  }
  return parsed.contents
}

/** Control characters, and what shows as nothing or turns the text around it. */
const HIDDEN = /[^\t\x20-\x7e\u00a0-\u{10ffff}]|[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/u

/** What shows in the text itself, before any parser. */
function textProblems(file: string, text: string): Diagnostic[] {
  const found: Diagnostic[] = []
  text.split('\n').forEach((raw, index) => {
    const line = raw.replace(/\r$/, '')
    const report = (column: number, message: string): void => {
      found.push({ file, line: index + 1, column: column + 1, message })
    }
    const tab = line.indexOf('\t')
    if (tab !== -1) report(tab, 'a tab: write spaces')
    // CVE-2021-42574: text that shows another order or less than a parser reads.
    const hidden = HIDDEN.exec(line)
    if (hidden)
      report(
        hidden.index,
        `a control or invisible character (U+${(hidden[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')})`,
      )
    if (line.startsWith('%')) report(0, 'a YAML directive: the file is YAML 1.2, nothing else')
  })
  return found.slice(0, 100)
}

/** `isPlainData` is false where keys are no words, or aliases stand for values, which may multiply without bound. */
function findStrictProblems(parsed: Document.Parsed, at: (offset: number) => Place): { found: Diagnostic[]; isPlainData: boolean } {
  const found: Diagnostic[] = []
  let isPlainData = true
  const report = (node: { range?: readonly number[] | null | undefined }, message: string): void => {
    found.push({ ...at(node.range?.[0] ?? 0), message })
  }
  const judge = (node: Scalar | YAMLMap | YAMLSeq): void => {
    if (node.anchor !== undefined) report(node, `the anchor "&${node.anchor}": write the value out where it is used`)
    if (node.tag !== undefined) report(node, `the tag "${node.tag}": values have no tags here`)
  }
  visit(parsed, {
    Alias(_, node) {
      isPlainData = false
      report(node, `the alias "*${node.source}": write the value out`)
    },
    Collection: (_, node) => judge(node),
    Pair(_, pair) {
      if (isScalar(pair.key) && typeof pair.key.value === 'string') {
        if (pair.key.value === '<<') report(pair.key, 'the merge key "<<": write the values out')
        return
      }
      isPlainData = false
      report(isNode(pair.key) ? pair.key : {}, 'a key that is not a plain word')
    },
    Scalar(_, node) {
      judge(node)
      const problem = scalarProblem(node)
      if (problem !== undefined) report(node, problem)
    },
  })
  return { found, isPlainData }
}

/** Unquoted words and numbers that a YAML 1.1 reader takes for something else than a YAML 1.2 reader. */
function scalarProblem(node: Scalar): string | undefined {
  if (node.type !== 'PLAIN') return undefined
  const source = node.source ?? ''
  if (/^(?:y|n|yes|no|on|off)$/i.test(source)) return `${source} is true or false to some readers: write "${source}" in quotes`
  if (typeof node.value === 'number' && !/^(?:0|[1-9]\d*)$/.test(source))
    return `the number ${source} can be read in more than one way: write plain decimal digits`
  if (typeof node.value === 'string' && /^[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.\d*)?$/.test(source))
    return `${source} is a number to some readers: write "${source}" in quotes`
  return undefined
}

function yamlMessage(code: string, message: string): string {
  switch (code) {
    case 'DUPLICATE_KEY':
      return 'the key stands in this map twice'
    case 'MULTIPLE_DOCS':
      return 'a second document ("---"): one file holds one policy'
    default:
      return `not valid YAML: ${message.split('\n')[0] ?? message}`
  }
}
