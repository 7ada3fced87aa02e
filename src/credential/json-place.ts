import { visit, type JSONVisitor } from 'jsonc-parser'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'

/** Where a pointer leads in a JSON text, by offsets into it. */
export type JsonPlace =
  | { readonly kind: 'value'; readonly start: number; readonly end: number; readonly isString: boolean }
  /** The object is there and has no such member: it would begin at `at`. */
  | { readonly kind: 'member'; readonly at: number; readonly key: string; readonly isFirst: boolean }
  | { readonly kind: 'none' }

/** What is open around the place that is read. `matched` is how many tokens of the pointer lead here; -1 off the way. */
type Level = { readonly matched: number; readonly isArray: boolean; index: number; members: number; key: string; isMet: boolean }

/**
 * Finds the value at a pointer (RFC 6901, its tokens unescaped) in a whole JSON text (RFC 8259), without building it.
 * @throws body_unfit for a text that is no JSON or nested too deep, and for a name on the way that is there twice, in whatever case:
 * readers take the first, the last, or the one that matches their field without case
 */
export function locate(text: string, pointer: readonly string[]): JsonPlace {
  const levels: Level[] = []
  let place: JsonPlace = { kind: 'none' }

  /** How many tokens of the pointer lead to the value that begins now. */
  const matchedHere = (): number => {
    const level = levels.at(-1)
    if (level === undefined) return 0
    const token = level.isArray ? String(level.index) : level.key
    return level.matched >= 0 && level.matched < pointer.length && pointer[level.matched] === token ? level.matched + 1 : -1
  }
  const setValue = (start: number, end: number, isString: boolean): void => {
    place = { kind: 'value', start, end, isString }
  }
  const begin = (isArray: boolean): void => {
    if (levels.length >= LIMITS.jsonDepthMax) throw unfit(`is nested deeper than ${LIMITS.jsonDepthMax} levels`)
    levels.push({ matched: matchedHere(), isArray, index: 0, members: 0, key: '', isMet: false })
  }
  const starts: number[] = []
  const end = (offset: number, length: number): void => {
    const level = levels.pop()
    const start = starts.pop() ?? 0
    if (level?.matched === pointer.length) setValue(start, offset + length, false)
    const isParent = level?.matched === pointer.length - 1 && !level.isArray && !level.isMet
    const key = pointer.at(-1)
    if (isParent && key !== undefined) place = { kind: 'member', at: offset, key, isFirst: level.members === 0 }
  }
  const visitor: JSONVisitor = {
    onObjectBegin(offset) {
      begin(false)
      starts.push(offset)
    },
    onArrayBegin(offset) {
      begin(true)
      starts.push(offset)
    },
    onObjectEnd: end,
    onArrayEnd: end,
    onObjectProperty(name) {
      const level = levels.at(-1)
      if (level === undefined) return
      level.members += 1
      level.key = name
      const token = level.matched < 0 ? undefined : pointer[level.matched]
      if (token === undefined || folded(name) !== folded(token)) return
      if (level.isMet || name !== token) throw unfit('has a name on the way to the place twice, or in another case')
      level.isMet = true
    },
    onLiteralValue(value: unknown, offset, length) {
      if (matchedHere() === pointer.length) setValue(offset, offset + length, typeof value === 'string')
    },
    onSeparator(character) {
      const level = levels.at(-1)
      if (level?.isArray === true && character === ',') level.index += 1
    },
    onError() {
      throw unfit('is not JSON')
    },
  }
  visit(text, visitor, { disallowComments: true, allowTrailingComma: false, allowEmptyContent: false })
  return place
}

/** As readers fold names that compare them without case: the long s and the Kelvin sign are letters to them. */
function folded(name: string): string {
  return name.toUpperCase().toLowerCase()
}

function unfit(problem: string): SallyportError {
  return new SallyportError('body_unfit', `the body cannot take its credential: it ${problem}`, {
    hint: 'send a body that every reader of JSON takes for the same',
  })
}
