import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { SessionStats } from '../../wire/session-facts.ts'
import { call } from '../api/client.ts'

const EVERY_MS = 3_000

/** What agents use, as it was told last. */
export const stats = signal<SessionStats>({})

/** Asks again and again for as long as who uses it is shown, and the tab with it. */
export function useStats(): void {
  useEffect(() => {
    const stop = new AbortController()
    void askOn(stop.signal)
    return () => stop.abort()
  }, [])
}

async function askOn(stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    // What is missed now is told the next time.
    if (!document.hidden) stats.value = await call<SessionStats>('GET', '/v1/stats', undefined, stop).catch(() => stats.value)
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS))
  }
}
