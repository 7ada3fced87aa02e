import { join } from 'node:path'
import type { EntryFilter } from '../audit/audit.ts'
import { SallyportError } from '../kernel/errors.ts'
import { homeOf, type Io } from './command.ts'

/** The flags that choose events. */
export const FILTER_FLAGS = {
  session: { type: 'string' },
  workspace: { type: 'string' },
  event: { type: 'string', multiple: true },
  decision: { type: 'string' },
  host: { type: 'string' },
  code: { type: 'string' },
  text: { type: 'string' },
  since: { type: 'string' },
  until: { type: 'string' },
} as const

export const FILTER_USAGE = `  --session ID        of this session: its own chains and what the controller says of it; id or name
  --workspace PATH    of this workspace: its path, or the last part of it
  --event NAME        of this kind; may be given several times
  --decision WORD     allow or deny
  --host NAME         about this host; "*.example.com" for those below one
  --code CODE         with this code (docs/ERRORS.md)
  --text TEXT         with this text anywhere in its line
  --since TIME        from then on: 2026-01-31, 2026-01-31T12:00:00Z, or how long ago: 90s, 15m, 24h, 7d
  --until TIME        up to then, the same
`

type Values = { readonly [K in keyof typeof FILTER_FLAGS]?: K extends 'event' ? string[] | undefined : string | undefined }

/** @throws usage */
export function parseFilter(values: Values, nowMs: number): EntryFilter {
  const { session, workspace, event, decision, host, code, text, since, until } = values
  if (decision !== undefined && decision !== 'allow' && decision !== 'deny')
    throw new SallyportError('usage', `--decision "${decision}" is none`, { hint: 'it is allow or deny' })
  return {
    session,
    workspace,
    event,
    decision,
    host,
    code,
    text,
    sinceMs: timeOf('--since', since, nowMs),
    untilMs: timeOf('--until', until, nowMs),
  }
}

const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

function timeOf(flag: string, text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  if (count !== undefined) return nowMs - Number(count) * (UNITS_MS[unit] ?? 0)
  // Without a zone it is UTC, as all times of an audit are.
  const [, day, time, zone] = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[+-]\d\d:\d\d)?)?$/.exec(text) ?? []
  const timeMs = day === undefined ? Number.NaN : Date.parse(`${day}T${time ?? '00:00'}${zone ?? 'Z'}`)
  if (Number.isFinite(timeMs)) return timeMs
  throw new SallyportError('usage', `${flag} "${text}" is no time`, { hint: 'write 2026-01-31, 2026-01-31T12:00:00Z or 24h' })
}

/** @throws usage */
export function parseCount(flag: string, text: string | undefined, byDefault: number, max: number): number {
  if (text === undefined) return byDefault
  const count = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (count >= 1 && count <= max) return count
  throw new SallyportError('usage', `${flag} "${text}" is no number from 1 to ${max}`)
}

/** Where the audit is: what was named, or that of the home. */
export function auditPath(named: string | undefined, env: Io['env']): string {
  return named ?? join(homeOf(env), 'audit')
}
