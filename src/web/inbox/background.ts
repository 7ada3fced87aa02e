import { effect, signal } from '@preact/signals'
import type { QuestionCard } from '../../wire/question-card.ts'
import { nameOf } from '../parts/exact.tsx'
import { access } from '../api/client.ts'
import { hear } from '../api/feed.ts'
import { isSeenSomewhere, listens } from '../api/listening.ts'
import { go } from '../shell/route.ts'
import { pending, pendingCount, select, waits } from './questions.ts'

/** However many questions come, so often somebody is told. */
const PAUSE_MS = 3_000
const COUNT_MAX = 99
const CHANNEL = 'sallyport-questions'
const NAME_CHARS_MAX = 80

const isHidden = signal(false)
/** How many wait, from the tab that listens. */
const told = signal(0)

/** Says in the browser that questions wait while nobody looks at the page: a number, and once the operator agreed a notification. */
export function keepBackground(): () => void {
  const channel = new BroadcastChannel(CHANNEL)
  channel.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
    if (typeof data === 'number' && !listens.value) told.value = data
  })
  look()
  document.addEventListener('visibilitychange', look)
  const notices = createNotices()
  const stops = [
    effect(() => {
      if (!listens.value) return
      told.value = pendingCount.value
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has one origin
      channel.postMessage(pendingCount.value)
    }),
    effect(() => badge(isHidden.value && access.value === 'in' ? told.value : 0)),
    effect(() => {
      if (!isHidden.value || pendingCount.value === 0) notices.clear()
    }),
    hear('questions', (news) => {
      if ('event' in news && news.event.kind === 'asked' && waits(news.event.question)) notices.asked(news.event.question)
    }),
  ]
  return () => {
    stops.forEach((stop) => stop())
    document.removeEventListener('visibilitychange', look)
    channel.close()
  }
}

function look(): void {
  isHidden.value = document.visibilityState === 'hidden'
}

/** One notification at a time, with nothing of the agent's in it. */
function createNotices() {
  let shown: Notification | undefined
  let last = -Infinity
  let timer: ReturnType<typeof setTimeout> | undefined
  const tell = async (card: QuestionCard): Promise<void> => {
    timer = undefined
    if (Notification.permission !== 'granted' || (await isSeenSomewhere()) || !pending.value.some(({ id }) => id === card.id)) return
    last = performance.now()
    const name = Array.from(nameOf(card.asker.sessionName)).slice(0, NAME_CHARS_MAX).join('')
    const count = pendingCount.value
    const body = count === 1 ? 'a question waits' : `${count} questions wait`
    const notice = new Notification(name, { body, tag: CHANNEL })
    notice.addEventListener('click', () => {
      focus()
      go('inbox')
      select(card.id)
      notice.close()
    })
    shown = notice
  }
  return {
    asked(card: QuestionCard): void {
      if (!isHidden.value || !('Notification' in globalThis) || timer !== undefined) return
      timer = setTimeout(() => void tell(card), Math.max(0, last + PAUSE_MS - performance.now()))
    },
    clear(): void {
      clearTimeout(timer)
      timer = undefined
      shown?.close()
      shown = undefined
    },
  }
}

/** The number in the title, in the icon of the tab and on the icon of an installed page. None for 0. */
function badge(count: number): void {
  const title = document.title.replace(/^\(\d+\+?\) /, '')
  const words = count > COUNT_MAX ? `${COUNT_MAX}+` : String(count)
  document.title = count === 0 ? title : `(${words}) ${title}`
  const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]')
  if (link !== null) {
    link.dataset['plain'] ??= link.href
    link.href = count === 0 ? link.dataset['plain'] : iconWith(words)
  }
  const set = count === 0 ? navigator.clearAppBadge?.() : navigator.setAppBadge?.(count)
  set?.catch(() => undefined)
}

function iconWith(words: string): string {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1f5f55"/><circle cx="16" cy="16" r="14" fill="#a51d2a"/><text x="16" y="22" font-family="sans-serif" font-weight="700" font-size="${words.length > 2 ? 13 : 17}" text-anchor="middle" fill="#fff">${words}</text></svg>`
  return `data:image/svg+xml,${encodeURIComponent(svg)}`
}
