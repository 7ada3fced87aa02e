import { computed } from '@preact/signals'
import { ACTIVITY_DECISIONS, ACTIVITY_LANES, ACTIVITY_PLANES, type ActivityFilter } from '../../wire/activity.ts'
import { hrefOf, route } from '../shell/route.ts'

const NAMES = ['session', 'host', 'decision', 'credential', 'lane', 'plane'] as const
export type FilterName = (typeof NAMES)[number]
/** What all of a kind is called in the address, where what is shown at first is not all. */
const ALL = 'all'
const CLOSED: Readonly<Partial<Record<FilterName, readonly string[]>>> = {
  decision: ACTIVITY_DECISIONS,
  lane: ACTIVITY_LANES,
  plane: [...ACTIVITY_PLANES, ALL],
}

/** What the address asks for. What it may not ask for counts as not asked. */
export const filter = computed<ActivityFilter & { readonly isNarrow: boolean }>(() => {
  const wanted = queryOf()
  const plane = wanted.plane ?? 'agent'
  const { plane: _plane, ...others } = wanted
  return { ...others, ...(plane !== ALL && { plane }), isNarrow: Object.keys(others).length > 0 }
})

export const shownPlane = computed(() => queryOf().plane ?? 'agent')

/** The request whose panel is open. */
export const opened = computed<{ readonly session: string; readonly request: string } | undefined>(() => {
  const [session, request] = route.value.rest
  return session === undefined || request === undefined ? undefined : { session, request }
})

function queryOf(): Partial<Record<FilterName, string>> {
  const found: Partial<Record<FilterName, string>> = {}
  for (const name of NAMES) {
    const value = route.value.query.get(name)
    const allowed = CLOSED[name]
    if (value !== null && value !== '' && (allowed === undefined || allowed.includes(value))) found[name] = value
  }
  return found
}

/** Puts filters into the address, without a step of the history for each letter that is typed. */
export function setFilter(change: Partial<Record<FilterName, string>>): void {
  const next = { ...queryOf(), ...change }
  replace(route.value.rest, next)
}

export function clearFilters(): void {
  const { plane } = queryOf()
  replace(route.value.rest, plane === undefined ? {} : { plane })
}

export function open(session: string, request: string): void {
  replace([session, request], queryOf())
}

export function close(): void {
  replace([], queryOf())
}

function replace(rest: readonly string[], query: Partial<Record<FilterName, string>>): void {
  const said = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''))
  location.replace(hrefOf('activity', rest, said))
}
