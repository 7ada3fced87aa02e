/** What shows as nothing, as something else or turns the text around it: control, format, private and unassigned characters, odd spaces. */
const UNSEEN = /[^\P{C}\n]|\p{Default_Ignorable_Code_Point}|[^\P{Z} ]|\u2800/gu

/** Text of somebody else for the operator's terminal: every line end is kept, and what could not be seen is written as `\u{202E}`. CVE-2021-42574 */
export function visible(text: string): string {
  return text.replace(UNSEEN, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`)
}

/** JSON for people and programs: the same value, with what could not be seen written as JSON escapes it. */
export function visibleJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2).replace(UNSEEN, escaped)}\n`
}

/** The same in one line. */
export function visibleJsonLine(value: unknown): string {
  return `${JSON.stringify(value).replace(UNSEEN, escaped)}\n`
}

function escaped(char: string): string {
  return char.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
