import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ServersFile } from '../../wire/servers.ts'
import { Exact } from '../parts/exact.tsx'
import { begunAt, completed } from './references.ts'

const SHOWN_MAX = 12

type Element = HTMLInputElement | HTMLTextAreaElement
type Props = {
  readonly value: string
  readonly onValue: (value: string) => void
  readonly secrets: ServersFile['secrets']
  readonly multiline?: boolean
  readonly class?: string
  readonly label: string
  readonly rows?: number
  /** Where somebody else puts the caret. */
  readonly place?: (element: Element | null) => void
}

type Offered = { readonly key: string; readonly source: string }

/**
 * A field in which `${` offers the secrets that are known: arrows choose, Enter and Tab take, Escape leaves it as it is (ARIA Authoring
 * Practices, combobox with list autocomplete).
 */
export function SecretInput({ value, onValue, secrets, multiline = false, label, rows, place, ...rest }: Props) {
  const id = useId()
  const { element, found, chosen, look, take, press, leave } = useCompletion(value, onValue, secrets)
  const shared = {
    'aria-label': label,
    ref: (one: Element | null) => {
      element.current = one
      place?.(one)
    },
    class: `input ${rest.class ?? ''}`,
    value,
    spellcheck: false,
    autocomplete: 'off' as const,
    autocapitalize: 'off' as const,
    'aria-autocomplete': 'list' as const,
    'aria-haspopup': 'listbox' as const,
    'aria-controls': `${id}-list`,
    ...(chosen !== undefined && { 'aria-activedescendant': `${id}-${chosen.key}` }),
    onInput(event: Event) {
      const target = event.currentTarget as Element
      onValue(target.value)
      look(target)
    },
    onClick: (event: Event) => look(event.currentTarget as Element),
    onKeyDown: press,
    onBlur: leave,
  }
  return (
    <div class="servers-complete">
      {multiline ? (
        <textarea {...shared} rows={rows ?? 3} />
      ) : (
        <input type="text" role="combobox" aria-expanded={chosen !== undefined} {...shared} aria-controls={`${id}-list`} />
      )}
      <div class="servers-options" role="listbox" id={`${id}-list`} aria-label="Secrets" hidden={chosen === undefined}>
        {found.map((one) => (
          <Option key={one.key} id={`${id}-${one.key}`} isChosen={one.key === chosen?.key} one={one} onTake={take} />
        ))}
      </div>
    </div>
  )
}

function Option(props: { id: string; one: Offered; isChosen: boolean; onTake: (key: string) => void }) {
  const { id, one, isChosen, onTake } = props
  return (
    <div
      id={id}
      class="servers-option"
      role="option"
      tabIndex={-1}
      aria-selected={isChosen}
      onMouseDown={(event) => {
        // The field keeps the focus.
        event.preventDefault()
        onTake(one.key)
      }}
    >
      <Exact text={one.key} /> <span class="quiet small">{one.source}</span>
    </div>
  )
}

function useCompletion(value: string, onValue: (value: string) => void, secrets: ServersFile['secrets']) {
  const element = useRef<Element | null>(null)
  const [open, setOpen] = useState<{ readonly start: number; readonly key: string } | undefined>()
  const [at, setAt] = useState(0)
  const caret = useRef<number | undefined>(undefined)
  useLayoutEffect(() => {
    if (caret.current === undefined) return
    element.current?.setSelectionRange(caret.current, caret.current)
    caret.current = undefined
  }, [value])
  const found = open === undefined ? [] : matching(secrets, open.key)
  const chosen = found[Math.min(at, found.length - 1)]
  const look = (target: Element): void => {
    const begun = begunAt(target.value, target.selectionStart ?? 0)
    setOpen(begun)
    if (begun?.key !== open?.key) setAt(0)
  }
  const take = (key: string): void => {
    const target = element.current
    if (target === null || open === undefined) return
    const done = completed(value, open.start, target.selectionStart ?? value.length, key)
    caret.current = done.caret
    setOpen(undefined)
    onValue(done.text)
  }
  const leave = (): void => setOpen(undefined)
  const press = (event: KeyboardEvent): void => {
    if (chosen === undefined || event.isComposing) return
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) setAt((Math.min(at, found.length - 1) + step + found.length) % found.length)
    else if (event.key === 'Enter' || event.key === 'Tab') take(chosen.key)
    else if (event.key === 'Escape') leave()
    else return
    // Of a dialog around it Escape would close all.
    event.preventDefault()
    event.stopPropagation()
  }
  return { element, found, chosen, look, take, press, leave }
}

/** Those that begin with it first, then those that have it anywhere. */
function matching(secrets: ServersFile['secrets'], typed: string): ServersFile['secrets'] {
  const lower = typed.toLowerCase()
  const having = secrets.filter(({ key }) => key.toLowerCase().includes(lower))
  const rank = (key: string): number => (key.toLowerCase().startsWith(lower) ? 0 : 1)
  return having.toSorted((a, b) => rank(a.key) - rank(b.key)).slice(0, SHOWN_MAX)
}
