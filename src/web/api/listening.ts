import { signal } from '@preact/signals'
import { call } from './client.ts'

/**
 * Whether this tab reads the feed. A browser has six connections to a host: of the tabs that nobody sees one listens, for all of them, and
 * of windows beside each other those that were used last.
 */
export const listens = signal(true)

const HIDDEN_LOCK = 'sallyport-listens-hidden'
const VISIBLE_LOCK = 'sallyport-visible'
/** One for each window that listens while it is seen. With a hidden tab that leaves two connections for calls. */
const WINDOW_LOCKS = ['sallyport-listens-1', 'sallyport-listens-2', 'sallyport-listens-3'] as const
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
      void hold(VISIBLE_LOCK, 'shared', held.signal)
      void takeWindow(held.signal)
    } else void takeTurn(held.signal)
  }
  const onFocus = (): void => void (listens.value || look())
  document.addEventListener('visibilitychange', look)
  addEventListener('focus', onFocus)
  look()
  return () => {
    document.removeEventListener('visibilitychange', look)
    removeEventListener('focus', onFocus)
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

/** Where all are taken, the window that is used takes one from another, and the others wait for one. */
async function takeWindow(until: AbortSignal): Promise<void> {
  for (const name of WINDOW_LOCKS) if (await holdWindow(name, until, { ifAvailable: true })) return
  const one = WINDOW_LOCKS[Math.floor(performance.now()) % WINDOW_LOCKS.length] ?? WINDOW_LOCKS[0]
  if (document.hasFocus() && (await holdWindow(one, until, { steal: true }))) return
  await waitForWindow(until)
}

async function waitForWindow(until: AbortSignal): Promise<void> {
  if (until.aborted) return
  listens.value = false
  const found = new AbortController()
  const bound = AbortSignal.any([until, found.signal])
  await Promise.race(WINDOW_LOCKS.map((name) => holdWindow(name, until, { signal: bound })))
  found.abort()
}

/** Resolves with whether this tab has the lock, which it keeps until the signal, or until another takes it. */
async function holdWindow(name: string, until: AbortSignal, options: LockOptions): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  let isHeld = false
  navigator.locks
    .request(name, options, async (lock) => {
      // Who waits may be given two at once.
      const isWanted = options.signal === undefined || !listens.value
      isHeld = lock !== null && !until.aborted && isWanted
      resolve(isHeld)
      if (!isHeld) return
      listens.value = true
      await new Promise((done) => until.addEventListener('abort', done))
    })
    .catch((error: unknown) => {
      resolve(false)
      if (!(error instanceof DOMException)) throw error
      if (isHeld && !until.aborted) void waitForWindow(until)
    })
  return await promise
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
