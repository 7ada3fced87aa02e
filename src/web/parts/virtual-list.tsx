import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

const BEYOND_ROWS = 8

/** Rows of one height, of which only those that can be seen are in the document. */
export function VirtualList<T>(props: {
  readonly items: readonly T[]
  readonly rowPixels: number
  readonly keyOf: (item: T) => string | number
  readonly row: (item: T, index: number) => ComponentChildren
  readonly label: string
  readonly class?: string
}) {
  const element = useRef<HTMLDivElement>(null)
  const [seen, setSeen] = useState({ top: 0, height: 600 })
  const look = (): void => {
    const { scrollTop: top = 0, clientHeight: height = 600 } = element.current ?? {}
    setSeen((before) => (before.top === top && before.height === height ? before : { top, height }))
  }
  useLayoutEffect(() => {
    if (element.current === null) return undefined
    const observer = new ResizeObserver(look)
    observer.observe(element.current)
    return () => observer.disconnect()
  }, [])
  const first = Math.max(0, Math.floor(seen.top / props.rowPixels) - BEYOND_ROWS)
  const end = Math.min(props.items.length, Math.ceil((seen.top + seen.height) / props.rowPixels) + BEYOND_ROWS)
  return (
    <div ref={element} class={`virtual ${props.class ?? ''}`} onScroll={look} tabIndex={0} role="list" aria-label={props.label}>
      <div class="virtual-space" role="presentation" style={{ height: `${props.items.length * props.rowPixels}px` }}>
        {props.items.slice(first, end).map((item, at) => (
          <div
            key={props.keyOf(item)}
            class="virtual-row"
            role="listitem"
            aria-setsize={props.items.length}
            aria-posinset={first + at + 1}
            style={{ top: `${(first + at) * props.rowPixels}px`, height: `${props.rowPixels}px` }}
          >
            {props.row(item, first + at)}
          </div>
        ))}
      </div>
    </div>
  )
}
