import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { APPROVAL_LIMITS } from '../../kernel/approval-limits.ts'

/** Why a yes is not taken, or that it is. */
export type Armed = 'loading' | 'away' | 'unread' | 'soon' | 'armed'

export type Arming = {
  readonly state: Armed
  /** A press of a button began, by pointer or key. */
  readonly begin: () => void
  /** Whether the press that ends now is taken: one that began before it would have been is not. */
  readonly take: () => boolean
  /** Whether a yes is taken now. */
  readonly isTaken: () => boolean
}

export const ARMED_WORDS: Readonly<Record<Armed, string>> = {
  loading: 'What is asked is being read.',
  away: 'This window is not in front.',
  unread: 'There is more: scroll to the end before you allow it.',
  soon: 'A moment.',
  armed: '',
}

/** As long as the daemon itself takes no answer. */
const ARM_MS = APPROVAL_LIMITS.debounceMs
const EDGE_PIXELS = 1

/**
 * I78: Says when a yes is taken: what is asked was there to its end, in a window that is in front, for `ARM_MS` without a change. Whatever
 * changes begins that time anew, so that a key or click that was meant for something else allows nothing.
 * @param content all that there is to see, undefined while it is not there
 * @param end what comes after the last of it
 */
export function useArming(content: string | undefined, end: RefObject<HTMLElement | null>): Arming {
  const [state, setState] = useState<Armed>('loading')
  // What is drawn may be a moment behind; what decides is here.
  const now = useRef<{ state: Armed; epoch: number; began: number | undefined }>({ state: 'loading', epoch: 0, began: undefined })

  useEffect(() => {
    const element = end.current
    const own = now.current
    const set = (next: Armed): void => {
      own.state = next
      setState(next)
    }
    if (content === undefined || element === null) {
      own.epoch += 1
      set('loading')
      return undefined
    }
    let timer: ReturnType<typeof setTimeout> | undefined
    const begin = (): void => {
      clearTimeout(timer)
      own.epoch += 1
      const next = !isInFront() ? 'away' : isSeen(element) ? 'soon' : 'unread'
      set(next)
      if (next === 'soon') timer = setTimeout(() => (isInFront() && isSeen(element) ? set('armed') : begin()), ARM_MS)
    }
    const observer = new IntersectionObserver(begin, { threshold: [0, 0.5, 1] })
    observer.observe(element)
    // What is pressed in a dialog over it was not meant for it.
    const pressed = (): void => {
      if (document.querySelector('dialog[open]') !== null) begin()
    }
    // The window's own: those of what is in it are captured too.
    const moved = ({ target }: Event): void => {
      if (target === globalThis.window) begin()
    }
    const events = [
      [globalThis, 'focus', moved],
      [globalThis, 'blur', moved],
      [document, 'visibilitychange', begin],
      [globalThis, 'keydown', pressed],
      [globalThis, 'pointerdown', pressed],
    ] as const
    for (const [target, name, listener] of events) target.addEventListener(name, listener, true)
    begin()
    return () => {
      clearTimeout(timer)
      observer.disconnect()
      for (const [target, name, listener] of events) target.removeEventListener(name, listener, true)
      own.epoch += 1
      own.state = 'loading'
    }
  }, [content, end])

  const isTaken = (): boolean => now.current.state === 'armed' && end.current !== null && isInFront() && isSeen(end.current)
  return {
    state,
    begin: () => void (now.current.began = now.current.state === 'armed' ? now.current.epoch : -1),
    take() {
      const { epoch, began = epoch } = now.current
      now.current.began = undefined
      return began === epoch && isTaken()
    },
    isTaken,
  }
}

function isInFront(): boolean {
  return document.visibilityState === 'visible' && document.hasFocus() && document.querySelector('dialog[open]') === null
}

/** Whether an element can be seen in everything that scrolls it. */
function isSeen(element: HTMLElement): boolean {
  const { top, bottom } = element.getBoundingClientRect()
  if (top < -EDGE_PIXELS || bottom > innerHeight + EDGE_PIXELS) return false
  const scroller = element.closest('.inbox-body')?.getBoundingClientRect()
  return scroller === undefined || (top >= scroller.top - EDGE_PIXELS && bottom <= scroller.bottom + EDGE_PIXELS)
}
