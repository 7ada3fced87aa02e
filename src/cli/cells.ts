/**
 * Columns that text takes on a terminal, at most. Terminals do not agree on what is wide (emoji, CJK, new characters): from Hangul Jamo
 * (U+1100) on, where wide characters begin, each counts as two, so that no terminal shows more than is counted. The text has no control
 * or format characters: it is visible (`src/kernel/visible.ts`).
 */
export function cellsOf(text: string): number {
  let cells = 0
  for (const char of text) cells += cellsOfChar(char)
  return cells
}

/**
 * The text in lines of so many columns, none of it left out. An empty text is one empty line.
 * @param columns 2 or more, as one character may take two
 */
export function wrapped(text: string, columns: number): string[] {
  const lines: string[] = []
  let line = ''
  let cells = 0
  for (const char of text) {
    const width = cellsOfChar(char)
    if (cells + width > columns && line !== '') {
      lines.push(line)
      line = ''
      cells = 0
    }
    line += char
    cells += width
  }
  return [...lines, line]
}

/** One line of so many columns, with the mark at its end where something is left out. */
export function clipped(text: string, columns: number, mark: string): string {
  if (cellsOf(text) <= columns) return text
  let room = columns - cellsOf(mark)
  if (room < 0) return ''
  let kept = ''
  for (const char of text) {
    room -= cellsOfChar(char)
    if (room < 0) break
    kept += char
  }
  return `${kept}${mark}`
}

function cellsOfChar(char: string): number {
  return (char.codePointAt(0) ?? 0) >= 0x1100 ? 2 : 1
}
