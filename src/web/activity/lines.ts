import { computed, signal } from '@preact/signals'
import type { ActivityBatch, ActivityLine, ActivityPage } from '../../wire/activity.ts'
import { call, Problem } from '../api/client.ts'
import { hear } from '../api/feed.ts'

/** Lines that the page keeps: as many as the daemon does. */
const LINES_MAX = 10_000
const PAGE_LINES = 1_000

/** Newest first. */
export const lines = signal<readonly ActivityLine[]>([])
export const isLoaded = signal(false)
export const loadProblem = signal<Problem | undefined>(undefined)
/** Lines that the daemon could not tell, since there were too many. */
export const missed = signal(0)

/** Stands still: what came after this line is counted, not shown. */
const heldAt = signal<number | undefined>(undefined)
export const isHeld = computed(() => heldAt.value !== undefined)
export const shownLines = computed(() => {
  const at = heldAt.value
  return at === undefined ? lines.value : lines.value.slice(newerThan(lines.value, at))
})
export const heldBack = computed(() => (heldAt.value === undefined ? 0 : newerThan(lines.value, heldAt.value)))

export function hold(): void {
  heldAt.value ??= lines.value[0]?.n ?? 0
}

export function release(): void {
  heldAt.value = undefined
}

/** Reads what there is and hears of what comes, for as long as the view is shown. */
export function keepLines(): () => void {
  let stop = new AbortController()
  const read = (): void => {
    stop.abort()
    stop = new AbortController()
    release()
    lines.value = []
    missed.value = 0
    void readAll(stop.signal)
  }
  const forget = hear('activity', (batch) => {
    // The stream began anew, perhaps of another daemon.
    if (batch.begins === true) read()
    else takeBatch(batch)
  })
  read()
  return () => {
    stop.abort()
    forget()
  }
}

async function readAll(stop: AbortSignal): Promise<void> {
  try {
    let before: number | undefined
    do {
      const query = new URLSearchParams({ limit: String(PAGE_LINES), ...(before !== undefined && { before: String(before) }) })
      const page: ActivityPage = await call('GET', `/v1/activity?${query.toString()}`, undefined, stop)
      if (stop.aborted) return
      lines.value = joined(lines.value, page.lines)
      isLoaded.value = true
      loadProblem.value = undefined
      before = page.before
    } while (before !== undefined && lines.value.length < LINES_MAX)
  } catch (error) {
    if (stop.aborted) return
    if (!(error instanceof Problem)) throw error
    loadProblem.value = error
  }
}

function takeBatch(batch: ActivityBatch): void {
  missed.value += batch.missed
  lines.value = joined(lines.value, batch.lines)
}

/** Both, newest first, each line once: as it is over, where one of the two knows it so. */
export function joined(before: readonly ActivityLine[], more: readonly ActivityLine[]): readonly ActivityLine[] {
  if (more.length === 0) return before
  const newer = new Map(more.map((line) => [line.n, line]))
  const kept = before.map((line) => {
    const other = newer.get(line.n)
    if (other === undefined) return line
    newer.delete(line.n)
    return other.state === 'open' && line.state !== 'open' ? line : other
  })
  const added = [...newer.values()].toSorted((a, b) => b.n - a.n)
  const first = kept[0]?.n ?? 0
  const last = kept.at(-1)?.n ?? 0
  const isBetween = added.some(({ n }) => n < first && n > last)
  const all = isBetween
    ? [...added, ...kept].toSorted((a, b) => b.n - a.n)
    : [...added.filter(({ n }) => n > first), ...kept, ...added.filter(({ n }) => n <= first)]
  return all.slice(0, LINES_MAX)
}

/** How many lines at the beginning are newer. */
function newerThan(all: readonly ActivityLine[], n: number): number {
  const at = all.findIndex((line) => line.n <= n)
  return at === -1 ? all.length : at
}
