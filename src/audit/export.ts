import type { Entry } from './entries.ts'
import { syslogMessage } from './syslog.ts'

export const EXPORT_FORMATS = ['jsonl', 'csv', 'syslog'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

/** Columns of a table, in order; members that have none are in `other`, as JSON. */
const COLUMNS: readonly string[] = (
  'time seq session workspace role agent event request question of state decision code rule ' +
  'lane network plane scheme host port method path status address bytes_up bytes_down duration_ms credential secret by tier digest hash'
).split(' ')
const KNOWN: ReadonlySet<string> = new Set(COLUMNS)

/**
 * How events are written for other programs: `jsonl` are the lines as they are, so that their hashes still hold; `csv` by RFC 4180 with a line of
 * names; `syslog` messages of RFC 5424, one a line. All of it printable ASCII.
 */
export function exporterOf(format: ExportFormat, hostname: string): { readonly head: string; readonly encode: (entry: Entry) => string } {
  switch (format) {
    case 'jsonl':
      return { head: '', encode: ({ line }) => `${ascii(line)}\n` }
    case 'csv':
      return { head: `${['chain', ...COLUMNS, 'other'].join(',')}\r\n`, encode: csvRow }
    case 'syslog':
      return { head: '', encode: ({ line }) => `${syslogMessage(ascii(line), hostname, 0).replace(' sallyport 0 ', ' sallyport - ')}\n` }
  }
}

function csvRow({ chain, fields }: Entry): string {
  const other = Object.entries(fields).filter(([name]) => !KNOWN.has(name) && name !== 'prev')
  const cells = [chain, ...COLUMNS.map((name) => fields[name]), other.length === 0 ? undefined : JSON.stringify(Object.fromEntries(other))]
  return `${cells.map(csvCell).join(',')}\r\n`
}

/** A cell that a spreadsheet would calculate is text for it with an apostrophe before it (CWE-1236). */
function csvCell(value: unknown): string {
  if (value === undefined) return ''
  if (typeof value === 'number') return String(value)
  const text = ascii(typeof value === 'string' ? value : JSON.stringify(value))
  return `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`
}

/** Nothing that moves a cursor, turns text around or begins a line of its own. */
function ascii(text: string): string {
  return text.replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
