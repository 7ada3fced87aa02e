import { SallyportError } from '../kernel/errors.ts'

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }
/** A date, and a time with its zone: one without would be read as that of wherever this runs. */
const DATE = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2}))?$/

/** When something ends, in milliseconds since 1970: a time from now (90m, 12h, 30d) or a date. @throws usage */
export function parseExpiry(text: string, now: number): number {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  const at = count === undefined ? (DATE.test(text) ? Date.parse(text) : Number.NaN) : now + Number(count) * (UNITS[unit] ?? 0)
  if (at > now) return at
  throw new SallyportError('usage', `--expires "${text}" is no time to come`, {
    hint: 'write 90m, 12h, 30d, or a date as 2031-05-01 or 2031-05-01T12:00Z',
  })
}
