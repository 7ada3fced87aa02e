import { visible } from '../../kernel/visible.ts'

/** Lines that are kept, what they may have together, and one of them: the oldest give way, and a longer line is cut and says so. */
export const LOG_LINES_MAX = 20_000
const LOG_CHARS_MAX = 8_000_000
const LINE_CHARS_MAX = 4_096

export type LogLine = { readonly number: number; readonly text: string }

/** The sequences that pass the filter of what is shown in lines: colours, and erasing to the right. */
// oxlint-disable-next-line no-control-regex -- escape sequences are what it finds
const SEQUENCES = /\x1b(?:\[[\d;:?]*[ -/]*[@-~]|[()*+][\dA-Za-z]|[=>78])/g

/** What a program printed, as lines, in bounds whatever it prints. */
export type LogLines = {
  push(text: string): void
  /** The same array until there is more. */
  lines(): readonly LogLine[]
  /** How many gave way. */
  readonly left: number
}

export function createLogLines(): LogLines {
  let kept: LogLine[] = []
  let chars = 0
  let count = 0
  let left = 0
  // Of the line that has not ended: its beginning, and how much longer it is.
  let open = ''
  let beyond = 0
  let shown: readonly LogLine[] | undefined
  const textOf = (): string => {
    // A carriage return has the line written anew: what counts is what it shows in the end.
    const last = open.replace(/\r+$/, '')
    const text = last.slice(last.lastIndexOf('\r') + 1).replace(SEQUENCES, '')
    return beyond === 0 ? text : `${text} … (${beyond} more characters)`
  }
  const add = (piece: string): void => {
    const room = Math.max(0, LINE_CHARS_MAX - open.length)
    open += piece.slice(0, room)
    beyond += Math.max(0, piece.length - room)
  }
  return {
    push(text) {
      shown = undefined
      const pieces = text.split('\n')
      for (const [at, piece] of pieces.entries()) {
        add(piece)
        if (at === pieces.length - 1) break
        count += 1
        const line = { number: count, text: textOf() }
        kept.push(line)
        chars += line.text.length
        open = ''
        beyond = 0
      }
      let drop = Math.max(0, kept.length - LOG_LINES_MAX)
      for (let at = 0; at < drop; at += 1) chars -= kept[at]?.text.length ?? 0
      for (; chars > LOG_CHARS_MAX && drop < kept.length; drop += 1) chars -= kept[drop]?.text.length ?? 0
      if (drop === 0) return
      left += drop
      kept = kept.slice(drop)
    },
    lines() {
      shown ??= open === '' ? [...kept] : [...kept, { number: count + 1, text: textOf() }]
      return shown
    },
    get left() {
      return left
    },
  }
}

export type LogRow = { readonly key: string; readonly number: number | undefined; readonly text: string }

/** Breaks lines into rows of one height: each is one, or as many as its text needs in so many columns. What could not be seen is written out. */
export function createRows(columns: number | undefined): (lines: readonly LogLine[]) => LogRow[] {
  // A log that grows keeps its lines: each is broken once.
  const known = new WeakMap<LogLine, readonly LogRow[]>()
  const rowsOf = (line: LogLine): readonly LogRow[] => {
    const text = visible(line.text.replaceAll('\t', '    '))
    const pieces = columns === undefined ? [text] : piecesOf(text, columns)
    const rows = pieces.map((piece, at) => ({ key: `${line.number}.${at}`, number: at === 0 ? line.number : undefined, text: piece }))
    known.set(line, rows)
    return rows
  }
  return (lines) => lines.flatMap((line) => known.get(line) ?? rowsOf(line))
}

function piecesOf(text: string, columns: number): string[] {
  const pieces: string[] = []
  let piece = ''
  let width = 0
  for (const character of text) {
    const cells = isWide(character) ? 2 : 1
    if (width + cells > columns && piece !== '') {
      pieces.push(piece)
      piece = ''
      width = 0
    }
    piece += character
    width += cells
  }
  pieces.push(piece)
  return pieces
}

/** Unicode Standard Annex #11, roughly: what takes two cells of a font whose others take one. */
function isWide(character: string): boolean {
  return (
    (character.codePointAt(0) ?? 0) >= 0x1100 &&
    /\p{Script=Han}|\p{Script=Hangul}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Emoji_Presentation}|[\uFF01-\uFF60]/u.test(character)
  )
}
