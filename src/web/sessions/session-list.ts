import { signal } from '@preact/signals'
import type { SessionView } from '../../wire/operator.ts'
import { hear } from '../api/feed.ts'

/** Every session that the daemon remembers; undefined until it said so. */
export const sessionList = signal<readonly SessionView[] | undefined>(undefined)

export function keepSessions(): () => void {
  return hear('sessions', (all) => (sessionList.value = all), { sticky: true })
}
