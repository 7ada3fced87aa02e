import type { Entry } from './entries.ts'
import { visible } from '../kernel/visible.ts'

/** Text of an agent in one line: what could not be seen, and line ends, are written out. */
export function oneLine(text: string): string {
  return visible(text).replaceAll('\n', '\\u{A}')
}

/** The members of an event, and before them its chain: the one whose file it is in, whatever the line says. What it says itself is `of_chain`. */
export function membersOf({ chain, fields, line }: Entry): Record<string, unknown> {
  const { chain: own, ...known } = Object.keys(fields).length > 0 ? fields : { unreadable: line }
  return { chain, ...known, ...(own !== undefined && { of_chain: own }) }
}

/** One object of JSON in one line of printable ASCII. */
export function jsonLine(entry: Entry): string {
  return `${JSON.stringify(membersOf(entry)).replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`
}

/** Members that have a place of their own in a line, or say nothing to people. */
const PLACED: ReadonlySet<string> = new Set(['seq', 'time', 'session', 'event', 'prev', 'hash', 'signature', 'agent', 'role', 'workspace'])

/** One event in one line for people. */
export function describe(entry: Entry): string {
  const { chain, fields, line } = entry
  if (Object.keys(fields).length === 0) return `${oneLine(chain)}  (no JSON)  ${oneLine(line)}\n`
  const head = [word(fields['time']), `${oneLine(chain)}:${word(fields['seq'])}`, word(fields['event'])]
  return `${[...head, summary(fields)].join('  ').trimEnd()}\n`
}

/** What an event says besides where and when, in one line. */
export function summary(fields: Entry['fields']): string {
  switch (fields['event']) {
    case 'decided': {
      const target = `${word(fields['host'])}${fields['port'] === undefined ? '' : `:${word(fields['port'])}`}${word(fields['path'])}`
      const why = fields['code'] ?? fields['rule']
      return [fields['decision'], fields['method'], target, why === undefined ? '' : `(${word(why)})`, fields['request']]
        .map(word)
        .filter(Boolean)
        .join(' ')
    }
    case 'finished': {
      const bytes = `${word(fields['bytes_up'])} up ${word(fields['bytes_down'])} down ${word(fields['duration_ms'])} ms`
      return [fields['status'], fields['code'], bytes, fields['request']].map(word).filter(Boolean).join(' ')
    }
    default:
      return Object.entries(fields)
        .filter(([name]) => !PLACED.has(name))
        .map(([name, value]) => `${oneLine(name)}=${quoted(word(value))}`)
        .join(' ')
  }
}

function quoted(text: string): string {
  return /^[^\s"]+$/.test(text) ? text : `"${text.replaceAll('"', '\\"')}"`
}

function word(value: unknown): string {
  return value === undefined ? '' : oneLine(typeof value === 'string' ? value : JSON.stringify(value))
}

/** One event with all its members, one a line. */
export function block(entry: Entry): string {
  const members = Object.entries(membersOf(entry))
  const width = Math.max(...members.map(([name]) => name.length))
  return members.map(([name, value]) => `  ${oneLine(name).padEnd(width)}  ${word(value)}\n`).join('')
}
