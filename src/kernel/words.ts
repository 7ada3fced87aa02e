/** A word of a line. `isPlain`: nothing in it was quoted or escaped. */
export type LineWord = { readonly text: string; readonly isPlain: boolean }

/** What a shell would do more with than take it as it is. */
const ACTIVE = new Set(';|&<>()$`\n\r*?[]{}')
/** The same, where a word begins; the tilde also after the signs of an assignment and a list of paths. */
const ACTIVE_AT_START = new Set('!#~')
/** What a backslash between double quotes takes its meaning from. */
const ESCAPED_IN_DOUBLE = new Set('"\\$`')

/**
 * Splits a line into words as a POSIX shell would where nothing in it is more than words: spaces, quotes and backslashes
 * (XCU §2.2). Anything else that a shell reads, as an operator, an expansion, a pattern, an assignment before a command or a line
 * end, even in quotes, is not a line of words.
 * @param plain characters that stand for themselves here
 * @returns the words, or what is more than that
 */
export function readWords(line: string, plain = ''): readonly LineWord[] | string {
  const words: LineWord[] = []
  let text: string | undefined
  let isPlain = true
  for (let at = 0; at < line.length; at += 1) {
    const char = line.charAt(at)
    if (/[\0\r\n]/.test(char)) return describe(char)
    if (char === ' ' || char === '\t') {
      if (text !== undefined) words.push({ text, isPlain })
      text = undefined
      isPlain = true
    } else if (char === "'") {
      const end = line.indexOf("'", at + 1)
      if (end === -1) return "a ' without its end"
      const inner = line.slice(at + 1, end)
      if (/[\0\r\n]/.test(inner)) return 'a line end between quotes'
      text = (text ?? '') + inner
      isPlain = false
      at = end
    } else if (char === '"') {
      const read = readDouble(line, at + 1)
      if (typeof read === 'string') return read
      text = (text ?? '') + read.text
      isPlain = false
      at = read.end
    } else if (char === '\\') {
      const next = line.charAt(at + 1)
      if (next === '' || /[\0\r\n]/.test(next)) return 'a backslash at the end of a line'
      text = (text ?? '') + next
      isPlain = false
      at += 1
    } else if (isActive(char, text) && !plain.includes(char)) {
      return describe(char)
    } else {
      text = (text ?? '') + char
    }
  }
  if (text !== undefined) words.push({ text, isPlain })
  return words
}

/** The line that `readWords` reads as these words. They have no NUL, CR or LF. */
export function quoteWords(words: readonly string[]): string {
  return words.map(quoteWord).join(' ')
}

function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

function readDouble(line: string, start: number): { text: string; end: number } | string {
  let text = ''
  for (let at = start; at < line.length; at += 1) {
    const char = line.charAt(at)
    if (char === '"') return { text, end: at }
    if (/[\0\r\n]/.test(char)) return 'a line end between quotes'
    if (char === '$' || char === '`' || char === '!') return `${describe(char)} between double quotes`
    if (char === '\\' && ESCAPED_IN_DOUBLE.has(line.charAt(at + 1))) {
      at += 1
      text += line.charAt(at)
    } else {
      text += char
    }
  }
  return 'a " without its end'
}

function isActive(char: string, before: string | undefined): boolean {
  return ACTIVE.has(char) || (ACTIVE_AT_START.has(char) && before === undefined) || (char === '~' && /[=:]$/.test(before ?? ''))
}

function describe(char: string): string {
  if (char === '\n' || char === '\r') return 'a line end'
  return char === '\0' ? 'a NUL' : `"${char}"`
}
