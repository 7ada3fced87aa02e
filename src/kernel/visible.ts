/** What shows as nothing, as something else or turns the text around it: control, format, private and unassigned characters, odd spaces. */
const UNSEEN = /[^\P{C}\n]|\p{Default_Ignorable_Code_Point}|[^\P{Z} ]|\u2800/gu

/** Text of somebody else for the operator's terminal: every line end is kept, and what could not be seen is written as `\u{202E}`. CVE-2021-42574 */
export function visible(text: string): string {
  return text.replace(UNSEEN, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`)
}
