import { computed, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'

/** What a key does in a view. */
export type Key = {
  /** For the help, as `the next question`. */
  readonly does: string
  readonly press: () => void
  /** It answers something: a key that is held down, and so was pressed for something else, does not count. */
  readonly isAnswer?: true
}
export type Keys = Readonly<Record<string, Key>>

const held = signal<readonly { readonly current: Keys }[]>([])
const isAsked = signal(false)

/** The help with all keys of what is shown: open or not. */
export const keyHelp = {
  isOpen: isAsked,
  keys: computed(() => held.value.flatMap(({ current }) => Object.entries(current).map(([key, { does }]) => ({ key, does })))),
}

/**
 * Keys of a view, by what they type (`KeyboardEvent.key`), for as long as it is shown. They are left alone where somebody writes, in a
 * dialog, and with Control, Alt or Meta. `?` opens the help with all of them.
 */
export function useKeys(keys: Keys): void {
  const own = useRef(keys)
  own.current = keys
  useEffect(() => {
    held.value = [...held.value, own]
    return () => void (held.value = held.value.filter((one) => one !== own))
  }, [])
}

/** Listens for keys, for as long as the page is there. */
export function keepKeys(): () => void {
  addEventListener('keydown', heard)
  return () => removeEventListener('keydown', heard)
}

function heard(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return
  if (document.querySelector('dialog[open]') !== null || isTakenBy(event.composedPath()[0], event.key)) return
  if (event.key === '?') {
    event.preventDefault()
    isAsked.value = true
    return
  }
  const key = held.value.map(({ current }) => (Object.hasOwn(current, event.key) ? current[event.key] : undefined)).findLast(Boolean)
  if (key === undefined) return
  event.preventDefault()
  if (!(event.repeat && key.isAnswer === true)) key.press()
}

/** Where somebody writes every key is theirs; what can be pressed has Enter and space. */
function isTakenBy(target: EventTarget | undefined, key: string): boolean {
  if (!(target instanceof Element)) return false
  if (target.closest('input, textarea, select, [contenteditable]') !== null) return true
  return (key === 'Enter' || key === ' ') && target.closest('a[href], button, summary, [role="button"]') !== null
}
