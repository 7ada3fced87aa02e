import { signal } from '@preact/signals'

/** Now, by the second, for all that counts. */
export const now = signal(Date.now())
setInterval(() => (now.value = Date.now()), 1_000)

// As ISO 8601 has it, with a space.
const STAMP = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium' })

/** As `2026-05-04 13:02:01`, in the time of this place. */
export function stamp(at: number): string {
  return STAMP.format(at)
}

/** A time as it is written; its title has the time zone. */
export function At({ at }: { at: number }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={new Date(at).toString()}>
      {stamp(at)}
    </time>
  )
}

/** How long ago, or how far ahead, in words; the exact time is in its title. It counts on in silence, in a live region too. */
export function Ago({ at }: { at: number }) {
  return (
    <time aria-live="off" dateTime={new Date(at).toISOString()} title={stamp(at)}>
      {distance(at - now.value)}
    </time>
  )
}

const STEPS = [
  ['second', 60],
  ['minute', 60],
  ['hour', 24],
  ['day', Infinity],
] as const
const format = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })

/** @param ms negative for what is past */
export function distance(ms: number): string {
  let value = ms / 1_000
  for (const [unit, size] of STEPS) {
    if (Math.abs(value) < size) return format.format(Math.round(value), unit)
    value /= size
  }
  return ''
}

/** As `1 h 02 min`, of how long something took or takes. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, '0')} s`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, '0')} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`
}

/** As `1.4 MB`. */
export function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let value = count
  let at = 0
  for (; value >= 1_000 && at < units.length - 1; at += 1) value /= 1_000
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at] ?? ''}`
}
