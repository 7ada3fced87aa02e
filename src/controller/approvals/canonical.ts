import { SallyportError } from '../../kernel/errors.ts'

/** Nesting of what is written. Real questions have five levels. */
const DEPTH_MAX = 64

/**
 * JSON by RFC 8785 (JCS): members by the UTF-16 units of their names, numbers and strings as ECMAScript writes them, no space. One value
 * has one spelling. A member that is `undefined` is absent.
 * @throws question_invalid for what has no such spelling: a lone surrogate, a number that is not finite, anything that is not JSON
 */
export function canonicalJson(value: unknown): string {
  return written(value, 0)
}

function written(value: unknown, depth: number): string {
  if (depth > DEPTH_MAX) throw unwritable('it is nested too deeply')
  switch (typeof value) {
    case 'string':
      return textOf(value)
    case 'number':
      // RFC 8785 §3.2.2.3: NaN and Infinity end it. JSON.stringify would write null.
      if (!Number.isFinite(value)) throw unwritable(`${value} is no number of JSON`)
      return JSON.stringify(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      if (value === null) return 'null'
      return Array.isArray(value) ? listOf(value, depth) : objectOf(value, depth)
    default:
      throw unwritable(`it has a ${typeof value} in it`)
  }
}

function listOf(values: readonly unknown[], depth: number): string {
  // By Array.from, since a hole must not become nothing at all.
  return `[${Array.from(values, (value) => written(value, depth + 1)).join(',')}]`
}

function objectOf(value: object, depth: number): string {
  const prototype: unknown = Object.getPrototypeOf(value)
  // A Date, a Map or an object with toJSON would be written as something else than it is.
  if (prototype !== Object.prototype && prototype !== null) throw unwritable('it has an object in it that is not plain')
  const members: string[] = []
  // §3.2.3: the order of the default comparison is that of the UTF-16 units.
  for (const name of Object.keys(value).toSorted(byUnits)) {
    const member = (value as Record<string, unknown>)[name]
    if (member !== undefined) members.push(`${textOf(name)}:${written(member, depth + 1)}`)
  }
  return `{${members.join(',')}}`
}

function textOf(text: string): string {
  // §3.2.2.2: a lone surrogate ends it. UTF-8 has none, so that two texts with different ones would have one digest.
  if (!text.isWellFormed()) throw unwritable('it has text that is not Unicode (a lone surrogate)')
  return JSON.stringify(text)
}

function byUnits(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

function unwritable(problem: string): SallyportError {
  return new SallyportError('question_invalid', `what is asked cannot be put to the operator: ${problem}`)
}
