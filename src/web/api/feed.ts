import { effect, signal } from '@preact/signals'
import { OPERATOR_LIMITS } from '../../kernel/operator-limits.ts'
import type { FeedLine, FeedTopic, FeedTopics } from '../../wire/feed.ts'
import { access, send } from './client.ts'
import { eventsOf } from './events.ts'
import { keepListening, listens } from './listening.ts'

/** How the page hears of what happens. */
export const connection = signal<'connecting' | 'live' | 'lost'>('connecting')

const PAUSES_MS = [250, 1_000, 2_000, 5_000] as const
/** Without a line for so long the daemon hangs. */
const SILENCE_MS = 3 * OPERATOR_LIMITS.feedAliveMs
const readers = new Map<FeedTopic, Set<(data: never) => void>>()
const last = new Map<FeedTopic, unknown>()

/**
 * Hears of one topic from now on, and of what was told last where the topic tells a whole (`sticky`). One stream a tab carries all of
 * them: a browser has six connections to a host, for all tabs together. The answer stops it.
 */
export function hear<T extends FeedTopic>(
  topic: T,
  tell: (data: FeedTopics[T]) => void,
  options?: { readonly sticky: boolean },
): () => void {
  const all = readers.get(topic) ?? new Set()
  readers.set(topic, all)
  all.add(tell)
  if (options?.sticky === true && last.has(topic)) tell(last.get(topic) as FeedTopics[T])
  return () => void all.delete(tell)
}

/** Reads the feed for as long as this tab is let in, and is one that listens. */
export function keepFeed(): () => void {
  const stopListening = effect(() => (access.value === 'in' ? keepListening() : undefined))
  const stopReading = effect(() => {
    if (access.value !== 'in' || !listens.value) return undefined
    const stop = new AbortController()
    connection.value = 'connecting'
    void readOn(stop.signal)
    return () => stop.abort()
  })
  return () => {
    stopReading()
    stopListening()
  }
}

async function readOn(stop: AbortSignal): Promise<void> {
  for (let failures = 0; !stop.aborted; failures += 1) {
    const silent = new AbortController()
    let silence: ReturnType<typeof setTimeout> | undefined
    const heard = (): void => {
      clearTimeout(silence)
      silence = setTimeout(() => silent.abort(), SILENCE_MS)
    }
    heard()
    try {
      const { body } = await send('GET', '/v1/feed', undefined, AbortSignal.any([stop, silent.signal]))
      if (body === null) throw new TypeError('the feed has no body')
      for await (const line of eventsOf(body)) {
        heard()
        connection.value = 'live'
        failures = 0
        const { topic, data } = line as Partial<FeedLine>
        if (topic === undefined) continue
        last.set(topic, data)
        for (const tell of readers.get(topic) ?? []) tell(data as never)
      }
    } catch (error) {
      if (stop.aborted) return
      if (!(error instanceof Error)) throw error
    } finally {
      clearTimeout(silence)
    }
    connection.value = 'lost'
    const pause = PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)] ?? 5_000
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}
