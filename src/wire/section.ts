import type { Mark, ShownText } from '../kernel/shown-text.ts'

/** What is shown under one label. Its lines hold nothing that could be anything but text. */
export type Section = {
  readonly name: string
  readonly label: string
  readonly lines: readonly string[]
  readonly isWarning?: boolean
  /** What about its texts could deceive. */
  readonly marks?: readonly Mark[]
}

/** A section whose texts are somebody else's, each with words of ours before it. */
export function shown(name: string, label: string, texts: readonly (readonly [before: string, text: ShownText])[]): Section {
  const marks = [...new Set(texts.flatMap(([, text]) => text.marks))]
  const lines = texts.flatMap(([before, { lines: own, spelled }]) => [
    ...own.map((line, index) => `${index === 0 ? before : ' '.repeat(before.length)}${line}`),
    ...(spelled === undefined ? [] : [`${' '.repeat(before.length)}in ASCII: ${spelled}`]),
  ])
  return { name, label, lines, ...(marks.length > 0 && { marks }) }
}

/** A section whose words are all ours. */
export function plain(name: string, label: string, lines: readonly string[], isWarning = false): Section {
  return { name, label, lines, ...(isWarning && { isWarning }) }
}
