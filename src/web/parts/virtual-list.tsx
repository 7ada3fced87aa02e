import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'

const BEYOND_ROWS = 8

/** One of the rows can be the one that is meant: moved by the arrows, opened by Enter or a click. The list has the focus, not the row. */
export type VirtualChoice = {
  /** Its index; -1 for none. */
  readonly active: number
  readonly onActive: (index: number) => void
  readonly onOpen: (index: number) => void
}

/** Rows of one height, of which only those that can be seen are in the document. With a `choice` it is a listbox. */
export function VirtualList<T>(props: {
  readonly items: readonly T[]
  readonly rowPixels: number
  readonly keyOf: (item: T) => string | number
  readonly row: (item: T, index: number) => ComponentChildren
  readonly label: string
  readonly class?: string
  readonly choice?: VirtualChoice
  /** Hears whether the first row is at the top. */
  readonly onTop?: (isAtTop: boolean) => void
  /** Is given the element that scrolls. */
  readonly element?: { current: HTMLDivElement | null }
}) {
  const { items, rowPixels, choice } = props
  const element = useRef<HTMLDivElement>(null)
  const id = useId()
  const [seen, setSeen] = useState({ top: 0, height: 600 })
  const look = (): void => {
    const { scrollTop: top = 0, clientHeight: height = 600 } = element.current ?? {}
    setSeen((before) => (before.top === top && before.height === height ? before : { top, height }))
    props.onTop?.(top <= 0)
  }
  const lookNow = useRef(look)
  lookNow.current = look
  useLayoutEffect(() => {
    if (props.element !== undefined) props.element.current = element.current
  })
  useLayoutEffect(() => {
    if (element.current === null) return undefined
    const observer = new ResizeObserver(() => lookNow.current())
    observer.observe(element.current)
    return () => observer.disconnect()
  }, [])
  const active = choice?.active ?? -1
  useLayoutEffect(() => keepInSight(element.current, active, rowPixels), [active, rowPixels])
  const first = Math.max(0, Math.floor(seen.top / rowPixels) - BEYOND_ROWS)
  const end = Math.min(items.length, Math.ceil((seen.top + seen.height) / rowPixels) + BEYOND_ROWS)
  const isShown = active >= first && active < end
  return (
    <div
      ref={element}
      class={`virtual ${props.class ?? ''}`}
      onScroll={look}
      tabIndex={0}
      role={choice === undefined ? 'list' : 'listbox'}
      aria-label={props.label}
      {...(choice !== undefined && {
        onKeyDown: (event: KeyboardEvent) => move(event, choice, items.length, seen.height / rowPixels),
        ...(isShown && { 'aria-activedescendant': `${id}-${active}` }),
      })}
    >
      <div class="virtual-space" role="presentation" style={{ height: `${items.length * rowPixels}px` }}>
        {items.slice(first, end).map((item, at) => (
          <div
            key={props.keyOf(item)}
            class="virtual-row"
            {...roleOf(choice, id, first + at)}
            aria-setsize={items.length}
            aria-posinset={first + at + 1}
            style={{ top: `${(first + at) * rowPixels}px`, height: `${rowPixels}px` }}
          >
            {props.row(item, first + at)}
          </div>
        ))}
      </div>
    </div>
  )
}

/** What one row is to a reader of the screen, and to the pointer. */
function roleOf(choice: VirtualChoice | undefined, id: string, index: number) {
  if (choice === undefined) return { role: 'listitem' as const }
  return { role: 'option' as const, id: `${id}-${index}`, 'aria-selected': index === choice.active, onClick: () => choice.onOpen(index) }
}

function keepInSight(element: HTMLElement | null, index: number, rowPixels: number): void {
  if (element === null || index < 0) return
  const top = index * rowPixels
  if (top < element.scrollTop) element.scrollTop = top
  else if (top + rowPixels > element.scrollTop + element.clientHeight) element.scrollTop = top + rowPixels - element.clientHeight
}

function move(event: KeyboardEvent, { active, onActive, onOpen }: VirtualChoice, count: number, rowsInSight: number): void {
  const pageRows = Math.max(1, Math.floor(rowsInSight) - 1)
  if (event.ctrlKey || event.altKey || event.metaKey || count === 0) return
  const targets: Readonly<Record<string, number>> = {
    ArrowDown: active + 1,
    ArrowUp: active - 1,
    PageDown: active + pageRows,
    PageUp: active - pageRows,
    Home: 0,
    End: count - 1,
  }
  if (event.key === 'Enter' && active >= 0) {
    event.preventDefault()
    onOpen(active)
  } else if (Object.hasOwn(targets, event.key)) {
    event.preventDefault()
    onActive(Math.min(count - 1, Math.max(0, targets[event.key] ?? 0)))
  }
}
