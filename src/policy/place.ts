import type { Place } from './model.ts'

/** `file:line`, as messages name a place. */
export function formatPlace(place: Place): string {
  return place.line === 0 ? place.file : `${place.file}:${place.line}`
}
