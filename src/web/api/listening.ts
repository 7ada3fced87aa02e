import { signal } from '@preact/signals'
import { call } from './client.ts'

/** Whether this tab reads the feed. A browser has six connections to a host: of the tabs that nobody sees one listens, for all of them. */
export const listens = signal(true)

const HIDDEN_LOCK = 'sallyport-listens-hidden'
const VISIBLE_LOCK = 'sallyport-visible'
/** A tab that does not listen says so often that it is still there: its login would end as one that nobody uses. */
const STAY_MS = 600_000

/** Decides it for as long as this tab is let in. A browser without locks has each tab listen. */
export function keepListening(): () => void {
  let held = new AbortController()
  const look = (): void => {
    held.abort()
    held = new AbortController()
    if (!('locks' in navigator)) return
    if (document.visibilityState === 'visible') {
      listens.value = true
      void hold(VISIBLE_LOCK, 'shared', held.signal)
    } else void takeTurn(held.signal)
  }
  document.addEventListener('visibilitychange', look)
  look()
  return () => {
    document.removeEventListener('visibilitychange', look)
    held.abort()
    listens.value = true
  }
}

/** Whether somebody sees a tab of this page in this browser. */
export async function isSeenSomewhere(): Promise<boolean> {
  if (document.visibilityState === 'visible' || !('locks' in navigator)) return document.visibilityState === 'visible'
  const { held = [] } = await navigator.locks.query()
  return held.some(({ name }) => name === VISIBLE_LOCK)
}

async function takeTurn(until: AbortSignal): Promise<void> {
  const staying = setInterval(() => void call('GET', '/v1/status').catch(() => undefined), STAY_MS)
  until.addEventListener('abort', () => clearInterval(staying))
  // Whoever gets it has it from then on: two tabs that are hidden at once must not both find it free.
  await navigator.locks.request(HIDDEN_LOCK, { ifAvailable: true }, async (lock) => {
    if (until.aborted) return
    listens.value = lock !== null
    if (lock !== null) await ended(until)
  })
  if (!until.aborted) await hold(HIDDEN_LOCK, 'exclusive', until, () => (listens.value = true))
}

async function ended(until: AbortSignal): Promise<void> {
  if (!until.aborted) await new Promise((resolve) => until.addEventListener('abort', resolve))
}

/** Waits for a lock and has it until the signal. */
async function hold(name: string, mode: LockMode, until: AbortSignal, onHeld?: () => void): Promise<void> {
  await navigator.locks
    .request(name, { mode, signal: until }, async () => {
      onHeld?.()
      await ended(until)
    })
    .catch((error: unknown) => {
      if (!until.aborted) throw error
    })
}
